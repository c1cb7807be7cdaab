"""Reads HAMi's own installation from its objects, found by label and container name, whatever the Helm release is
called.

Shapes per chart version: HAMi charts/hami/templates at v2.4 to v2.10. After 2.10 the values of NVIDIA's device plugin
moved to `devices.nvidia` (HAMi PR 3124), and `scheduler.kubeQPS` and its like are new (PR 2905). In the chart the
extender's extraArgs come after its other flags, so the value of a flag in both is that of extraArgs. kube-scheduler
asks HAMi's extender as a KubeSchedulerConfiguration says (k8s.io/kube-scheduler/config/v1), before Kubernetes 1.22 a
Policy.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

import msgspec

from bot.hami.pods.allocations import reserved_node
from bot.hami.pods.request_parsing import DEVICE_CONFIG_FILE, DeviceConfig, asked_resources, read_device_config
from bot.hami.version import Version, parse_version
from bot.kube.hami_pods import EXTENDER_CONTAINER, KUBE_SCHEDULER_CONTAINER, read_flags
from bot.kube.models import ConfigMap, Container, Lease, MutatingWebhookConfiguration, Node, Pod, PodSpec, Workload
from bot.kube.times import parse_time, read_go_duration
from bot.safe_yaml import parse_documents

GUIDES_LABEL = ("app", "hami-scheduler")
DEFAULT_SCHEDULER_NAME = "hami-scheduler"
KUBERNETES_SCHEDULER = "default-scheduler"
VOLCANO_SCHEDULERS = ("volcano", "vc-scheduler")
ROLE_LABEL = "hami.io/scheduler-role"
CLIENT_FLAGS_SINCE = Version(2, 6, 0)
"""The first version of HAMi whose extender has --kube-qps, --kube-burst and --kube-timeout (cmd/scheduler/main.go)."""
PROFILING_SINCE, METRICS_CLOSED_SINCE = Version(2, 6, 0), Version(2, 10, 0)
"""From the first version on HAMi's extender has --profiling (PR 963), which serves profiles on its own port. Before the
second its metrics port serves them too, whatever the flag says, because net/http/pprof uses Go's default mux.
"""
PROFILES_BIND = "profiling-bind-address"
_PROFILES_MOVED_SINCE, _PROFILES_AT = Version(2, 11, 0), "127.0.0.1:6060"

_OF_HAMI = re.compile(r"(?<![a-z])(?:project)?hami(?![a-z]|-bot)|4pd|vgpu-scheduler|vgpu-device-plugin", re.IGNORECASE)
"""Matches names of HAMi's objects, its predecessor's (4pd), and Volcano's device plugin that HAMi maintains."""
_NODE_KEYS = ("hami.io/", "4pd.io/", "volcano.sh/node-vgpu")
"""The beginnings of node annotations that HAMi, its predecessor (4pd) or Volcano's device plugin writes."""
_NAME_LABEL, _BOT = "app.kubernetes.io/name", "hami-bot"
_VERSION_LABELS = ("app.kubernetes.io/version", "helm.sh/chart")
_VERBOSITY = re.compile(r"--?v(?:=?(-?\d+))?")
_LONGEST_HOSTNAME = 63
_NEAR_FIRST_WORD, _NEAR = 0.75, 0.85
"""Likeness (0 to 1) from which on a name is a misspelling of HAMi's scheduler; 0.75: two swapped letters in `hami`."""


class VersionSeen(NamedTuple):
    """HAMi's version, and the text on an object that shows it."""

    version: Version
    object: str
    quote: str


class Install(NamedTuple):
    """What was found of HAMi's scheduler; `seen` is false when nothing was found or could be read."""

    namespace: str = ""
    deployment: Workload | None = None
    pods: tuple[Pod, ...] = ()
    flags: dict[str, str] = {}  # noqa: RUF012  # never changed
    version: VersionSeen | None = None
    lease: Lease | None = None

    @property
    def seen(self) -> bool:
        return self.deployment is not None or bool(self.pods)

    @property
    def scheduler_name(self) -> str:
        return self.flags.get("scheduler-name") or DEFAULT_SCHEDULER_NAME

    @property
    def ready_pods(self) -> tuple[Pod, ...]:
        return tuple(pod for pod in self.pods if is_ready(pod))

    @property
    def lease_holder(self) -> str:
        identity = self.lease.spec.holder_identity if self.lease else None
        return (identity or "").split("_")[0]

    @property
    def leader(self) -> Pod | None:
        """The pod that holds the lease, by host name (the pod's name up to 63 characters, or the node's); else None."""
        name = self.lease_holder
        names = ((pod, (pod.name[:_LONGEST_HOSTNAME], pod.spec.node_name)) for pod in self.pods)
        return next((pod for pod, own in names if name and name in own), None)


def trace_of(item: Workload | MutatingWebhookConfiguration | Node) -> Literal["", "hami", "volcano"]:
    """Whether names, images or annotations show HAMi, or Volcano with HAMi's device plugin; this bot's own do not."""
    if isinstance(item, Node):
        signs = [key for key in item.metadata.annotations or () if key.startswith(_NODE_KEYS)]
    elif isinstance(item, MutatingWebhookConfiguration):
        signs = list(filter(is_of_hami, (item.metadata.name, *(hook.name for hook in item.webhooks or ()))))
    else:
        parts = item.spec.template.spec.containers
        names = (item.metadata.name, *(item.metadata.labels or {}).values())
        names += tuple(name for container in parts for name in (container.name, container.image))
        signs = list(filter(is_of_hami, names)) if item.metadata.label(_NAME_LABEL) != _BOT else []
    return "" if not signs else "volcano" if all("volcano" in sign for sign in signs) else "hami"


def is_of_hami(name: str) -> bool:
    """Whether the name of a workload, an image or a webhook looks like HAMi's."""
    return bool(_OF_HAMI.search(name))


def is_anothers(scheduler: str, install: Install) -> bool:
    """Whether a pod's scheduler is a third party's: not HAMi's (or a misspelling), Kubernetes' own or Volcano's."""
    if scheduler in ("", KUBERNETES_SCHEDULER, *VOLCANO_SCHEDULERS) or "hami" in scheduler:
        return False
    # `kai-scheduler` is like `hami-scheduler`, but not in its first word.
    first, own = scheduler.partition("-")[0], (install.scheduler_name, DEFAULT_SCHEDULER_NAME)
    near = (name for name in own if _likeness(first, name.partition("-")[0]) >= _NEAR_FIRST_WORD)
    return not any(_likeness(scheduler, name) >= _NEAR for name in near)


def went_past_hami(pod: Pod, install: Install, config: DeviceConfig) -> bool:
    """Whether the pod asks for HAMi's resources, names another scheduler, and got no device from HAMi."""
    elsewhere = pod.spec.scheduler_name != install.scheduler_name
    return elsewhere and not reserved_node(pod.metadata) and bool(asked_resources(pod, config))


def _likeness(one: str, other: str) -> float:
    return SequenceMatcher(None, one, other).ratio()


def is_ready(pod: Pod) -> bool:
    """Whether the pod runs, is not being deleted, and its Ready condition is true."""
    ready = pod.condition("Ready")
    runs = pod.status.phase == "Running" and not pod.metadata.deletion_timestamp
    return runs and ready is not None and ready.status == "True"


def extender_of(spec: PodSpec) -> Container | None:
    """HAMi's container of a scheduler pod, found by name since operators may add others; None without one."""
    return container_of(spec, EXTENDER_CONTAINER)


def container_of(spec: PodSpec, name: str) -> Container | None:
    return next((container for container in spec.containers if container.name == name), None)


def flags_of(spec: PodSpec) -> dict[str, str]:
    return _flags(extender_of(spec))


def _flags(container: Container | None) -> dict[str, str]:
    return read_flags([*(container.command or ()), *(container.args or ())]) if container else {}


def kube_scheduler_of(install: Install) -> Container | None:
    """The kube-scheduler beside HAMi's extender: as it runs, else as the Deployment wants it; None without one."""
    template = install.deployment.spec.template.spec if install.deployment else None
    spec = install.pods[0].spec if install.pods else template
    return container_of(spec, KUBE_SCHEDULER_CONTAINER) if spec else None


def read_install(
    deployments: Sequence[Workload], pods: Sequence[Pod], lease: Lease | None, *, version_hint: str = ""
) -> Install:
    """HAMi's scheduler as its Deployment and pods show it. `version_hint`: the version that a recording states."""
    schedulers = [workload for workload in deployments if extender_of(workload.spec.template.spec)] or list(deployments)
    deployment = schedulers[0] if schedulers else None
    running = sorted((pod for pod in pods if extender_of(pod.spec)), key=lambda pod: (not is_ready(pod), pod.name))
    spec = running[0].spec if running else deployment.spec.template.spec if deployment else None
    namespace = running[0].namespace if running else deployment.namespace if deployment else ""
    return Install(
        namespace=namespace,
        deployment=deployment,
        pods=tuple(running),
        flags=flags_of(spec) if spec else {},
        version=_version_of(running, deployment, version_hint),
        lease=lease,
    )


def _version_of(pods: Sequence[Pod], deployment: Workload | None, hint: str) -> VersionSeen | None:
    """The running image counts before the chart's labels: users do override tags."""
    images = [("Pod", pod.metadata, pod.spec) for pod in pods]
    images += [("Deployment", deployment.metadata, deployment.spec.template.spec)] if deployment else []
    for kind, metadata, spec in images:
        container = extender_of(spec)
        if container and (version := parse_version(container.image)):
            return VersionSeen(version, f"{kind} {metadata.namespace}/{metadata.name}", container.image)
    for _, metadata, _ in [*images[len(pods) :], *images[: len(pods)]]:
        for key in _VERSION_LABELS:
            text = metadata.label(key)
            if text and (version := parse_version(text)):
                return VersionSeen(version, f"label {key} of {metadata.namespace}/{metadata.name}", text)
    version = parse_version(hint) if hint else None
    return VersionSeen(version, "meta.json of the recording", hint) if version else None


def profiles_address(flags: Mapping[str, str], version: Version | None) -> str:
    """The address HOST:PORT where HAMi serves only profiles; empty where the extender's port serves them.

    HAMi's main branch after 2.10 has `--profiling-bind-address`, by default on the pod's loopback (#3117).
    """
    late = version is not None and version >= _PROFILES_MOVED_SINCE
    return flags.get(PROFILES_BIND) or (_PROFILES_AT if late else "")


def is_loopback(address: str) -> bool:
    """Whether the address HOST:PORT is on the loopback, which only the pod itself reaches."""
    return address.rpartition(":")[0] in ("127.0.0.1", "localhost", "[::1]")


def verbosity_of(container: Container) -> tuple[int, str]:
    """A container's klog verbosity (0 by default) and the words that set it: `-v=4`, `-v 4`, `-v4`; the last counts."""
    level, quote = 0, ""
    words = [*(container.command or ()), *(container.args or ())]
    for position, word in enumerate(words):
        following = words[position + 1] if position + 1 < len(words) else ""
        if not (found := _VERBOSITY.fullmatch(word)):
            continue
        if found[1]:
            level, quote = int(found[1]), word
        elif following.isdecimal():
            level, quote = int(following), following
    return level, quote


def find_device_config(config_maps: Iterable[ConfigMap]) -> DeviceConfig | str | None:
    """The first of HAMi's device configs in the config maps; a text why it cannot be read; None without one."""
    for config_map in config_maps:
        if config_map.data and DEVICE_CONFIG_FILE in config_map.data:
            return read_device_config(config_map.data[DEVICE_CONFIG_FILE])
    return None


def mounted_config_maps(config_maps: Sequence[ConfigMap], install: Install) -> tuple[list[ConfigMap], list[str]]:
    """The config maps, less the device configs that the scheduler's pods do not mount; and the names of the device
    configs where it is not known which of them is mounted.
    """
    holding = [one for one in config_maps if DEVICE_CONFIG_FILE in (one.data or {})]
    if len(holding) < 2:  # nothing to choose from
        return [*config_maps], []
    specs = [pod.spec for pod in install.pods] or (
        [install.deployment.spec.template.spec] if install.deployment else []
    )
    mounted = {volume.config_map.name for spec in specs for volume in spec.volumes or () if volume.config_map}
    used = [one for one in holding if one.name in mounted]
    if not used:
        return [*config_maps], [one.name for one in holding]
    return [one for one in config_maps if one in used or one not in holding], []


LEADS_SINCE = Version(2, 8, 0)
"""From this version on only the replica of HAMi's scheduler whose kube-scheduler holds the lease serves requests."""
_LEASE_GRACE = timedelta(seconds=60)
"""Grace beyond a lease's own duration, because a snapshot's objects are not read at the same instant."""


def extender_waits_for_lease(install: Install) -> bool:
    """Whether HAMi's extender serves only where its own kube-scheduler holds the lease (HAMi v2.8 cmd/scheduler)."""
    known = install.version is not None and install.version.version >= LEADS_SINCE
    return known and install.flags.get("leader-elect") == "true"


def kube_scheduler_waits_for_lease(install: Install) -> bool:
    """Whether HAMi's kube-scheduler has --leader-elect=true; its configuration file may say so as well."""
    return _flags(kube_scheduler_of(install)).get("leader-elect") == "true"


def lease_is_stale(lease: Lease, now: datetime) -> bool:
    """Whether nobody holds the lease, or its holder stopped renewing it."""
    renewed = parse_time(lease.spec.renew_time)
    duration = timedelta(seconds=lease.spec.lease_duration_seconds or 15)
    return not lease.spec.holder_identity or (renewed is not None and now - renewed > duration + _LEASE_GRACE)


def lacks_leader(install: Install, now: datetime) -> bool:
    """Whether HAMi's scheduler needs a lease that nobody holds. A lease that could not be read counts as not held."""
    if install.lease is None:
        return extender_waits_for_lease(install)
    needed = extender_waits_for_lease(install) or kube_scheduler_waits_for_lease(install)
    return needed and lease_is_stale(install.lease, now)


_REFUSED = re.compile(r'User \\*"(system:serviceaccount:[^"\\]+)\\*" cannot (\w+) resource \\*"([^"\\]+)')


class Forbidden(NamedTuple):
    """A request that RBAC refused: the service account in the form of `kubectl --as`, the verb and the resource."""

    account: str
    verb: str
    resource: str


def read_forbidden(text: str) -> Forbidden | None:
    """The request that RBAC refused, from the API server's message; None where the text has no such refusal."""
    found = _REFUSED.search(text)
    return Forbidden(*found.groups()) if found else None


ARGUMENTS = "scheduler.extender.extraArgs"
CORE_SCALING = "devicePlugin.deviceCoreScaling"
_LABEL = "helm.sh/chart"
_CORE_SCALING_SINCE, _MOVED_SINCE = Version(2, 5, 0), Version(2, 11, 0)
_MOVED = {
    "devicePlugin.deviceSplitCount": "devices.nvidia.deviceSplitCount",
    "devicePlugin.deviceMemoryScaling": "devices.nvidia.deviceMemoryScaling",
    CORE_SCALING: "devices.nvidia.deviceCoreScaling",
    f"{ARGUMENTS} --kube-qps": "scheduler.kubeQPS",
    f"{ARGUMENTS} --kube-burst": "scheduler.kubeBurst",
    f"{ARGUMENTS} --kube-timeout": "scheduler.kubeTimeout",
}


def chart_value(path: str, install: Install) -> str:
    """The path in this install's chart of a value, given its path in chart 2.10; empty where the chart lacks it.

    A blank in a path stands before a word of a list: `scheduler.extender.extraArgs --kube-qps`.
    """
    objects = [*([install.deployment] if install.deployment else []), *install.pods]
    labelled = (parse_version(item.metadata.label(_LABEL) or "") for item in objects)
    version = next(filter(None, labelled), install.version.version if install.version else None)
    if version is None:
        return path
    if path == CORE_SCALING and version < _CORE_SCALING_SINCE:
        return ""
    return _MOVED.get(path, path) if version >= _MOVED_SINCE else path


DEFAULT_TIMEOUT_S = 5.0
"""kube-scheduler's default timeout for an extender (DefaultExtenderTimeout in pkg/scheduler/extender.go)."""

_KINDS = ("KubeSchedulerConfiguration", "Policy")
_KEYS = ("config.yaml", "config.json")
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


class _Managed(msgspec.Struct, rename="camel"):
    name: str = ""
    ignored_by_scheduler: bool = False


class Extender(msgspec.Struct, rename="camel"):
    """One extender in kube-scheduler's configuration. `http_timeout` is a Go duration, in a Policy nanoseconds."""

    url_prefix: str = ""
    filter_verb: str = ""
    bind_verb: str = ""
    node_cache_capable: bool = False
    ignorable: bool = False
    http_timeout: str | int | None = None
    managed_resources: list[_Managed] | None = None

    @property
    def is_local(self) -> bool:
        """Whether the extender listens in kube-scheduler's own pod, as in HAMi's chart."""
        return any(host in self.url_prefix for host in _LOOPBACK)

    @property
    def timeout_s(self) -> float | None:
        """Seconds that kube-scheduler waits for the extender's answer; None when the text is no duration."""
        if self.http_timeout in (None, "", 0, "0", "0s"):
            return DEFAULT_TIMEOUT_S
        text = self.http_timeout
        return text / 1e9 if isinstance(text, int) else read_go_duration(str(text))


class _Profile(msgspec.Struct, rename="camel"):
    scheduler_name: str = "default-scheduler"


class _File(msgspec.Struct, rename="camel"):
    kind: str = ""
    profiles: list[_Profile] | None = None
    extenders: list[Extender] | None = None


class SchedulerConfig(NamedTuple):
    """kube-scheduler's configuration file. `names` are the schedulers that its profiles define; a Policy has none."""

    config_map: ConfigMap
    key: str
    text: str
    names: tuple[str, ...]
    extenders: tuple[Extender, ...]

    def extender(self, resource: str) -> Extender | None:
        """HAMi's extender: the one in kube-scheduler's pod, else the one that manages `resource`; None without one."""
        local = (extender for extender in self.extenders if extender.is_local)
        managing = (
            extender
            for extender in self.extenders
            if any(managed.name == resource for managed in extender.managed_resources or ())
        )
        return next(local, None) or next(managing, None)

    @property
    def ignored(self) -> frozenset[str]:
        """The resources that kube-scheduler leaves to an extender instead of counting them on the nodes."""
        managed = (resource for extender in self.extenders for resource in extender.managed_resources or ())
        return frozenset(resource.name for resource in managed if resource.ignored_by_scheduler)

    def line_with(self, word: str) -> str:
        """A part to quote: the first line with `word`, with the list that it opens, else the first line of all."""
        found = re.search(rf"^( *).*{re.escape(word)}.*?(?::(?:\n\1[ -].*)+|$)", self.text, re.MULTILINE)
        return found[0].strip() if found else self.text.strip().splitlines()[0]


def find_scheduler_config(maps: Sequence[ConfigMap], kube_scheduler: Container | None) -> SchedulerConfig | str | None:
    """The configuration that kube-scheduler starts with; a text why it cannot be read; None when no map has one.

    Charts render several: the file that the command names counts, else the newer form.
    """
    flags = read_flags([*(kube_scheduler.command or ()), *(kube_scheduler.args or ())]) if kube_scheduler else {}
    path = flags.get("config") or flags.get("policy-config-file") or ""
    named = path.rsplit("/", maxsplit=1)[-1]
    wrong: str | None = None
    for key in dict.fromkeys(filter(None, (named, *_KEYS))):
        for config_map in maps:
            text = (config_map.data or {}).get(key, "")
            if not any(kind in text for kind in _KINDS):
                continue
            try:
                read = msgspec.convert(next(iter(parse_documents(text)), None), _File)
            except (ValueError, RecursionError) as error:
                wrong = wrong or f"{config_map.namespace}/{config_map.name} {key}: {' '.join(str(error).split())[:160]}"
                continue
            if read.kind in _KINDS:
                names = tuple(profile.scheduler_name for profile in read.profiles or ())
                return SchedulerConfig(config_map, key, text, names, tuple(read.extenders or ()))
    return wrong
