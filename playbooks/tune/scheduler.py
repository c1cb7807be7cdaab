"""Advice about HAMi's scheduler: its pod's resources, how often it may ask the API server, how long it locks a node.

A pod's resources are raised where a container of it was ended for using too much memory. The guide's table is by the
number of nodes, and the answer shows its row. Size alone is no reason to raise what never ran out: nothing measured is
behind the table, and an extender of 204 nodes and 56 pods used 82 MiB.

`--kube-qps`, `--kube-burst` and `--kube-timeout`: throttling that the log shows and that is felt counts before the
cluster's size. The flags are there since HAMi 2.6 (cmd/scheduler/main.go); before, client-go's 5 and 10 could not be
changed. To client-go (rest/config.go) a rate of 0 is not set, and a negative one no limit. A timeout of 0, the default,
is none: it is only judged where one is set.

`--node-lock-timeout`: how long a node stays locked for one pod whose devices are being allocated. Only the flag acts,
since HAMi 2.7 (cmd/scheduler/main.go): the chart's `scheduler.nodeLockExpire` becomes HAMI_NODELOCK_EXPIRE, which the
flag's default then replaces. The device plugin removes the lock once it has allocated: a lock that expired although its
pod was allocated was too short. Slow binds of a throttled scheduler are no reason.
"""

import shlex
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Literal, NamedTuple

from bot.hami.installation.install import ARGUMENTS, CLIENT_FLAGS_SINCE, chart_value, container_of
from bot.hami.nodes.node_lock import DEFAULT_EXPIRY, lock_complaint, read_timeout
from bot.hami.pods.allocations import was_allocated
from bot.hami.scheduler_logs.log_lines import NEEDLE, LogLine, ThrottledRequest, are_felt, read_line
from bot.hami.version import Version
from bot.kube.hami_pods import EXTENDER_CONTAINER
from bot.kube.models import ContainerStatus, Pod
from bot.kube.quantities import whole
from bot.kube.times import parse_time
from bot.report import Evidence, Finding, Gap, NextAction, act, step
from bot.texts import Prose, Text
from playbooks import quotes
from playbooks.rule import rule
from playbooks.rules.common.prose import command
from playbooks.rules.waiting.binding import late_binds
from playbooks.tune.advice import (
    Advice,
    AdviceRow,
    AdviceRule,
    Direction,
    Topic,
    changed,
    environment,
    flag,
    kept,
    node_count,
    unknown,
)
from playbooks.tune.guide import Client, client_for, lock_minutes, resources_for
from playbooks.tune.scene import TuneScene

_OOM = "OOMKilled"
_MIB = 2**20


@AdviceRule
def resources(scene: TuneScene) -> list[Advice]:
    """Advice on the scheduler's resources: whether one of its containers was ended for using too much memory."""
    pods = scene.install.pods
    if not pods:
        return [unknown("scheduler-resources", Text("tune.scheduler-unknown"))]
    killed = [(pod, status) for pod in pods for status in pod.status.container_statuses or () if _ended(status)]
    if killed:
        found: dict[str, Advice] = {}
        for pod, status in killed:
            found.setdefault(status.name, _more_memory(pod, status, scene))
        return list(found.values())
    limit, why = _memory(pods[0], EXTENDER_CONTAINER, "limits"), Text("tune.scheduler-kept")
    if not isinstance(scene.nodes, Gap):
        nodes = len(scene.nodes)
        row = resources_for(nodes)
        cpu, memory = f"{row.cpu_request}m/{row.cpu_limit}m", f"{_in_chart(row.memory_request_mib)}/"
        less = bool(limit) and _mib(limit) < row.memory_limit_mib
        key = "tune.scheduler-less" if less else "tune.scheduler-size"
        why = Text(key, nodes=nodes, cpu=cpu, memory=memory + _in_chart(row.memory_limit_mib))
    return [kept("scheduler-resources", limit or Text("tune.scheduler-no-limit"), why)]


def _ended(status: ContainerStatus) -> bool:
    ends = (status.state.terminated, status.last_state.terminated)
    return any(end is not None and end.reason == _OOM for end in ends)


def _memory(pod: Pod, name: str, field: Literal["limits", "requests"]) -> str:
    container = container_of(pod.spec, name)
    resources = container.resources if container else None
    amounts: Mapping[str, Any] = getattr(resources, field, None) or {}
    return str(amounts.get("memory", ""))


def _mib(text: str) -> int:
    return (whole(text) or 0) // _MIB


def _in_chart(mib: int) -> str:
    return f"{mib // 1024}Gi" if mib % 1024 == 0 else f"{mib}Mi"


def _more_memory(pod: Pod, status: ContainerStatus, scene: TuneScene) -> Advice:
    nodes = 0 if isinstance(scene.nodes, Gap) else len(scene.nodes)
    limit, about = _memory(pod, status.name, "limits"), f"memory limit of {status.name}"
    if not limit:
        return unknown("scheduler-resources", Text("tune.scheduler-unlimited", name=status.name), about)
    current, by_size = _mib(limit), resources_for(nodes)
    shown = _in_chart(2 * current if current >= by_size.memory_limit_mib else by_size.memory_limit_mib)
    why = Text("tune.scheduler-killed", restarts=status.restart_count)
    if nodes:
        why = Text("tune.scheduler-sized", why=why, nodes=nodes)
    claim = Text("tune.scheduler-claim", name=status.name, current=limit, wanted=shown, why=why)
    part = "extender" if status.name == EXTENDER_CONTAINER else "kubeScheduler"
    path = f"scheduler.{part}.resources"
    value = f"{path}.limits.memory={shown}"
    if _mib(_memory(pod, status.name, "requests")) < by_size.memory_request_mib:
        value += f", {path}.requests.memory={_in_chart(by_size.memory_request_mib)}"
    row = AdviceRow("scheduler-resources", "raise", about, limit, shown, why)
    ended = status.state.terminated
    where = "state" if ended is not None and ended.reason == _OOM else "lastState"
    reason = f'{{.status.containerStatuses[?(@.name=="{status.name}")].{where}.terminated.reason}}'
    restarts = f'jsonpath={{.status.containerStatuses[?(@.name=="{status.name}")].restartCount}}'
    heap = step(Text("tune.scheduler-heap"), command("profile", "heap"))
    actions = (
        act(Text("tune.set", value=value, risk=Text("tune.scheduler-risk"))),
        *([heap] if status.name == EXTENDER_CONTAINER else []),
        step(Text("tune.scheduler-check", name=status.name), quotes.kubectl_pod(pod, "get", "-o", restarts)),
    )
    proofs = (
        quotes.of_pod(pod, _OOM, reason),
        quotes.of_amount(pod, str(status.restart_count), restarts.removeprefix("jsonpath=")),
        quotes.of_amount(pod, limit, f'{{.spec.containers[?(@.name=="{status.name}")].resources.limits.memory}}'),
        *node_count(scene),
    )
    return changed(row, claim, proofs, actions, severity="warning")


_THROTTLED = Client(0, qps=50, burst=100, timeout_s=30)
"""The guide's row for schedulers that are throttled, whatever the size of the cluster."""
_FLAGS: tuple[Topic, ...] = ("kube-qps", "kube-burst", "kube-timeout")
_UNSET = {"kube-qps": 5, "kube-burst": 10}
"""What client-go takes where the flag is not set."""
_SHOWN_WAITS = 3


@AdviceRule
def rate(scene: TuneScene) -> list[Advice]:
    """Advice on how often the scheduler may ask the API server, and how long it waits; a row for each flag."""
    if not scene.install.seen:
        return [_no_rate(topic, scene, Text("tune.scheduler-unknown")) for topic in _FLAGS]
    nodes = None if isinstance(scene.nodes, Gap) else len(scene.nodes)
    throttled = are_felt(scene.throttled.waits)
    if nodes is None and not throttled:
        return [_no_rate(topic, scene, Text("tune.rate-unknown")) for topic in _FLAGS]
    by_size = client_for(nodes or 0)
    wanted = max(by_size, _THROTTLED, key=lambda row: row.qps) if throttled else by_size
    limits = zip(_FLAGS, (wanted.qps, wanted.burst), strict=False)
    return [*(_rate(*limit, wanted, scene, nodes) for limit in limits), _timeout(wanted, scene, nodes)]


def _rate(topic: Topic, wanted: int, client: Client, scene: TuneScene, nodes: int | None) -> Advice:
    current = _number(scene.flags.get(topic, ""))
    set_to = f"{current:g}" if current else Text("tune.default", value=str(_UNSET[topic]))
    if _number(scene.flags.get("kube-qps", "")) < 0:
        return kept(topic, set_to, Text("tune.rate-off"))
    raises, waits = (current or _UNSET[topic]) < wanted, scene.throttled.waits
    felt = are_felt(waits)
    unread = bool(scene.throttled.gaps) or not scene.install.pods
    if unread and not raises and not waits:
        return _no_rate(topic, scene, Text("tune.log-unread"))
    why = Text("tune.rate-by-size-alone" if unread else "tune.rate-by-size", nodes=nodes, wanted=wanted)
    if waits:
        longest = max(wait.seconds for wait in waits)
        why = Text("tune.rate-measured", count=len(waits), longest=f"{longest:.2f}")
    if waits and not felt:
        why = Text("tune.rate-unfelt", why=why, nodes=nodes, wanted=wanted)
    elif waits and not raises:
        why = Text("tune.rate-enough", why=why)
    if not raises:
        return kept(topic, set_to, why)
    row = AdviceRow(topic, "raise", "", set_to, str(wanted), why)
    throttling = (proof for pod, held in scene.throttled.by_scheduler if held for proof in _of_waits(pod, held))
    claim = Text("tune.rate-claim", flag=f"--{topic}", current=set_to, wanted=wanted, why=why)
    return changed(
        row,
        claim,
        (*throttling, *flag(scene, topic).proof, *(() if felt else node_count(scene))),
        _set_flag(topic, wanted, f"kube-qps={client.qps} kube-burst={client.burst}", scene),
        severity="warning" if felt else "info",
        confidence="suspected" if scene.throttled.gaps or scene.seen.gaps else "confirmed",
    )


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _of_waits(scheduler: Pod, waits: tuple[ThrottledRequest, ...]) -> tuple[Evidence, ...]:
    once = "delay=.*" if 'delay="' in waits[0].line else "Waited for .*"
    longest = sorted(waits, key=lambda wait: -wait.seconds)[:_SHOWN_WAITS]
    proofs = [quotes.of_wait(wait, scheduler) for wait in longest]
    count = f"{proofs[0].command} | grep -o {shlex.quote(once)} | sort -u | wc -l"
    return (*proofs, Evidence(proofs[0].source, proofs[0].object, None, str(len(waits)), count))


def _set_flag(topic: Topic, wanted: int, tried: str, scene: TuneScene) -> tuple[NextAction, ...]:
    if scene.version is not None and scene.version < CLIENT_FLAGS_SINCE:
        return (act(Text("tune.rate-upgrade")),)
    risk = Text("tune.timeout-risk" if topic == "kube-timeout" else "tune.rate-risk")
    install = scene.install
    path = chart_value(f"{ARGUMENTS} --{topic}", install)
    if path.startswith(ARGUMENTS):
        setting = Text("tune.set-list", value=f"{ARGUMENTS}: --{topic}={wanted}", risk=risk)
    else:
        setting = Text("tune.set-client", value=f"{path}={wanted}", flag=f"--{topic}", risk=risk)
    name = install.pods[0].name if install.pods else f"deploy/{install.deployment.name}" if install.deployment else ""
    check = quotes.extender_log(install.namespace, name, NEEDLE) if name else ""
    return (
        act(Text("tune.rate-try"), f"tune try {tried} for 30m"),
        act(setting),
        step(Text("tune.rate-check"), check),
    )


def _timeout(wanted: Client, scene: TuneScene, nodes: int | None) -> Advice:
    """One that is set is raised where the guide has a longer one for this cluster."""
    text = scene.flags.get("kube-timeout", "")
    seconds = _number(text)
    shown = f"{seconds:g} s" if seconds else Text("tune.no-limit")
    if text and not text.isdecimal():
        return _no_rate("kube-timeout", scene, Text("tune.timeout-no-number"))
    if not seconds or seconds >= wanted.timeout_s or nodes is None:
        return kept("kube-timeout", shown, Text("tune.timeout-kept", wanted=wanted.timeout_s))
    why = Text("tune.timeout-short", wanted=wanted.timeout_s, nodes=nodes)
    claim = Text("tune.rate-claim", flag="--kube-timeout", current=shown, wanted=wanted.timeout_s, why=why)
    row = AdviceRow("kube-timeout", "raise", "", shown, f"{wanted.timeout_s} s", why)
    proofs = (*flag(scene, "kube-timeout").proof, *node_count(scene))
    actions = _set_flag("kube-timeout", wanted.timeout_s, f"kube-timeout={wanted.timeout_s}", scene)
    return changed(row, claim, proofs, actions)


def _no_rate(topic: Topic, scene: TuneScene, why: Prose) -> Advice:
    return unknown(topic, why, current=scene.flags.get(topic, ""))


@rule("binding-failed", reads=("pending pods",))
def bind_timeouts(scene: TuneScene) -> Iterator[Finding]:
    """The finding that many of HAMi's pods are pending because their bind took longer than kube-scheduler waits."""
    waiting, own = () if isinstance(scene.waiting, Gap) else scene.waiting, scene.install.scheduler_name
    return late_binds((pod for pod in waiting if pod.spec.scheduler_name == own), scene.install)


TOPIC = "node-lock-timeout"
FLAG_SINCE = Version(2, 7, 0)
_SET, _EXPIRED = "Node lock set", "Node lock expired"
_INERT = "HAMI_NODELOCK_EXPIRE"
_USUAL = "5m"
_SHOWN_LOCKS = 3


class _Locks(NamedTuple):
    """The log's node locks: those that expired, pods that met a locked node, and by node who locked it and when."""

    expired: list[tuple[Pod, LogLine]]
    refused: set[str]
    taken: dict[str, list[tuple[datetime, str]]]


@AdviceRule
def node_lock(scene: TuneScene) -> list[Advice]:
    """Advice on the node lock timeout: whether locks expire too early, or stay for too long."""
    if not scene.install.seen:
        return [unknown(TOPIC, Text("tune.scheduler-unknown"))]
    if scene.version is not None and scene.version < FLAG_SINCE:
        return [kept(TOPIC, _USUAL, Text("tune.lock-fixed"))]
    set_to = flag(scene, TOPIC)
    current = set_to.value or Text("tune.default", value=_USUAL)
    minutes = (read_timeout(set_to.value) if set_to.value else DEFAULT_EXPIRY).total_seconds() / 60
    least, most = lock_minutes()
    if not least <= minutes <= most:
        direction: Direction = "raise" if minutes < least else "lower"
        to = least if minutes < least else most
        why = Text("tune.lock-range", least=least, most=most)
        return [_lock_changed(AdviceRow(TOPIC, direction, "", current, f"{to:g}m", why), set_to.proof, scene)]
    if scene.throttled.waits:
        return [kept(TOPIC, current, Text("tune.lock-throttled", count=len(scene.throttled.waits)))]
    seen = _locks_seen(scene)
    if not seen.expired and (scene.locked.gaps or not scene.install.pods):
        return [unknown(TOPIC, Text("tune.log-unread"), current=current)]
    if not seen.expired:
        why = Text("tune.lock-met", count=len(seen.refused)) if seen.refused else Text("tune.lock-kept")
        chart = environment(scene, _INERT)
        inert = chart and read_timeout(chart) != DEFAULT_EXPIRY
        return [kept(TOPIC, current, Text("tune.lock-inert", why=why, value=chart) if inert else why)]
    allocated = _allocated(scene)
    slow = [lock for lock in seen.expired if _was_slow(lock[1], seen, allocated)]
    if not slow:
        return [unknown(TOPIC, Text("tune.lock-expired", count=len(seen.expired)), current=current)]
    if minutes >= most:
        return [kept(TOPIC, current, Text("tune.lock-highest", count=len(slow), most=most))]
    wanted, why = f"{min(2 * minutes, most):g}m", Text("tune.lock-slow", count=len(slow))
    expired = (quotes.of_words(line, scheduler, _EXPIRED) for scheduler, line in slow[:_SHOWN_LOCKS])
    return [_lock_changed(AdviceRow(TOPIC, "raise", "", current, wanted, why), (*expired, *set_to.proof), scene)]


def _locks_seen(scene: TuneScene) -> _Locks:
    seen = _Locks([], set(), {})
    for scheduler, raw in scene.locked.lines:
        line = read_line(raw, scene.taken_at)
        if line is None:
            continue
        if line.message.startswith(_EXPIRED):
            seen.expired.append((scheduler, line))
        elif line.message == _SET and line.at is not None:
            seen.taken.setdefault(line.values.get("node", ""), []).append((line.at, line.values.get("podName", "")))
        elif lock_complaint(line.values.get("err", "")) is not None:
            seen.refused.add(line.values.get("pod", ""))
    return seen


def _allocated(scene: TuneScene) -> dict[tuple[str, str], list[datetime]]:
    found: dict[tuple[str, str], list[datetime]] = {}
    for holder in () if isinstance(scene.holders, Gap) else scene.holders:
        created = parse_time(holder.metadata.creation_timestamp)
        if created is not None and was_allocated(holder):
            found.setdefault((holder.spec.node_name, holder.name), []).append(created)
    return found


def _was_slow(line: LogLine, seen: _Locks, allocated: dict[tuple[str, str], list[datetime]]) -> bool:
    """Whether the pod that had locked the node last got its devices all the same: no later pod of its name."""
    node, at = line.values.get("node", ""), line.at
    before = [lock for lock in seen.taken.get(node, ()) if at is not None and lock[0] < at]
    since, pod = before[-1] if before else (None, "")
    created = allocated.get((node, pod.rpartition("/")[2]), [])
    return since is not None and len(created) == 1 and created[0] <= since


def _lock_changed(row: AdviceRow, proofs: tuple[Evidence, ...], scene: TuneScene) -> Advice:
    install = scene.install
    value = f"scheduler.extender.extraArgs: --{TOPIC}={row.recommended}"
    pod = next(iter(install.pods), None)
    check = quotes.extender_log(install.namespace, pod.name, _EXPIRED) if pod else command("tune", "--all")
    risk = Text("tune.lock-raise-risk" if row.direction == "raise" else "tune.lock-lower-risk")
    actions = (
        act(Text("tune.set-list", value=value, risk=risk)),
        step(Text("tune.lock-check"), check),
    )
    claim = Text("tune.rate-claim", flag=f"--{TOPIC}", current=row.current, wanted=row.recommended, why=row.why)
    return changed(row, claim, proofs, actions, confidence="suspected")
