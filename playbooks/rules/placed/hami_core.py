"""Rules about HAMi-core in a container: its version, why its limit cannot hold, and whether it may be behind a crash.

The device plugin copies HAMi-core from its own image to the node; /etc/ld.so.preload loads it into each process. What
keeps it out, or hides the limit from it, stands in the pod's spec [Allocate in HAMi
pkg/device-plugin/nvidiadevice/nvinternal/plugin/server.go; HAMi-core src/libvgpu.c, src/multiprocess].

The plugin replaces HAMi-core when it starts (HAMi#727, HAMi#753), and some versions crash with several GPUs or NCCL
(HAMi#1191, HAMi#1230, HAMi#1479, HAMi#1764). These are signs, not proofs; without one a segmentation fault is the
program's own.
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
from bot.report import Confidence, Evidence, Finding, NextAction, act, step
from bot.texts import Text, sentences
from playbooks import quotes
from playbooks.gather.node_side import driver_label
from playbooks.quotes import kubectl_exec, kubectl_pod
from playbooks.rule import rule
from playbooks.rules.common.containers import in_trouble, path_in, run_time, statuses
from playbooks.rules.common.findings import Part, finding, log_line
from playbooks.rules.common.holders import edit_owner, of_use, recreate, without_env
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
    """The HAMi-core of a node, by the first plugin image whose tag has a version; None where none has."""
    for plugin, image in ((each, part.image) for each in plugins for part in each.spec.containers):
        if version := parse_version(image):
            return Library(version, quotes.of_pod(plugin, image, "{.spec.containers[*].image}"))
    return None


def library_told(plugins: Sequence[Pod]) -> Part | None:
    """A part for findings: the version of HAMi-core on the node; None where no image of its `plugins` tells it."""
    library = library_of(plugins)
    return Part(Text("hami-core.version", version=library.version), [library.proof]) if library else None


def newer_driver(scene: PlacedScene) -> Part | None:
    """The fact that the node's driver is newer than its HAMi-core knows, by a node label or a line of the plugin's or
    pod's log; None also where the pod has HAMi-core turned off.

    Under driver 595 HAMi-core up to HAMi 2.8.2 takes a whole CPU before it prints anything (HAMi#1834).
    """
    library, driver = library_of(scene.plugins), _driver(scene)
    if library is None or driver is None or library.version >= FIRST_WITHOUT_CRASHES or scene.once(is_turned_off):
        return None
    if int(driver[0].partition(".")[0]) < _TOO_NEW:
        return None
    return Part(Text("hami-core.driver", driver=driver[0], version=library.version), [driver[1], library.proof])


def _driver(scene: PlacedScene) -> tuple[str, Evidence] | None:
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
    parts = scene.once(given).containers
    return any(reason.word == "disabled" for part in parts for reason in reasons_in(scene.pod, part, cores=False))


def paths_told(plugins: Sequence[Pod]) -> Part | None:
    """The fact that the DaemonSet's paths differ, so that HAMi-core is not in the container; None where they agree.

    The plugin copies it to the volume `lib`, and mounts it into containers from HOOK_PATH with /vgpu (HAMi#1346; HAMi
    v2.10.0 charts/hami/templates/device-plugin/daemonsetnvidia.yaml).
    """
    for hook, lib, proofs in _hooks(plugins, "lib"):
        if f"{hook.rstrip('/')}/vgpu" != lib.rstrip("/"):
            return Part(Text("hami-core.paths", hook=hook, lib=lib), proofs)
    return None


def unmeasured(plugins: Sequence[Pod]) -> Iterator[Part]:
    """The fact that vGPUmonitor reads another directory than the one where the containers' figures are written.

    The plugin makes a container's directory below HOOK_PATH, and the monitor reads the volume `ctrs` (HAMi#849; HAMi
    v2.10.0 charts/hami/templates/device-plugin/daemonsetnvidia.yaml).
    """
    for hook, read, proofs in _hooks(plugins, "ctrs"):
        written = f"{hook.rstrip('/')}/vgpu/containers"
        if read.rstrip("/") != written:
            fix = act(Text("limit-remark.fix-unmeasured", path=written), proofs[1].command)
            yield Part(Text("limit-remark.unmeasured", read=read, written=written), proofs, [fix])
            return


def _hooks(plugins: Sequence[Pod], volume: str) -> Iterator[tuple[str, str, tuple[Evidence, Evidence]]]:
    """HOOK_PATH of each plugin that copies HAMi-core (vgpu-monitor has its own), the volume's path, and evidence."""
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
"""How long before and after a start of the plugin a crash is blamed on it: it copies HAMi-core when it starts."""
_BACK_OFF = (0, 10, 20, 40, 80, 160, 300, 300)
"""Seconds that kubelet waits before each restart of a container that keeps ending."""
FIRST_WITHOUT_CRASHES = Version(2, 8, 3)
"""The first version of HAMi without the crashes of NCCL and vLLM: it has HAMi-core 5091a2f."""
_LIBRARIES = re.compile(r"vllm|sglang|nccl|torch|deepspeed|megatron|tensorrt|trt-?llm|lmdeploy|triton", re.IGNORECASE)


class _Crash(NamedTuple):
    container: Container
    status: ContainerStatus
    ended: StateTerminated
    place: str


class _Start(NamedTuple):
    """A start of the device plugin, as text and as a time; `down_since` is when the run before ended."""

    pod: Pod
    quote: str
    at: datetime
    down_since: datetime


@rule("hami-core-crash", reads=("install",))
def segfault(scene: PlacedScene) -> Iterator[Finding]:
    """The finding that a GPU container ended with a segmentation fault that HAMi-core may have caused. A container that
    runs again counts if it crashed about when the device plugin started.
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
    for status in plugin.status.container_statuses or ():
        text = (status.state.running.started_at if status.state.running else None) or ""
        at = parse_time(text)
        if at is not None and "monitor" not in status.name:
            before = status.last_state.terminated
            down = parse_time(before.finished_at if before else None)
            return _Start(plugin, text, at, min(down or at, at))
    return None


def _times(crash: _Crash) -> list[tuple[datetime, timedelta]]:
    """When the container crashed last, and about when first, each with a tolerance: kubelet tells only a loop's end."""
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
    path = path_in(pod, crash.status.name, f"{crash.place}.exitCode")
    proofs = [quotes.of_status(pod, str(SEGFAULT), path, crash.ended.finished_at)]
    if restarted:
        started = "{.status.containerStatuses[*].state.running.startedAt}"
        proofs.append(quotes.of_status(restarted.pod, restarted.quote, started, restarted.quote))
    key = "hami-core-crash.restarted" if restarted else "hami-core-crash.known"
    claim = Text(key, container=crash.container.name, node=node or "?")
    if fact := library_told(scene.plugins):
        claim, proofs = sentences(claim, fact.text), [*proofs, *fact.proofs]
    again, look = recreate(pod, Text("hami-core-crash.recreate")), kubectl_pod(pod, "get", "-o", "yaml")
    if restarted and crash.status.state.running:
        again = step(Text("hami-core-crash.wait"), kubectl_pod(pod, "get"))
    advice = act(Text("hami-core-crash.log" if restarted else "hami-core-crash.upgrade"), look)
    steps = (again, advice) if restarted else (advice, again)
    return fault(scene, "hami-core-crash", claim, proofs, steps)


_GO_TRUE = ("1", "t", "T", "TRUE", "true", "True")
_MUSL = re.compile(r"(?:^|[/:._-])(?:alpine|musl)", re.IGNORECASE)
_INNER = re.compile(r"(?:^|[/:_-])dind(?:$|[:_.-])", re.IGNORECASE)
_SOCKETS = ("docker.sock", "containerd.sock", "crio.sock")
_SANDBOXES = re.compile(r"kata|gvisor|runsc|firecracker", re.IGNORECASE)


_WHYS = {
    "disabled": "limit-not-enforced.disabled",
    "own-limit": "limit-not-enforced.own-limit",
    "all-visible": "limit-not-enforced.all-visible",
    "by-uuid": "limit-not-enforced.by-uuid",
    "cores-off": "limit-not-enforced.cores-off",
    "musl": "limit-not-enforced.musl",
    "sandbox": "limit-not-enforced.sandbox",
    "inner": "limit-not-enforced.inner",
}
_FIXES = {
    "disabled": "limit-not-enforced.fix-disabled",
    "own-limit": "limit-not-enforced.fix-own-limit",
    "all-visible": "limit-not-enforced.fix-all-visible",
    "by-uuid": "limit-not-enforced.fix-by-uuid",
    "cores-off": "limit-not-enforced.fix-cores-off",
    "musl": "limit-not-enforced.fix-musl",
    "sandbox": "limit-not-enforced.fix-sandbox",
    "inner": "limit-not-enforced.fix-inner",
}


_UNSET = {"disabled": "CUDA_DISABLE_CONTROL", "all-visible": "NVIDIA_VISIBLE_DEVICES"}
"""By the word of a reason: the variable that a fix removes, where its name is known."""


class UnenforcedReason(NamedTuple):
    """A reason why the limit of a container cannot hold: `word` names it, `quote` is in the pod at `path`."""

    word: str
    container: str
    quote: str
    path: str
    confidence: Confidence = "suspected"


@rule("limit-not-enforced", reads=("install",))
def unenforced_limit(scene: PlacedScene) -> Iterator[Finding]:
    """The finding that the limit of a container cannot hold, with every reason, the surest first. None for a pod in
    trouble, unless a log shows that a container sees more memory than its limit.
    """
    pod, node, held = scene.pod, scene.pod.spec.node_name, scene.once(given)
    seen = _more_seen(scene, held)
    if not is_limited(scene, held) or (is_troubled(scene) and seen is None):
        return
    parts = (container for container in held.containers if container in pod.spec.containers)
    reasons = [reason for container in parts for reason in reasons_in(pod, container, cores=held.limits_cores)]
    reasons.sort(key=lambda reason: reason.confidence != "confirmed")
    if not reasons:
        modes = {card.uuid: card.mode for card in scene.cards}
        if seen and all(modes.get(share.uuid) in _BY_HAMI_CORE for share in held.shares):
            yield _unlimited(scene, held, *seen)
        return
    first = reasons[0]
    proofs = [*(quotes.of_pod(pod, reason.quote, reason.path) for reason in reasons), quotes.of_holder(pod)]
    proofs += [seen[1]] if seen else []
    why = Text(_WHYS[first.word], value=first.quote)
    claim = Text("limit-not-enforced.claim", container=first.container, why=why)
    steps = list[NextAction]()
    for reason in {one.word: one for one in reversed(reasons)}.values():
        unset = without_env(reason.container, _UNSET[reason.word]) if reason.word in _UNSET else None
        steps.insert(0, edit_owner(pod, Text(_FIXES[reason.word], container=reason.container), unset))
    yield finding("limit-not-enforced", claim, first.confidence, [node], proofs, actions=steps)


@rule("limit-not-enforced", reads=("install",), after=unenforced_limit)
def other_limit(scene: PlacedScene) -> Iterator[Finding]:
    """The finding that vGPUmonitor measures another memory limit of a container than HAMi gave the pod of that GPU.

    The device plugin then gave the container another pod's share: up to 2.4 it could mix up two pods that start at once
    on a node (HAMi#404).
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
        claim = Text("limit-not-enforced.other", **values)
        proofs = [of_use(use, use.limit, node, scene.measured), quotes.of_holder(pod)]
        others = [(other, share) for other in sharers(scene, held) or () for share in shares(other)]
        its = (other for other, share in others if share.uuid == use.uuid and abs(share.memory_mib - limit) <= 1)
        if other := next(its, None):
            claim = sentences(claim, Text("limit-not-enforced.others-share", pod=f"{other.namespace}/{other.name}"))
            proofs.append(quotes.of_holder(other))
        again = recreate(pod, Text("limit-not-enforced.fix-other"))
        yield finding("limit-not-enforced", claim, nodes=(node,), proofs=proofs, actions=[again])
        return


_CAPACITY = re.compile(
    r"GPU \d+(?: has a total capaci?ty of |; (?=[\d.]+ \w+ total capacity))([\d.]+) (GiB|MiB)(?: total capacity)?"
)
_BY_HAMI_CORE = ("", "hami-core")
"""The modes of GPUs where HAMi-core shows programs their limit as the GPU's size."""
_FAR_ABOVE = 1.05
"""A container sees too much memory from this factor over its limit on: PyTorch rounds, HAMi-core is exact."""


def _more_seen(scene: PlacedScene, held: GpuContainers) -> tuple[str, Evidence] | None:
    """The container in which PyTorch sees a GPU with more memory than the limit, and its words in a user's line."""
    most = max((share.memory_mib for share in held.shares), default=0)
    for log in scene.own_logs or ():
        for line in reversed(log.lines):
            found = _CAPACITY.search(line)
            if found and most and float(found[1]) * (1024 if found[2] == "GiB" else 1) > most * _FAR_ABOVE:
                return log.container, log_line(log, found[0])
    return None


def _unlimited(scene: PlacedScene, held: GpuContainers, container: str, seen: Evidence) -> Finding:
    pod, limit = scene.pod, max(share.memory_mib for share in held.shares)
    claim = Text("limit-not-enforced.seen", container=container, limit=f"{limit:,}", seen=seen.quote)
    look = kubectl_exec(pod, container, "cat", "/etc/ld.so.preload")
    steps, proofs = [step(Text("limit-not-enforced.look"), look)], [seen, quotes.of_holder(pod)]
    return finding("limit-not-enforced", claim, "suspected", [pod.spec.node_name], proofs, actions=steps)


def reasons_in(pod: Pod, container: Container, *, cores: bool) -> Iterator[UnenforcedReason]:
    """The reasons why the limits of a container cannot hold, as far as the pod itself tells."""
    name = container.name
    for variable in container.env or ():
        if word := _turned_off(variable, cores=cores):
            path = f'{{.spec.containers[?(@.name=="{name}")].env[?(@.name=="{variable.name}")].value}}'
            yield UnenforcedReason(word, name, variable.value, path, "confirmed" if word == "disabled" else "suspected")
    image = f'{{.spec.containers[?(@.name=="{name}")].image}}'
    if _MUSL.search(container.image):
        yield UnenforcedReason("musl", name, container.image, image)
    if _SANDBOXES.search(pod.spec.runtime_class_name):
        yield UnenforcedReason("sandbox", name, pod.spec.runtime_class_name, "{.spec.runtimeClassName}")
    if _INNER.search(container.image):
        yield UnenforcedReason("inner", name, container.image, image)
    else:
        mounted = {volume_mount.name for volume_mount in container.volume_mounts or ()}
        paths = (each.host_path.path for each in pod.spec.volumes or () if each.host_path and each.name in mounted)
        if socket := next((path for path in paths if path.endswith(_SOCKETS)), ""):
            yield UnenforcedReason("inner", name, socket, "{.spec.volumes[*].hostPath.path}")


def _turned_off(variable: EnvVar, *, cores: bool) -> str:
    """What a variable of the pod's own does to the limits; the pod's value wins over the device plugin's."""
    match variable.name:
        case "CUDA_DISABLE_CONTROL":
            return "disabled" if variable.value in _GO_TRUE else ""
        case "NVIDIA_VISIBLE_DEVICES":
            return "all-visible" if variable.value == "all" else ""
        case "CUDA_VISIBLE_DEVICES":
            return "by-uuid" if "GPU-" in variable.value else ""
        case "GPU_CORE_UTILIZATION_POLICY":
            return "cores-off" if cores and variable.value.lower() == "disable" else ""
        case _:
            return "own-limit" if variable.name.startswith("CUDA_DEVICE_MEMORY_LIMIT") and variable.value else ""
