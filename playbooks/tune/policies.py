"""The scheduling policies: binpack on GPUs where spreading leaves no GPU with enough free memory for a pod that waits.

HAMi's `--gpu-scheduler-policy` decides among the GPUs of a node, `--node-scheduler-policy` among nodes (pkg/scheduler).
Otherwise no measurement decides between them, so the guide's templates are named.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bot.hami.fit.allocated_totals import Share
from bot.hami.fit.version_differences import NEWEST_READ
from bot.hami.metrics.gpu_usage import MeasuredHolding
from bot.hami.nodes.cards import CardState
from bot.hami.pods.request_parsing import pod_request
from bot.hami.vendors import FIRST
from bot.kube.models import Node, Pod
from bot.report import Evidence, Gap, step
from bot.texts import Prose, Text
from playbooks import quotes
from playbooks.rules.common.prose import command, mib
from playbooks.tune.deployed import flag
from playbooks.tune.facts import Facts
from playbooks.tune.proof import of_request
from playbooks.tune.rows import Advice, AdviceRow, Direction

_NODES, _GPUS = "node-scheduler-policy", "gpu-scheduler-policy"
_DEFAULTS = {_NODES: "binpack", _GPUS: "spread"}
_PACKED, _SPREAD = "binpack", "spread"
_REFUSED = "CardInsufficientMemory"
_MOST_TRIED = 10


class _Room(NamedTuple):
    """What is free on a node's GPUs, together and at most on one. In MiB."""

    node: Node
    gpus: tuple[CardState, ...]
    free: int
    most: int


class _Split(NamedTuple):
    """A node whose free memory is enough for a pod that waits, but on no single GPU. In MiB."""

    pod: Pod
    asked: int
    node: Node
    gpus: tuple[CardState, ...]
    held: tuple[MeasuredHolding, ...]
    left: int
    """The most that is free on one GPU once the shares are packed."""


def advise_policies(facts: Facts) -> list[Advice]:
    """One row."""
    if not facts.install.install.seen:
        return [_row("cannot-tell", "", "", Text("tune.scheduler-unknown"))]
    now = {name: flag(facts, name).value or default for name, default in _DEFAULTS.items()}
    current = "/".join(now.values())
    found = next(_split(facts), None) if now[_GPUS] == _SPREAD else None
    if found is None:
        return [_row("keep", current, current, Text("tune.policies"))]
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
        step(Text("tune.set", value=value, risk=Text("tune.policies-risk")), ""),
        step(Text("tune.policies-check"), command("gpus", "--node", found.node.name)),
    )
    row = AdviceRow("scheduling-policy", "raise", "", current, wanted, why)
    claim = Text("tune.rate-claim", flag=f"--{_GPUS}", current=now[_GPUS], wanted=_PACKED, why=why)
    return [Advice(row, claim, confidence="suspected", evidence=_proofs(found, facts), actions=actions)]


def _row(direction: Direction, current: str, wanted: str, why: Prose) -> Advice:
    return Advice(AdviceRow("scheduling-policy", direction, "", current, wanted, why), why)


def _split(facts: Facts) -> Iterator[_Split]:
    """The smallest request first, and of each the nodes with the most free memory: of a large cluster a few will do."""
    waiting = [] if isinstance(facts.waiting, Gap) else [pod for pod in facts.waiting if _REFUSED in _told(pod)]
    pods = {asked: pod for pod in reversed(waiting) if (asked := _asked(pod, facts))}
    nodes = [each for pool in facts.pools for each in map(_room, pool.nodes, pool.by_node)] if pods else []
    for asked in sorted(pods)[:_MOST_TRIED]:
        short = sorted((node for node in nodes if node.most < asked <= node.free), key=lambda node: -node.free)[
            :_MOST_TRIED
        ]
        names = {room.node.name for room in short}
        held = [holding for holding in facts.held if holding.holding.node in names]
        for node, gpus, _, _ in short:
            own = tuple(holding for holding in held if holding.holding.node == node.name)
            left = _packed(gpus, [share for holding in own for share in holding.shares.values()])
            if left >= asked:
                yield _Split(pods[asked], asked, node, gpus, own, left)


def _room(node: Node, gpus: tuple[CardState, ...]) -> _Room:
    free = [state.card.memory_mib - state.memory_mib for state in gpus]
    return _Room(node, gpus, sum(free), max(free, default=0))


def _told(pod: Pod) -> str:
    condition = pod.condition("PodScheduled")
    return condition.message if condition is not None and condition.status == "False" else ""


def _asked(pod: Pod, facts: Facts) -> int:
    """The MiB that the pod asks for on its only GPU; 0 where it asks for something else."""
    version = facts.install.install.version
    request = pod_request(pod, facts.install.config, version.version if version else NEWEST_READ)
    container = request.containers[0] if len(request.containers) == 1 else None
    return container.memory_mib if container and container.count == 1 and container.word == FIRST.names.word else 0


def _packed(gpus: Sequence[CardState], shares: Sequence[Share]) -> int:
    """The most that is free on one GPU with the shares put on as few as possible: the largest first, each on the first
    GPU that has room. 0 where they do not fit so.
    """
    room = [[state.card.memory_mib, state.card.cores, state.card.slots] for state in gpus]
    for share in sorted(shares, key=lambda share: -share.memory_mib):
        needs = (share.memory_mib, share.cores, share.slots)
        place = next((gpu for gpu in room if all(has >= need for has, need in zip(gpu, needs, strict=True))), None)
        if place is None:
            return 0
        place[:] = [has - need for has, need in zip(place, needs, strict=True)]
    return max(memory for memory, _, _ in room)


def _proofs(found: _Split, facts: Facts) -> tuple[Evidence, ...]:
    condition = found.pod.condition("PodScheduled")
    refused = (quotes.of_condition(found.pod, condition, condition.last_transition_time),) if condition else ()
    gpus = tuple(quotes.of_card(found.node, state.card.uuid, whole=True) for state in found.gpus)
    return (
        *refused,
        *flag(facts, _GPUS).proof,
        *gpus,
        *(proof for holding in found.held for proof in of_request(holding, facts)),
    )
