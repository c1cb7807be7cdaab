"""HAMi-core in a container: its version, why its limit cannot hold, and whether it may be behind a crash.

The device plugin copies HAMi-core to the node from its own image; /etc/ld.so.preload brings it into each process. What
keeps it out, or hides the limit from it, stands in the pod's spec [Allocate in HAMi
pkg/device-plugin/nvidiadevice/nvinternal/plugin/server.go; HAMi-core src/libvgpu.c, src/multiprocess].

Its file on the node is replaced when the device plugin starts (HAMi#727, HAMi#753), and some versions crash with
several GPUs or NCCL (HAMi#1191, HAMi#1230, HAMi#1479, HAMi#1764). None of that proves that HAMi-core is the cause:
without such a sign a segmentation fault is the program's own.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import NamedTuple

from bot.hami.version import Version, parse_version
from bot.kube.models import Container, ContainerStatus, Pod, StateTerminated
from bot.kube.models.pods import EnvVar
from bot.kube.times import parse_time
from bot.report import Confidence, Evidence, Finding, step
from bot.texts import Text, sentences
from playbooks import quotes
from playbooks.gather.node_side import driver_label
from playbooks.quotes import kubectl_pod
from playbooks.rule import rule
from playbooks.rules.common.containers import in_trouble, path_in, run_time, statuses
from playbooks.rules.common.findings import Part, finding, log_line
from playbooks.rules.common.holders import of_use
from playbooks.rules.placed.container_faults import (
    GpuContainers,
    fault,
    given,
    is_limited,
    is_troubled,
    sharers,
    shares,
)
from playbooks.scenes.placed_pod import PlacedScene

_TOO_NEW = 595
_DRIVER = re.compile(r"(?i:driver[ _-]?version)\W{1,4}((\d{3})\.\d+[\d.]*)")


class Library(NamedTuple):
    """The HAMi-core of a node: that of HAMi's version, by the image of the device plugin's pod."""

    version: Version
    proof: Evidence


def library_of(plugins: Sequence[Pod]) -> Library | None:
    """The HAMi-core by the first plugin image whose tag has a version; None where none has."""
    for plugin, image in ((each, part.image) for each in plugins for part in each.spec.containers):
        if version := parse_version(image):
            return Library(version, quotes.of_pod(plugin, image, "{.spec.containers[*].image}"))
    return None


def library_told(plugins: Sequence[Pod]) -> Part | None:
    """The fact which HAMi-core the node has; None where no image tells."""
    library = library_of(plugins)
    return Part(Text("hami-core.version", version=library.version), [library.proof]) if library else None


def newer_driver(scene: PlacedScene) -> Part | None:
    """The fact that the node's driver is newer than its HAMi-core knows, by the label of GPU feature discovery or a
    line of the plugin's or pod's log; None also where the pod has HAMi-core turned off.

    Under driver 595 HAMi-core up to HAMi 2.8.2 takes a whole CPU before it prints anything (HAMi#1834).
    """
    library, driver = library_of(scene.plugins), _driver(scene)
    if library is None or driver is None or library.version >= FIRST_WITHOUT_CRASHES or scene.once(is_turned_off):
        return None
    if int(driver[0].partition(".")[0]) < _TOO_NEW:
        return None
    return Part(Text("hami-core.driver", driver=driver[0], version=library.version), [driver[1], library.proof])


def _driver(scene: PlacedScene) -> tuple[str, Evidence] | None:
    """The version of the node's driver, and what shows it."""
    if scene.node is None:
        return None
    if key := driver_label(scene.node):
        return scene.node.metadata.label(key) or "", quotes.of_label(scene.node, key)
    for log in (*(scene.side.logs if scene.side else ()), *(scene.own_logs or ())):
        for line in reversed(log.lines):
            if found := _DRIVER.search(line):
                return found[1], log_line(log, found[0])
    return None


def is_turned_off(scene: PlacedScene) -> bool:
    """Whether a GPU container of the pod turns HAMi-core off."""
    parts = scene.once(given).containers
    return any(reason.is_off for part in parts for reason in reasons_in(scene.pod, part, cores=False))


def paths_told(plugins: Sequence[Pod]) -> Part | None:
    """The fact that the DaemonSet's paths differ, so that the library is not in the container; None where they agree.

    The plugin copies the library to the volume `lib`, and mounts it into containers from HOOK_PATH with /vgpu
    (HAMi#1346; HAMi v2.10.0 charts/hami/templates/device-plugin/daemonsetnvidia.yaml).
    """
    for hook, lib, proofs in _hooks(plugins, "lib"):
        if f"{hook.rstrip('/')}/vgpu" != lib.rstrip("/"):
            return Part(Text("hami-core.paths", hook=hook, lib=lib), proofs)
    return None


def unmeasured(plugins: Sequence[Pod]) -> Iterator[Part]:
    """Says that vGPUmonitor reads another directory than the one into which the containers' figures are written.

    The plugin makes a container's directory below HOOK_PATH, and the monitor reads what the volume `ctrs` shows it
    (HAMi#849; HAMi v2.10.0 charts/hami/templates/device-plugin/daemonsetnvidia.yaml).
    """
    for hook, read, proofs in _hooks(plugins, "ctrs"):
        written = f"{hook.rstrip('/')}/vgpu/containers"
        if read.rstrip("/") != written:
            fix = step(Text("limit-remark.fix-unmeasured", path=written), proofs[1].command)
            yield Part(Text("limit-remark.unmeasured", read=read, written=written), proofs, [fix])
            return


def _hooks(plugins: Sequence[Pod], volume: str) -> Iterator[tuple[str, str, tuple[Evidence, Evidence]]]:
    """HOOK_PATH of each plugin that copies the library, the volume's path on the node, and what shows both.

    vgpu-monitor has another HOOK_PATH.
    """
    for plugin in plugins:
        own = [
            part for part in plugin.spec.containers if any(mount.name == "lib" for mount in part.volume_mounts or ())
        ]
        hook = {env.name: env.value for part in own for env in part.env or ()}.get("HOOK_PATH", "")
        paths = {one.name: one.host_path.path for one in plugin.spec.volumes or () if one.host_path}
        if hook and (path := paths.get(volume, "")):
            yield (
                hook,
                path,
                (
                    quotes.of_pod(plugin, hook, '{.spec.containers[*].env[?(@.name=="HOOK_PATH")].value}'),
                    quotes.of_pod(plugin, path, f'{{.spec.volumes[?(@.name=="{volume}")].hostPath.path}}'),
                ),
            )


SEGFAULT = 139
_BEFORE, _AFTER = timedelta(seconds=15), timedelta(seconds=120)
"""The time around a start of the plugin in which crashes are blamed on it: it copies the library at its start."""
_BACK_OFF = (0, 10, 20, 40, 80, 160, 300, 300)
"""Seconds that kubelet waits before each restart of a container that keeps ending."""
FIRST_WITHOUT_CRASHES = Version(2, 8, 3)
"""The version of HAMi with HAMi-core 5091a2f, the first without the crashes of NCCL and vLLM."""
_LIBRARIES = re.compile(r"vllm|sglang|nccl|torch|deepspeed|megatron|tensorrt|trt-?llm|lmdeploy|triton", re.IGNORECASE)


class _Crash(NamedTuple):
    container: Container
    status: ContainerStatus
    ended: StateTerminated
    place: str


class _Start(NamedTuple):
    """A start of the device plugin, as told and as a time; `down_since` is when the run before ended."""

    pod: Pod
    quote: str
    at: datetime
    down_since: datetime


@rule("hami-core-crash", reads=("install",))
def segfault(scene: PlacedScene) -> Iterator[Finding]:
    """The finding that a GPU container ended with a segmentation fault, and something points at HAMi-core.

    A container that runs again counts where the device plugin's start explains its end: the next start does it again.
    """
    crash, held = next(_crashes(scene), None), scene.once(given)
    if crash is None or not held.shares:
        return
    library, starts = library_of(scene.plugins), (start for start in map(_start_of, scene.plugins) if start)
    began = parse_time(scene.pod.status.start_time or scene.pod.metadata.creation_timestamp)
    times = _times(crash)
    # A crash loop of a pod that ran before may have begun with this start.
    restarted = next(
        (
            start
            for start in starts
            if began is not None and began < start.at
            if any(start.down_since - about <= moment <= start.at + _AFTER for moment, about in times)
        ),
        None,
    )
    troubled = in_trouble(crash.status, scene.now)
    prone = troubled and (len(held.shares) > 1 or _LIBRARIES.search(crash.container.image))
    if restarted is not None or (prone and library and library.version < FIRST_WITHOUT_CRASHES):
        yield _finding(scene, crash, restarted)


def _crashes(scene: PlacedScene) -> Iterator[_Crash]:
    by_name = {container.name: container for container in scene.once(given).containers}
    for status in statuses(scene.pod):
        for place, state in (("state", status.state), ("lastState", status.last_state)):
            ended = state.terminated
            if ended and ended.exit_code == SEGFAULT and status.name in by_name:
                yield _Crash(by_name[status.name], status, ended, f"{place}.terminated")


def _start_of(plugin: Pod) -> _Start | None:
    """The last start of the plugin's own container, which copies the library to the node."""
    for status in plugin.status.container_statuses or ():
        text = (status.state.running.started_at if status.state.running else None) or ""
        at = parse_time(text)
        if at is not None and "monitor" not in status.name:
            before = status.last_state.terminated
            down = parse_time(before.finished_at if before else None)
            return _Start(plugin, text, at, min(down or at, at))
    return None


def _times(crash: _Crash) -> list[tuple[datetime, timedelta]]:
    """When it crashed last, and about when first, each with how far off it is: kubelet tells only a loop's last end."""
    last, lasted = parse_time(crash.ended.finished_at), run_time(crash.ended)
    if last is None:
        return []
    again = crash.status.restart_count - (1 if crash.status.state.running else 0)
    if lasted is None or not 0 < again <= len(_BACK_OFF):
        return [(last, _BEFORE)]
    loop = again * lasted + timedelta(seconds=sum(islice(_BACK_OFF, again)))
    return [(last, _BEFORE), (last - loop, max(_BEFORE, loop / 4))]


def _finding(scene: PlacedScene, crash: _Crash, restarted: _Start | None) -> Finding:
    pod, node = scene.pod, scene.pod.spec.node_name
    name, facts = crash.status.name, [("exitCode", str(SEGFAULT)), ("finishedAt", crash.ended.finished_at or "")]
    proofs = [quotes.of_pod(pod, told, path_in(pod, name, f"{crash.place}.{field}")) for field, told in facts if told]
    if restarted:
        started = "{.status.containerStatuses[*].state.running.startedAt}"
        proofs.append(quotes.of_pod(restarted.pod, restarted.quote, started))
    key = "hami-core-crash.restarted" if restarted else "hami-core-crash.known"
    claim = Text(key, container=crash.container.name, node=node or "?")
    if fact := library_told(scene.plugins):
        claim, proofs = sentences(claim, fact.text), [*proofs, *fact.proofs]
    recreate = step(Text("hami-core-crash.recreate"), kubectl_pod(pod, "delete"), changes_cluster=True)
    look = kubectl_pod(pod, "get", "-o", "yaml")
    advice = step(Text("hami-core-crash.log" if restarted else "hami-core-crash.upgrade"), look)
    steps = (recreate, advice) if restarted else (advice, recreate)
    return fault(scene, "hami-core-crash", claim, proofs, steps)


_OFF, _GO_TRUE = "CUDA_DISABLE_CONTROL", ("1", "t", "T", "TRUE", "true", "True")
_MUSL = re.compile(r"(?:^|[/:._-])(?:alpine|musl)", re.IGNORECASE)
_INNER = re.compile(r"(?:^|[/:_-])dind(?:$|[:_.-])", re.IGNORECASE)
_SOCKETS = ("docker.sock", "containerd.sock", "crio.sock")
_SANDBOXES = re.compile(r"kata|gvisor|runsc|firecracker", re.IGNORECASE)


class UnenforcedReason(NamedTuple):
    """A reason why the limit of a container cannot hold, and what mends it; `quote` is in the pod at `path`.

    `is_off`: HAMi-core is switched off, so that it is sure.
    """

    why: Text
    fix: Text
    container: str
    quote: str
    path: str
    is_off: bool = False


@rule("limit-not-enforced", reads=("install",))
def unenforced_limit(scene: PlacedScene) -> Iterator[Finding]:
    """The finding that the limit of a container cannot hold, with every reason, the surest first.

    A pod in trouble has other troubles, unless a log shows that a container sees more memory than its limit.
    """
    pod, node, held = scene.pod, scene.pod.spec.node_name, scene.once(given)
    seen = _more_seen(scene, held)
    if not is_limited(scene, held) or (is_troubled(scene) and seen is None):
        return
    parts = (container for container in held.containers if container in pod.spec.containers)
    reasons = [reason for container in parts for reason in reasons_in(pod, container, cores=held.limits_cores)]
    reasons.sort(key=lambda reason: not reason.is_off)
    if not reasons:
        return
    first, look = reasons[0], kubectl_pod(pod, "get", "-o", "yaml")
    proofs = [*(quotes.of_pod(pod, reason.quote, reason.path) for reason in reasons), quotes.of_holder(pod)]
    proofs += [seen] if seen else []
    claim = Text("limit-not-enforced.claim", container=first.container, why=first.why)
    steps = [step(fix, look) for fix in dict.fromkeys(reason.fix for reason in reasons)]
    sure: Confidence = "confirmed" if first.is_off else "suspected"
    yield finding("limit-not-enforced", claim, sure, [node], proofs, actions=steps)


@rule("limit-not-enforced", reads=("install",), after=unenforced_limit)
def other_limit(scene: PlacedScene) -> Iterator[Finding]:
    """The finding that vGPUmonitor measures another memory limit of a container than HAMi gave the pod of that GPU.

    The device plugin then gave the container another pod's share: up to 2.4 it could not tell two pods of a node apart
    that start at once (HAMi#404).
    """
    pod, node, held = scene.pod, scene.pod.spec.node_name, scene.once(given)
    for use in scene.measured.usage.usage.containers if scene.measured else ():
        own = [share.memory_mib for share in held.shares if share.uuid == use.uuid]
        limit = round(use.limit.value / 1024 / 1024) if use.limit else 0
        if (use.namespace, use.pod) != (pod.namespace, pod.name) or not own or not limit:
            continue
        if use.limit is None or scene.measured is None or any(abs(limit - memory) <= 1 for memory in own):
            continue
        values = {"container": use.container, "limit": f"{limit:,}", "given": f"{max(own):,}"}
        claim, proofs = Text("limit-not-enforced.other", **values), [quotes.of_holder(pod)]
        proofs.append(of_use(use, use.limit, node, scene.measured))
        others = [(other, share) for other in sharers(scene, held) or () for share in shares(other)]
        its = (other for other, share in others if share.uuid == use.uuid and abs(share.memory_mib - limit) <= 1)
        if other := next(its, None):
            claim = sentences(claim, Text("limit-not-enforced.others-share", pod=f"{other.namespace}/{other.name}"))
            proofs.append(quotes.of_holder(other))
        recreate = step(Text("limit-not-enforced.fix-other"), kubectl_pod(pod, "delete"), changes_cluster=True)
        yield finding("limit-not-enforced", claim, nodes=(node,), proofs=proofs, actions=[recreate])
        return


_CAPACITY = re.compile(r"total capacity of ([\d.]+) (GiB|MiB)")
_FAR_ABOVE = 1.05
"""The factor over the limit from which memory seen is too much: PyTorch rounds, HAMi-core reports limits exactly."""


def _more_seen(scene: PlacedScene, held: GpuContainers) -> Evidence | None:
    """PyTorch's words, of a line of the user's, that call more than the limit the capacity of its GPU."""
    most = max((share.memory_mib for share in held.shares), default=0)
    for log in scene.own_logs or ():
        for line in reversed(log.lines):
            found = _CAPACITY.search(line)
            if found and most and float(found[1]) * (1024 if found[2] == "GiB" else 1) > most * _FAR_ABOVE:
                return log_line(log, found[0])
    return None


def reasons_in(pod: Pod, container: Container, *, cores: bool) -> Iterator[UnenforcedReason]:
    """The reasons why the limits of a container cannot hold, as far as the pod itself tells."""
    name, image, sandbox = container.name, container.image, pod.spec.runtime_class_name
    at = f'{{.spec.containers[?(@.name=="{name}")]'
    for variable in container.env or ():
        if mended := _turned_off(variable, cores=cores):
            path = f'{at}.env[?(@.name=="{variable.name}")].value}}'
            yield UnenforcedReason(*mended, name, variable.value, path, is_off=variable.name == _OFF)
    if _MUSL.search(image):
        why, fix = Text("limit-not-enforced.musl", value=image), Text("limit-not-enforced.fix-musl")
        yield UnenforcedReason(why, fix, name, image, f"{at}.image}}")
    if _SANDBOXES.search(sandbox):
        why, fix = Text("limit-not-enforced.sandbox", value=sandbox), Text("limit-not-enforced.fix-sandbox")
        yield UnenforcedReason(why, fix, name, sandbox, "{.spec.runtimeClassName}")
    mounted = {volume_mount.name for volume_mount in container.volume_mounts or ()}
    paths = (each.host_path.path for each in pod.spec.volumes or () if each.host_path and each.name in mounted)
    socket = next((path for path in paths if path.endswith(_SOCKETS)), "")
    if inner := image if _INNER.search(image) else socket:
        why, fix = Text("limit-not-enforced.inner", value=inner), Text("limit-not-enforced.fix-inner")
        yield UnenforcedReason(
            why, fix, name, inner, "{.spec.volumes[*].hostPath.path}" if inner == socket else f"{at}.image}}"
        )


def _turned_off(variable: EnvVar, *, cores: bool) -> tuple[Text, Text] | None:
    """What a variable of the pod's own, which wins over the device plugin's, does to the limits, and what mends it."""
    value = variable.value
    match variable.name:
        case name if name == _OFF and value in _GO_TRUE:
            return Text("limit-not-enforced.disabled", value=value), Text("limit-not-enforced.fix-disabled")
        case "NVIDIA_VISIBLE_DEVICES" if value == "all":
            return Text("limit-not-enforced.all-visible", value=value), Text("limit-not-enforced.fix-all-visible")
        case "CUDA_VISIBLE_DEVICES" if "GPU-" in value:
            return Text("limit-not-enforced.by-uuid", value=value), Text("limit-not-enforced.fix-by-uuid")
        case "GPU_CORE_UTILIZATION_POLICY" if cores and value.lower() == "disable":
            return Text("limit-not-enforced.cores-off", value=value), Text("limit-not-enforced.fix-cores-off")
        case name if name.startswith("CUDA_DEVICE_MEMORY_LIMIT") and value:
            return Text("limit-not-enforced.own-limit", value=value), Text("limit-not-enforced.fix-own-limit")
        case _:
            return None
