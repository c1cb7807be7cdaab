"""What keeps a node's device plugin from its work, by its own words, kubelet's and the runtime's.

Only log lines count that are about now, by markers that HAMi v2.4.1 to v2.10.0 prints in
cmd/device-plugin/nvidia/main.go, server.go and register.go.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from bot.finding_codes import Code
from bot.hami.installation.install import is_ready
from bot.hami.nodes.registration import kubelet_offers
from bot.hami.scheduler_logs.log_lines import parse_line
from bot.hami.signatures import Hit
from bot.hami.vendors import FIRST
from bot.hami.vendors.vendor import Vendor
from bot.kube.hami_pods import is_plugin
from bot.kube.models import ContainerStatus, DaemonPod, Pod, StateTerminated
from bot.kube.node_conditions import not_ready
from bot.kube.recording.redact import NEVER_STARTED
from bot.kube.times import format_time, parse_time
from bot.report import Evidence, Finding, Gap, act, step
from bot.texts import Text, sentences
from playbooks import quotes
from playbooks.gather.node_side import Driver, LogSeen, NodeSide, is_monitor
from playbooks.quotes import kubectl
from playbooks.rule import rule
from playbooks.rules.common import containers
from playbooks.rules.common.containers import (
    LastWords,
    ails,
    in_trouble,
    last_of,
    of_end,
    path_in,
    plugin_statuses,
    statuses,
    version_of,
)
from playbooks.rules.common.findings import fix_of, in_events, in_log, in_messages, log_line
from playbooks.rules.nodes.causes import NodeCause, by_cause
from playbooks.rules.waiting.unregistered_nodes import plugin_log
from playbooks.scenes.nodes import NodeScene, NodesScene

_CODES: tuple[Code, ...] = (
    "driver-not-loaded",
    "gpu-runtime-missing",
    "device-plugin-crash",
    "card-fault",
    "device-plugin-not-ready",
)
Proven = tuple[Hit, Evidence]
_TOLD_TO_END = (0, 137, 143)
_NEAR = timedelta(minutes=5)
_CHART_LABEL = "gpu"
"""The node label that the device plugin's DaemonSet selects in HAMi's chart."""
_PANIC = re.compile(r"^panic: |^fatal error: |\bpanic serving\b|\bObserved a panic\b")
_BETWEEN_ALARMS, _LONG_AGO = timedelta(hours=1), "long ago "
"""Up to this age a panic is an alarm; an older one has the mark in `why`, and is told as information."""
_BACK_OFF = "CrashLoopBackOff"
_DRIVER_CLAIMS: Mapping[Driver, str] = {
    "driver": "driver-not-loaded.driver",
    "toolkit": "driver-not-loaded.toolkit",
    "validator": "driver-not-loaded.validator",
}
"""The claims about driver pods that are not ready; the pods that others wait for come first."""
_AFTER_INIT = "PodInitializing"
_LONG_INIT = timedelta(minutes=2)
"""How long an init container may take: copying takes seconds, but a driver that is being built ten minutes."""
_KUBERNETES_LABEL = re.compile(r"(?:[\w.-]+\.)?(?:kubernetes|k8s)\.io/")
"""Matches a label of Kubernetes' own, which is set again or which other pods need."""
_KINDS = {
    1: "device-plugin-crash.error",
    2: "device-plugin-crash.panic",
    255: "device-plugin-crash.fatal",
    143: "device-plugin-crash.stopped",
}
"""What the exit codes of HAMi's Go programs mean: an error returned, a panic, klog.Fatal, SIGTERM."""


_DriverPod = tuple[Driver, Pod | DaemonPod, str, Evidence]
"""A pod of the node's driver that is not ready: which part, the pod, why, and the evidence."""


@rule(*_CODES)
def plugin_down(scene: NodesScene) -> list[Finding]:
    """The findings that a node's device plugin keeps ending or does not start, or that its driver's pods are down."""
    return by_cause(scene, plugin_faults, _CODES, of_all=True)


@rule("device-plugin-not-ready")
def monitor_down(scene: NodesScene) -> list[Finding]:
    """The findings that a node's vGPUmonitor is down, while its GPUs are handed out all the same."""
    return by_cause(scene, monitor_fault, ["device-plugin-not-ready"])


@rule("device-plugin-crash", after=monitor_down)
def panicked(scene: NodesScene) -> list[Finding]:
    """The findings that a container of a node's device plugin or driver panicked, and runs again."""
    return by_cause(scene, past_panics, _CODES, quiet=lambda cause: cause.why.startswith(_LONG_AGO))


def plugin_faults(node: NodeScene) -> list[NodeCause]:
    """The causes why a node's device plugins do not work; if its pods and logs were not read, only its driver's."""
    side, now = node.side, node.among.now
    if side is None:
        listed = () if not_ready(node.node) else node.among.drivers.get(node.name, ())
        pods: Iterable[_DriverPod] = (
            (kind, one.pod, one.why, quotes.of_plugin(one.pod, one.why)) for kind, one in listed if one.pod
        )
        return list(filter(None, [_of_driver(pods, NodeSide(node.name, node.node, []), node.name, None)]))
    found = [_fault_of(side, vendor, now, silent=_is_silent(node, vendor)) for vendor in node.vendors]
    if FIRST in node.vendors and not any(found):
        down = _drivers_down(side, now, silent=_is_silent(node, FIRST))
        found = [_of_driver(down, side, node.name, None)]
    return list(filter(None, found))


def _is_silent(node: NodeScene, vendor: Vendor) -> bool:
    """Whether nothing is registered there, or kubelet offers nothing, so that even a plugin that runs may not work."""
    if vendor is FIRST or not node.was_read:
        return node.was_read and node.gpus.silent
    counts = (device.resources.count for device in node.among.config.devices if device.vendor is vendor)
    return not any(kubelet_offers(node.node, count) for count in counts)


def _fault_of(side: NodeSide, vendor: Vendor, now: datetime, *, silent: bool) -> NodeCause | None:
    for pod in side.plugins_of(vendor):
        statuses = plugin_statuses(pod)
        sick = [status for status in statuses if ails(status, now, silent=silent)]
        told = side if silent or sick else _newest(side)
        result = _signed(told, pod, sick, sick if sick and not silent else statuses)
        if result is not None and result.code == "card-fault" and not sick:
            return None  # the plugin works: what its log says of a GPU is weighed with kubelet's figures
        if result is None and sick:
            result = _ended(side, pod, sick[0])
            end = sick[0].state.terminated or sick[0].last_state.terminated
            by_itself = end is not None and end.exit_code not in _TOLD_TO_END and end.reason != "OOMKilled"
            if result is not None and by_itself:
                result = _of_driver(_drivers_down(side, now, silent=True), side, side.name, result) or result
            result = result or _waits(side, pod, sick[0])
        if result is None and silent:
            result = _held(side, pod, now)
        if result is not None:
            return result
    return None


def crash_near(side: NodeSide, times: Sequence[datetime], vendor: Vendor = FIRST) -> list[NodeCause]:
    """The cause why the device plugin ended by itself within minutes of one of these times, although it runs again."""
    for pod in side.plugins_of(vendor):
        for status in plugin_statuses(pod):
            end = status.last_state.terminated
            at = parse_time(end.finished_at) if end else None
            by_itself = end is not None and end.exit_code not in _TOLD_TO_END
            if by_itself and at and any(abs(at - time) <= _NEAR for time in times):
                old = side._replace(logs=tuple(log for log in side.logs if log.previous))
                result = _signed(old, pod, [status], [status]) or _ended(old, pod, status)
                return [result] if result else []
    return []


def monitor_fault(node: NodeScene) -> list[NodeCause]:
    """The cause that vGPUmonitor is down beside a device plugin that works: GPUs are handed out all the same."""
    for pod in node.side.plugin_pods if node.side else ():
        monitors = plugin_statuses(pod, monitor=True)
        down = [status for status in monitors if ails(status, node.among.now)]
        if node.side is None or any(ails(status, node.among.now) for status in plugin_statuses(pod)):
            continue
        found = _in_logs(node.side if down else _newest(node.side), pod, down or monitors)[:1]
        if not down and not found:
            continue
        words = [] if found or not down else _words_of(node.side, pod, down[0])
        proofs = [*(proof for _, proof in found), *(log_line(said.log, said.line) for said in words)]
        proofs += [quotes.of_plugin(pod, one.state.waiting.reason) for one in down[:1] if one.state.waiting]
        proofs += [_of_status(pod, status) for status in down[:1]]
        means = found[0][0].means if found else ""
        means = next((Text("device-plugin-not-ready.last-error", line=said.text) for said in words), means)
        if down:
            claim = Text("device-plugin-not-ready.monitor", nodes=node.name, why=_why(down[0]))
        else:
            claim = Text("device-plugin-not-ready.monitor-says", nodes=node.name)
        steps = (*(fix_of(hit, pod) for hit, _ in found), plugin_log(pod))
        why = f"monitor: {found[0][0].signature.id if found else _why(down[0])}"
        return [NodeCause("device-plugin-not-ready", why, node.name, sentences(claim, means), proofs, steps)]
    return []


def past_panics(node: NodeScene) -> list[NodeCause]:
    """The causes that running containers of device plugins or driver logged a panic in this run or the last."""
    found = list[NodeCause]()
    for log in node.side.logs if node.side else ():
        status = next((one for one in statuses(log.pod) if one.name == log.container), None)
        line = next((line for line in reversed(log.lines) if _PANIC.search(line)), "")
        if not line or status is None or ails(status, node.among.now):
            continue
        end = status.last_state.terminated if log.previous else None
        parsed = parse_line(line, log.read_at) if log.read_at else None
        at = parse_time(end.finished_at) if end else parsed and parsed.at
        values = {"node": node.name, "container": status.name, "plugin": _called(log.pod), "line": quotes.shown(line)}
        if log.previous:
            claim = Text("device-plugin-crash.before", **values, at=format_time(at) if at else "?")
        else:
            claim = Text("device-plugin-crash.recovered", **values)
        old = at is not None and node.among.now - at > _BETWEEN_ALARMS
        why = f"{_LONG_AGO if old else ''}{status.name}: {values['line']}"
        proofs, steps = [log_line(log, line)], [plugin_log(log.pod)]
        found.append(NodeCause("device-plugin-crash", why, node.name, claim, proofs, steps))
    return found


def _newest(side: NodeSide) -> NodeSide:
    """Only the lines that are about now, of containers that run: what was before a success is over."""
    newest = (log._replace(lines=_since(log.lines, *_WRITTEN)[-_NEWEST:]) for log in side.logs if not log.previous)
    return side._replace(logs=tuple(newest), events=())


def _signed(
    side: NodeSide, pod: Pod, sick: Iterable[ContainerStatus], read: Iterable[ContainerStatus]
) -> NodeCause | None:
    """What a signature proves: the runtime's words about the last start, the plugin's own, then events."""
    version = next((known for part in pod.spec.containers if (known := version_of(pod, part.name))), None)
    found: list[Proven] = [(hit, proof) for hit, proof, _ in in_messages(pod, sick, version)]
    found += _in_logs(side, pod, read)
    about = (event for event in side.events if event.is_about(pod.metadata.uid))
    found += in_events(about, version)
    found.sort(key=lambda known: known[0].signature.code == "gpu-start-failure")
    if not found:
        return None
    hit = found[0][0]
    proofs = [proof for other, proof in found if other.signature.code == hit.signature.code]
    means = hit.means
    if hit.signature.code == "card-fault":
        claim = Text("card-fault.claim", node=side.name, means=means)
    else:
        claim = Text("plugin-fault.claim", node=side.name, plugin=_called(pod), means=means)
    code = "device-plugin-crash" if hit.signature.code == "gpu-start-failure" else hit.signature.code
    steps = [fix_of(hit, pod)]
    if steps[0].changes_cluster:
        steps.append(act(Text("plugin-fault.restart", node=side.name), quotes.kubectl_pod(pod, "delete")))
    return NodeCause(code, hit.signature.id, side.name, claim, proofs, steps)


def _in_logs(side: NodeSide, pod: Pod, statuses: Iterable[ContainerStatus]) -> list[Proven]:
    """The signatures in the logs of these containers; those of the run that is on, or has just ended, come first."""
    by_name = {status.name: status for status in statuses}
    logs = [log for log in side.logs if log.pod.metadata.uid == pod.metadata.uid and log.container in by_name]
    for previous in (False, True):
        some = [log for log in logs if log.previous == previous]
        if found := [hit for log in some for hit in in_plugin_log(log, by_name[log.container])]:
            return found
    return []


def _ended(side: NodeSide, pod: Pod, status: ContainerStatus) -> NodeCause | None:
    """The cause that the plugin keeps ending for an unknown reason: its exit code, and the last error of its log."""
    end = status.state.terminated or status.last_state.terminated
    if end is None or end.reason in NEVER_STARTED:
        return None
    words = next(iter(_words_of(side, pod, status)), None)
    how = "device-plugin-crash.other"
    if words and words.line.startswith("panic: "):
        how = "device-plugin-crash.panic"
    elif end.reason == "OOMKilled" or end.exit_code == 137:
        how = "device-plugin-crash.memory" if end.reason == "OOMKilled" else "device-plugin-crash.killed"
    elif end.exit_code in _KINDS and (is_plugin(pod) or end.exit_code == 143):
        how = _KINDS[end.exit_code]  # what other codes mean is known of HAMi's programs alone
    kind, line = Text(how, code=end.exit_code), words.text if words else ""
    key = "device-plugin-crash.claim"
    if words:
        key = "device-plugin-crash.said" if words.error else "device-plugin-crash.last"
    claim = Text(key, node=side.name, container=status.name, plugin=_called(pod), kind=kind, line=line)
    proofs = [*([log_line(words.log, words.line)] if words else []), _of_status(pod, status)]
    why = f"{status.name} {end.reason} {end.exit_code}: {line}"
    return NodeCause("device-plugin-crash", why, side.name, claim, proofs, [plugin_log(pod)])


def _words_of(side: NodeSide, pod: Pod, status: ContainerStatus) -> list[LastWords]:
    end = status.state.terminated or status.last_state.terminated
    logs = [log for log in side.logs if log.pod.metadata.uid == pod.metadata.uid and log.container == status.name]
    logs.sort(key=lambda log: log.previous)
    words = last_of(logs, end, running=status.state.running is not None) if end else None
    return [words] if words else []


def _of_driver(pods: Iterable[_DriverPod], side: NodeSide, node: str, ended: NodeCause | None) -> NodeCause | None:
    """The cause that the driver's pod is not ready, and why; where the plugin `ended`, as the reason for that.

    The GPU Operator and some images have such pods, and HAMi's device plugin ends as long as they are not ready
    (HAMi#272, HAMi#136; NVIDIA gpu-operator's driver DaemonSet). A driver is not replaced while the plugin, and pods,
    use it (HAMi#1027).
    """
    found = min(pods, key=lambda one: list(_DRIVER_CLAIMS).index(one[0]), default=None)
    if found is None:
        return None
    driver, pod, why, proof = found
    name = f"{pod.namespace}/{pod.name}"
    logs = [log for log in side.logs if (log.pod.namespace, log.pod.name) == (pod.namespace, pod.name)]
    ends = (last_of([log], StateTerminated(exit_code=1), running=False) for log in logs)
    lines = [log_line(words.log, words.line) for words in ends if words]
    hits = [known for log in logs for known in in_log("driver-log", log, None)][:1]
    claim = sentences(
        *([ended.claim] if ended else []),
        Text(_DRIVER_CLAIMS[driver], node=node, pod=name, why=why),
        *(hit.means for hit, _ in hits),
        *([Text("driver-not-loaded.said", line=lines[0].quote)] if lines and not hits else []),
    )
    look = step(Text("driver-not-loaded.look", pod=name), kubectl("-n", pod.namespace, "describe", "pod", pod.name))
    proofs = [proof, *([line for _, line in hits] or lines[:1]), *(ended.proofs if ended else ())]
    keys = (key for plugin in side.plugin_pods for key in plugin.spec.node_selector or ())
    chosen = next((key for key in keys if not _KUBERNETES_LABEL.match(key)), "")
    if not chosen and not isinstance(side.node, Gap) and side.node.metadata.label(_CHART_LABEL):
        chosen = _CHART_LABEL
    freed = kubectl("label", "node", node, f"{chosen}-") if chosen else ""
    steps = (*(fix_of(hit, look=freed) for hit, _ in hits), look, *(ended.steps if ended else ()))
    code = "gpu-runtime-missing" if driver == "toolkit" else "driver-not-loaded"
    cause = f"{driver} {why}" if ended is None else ended.why
    sure = "suspected" if ended else "confirmed"
    return NodeCause(code, cause, node, claim, proofs, steps, confidence=sure)


def _drivers_down(side: NodeSide, now: datetime, *, silent: bool) -> Iterator[_DriverPod]:
    """The pods of the node's driver that are not ready. `silent`: also those that are just starting."""
    well = {driver for pod, driver in side.drivers if is_ready(pod)}
    for pod, driver in side.drivers:
        if driver not in well and (silent or any(in_trouble(status, now) for status in statuses(pod))):
            waiting = next((status.state.waiting for status in statuses(pod) if containers.stuck(status)), None)
            why = waiting.reason if waiting else pod.status.phase
            path = "{.status..state.waiting.reason}" if waiting else "{.status.phase}"
            yield driver, pod, why, quotes.of_pod(pod, why, path)


def _called(pod: Pod) -> Text:
    return Text("plugin-fault.own") if is_plugin(pod) else Text("plugin-fault.other", pod=f"{pod.namespace}/{pod.name}")


def _waits(side: NodeSide, pod: Pod, status: ContainerStatus) -> NodeCause | None:
    """The cause that a container does not start: no image, no ConfigMap, a hook that fails, a runtime that refuses."""
    if status.state.waiting is None and not (status.state.terminated and _start_error(status)):
        return None
    claim = Text("device-plugin-not-ready.waiting", node=side.name, container=status.name, why=_why(status))
    proofs = [_of_status(pod, status)]
    steps = [step(Text("plugin-not-ready.look"), quotes.kubectl_pod(pod, "describe"))]
    return NodeCause("device-plugin-not-ready", f"{status.name} {_why(status)}", side.name, claim, proofs, steps)


def _held(side: NodeSide, pod: Pod, now: datetime) -> NodeCause | None:
    """The cause that an init container does not end, as the GPU Operator's wait for the driver, but no sidecar."""
    own = pod.status.container_statuses or ()
    if not own or any(status.state.waiting is None or status.state.waiting.reason != _AFTER_INIT for status in own):
        return None
    for status in pod.status.init_container_statuses or ():
        started = status.state.running.started_at if status.state.running else None
        since = parse_time(started)
        if started is None or since is None or now - since < _LONG_INIT:
            continue
        claim = Text("device-plugin-not-ready.init", node=side.name, container=status.name, since=format_time(since))
        path = "{.status.initContainerStatuses[*].state.running.startedAt}"
        name = quotes.of_pod(pod, status.name, "{.status.initContainerStatuses[*].name}")
        look = step(Text("plugin-not-ready.look"), quotes.kubectl_pod(pod, "describe"))
        proofs = [name, quotes.of_pod(pod, started, path)]
        why = f"init {status.name}"
        waits = NodeCause("device-plugin-not-ready", why, side.name, claim, proofs, [look])
        return _of_driver(_drivers_down(side, now, silent=True), side, side.name, waits) or waits
    return None


def _why(status: ContainerStatus) -> str:
    waiting, end = status.state.waiting, status.state.terminated or status.last_state.terminated
    if waiting and waiting.message and waiting.reason != _BACK_OFF:
        return f"{waiting.reason}: {quotes.shown(waiting.message)}"
    if refused := _start_error(status):
        return f"{refused.reason}: {quotes.shown(refused.message)}"
    return waiting.reason if waiting else end.reason if end else "not ready"


def _of_status(pod: Pod, status: ContainerStatus) -> Evidence:
    waiting, end = status.state.waiting, status.state.terminated or status.last_state.terminated
    if waiting and (waiting.reason != _BACK_OFF or not end):
        field, quote = ("message", waiting.message) if waiting.message else ("reason", waiting.reason)
        return quotes.of_pod(pod, quote, path_in(pod, status.name, f"state.waiting.{field}"))
    return of_end(pod, status, end) if end else quotes.of_pod_name(pod)


def _start_error(status: ContainerStatus) -> StateTerminated | None:
    """The container's last end, if that is the runtime's report that it could not start the container."""
    end = status.state.terminated or status.last_state.terminated
    return end if end and end.message and end.reason in NEVER_STARTED else None


_NEWEST = 100
"""How many last lines of a log are about now: a loop that fails every few seconds is in them again."""
_STARTED = "Starting Plugins."
_REGISTERED = "Registered device plugin for"
_WRITTEN = (
    "Successfully updated node annotation",
    "Successfully registered annotation",
    "Device info unchanged, skipping annotation update",
    "No device changes detected",
)
_UNTIL_WRITTEN = ("plugin-register-annotation", "plugin-rbac")
"""Signatures of a loop that tries again: they are over after one success."""
_AFTER = (*_WRITTEN, "Updating node annotations with")
"""Lines that prove that kubelet took the registration: the plugin writes them after it, every 30 s."""


def in_plugin_log(log: LogSeen, status: ContainerStatus) -> list[tuple[Hit, Evidence]]:
    """The signatures in what one run printed since it last started its plugins. Of a run that goes on, errors before
    kubelet took its registration do not count, nor those of an annotation written later.
    """
    where = "monitor-log" if is_monitor(log.container) else "plugin-log"
    lines = _since(log.lines, _STARTED)
    if status.state.running and not log.previous:
        lines = _since(lines, _REGISTERED)
    found = in_log(where, log._replace(lines=tuple(lines)), version_of(log.pod, log.container))
    written = max((at for at, line in enumerate(lines) if any(marker in line for marker in _WRITTEN)), default=-1)
    return [known for known in found if known[0].signature.id not in _UNTIL_WRITTEN or known[0].line > written]


def has_registered(log: LogSeen) -> bool:
    """Whether kubelet took the plugin's registration, by the log of this run."""
    return any(marker in line for line in log.lines for marker in (_REGISTERED, *_AFTER))


def _since(lines: Sequence[str], *markers: str) -> Sequence[str]:
    at = next((at for at in range(len(lines) - 1, -1, -1) if any(marker in lines[at] for marker in markers)), 0)
    return lines[at:]
