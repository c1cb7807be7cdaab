"""What is allocated of every GPU, what is left, and what nobody can get. The totals are HAMi's own metrics' totals."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import reduce
from typing import NamedTuple

import click
import msgspec

from bot.errors import SourceError, UsageError
from bot.gpu_rows import FREE, UNKNOWN, UNREGISTERED, GpuRow, TypeRow
from bot.hami.nodes.node_state import read_registrations, wants_own_plugin
from bot.hami.nodes.registration import Registration, Unregistered
from bot.hami.vendors import BESIDE
from bot.kube.models import ResourceSlice
from bot.kube.times import format_time
from bot.report import (
    Confidence,
    Finding,
    Gap,
    Names,
    Report,
    Severity,
    Sheet,
    Subject,
    Table,
    Uuid,
    gap,
    new_report,
    step,
)
from bot.texts import Text
from playbooks import quotes
from playbooks.gather.dra import gather_slices
from playbooks.gather.scheduler_process import SchedulerProcess, gather_memory, with_ghosts
from playbooks.gather.scheduling import Capacity, InstallSeen, gather_capacity, gather_install, times_shown
from playbooks.gpus import evidence
from playbooks.gpus.idle import EXAMPLE as IDLE_EXAMPLE
from playbooks.gpus.idle import IdleRequest, IdleSnapshot, diagnose_idle, gather_idle, read_for
from playbooks.gpus.inventory import LITTLE_MEMORY, NO_MEMORY, CardSeen, cards_of
from playbooks.playbook import ALL, Playbook, Sources
from playbooks.rules.common import prose
from playbooks.rules.common.findings import finding
from playbooks.rules.common.gaps import capacity_gaps, confidence_in
from playbooks.rules.dra.devices import given_by_claims, handed_out_twice, served
from playbooks.rules.installation.not_installed import answer_without_hami
from playbooks.rules.installation.scheduler_totals import differing, ledger_table
from playbooks.rules.nodes.node_not_found import near_names, see_all_nodes
from playbooks.rules.waiting.stale_scheduler import ghosts_told
from playbooks.scene import ClusterScene

CARDS = Sheet(
    "cards",
    GpuRow,
    names={"memory_counted": "HAMi counts"},
    fields=GpuRow._fields[:-2],
    brief={
        "node": "node",
        "card": "GPU",
        "type": "type",
        "state": "state",
        "memory_free": "free",
        "memory_used": "used",
        "holders": "holders",
        "slots": "slots",
        "cores_used": "cores used",
    },
)
TYPES = Sheet(
    "largest free slice by type",
    TypeRow,
    brief={
        "type": "type",
        "largest_slice": "largest slice",
        "node": "node",
        "free": "with room",
        "cards": "GPUs",
        "memory_stranded": "stranded",
        "memory_used": "used",
        "memory_total": "memory",
    },
)

_NOTABLE = 0.2
"""From this part of a type's memory on, what nobody can get is worth a warning."""
_MAX_NEAR = 3
_MOST_ROWS = 12
"""Of GPUs in an overview."""


class Request(NamedTuple):
    """Which cards: all, those of one node, or those whose type holds a text in any case (as HAMi matches types).

    `all`: everything instead of an overview.
    """

    node: str
    type: str
    all: bool


class Snapshot(NamedTuple):
    """The cards, and the pods that hold them."""

    request: Request
    cluster: str
    taken_at: datetime
    as_of: datetime
    install: InstallSeen
    capacity: Capacity
    process: SchedulerProcess
    slices: Sequence[ResourceSlice] | Gap
    undecodable: tuple[str, ...]

    @property
    def confidence(self) -> Confidence:
        return confidence_in(self.install, self.capacity, self.undecodable)


def request(
    node: str = "",
    type: str = "",  # noqa: A002  # the option's name
    all: bool = False,  # noqa: A002, FBT001, FBT002  # the same
    idle: bool = False,  # noqa: FBT001, FBT002  # the same
    since: Sequence[str] = (),
) -> Request | IdleRequest:
    """The cards in the words that were typed, or who holds them without use. Raises UsageError."""
    node = node.strip().removeprefix("node/")
    if idle and type:
        raise UsageError("--idle and --type do not go together", example="gpus --idle").worded("idle-type")
    if since and not idle:
        words = " ".join(since)
        raise UsageError(f"gpus does not understand {words!r}", example=IDLE_EXAMPLE).worded("idle-words", words=words)
    return IdleRequest(read_for(since), node, all) if idle else Request(node, type.strip(), all)


async def gather(wanted: Request | IdleRequest, sources: Sources) -> Snapshot | IdleSnapshot:
    """Read the install and the cards. Raises SourceError when the nodes cannot be read: there are no cards then."""
    return await (gather_idle(wanted, sources) if isinstance(wanted, IdleRequest) else _gather(wanted, sources))


async def _gather(wanted: Request, sources: Sources) -> Snapshot:
    cluster = sources.cluster
    install = await gather_install(sources)
    capacity, process, slices = await asyncio.gather(
        gather_capacity(cluster, install.install, ""),
        gather_memory(sources, install.install),
        gather_slices(cluster, wanted.node),
    )
    if isinstance(capacity.nodes, Gap):
        raise SourceError(capacity.nodes.why, hint=capacity.nodes.hint)
    as_of = cluster.as_of(times_shown(cluster, capacity.nodes, install.install))
    process = await with_ghosts(sources, process, capacity.pods)
    # A card is no less free for a namespace's quota, so that none was read is no gap in this answer.
    capacity = capacity._replace(quotas=[])
    undecodable = tuple(cluster.undecodable)
    return Snapshot(wanted, cluster.name, cluster.now(), as_of, install, capacity, process, slices, undecodable)


def diagnose(snapshot: Snapshot | IdleSnapshot) -> Report:
    """Totals and the largest slice first, then what is stranded or not registered; or who holds GPUs without use."""
    if (without := answer_without_hami("gpus", snapshot, snapshot.install)) is not None:
        return without
    if isinstance(snapshot, IdleSnapshot):
        return diagnose_idle(snapshot)
    wanted, install = snapshot.request, snapshot.install
    world = ClusterScene(install, snapshot.capacity, snapshot.as_of, slices=snapshot.slices)
    names = sorted(name for name in world.facts.nodes if wanted.node in ("", name))
    everything = [card for name in names for card in cards_of(world, name)]
    cards = [card for card in everything if wanted.type.casefold() in card.card.type.casefold()]
    registered = [card for card in cards if card.state != UNREGISTERED]
    results = [
        *handed_out_twice(world),
        *ghosts_told(snapshot.process, install.install, names),
        *_capacity(snapshot, world, registered),
        *_stranded(snapshot, world, registered),
        *_unregistered(snapshot, world, names, cards),
        *given_by_claims(world),
    ]
    findings = results or [_not_found(wanted, world, everything)]
    gaps = capacity_gaps(install, snapshot.capacity, snapshot.undecodable)
    gaps += [gap("fit", why, Text("gap.fit-hint")) for why in sorted({card.unknown for card in cards if card.unknown})]
    gaps += _other_vendors(world, names)
    gaps += [snapshot.slices] if isinstance(snapshot.slices, Gap) else []
    return new_report(
        playbook="gpus",
        cluster=snapshot.cluster,
        taken_at=format_time(snapshot.taken_at),
        subject=Subject("Node", "", wanted.node) if wanted.node else Subject("GPUs", "", wanted.type),
        findings=prose.few_actions(findings),
        tables=_tables(snapshot, world, names, cards) if cards else (),
        gaps=gaps,
        noun=world.config.noun_for(card.card.type for card in cards),
    )


# ----------------------------------------------------------------------------------------------------- findings


def _capacity(snapshot: Snapshot, world: ClusterScene, cards: Sequence[CardSeen]) -> list[Finding]:
    if not cards:
        return []
    free = [card for card in cards if card.state == FREE]
    unknown = sum(1 for card in cards if card.state == UNKNOWN)
    shown = _largest(free) or (free or cards)[0]
    proofs = [evidence.registered(world, shown)]
    confidence: Confidence = "suspected" if unknown else snapshot.confidence
    nodes = (snapshot.request.node,) if snapshot.request.node else ()
    if isinstance(snapshot.capacity.pods, Gap):
        memory = prose.mib(sum(card.card.memory_mib for card in cards))
        claim = Text("capacity.unseen", cards=len(cards), memory=memory)
        return [finding("not-enough-evidence", claim, "suspected", nodes, proofs, severity="warning")]
    if not free:
        claim = Text("capacity.full", cards=len(cards), why=_by_state(cards))
        proofs += evidence.holding(world, shown)
        # One node that is full is as it should be; a cluster, or a type, that is full is not.
        return [finding("capacity", claim, confidence, nodes, proofs, severity="info" if nodes else "warning")]
    values = {"free": len(free), "cards": len(cards), "type": shown.card.type, "node": shown.node}
    if shown.divided:
        key = "capacity.judged" if unknown else "capacity.claim"
    else:
        key = "capacity.judged-whole" if unknown else "capacity.claim-whole"
    claim = Text(key, **values, memory=prose.mib(shown.slice_mib or 0), unknown=unknown)
    return [finding("capacity", claim, confidence, nodes, proofs, severity="info")]


def _stranded(snapshot: Snapshot, world: ClusterScene, cards: Sequence[CardSeen]) -> list[Finding]:
    """Memory that is free on cards that take no pod."""
    stranded = sorted((card for card in cards if card.stranded_mib), key=lambda card: (-card.stranded_mib, card.node))
    if not stranded:
        return []
    amount = sum(card.stranded_mib for card in stranded)
    lost, total = Counter[str](), Counter[str]()
    for card in cards:
        lost[card.card.type] += card.stranded_mib
        total[card.card.type] += card.card.memory_mib
    notable = any(mib >= _NOTABLE * total[kind] for kind, mib in lost.items() if mib)
    why = _by_state(card._replace(state=LITTLE_MEMORY if card.state == NO_MEMORY else card.state) for card in stranded)
    claim = Text("stranded-capacity.claim", memory=prose.mib(amount), why=why)
    proofs = [*evidence.obstacle(world, stranded[0]), evidence.registered(world, stranded[0])]
    nodes = sorted({card.node for card in stranded})
    severity: Severity = "warning" if notable else "info"
    result = finding("stranded-capacity", claim, snapshot.confidence, nodes, proofs, severity=severity)
    if snapshot.request.node:
        return [result]
    return [msgspec.structs.replace(result, next_actions=prose.see_cards(stranded[0].node))]


def _unregistered(
    snapshot: Snapshot, world: ClusterScene, names: Sequence[str], cards: Sequence[CardSeen]
) -> list[Finding]:
    """Nodes that should have cards of that type, and whose cards HAMi does not know."""
    view = world.views[-1]
    by_dra = served(snapshot.slices)
    lost = [
        (name, state)
        for name in names
        if name not in by_dra
        and wants_own_plugin(world.facts.nodes[name], world.config)
        and isinstance(state := view.state(name), Unregistered)
    ]
    if snapshot.request.type:
        of_type = {card.node for card in cards if card.state == UNREGISTERED}
        lost = [(name, state) for name, state in lost if name in of_type]
    if not lost:
        return []
    name, state = lost[0]
    claim = Text("gpus.unregistered", count=len(lost), nodes=prose.names([node for node, _ in lost]))
    proofs = [evidence.unregistered(world.facts.nodes[name], state, world.config.gpus.count)]
    nodes = [node for node, _ in lost]
    result = finding("node-unregistered", claim, snapshot.confidence, nodes, proofs, severity="warning")
    look = step(Text("node-unregistered.plugin", node=name), prose.plugin_pods_command(name))
    return [msgspec.structs.replace(result, next_actions=(look,))]


def _not_found(wanted: Request, world: ClusterScene, cards: Sequence[CardSeen]) -> Finding:
    """No such node, no such type, or no card at all."""
    node = world.facts.nodes.get(wanted.node)
    if wanted.node and node is None:
        near = near_names(wanted.node, sorted(world.facts.nodes))
        claim, option = Text("gpus.no-node", node=wanted.node), "--node"
    elif wanted.type and cards:
        near = [kind for kind, _ in Counter(card.card.type for card in cards).most_common(_MAX_NEAR)]
        claim, option = Text("gpus.no-type", type=wanted.type, types=", ".join(near)), "--type"
    else:
        near, option = [], ""
        claim = Text("gpus.no-cards-there", node=wanted.node) if wanted.node else Text("gpus.no-cards")
    proofs = [quotes.of_node(node, node.name, "{.metadata.name}")] if node else []
    actions = tuple(step(Text("not-found.ask", name=name), prose.command("gpus", option, name)) for name in near)
    result = finding("not-found", claim, "confirmed", (), proofs, severity="warning")
    return msgspec.structs.replace(result, next_actions=actions or see_all_nodes())


_STATES = {
    FREE: "gpus.free",
    UNKNOWN: "gpus.unknown",
    NO_MEMORY: "gpus.no-memory",
    LITTLE_MEMORY: "gpus.little-memory",
    "no-cores": "gpus.no-cores",
    "no-slots": "gpus.no-slots",
    "no-mig-placement": "gpus.no-mig-placement",
    "no-allocatable": "gpus.no-allocatable",
    "exclusive": "gpus.exclusive",
    "unhealthy": "gpus.unhealthy",
    "cordoned": "gpus.cordoned",
    "node-cordoned": "gpus.node-cordoned",
    "node-not-ready": "gpus.node-not-ready",
    "other-type": "gpus.other-type",
}


def _by_state(cards: Iterable[CardSeen]) -> Text:
    """`8 cordoned, 4 unhealthy`, the most first."""
    counts = sorted(Counter(card.state for card in cards).items(), key=lambda item: (-item[1], item[0]))
    parts = [Text(_STATES[state], count=count) for state, count in counts]
    return reduce(lambda some, more: Text("gpus.list", some=some, more=more), parts)


def _other_vendors(world: ClusterScene, names: Iterable[str]) -> list[Gap]:
    """The cards of vendors whose usage is not counted: the device config does not name them."""
    found = Counter[str]()
    for name in names:
        for registration in read_registrations(world.facts.nodes[name], BESIDE):
            if isinstance(registration, Registration) and registration.word not in world.config.by_word:
                found[registration.word] += len(registration.cards)
    return [
        gap("cards", Text("gpus.vendor", vendor=word, count=count), Text("gap.fit-hint"))
        for word, count in sorted(found.items())
    ]


# ------------------------------------------------------------------------------------------------------- tables


def _tables(
    snapshot: Snapshot, world: ClusterScene, names: Sequence[str], cards: Sequence[CardSeen]
) -> tuple[Table, ...]:
    """The first is what is shown where there is little room: of one node its cards, else the totals."""
    wanted, ledger = snapshot.request, world.views[-1].ledger
    counted = differing(snapshot.process, ledger)
    types = _types([card for card in cards if card.state != UNREGISTERED])
    rows = [_card_row(card, counted.get((card.node, card.card.uuid))) for card in cards]
    if wanted.all:
        tables = TYPES.table(types), CARDS.table(rows)
    else:
        notable = [row for row in rows if wanted.node or _is_notable(row)]
        tables = TYPES.table(types, brief=types), CARDS.table(rows, brief=notable[:_MOST_ROWS])
    counts = ledger_table(snapshot.process, ledger, names, brief=not wanted.all)
    return (*(tables[::-1] if wanted.node else tables), *counts)


def _is_notable(row: GpuRow) -> bool:
    """Whether it takes no pod, although something is left of it."""
    left = row.memory_free != 0 if row.divided else row.given[0] < row.given[1]
    return row.state != FREE and left


def _card_row(card: CardSeen, differs: tuple[int, int] | None) -> GpuRow:
    memory, cores, slots = card.used or (None, None, None)
    return GpuRow(
        node=card.node,
        card=Uuid(card.card.uuid),
        type=card.card.type,
        state=card.state,
        memory_used=memory,
        memory_free=card.free_mib if card.divided and (card.used is None or card.state != UNREGISTERED) else "",
        memory_total=card.card.memory_mib,
        holders=Names(name if bound else f"{name} (reserved)" for name, bound in card.holders),
        slots=f"{'?' if slots is None else slots}/{card.card.slots}",
        cores_used=cores,
        cores_total=card.card.cores,
        memory_counted=differs[0] if differs else "",
        noun=card.noun,
        divided=card.divided,
    )


def _types(cards: Sequence[CardSeen]) -> list[TypeRow]:
    """Per type the totals of what HAMi has registered, and the card with the most room."""
    by_type: dict[str, list[CardSeen]] = {}
    for card in cards:
        by_type.setdefault(card.card.type, []).append(card)
    rows = (_type_row(kind, some) for kind, some in by_type.items())
    return sorted(rows, key=lambda row: (-row.memory_total, row.type))


def _type_row(kind: str, cards: Sequence[CardSeen]) -> TypeRow:
    known = all(card.used is not None for card in cards)
    largest = _largest(card for card in cards if card.state == FREE)
    nobody = None if any(card.state == UNKNOWN for card in cards) else 0
    return TypeRow(
        type=kind,
        largest_slice=largest.slice_mib if largest else nobody,
        node=largest.node if largest else "",
        free=sum(1 for card in cards if card.state == FREE) if known else None,
        cards=len(cards),
        memory_total=sum(card.card.memory_mib for card in cards),
        memory_used=sum(card.used.memory_mib for card in cards if card.used) if known else None,
        memory_stranded=sum(card.stranded_mib for card in cards) if known else None,
    )


def _largest(cards: Iterable[CardSeen]) -> CardSeen | None:
    """The card with the most room, of those whose memory is handed out in parts; of equals the first."""
    return max((card for card in cards if card.divided), key=lambda card: card.slice_mib or 0, default=None)


PLAYBOOK = Playbook(
    verb="gpus",
    summary="How much of each GPU is allocated, and what is the largest free slice?",
    example="gpus --type A100",
    parameters=(
        click.Option(["--node"], default="", metavar="NODE", help="Only the GPUs of this node."),
        click.Option(["--type"], default="", metavar="TYPE", help="Only GPUs whose type contains this, in any case."),
        click.Option(
            ["--idle"], is_flag=True, help="Who has held GPUs without launching a kernel for 6h, or for the time given."
        ),
        click.Argument(["since"], nargs=-1, metavar="[for 2h]"),
        ALL,
    ),
    request=request,
    gather=gather,
    diagnose=diagnose,
)
