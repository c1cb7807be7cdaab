"""Advice by what pods use of their GPUs, about who holds them, limits and scheduling.

A node without figures of vGPUmonitor has a fault if its answer has none; else its use is only not known. Memory: under
30 % of its limit somebody asks for too much, over 90 % the container is about to run out; the bounds are the guide's. A
limit that leaves a tenth free of the most that was used is recommended: to ask for less, the most of a whole window.

`gpuCorePolicy`: whether HAMi-core holds containers to the cores that they requested. With `force` it always does, with
`disable` never (HAMi docs/config.md, variable GPU_CORE_UTILIZATION_POLICY). A container above its request is a sign
only where it shares the GPU, and only on the average of a day: the limiter works by time slices, so one sample is one
moment.

The scheduling policies: binpack on GPUs where spreading leaves no GPU with enough free memory for a pod that waits.
HAMi's `--gpu-scheduler-policy` decides among the GPUs of a node, `--node-scheduler-policy` among nodes (pkg/scheduler).
Otherwise no measurement decides between them, so the guide's templates are named.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bot.hami.fit.allocated_totals import Share
from bot.hami.metrics.exposition import Sample
from bot.hami.metrics.gpu_usage import IDLE_S, ContainerUse, MeasuredHolding
from bot.hami.nodes.cards import CardState
from bot.hami.pods.request_parsing import pod_request
from bot.hami.vendors import FIRST
from bot.hami.version import NEWEST_READ
from bot.kube.models import Node, Pod
from bot.kube.times import format_time
from bot.report import Evidence, Gap, act, step
from bot.texts import Text, in_english
from playbooks import quotes
from playbooks.gather.past_days import TOLERATED, CoreUse
from playbooks.gather.usage import COVERED, HIGH_USE, LOW_USE, WINDOW_DAYS, WINDOW_HOURS, Peak
from playbooks.rules.common import prose
from playbooks.rules.common.holders import of_use
from playbooks.rules.common.prose import command, mib
from playbooks.tune.advice import (
    Advice,
    AdviceRow,
    AdviceRule,
    Topic,
    changed,
    flag,
    gpu_setting,
    kept,
    of_end,
    of_peak,
    of_request,
    of_restarts,
    oomkilled,
    restarted,
    unknown,
)
from playbooks.tune.scene import TuneScene
from playbooks.tune.sharing import before_library

_SHOWN = 3


@AdviceRule
def monitor(scene: TuneScene) -> list[Advice]:
    """Advice about nodes with holders but no figures of use: repair vGPUmonitor, or not known if unread."""
    usage, nodes = scene.usage, sorted({held.holding.node for held in scene.held})
    measured = {pod.spec.node_name for pod in usage.monitors}
    if not usage.monitors:  # of Prometheus: where any figure came
        containers, gpus = usage.usage
        uuids = {use.uuid for use in (*containers, *gpus)}
        measured = {held.holding.node for held in scene.held if uuids & held.shares.keys()}
        measured |= {gpu.node for gpu in gpus if gpu.node}
    missing = [node for node in nodes if node not in measured]
    without_answer = {pod.spec.node_name for pod in usage.unread}
    unread = [node for node in missing if not usage.all_known or node in without_answer]
    unread = [] if usage.of_prometheus else unread
    silent = [node for node in missing if node not in unread]
    advice: list[Advice] = []
    if silent:
        why = Text("tune.monitor", missing=len(silent), nodes=len(nodes), which=prose.names(silent))
        row = AdviceRow("monitor-gap", "repair", ",".join(silent), "", "", why)
        look = Text("tune.monitor-scrape" if scene.usage.of_prometheus else "tune.monitor-do")
        action = step(look, prose.plugin_pods_command(silent[0]))
        # What was asked and what came back; and of the first nodes a pod that holds GPUs there.
        at, show = format_time(scene.taken_at), prose.plugin_pods_command(silent[0])
        proofs = [Evidence("metrics", gap.source, at, in_english(gap.text), show) for gap in usage.gaps]
        first = {held.holding.node: held for held in reversed(scene.held)}
        proofs += [proof for node in silent[:_SHOWN] for proof in of_request(first[node], scene)]
        advice.append(changed(row, why, proofs, [action], confidence="suspected"))
    if unread:
        why = Text("tune.monitor-unread", missing=len(unread), nodes=len(nodes), which=prose.names(unread))
        advice.append(unknown("monitor-gap", why, ",".join(unread)))
    return advice


_MIB = 2**20


class _Measured(NamedTuple):
    """A container's share of a GPU, of which both figures are known and the limit is one."""

    use: ContainerUse
    used: Sample
    limit: Sample

    @property
    def share(self) -> float:
        return self.used.value / self.limit.value


@AdviceRule
def memory_limits(scene: TuneScene) -> list[Advice]:
    """Advice on pods' GPU memory limits: far more than they use, or nearly used up; by their most used share."""
    if not scene.usage.usage.containers:
        return [unknown(topic, Text("tune.use-unknown")) for topic in _LIMITS]
    return [advice for held in scene.held if (advice := _limit(held, scene)) is not None]


def _limit(held: MeasuredHolding, scene: TuneScene) -> Advice | None:
    both = ((use, use.used, use.limit) for use in held.uses)
    measured = [_Measured(use, used, limit) for use, used, limit in both if used and limit and limit.value > 0]
    if not measured or held.has_no_process:
        return None
    most = max(measured, key=lambda measure: measure.share)
    known = scene.peaks.get((held.holding.namespace, held.holding.name, most.use.uuid), ())
    peak = next((peak for peak in known if peak.of.container == most.use.container), None)
    if most.share > HIGH_USE:
        return _new_limit(held, most, peak, scene)
    low = most.share < LOW_USE and (peak is None or peak.used.value <= HIGH_USE * most.limit.value)
    if not low or held.unmeasured or len(measured) != len(held.uses):
        return None
    if peak is None and (killed := oomkilled(held, scene)):
        why = Text("tune.low-use-killed", name=killed[0].name)
        return unknown("memory-limit-low-use", why, held.name)
    return _new_limit(held, most, peak, scene)


def _new_limit(held: MeasuredHolding, measure: _Measured, peak: Peak | None, scene: TuneScene) -> Advice:
    used, limit = round(measure.used.value / _MIB), round(measure.limit.value / _MIB)
    low = measure.share <= HIGH_USE
    topic: Topic = "memory-limit-low-use" if low else "memory-limit-high-use"
    why = Text(
        "tune.memory-limit-low-use" if low else "tune.memory-limit-high-use",
        used=mib(used),
        limit=mib(limit),
        share=f"{measure.share:.0%}",
    )
    node = held.holding.node
    proofs: tuple[Evidence, ...] = (
        of_use(measure.use, measure.used, node, scene),
        of_use(measure.use, measure.limit, node, scene),
    )
    # What the limit is to have room for; 0 where it is not known: to ask for less, a whole window is needed.
    most = max(measure.used.value, peak.used.value if peak else 0)
    if low:
        most = peak.used.value if peak and peak.hours >= COVERED * WINDOW_HOURS else 0
    wanted = math.ceil(round(most / _MIB) / HIGH_USE) if most else 0
    if not 0 < wanted <= scene.gpu_mib.get(measure.use.uuid, 0):
        wanted = 0
    claim = Text("tune.use-claim", pod=held.name, why=why)
    if wanted:
        claim = Text("tune.use-wanted", pod=held.name, why=why, most=mib(round(most / _MIB)), wanted=mib(wanted))
    row = AdviceRow(topic, "lower" if low else "raise", held.name, mib(limit), mib(wanted) if wanted else "", why)
    ask = Text("tune.memory-limit-low-use-do" if low else "tune.memory-limit-high-use-do", pod=held.name)
    if not low and (ended := restarted(held, measure.use.container, scene)):
        proofs += (of_restarts(held, ended), of_end(held, ended))
        if oomkilled(held, scene):
            ask = Text("tune.high-use-killed", ask=ask, name=ended.name)
    if peak and (low or most == peak.used.value):
        proofs += (of_peak(held, peak, scene),)
    if peak and low:
        ask = Text("tune.low-use-peak", pod=held.name, days=WINDOW_DAYS, peak=mib(round(peak.used.value / _MIB)))
    actions = (step(ask, ""), step(Text("tune.check-again"), command("tune")))
    return changed(row, claim, proofs, actions)


@AdviceRule
def idle(scene: TuneScene) -> list[Advice]:
    """Advice about pods that hold GPUs and launch no kernel; a missing figure does not make a pod idle."""
    if not scene.usage.usage.containers and not scene.usage.usage.gpus:
        return [unknown("idle-holder", Text("tune.use-unknown"))]
    return [advice for held in scene.held if (advice := _idle(held, scene)) is not None]


def _idle(held: MeasuredHolding, scene: TuneScene) -> Advice | None:
    memory, _ = held.holding.amounts
    if held.idle_s is None or held.last is None or held.last.last_kernel is None:
        why = Text("tune.idle-unknown", count=len(held.unmeasured) or len(held.shares))
        return unknown("idle-holder", why, held.name, current=mib(memory))
    if held.idle_s < IDLE_S:
        return None
    hours = f"{held.idle_s / 3600:.1f}"
    why = Text("tune.idle-gone" if held.has_no_process else "tune.idle", hours=hours)
    row = AdviceRow("idle-holder", "lower", held.name, mib(memory), "", why)
    claim = Text("tune.idle-claim", pod=held.name, memory=mib(memory), count=len(held.shares), why=why)
    node = held.holding.node
    proofs: list[Evidence] = [of_use(held.last, held.last.last_kernel, node, scene)]
    proofs += [of_use(use, use.used, node, scene) for use in held.uses if held.has_no_process and use.used]
    proofs += of_request(held, scene)
    actions = (
        step(Text("tune.idle-do", pod=held.name), ""),
        step(Text("tune.idle-check", node=node), command("gpus", "--node", node)),
    )
    return changed(row, claim, tuple(proofs), actions, severity="warning")


_WHOLE = 100
_STRICT = "force"


@AdviceRule
def core_policy(scene: TuneScene) -> list[Advice]:
    """Advice on gpuCorePolicy if containers use more cores of shared GPUs than they requested."""
    if before_library(scene):
        return []
    deployed = gpu_setting(scene, "gpuCorePolicy")
    if not deployed.proof or isinstance(scene.holders, Gap):
        return [unknown("core-policy", Text("tune.use-unknown" if deployed.proof else "tune.config-unread"))]
    current = deployed.value or Text("tune.default", value="default")
    seen = scene.cores
    if not seen.limited:
        return [kept("core-policy", current, Text("tune.core-policy-none"))]
    if not seen.known:
        return [unknown("core-policy", Text("tune.core-policy-day"), current=current)]
    if seen.known < seen.limited:
        why = Text("tune.core-policy-part", known=seen.known, limited=seen.limited)
        return [unknown("core-policy", why, current=current)]
    above = sorted(_above(scene), key=lambda entry: entry[2] - entry[1].reading.value)
    if not above:
        return [kept("core-policy", current, Text("tune.core-policy-kept", known=seen.known, tolerated=TOLERATED))]
    worst, use, requested = above[0]
    values = {"count": len(above), "pod": worst.name, "used": f"{use.reading.value:.0f}", "requested": requested}
    why = Text("tune.core-policy-above", **values)
    if deployed.value == _STRICT:
        return [kept("core-policy", current, why)]
    value = f"devices.nvidia.gpuCorePolicy={_STRICT}"
    actions = (
        act(Text("tune.set", value=value, risk=Text("tune.core-policy-risk"))),
        step(Text("tune.check-again"), command("tune")),
    )
    claim = Text("tune.core-policy-claim", current=current, wanted=_STRICT, why=why)
    row = AdviceRow("core-policy", "raise", "", current, _STRICT, why)
    proofs: list[Evidence] = []
    for held, use, _ in above[:_SHOWN]:
        at, line, show = format_time(scene.taken_at), use.reading.line, f"PromQL: {use.query}"
        proofs += [Evidence("metrics", f"Pod {held.name}", at, line, show), *of_request(held, scene)]
    return [changed(row, claim, (*proofs, *deployed.proof), actions, confidence="suspected")]


def _above(scene: TuneScene) -> Iterator[tuple[MeasuredHolding, CoreUse, int]]:
    by_pod = {(held.holding.namespace, held.holding.name): held for held in scene.held}
    users = Counter(uuid for held in scene.held for uuid in held.shares)
    for use in scene.cores.above:
        held = by_pod.get((use.of.namespace, use.of.pod))
        share = held.shares.get(use.of.uuid) if held else None
        if held is None or share is None or not 0 < share.cores < _WHOLE or users[use.of.uuid] < 2:
            continue
        if use.reading.value > share.cores + TOLERATED:
            yield held, use, share.cores


_NODES, _GPUS = "node-scheduler-policy", "gpu-scheduler-policy"
_DEFAULTS = {_NODES: "binpack", _GPUS: "spread"}
_LIMITS: tuple[Topic, ...] = ("memory-limit-low-use", "memory-limit-high-use")
_PACKED, _SPREAD = "binpack", "spread"
_REFUSED = "CardInsufficientMemory"
_MOST_TRIED = 10


class _Split(NamedTuple):
    """A node whose free memory is enough for a pod that waits, but on no single GPU. In MiB."""

    pod: Pod
    asked: int
    node: Node
    gpus: tuple[CardState, ...]
    held: tuple[MeasuredHolding, ...]
    left: int
    """The most memory that is free on one GPU once the shares are packed."""


@AdviceRule
def policies(scene: TuneScene) -> list[Advice]:
    """Advice on the scheduling policies: whether packing makes room for a pending pod if spreading leaves none."""
    if not scene.install.seen:
        return [unknown("scheduling-policy", Text("tune.scheduler-unknown"))]
    now = {name: flag(scene, name).value or default for name, default in _DEFAULTS.items()}
    current = "/".join(now.values())
    found = next(_split(scene), None) if now[_GPUS] == _SPREAD else None
    if found is None:
        return [kept("scheduling-policy", current, Text("tune.policies"))]
    free = [state.free_memory_mib for state in found.gpus]
    why = Text(
        "tune.policies-split",
        pod=f"{found.pod.namespace}/{found.pod.name}",
        asked=mib(found.asked),
        node=found.node.name,
        free=mib(sum(free)),
        gpus=len(free),
        most=mib(max(free)),
        left=mib(found.left),
    )
    wanted = f"{now[_NODES]}/{_PACKED}"
    value = f"scheduler.defaultSchedulerPolicy.gpuSchedulerPolicy={_PACKED}"
    actions = (
        act(Text("tune.set", value=value, risk=Text("tune.policies-risk"))),
        step(Text("tune.policies-check"), command("gpus", "--node", found.node.name)),
    )
    row = AdviceRow("scheduling-policy", "raise", "", current, wanted, why)
    claim = Text("tune.rate-claim", flag=f"--{_GPUS}", current=now[_GPUS], wanted=_PACKED, why=why)
    condition = found.pod.condition("PodScheduled")
    proofs = (
        *([quotes.of_condition(found.pod, condition, condition.last_transition_time)] if condition else []),
        *flag(scene, _GPUS).proof,
        *(quotes.of_card(found.node, state.card.uuid) for state in found.gpus),
        *(proof for holding in found.held for proof in of_request(holding, scene)),
    )
    return [changed(row, claim, proofs, actions, confidence="suspected")]


def _split(scene: TuneScene) -> Iterator[_Split]:
    """The smallest request first, and of each the nodes with the most free memory: of a large cluster a few will do."""
    waiting = [] if isinstance(scene.waiting, Gap) else [pod for pod in scene.waiting if _REFUSED in pod.refusal]
    pods = {asked: pod for pod in reversed(waiting) if (asked := _asked(pod, scene))}
    nodes = [
        (node, gpus, [state.free_memory_mib for state in gpus])
        for pool in (scene.pools if pods else ())
        for node, gpus in zip(pool.nodes, pool.by_node, strict=True)
    ]
    for asked in sorted(pods)[:_MOST_TRIED]:
        short = [each for each in nodes if max(each[2], default=0) < asked <= sum(each[2])]
        short = sorted(short, key=lambda each: -sum(each[2]))[:_MOST_TRIED]
        names = {node.name for node, _, _ in short}
        held = [holding for holding in scene.held if holding.holding.node in names]
        for node, gpus, _ in short:
            own = tuple(holding for holding in held if holding.holding.node == node.name)
            left = _packed(gpus, [share for holding in own for share in holding.shares.values()])
            if left >= asked:
                yield _Split(pods[asked], asked, node, gpus, own, left)


def _asked(pod: Pod, scene: TuneScene) -> int:
    request = pod_request(pod, scene.config, scene.version or NEWEST_READ)
    container = request.containers[0] if len(request.containers) == 1 else None
    return container.memory_mib if container and container.count == 1 and container.word == FIRST.names.word else 0


def _packed(gpus: Sequence[CardState], shares: Sequence[Share]) -> int:
    """The most free on one GPU with the shares packed, the largest first; 0 if they do not fit so."""
    room = [[state.card.memory_mib, state.card.cores, state.card.slots] for state in gpus]
    for share in sorted(shares, key=lambda share: -share.memory_mib):
        needs = (share.memory_mib, share.cores, share.slots)
        place = next((gpu for gpu in room if all(has >= need for has, need in zip(gpu, needs, strict=True))), None)
        if place is None:
            return 0
        place[:] = [has - need for has, need in zip(place, needs, strict=True)]
    return max(memory for memory, _, _ in room)
