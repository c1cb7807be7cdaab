"""`gpus`: what is allocated of every GPU, what is left, and what no pod can get. Totals equal HAMi's own metrics."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from sys import intern
from typing import Literal, NamedTuple

import click
from msgspec import structs

from bot.errors import SourceError, UsageError
from bot.hami.nodes.node_state import read_registrations
from bot.hami.nodes.registration import Registration
from bot.hami.vendors import BESIDE
from bot.report import Gap, NameList, Report, Sheet, Subject, Table, Uuid, gap
from bot.rows import FREE, UNKNOWN, UNREGISTERED, GpuRow, TypeRow
from bot.texts import Text, in_english
from playbooks.gather.dra import gather_slices
from playbooks.gather.scheduler_process import gather_memory, with_ghosts
from playbooks.gather.scheduling import gather_capacity, gather_install, times_shown
from playbooks.gpus.idle import EXAMPLE as IDLE_EXAMPLE
from playbooks.gpus.idle import IdleScene, gather_idle, idle_findings, idle_tables, read_for
from playbooks.playbook import ALL, Playbook, Snapshot, Sources, read_node
from playbooks.rule import run
from playbooks.rules.capacity.gpu_totals import GPUS, NOTHING
from playbooks.rules.common.findings import capacity_gaps
from playbooks.rules.installation.surroundings import answer_without_hami
from playbooks.rules.waiting.stale_scheduler import differing, ledger_table
from playbooks.scenes.cluster import ClusterScene
from playbooks.scenes.gpus import CardSeen, GpusScene, largest

CARDS = Sheet(
    "cards",
    GpuRow,
    names="memory_counted=HAMi_counts",
    beside=("noun", "divided"),
    brief="node card=GPU state memory_free=free type memory_used=used holders slots cores_used",
    together=4,
)
TYPES = Sheet(
    "largest free slice by type",
    TypeRow,
    brief="type largest_slice node free=with_room cards=GPUs"
    " memory_stranded=stranded memory_used=used memory_total=memory",
)

_MOST_ROWS = 12
"""The most GPUs that an overview shows."""


class Request(NamedTuple):
    """Which GPUs: all, those of one node, or those whose type holds a text in any case (as HAMi matches types).

    With `idle_s` it is about pods that launched no kernel on their GPUs for so many seconds. `all`: everything instead
    of an overview, so also pods that work.
    """

    node: str
    type: str
    all: bool
    idle_s: float | None = None


def request(
    node: str = "",
    type: str = "",  # noqa: A002  # the option's name
    all: bool = False,  # noqa: A002, FBT001, FBT002  # the same
    idle: bool = False,  # noqa: FBT001, FBT002  # the same
    words: Sequence[str] = (),
) -> Request:
    """Reads the typed question, about GPUs or about who holds them without use. Raises UsageError."""
    named = [*words[:1]] if words and words[0] != "for" else []
    since = words[len(named) :]
    node = read_node(node or "".join(named))
    if idle and type:
        raise UsageError(Text("error-gpus.idle-and-type"), example="gpus --idle")
    if since and not idle:
        said = repr(" ".join(since))
        raise UsageError(Text("error-gpus.gpus-does-not-understand", words=said), example=IDLE_EXAMPLE)
    return Request(node, type.strip(), all, read_for(since) if idle else None)


async def gather(wanted: Request, sources: Sources) -> Snapshot[Request, GpusScene | IdleScene]:
    """Reads the install and the nodes' GPUs, or the idle holders. Raises SourceError if the nodes cannot be read."""
    cluster = sources.cluster
    if wanted.idle_s is not None:
        return Snapshot(wanted, cluster.name, cluster.now(), await gather_idle(wanted.node, wanted.idle_s, sources))
    install = await gather_install(sources)
    capacity, process, slices = await asyncio.gather(
        gather_capacity(cluster, install.install, ""),
        gather_memory(sources, install.install),
        gather_slices(cluster, wanted.node),
    )
    if isinstance(capacity.nodes, Gap):
        raise SourceError(capacity.nodes.text, hint=capacity.nodes.advice)
    as_of = cluster.as_of(times_shown(cluster, capacity.nodes, install.install))
    process = await with_ghosts(sources, process, capacity.pods)
    # A card is no less free for a namespace's quota, so that none was read is no gap in this answer.
    world = ClusterScene(install, capacity._replace(quotas=[]), as_of, process=process, slices=slices)
    scene = GpusScene(world, wanted.node, wanted.type, tuple(cluster.undecodable))
    return Snapshot(wanted, cluster.name, cluster.now(), scene)


def diagnose(snapshot: Snapshot[Request, GpusScene | IdleScene]) -> Report:
    """The report: totals and the largest free share, then what is stranded or not registered; or the idle holders."""
    scene = snapshot.scene
    seen = scene.seen if isinstance(scene, IdleScene) else scene.cluster.seen
    if (without := answer_without_hami("gpus", snapshot, seen)) is not None:
        return without
    about = Subject("Node", "", scene.node) if scene.node else Subject("GPUs", "", snapshot.request.type)
    if isinstance(scene, IdleScene):
        gaps = (*scene.seen.gaps, *scene.usage.gaps)
        return snapshot.report("gpus", about, idle_findings(scene), tables=idle_tables(scene), gaps=gaps)
    return snapshot.report(
        "gpus",
        about,
        run(GPUS, scene).findings or run(NOTHING, scene).findings,
        tables=_tables(scene) if scene.cards else (),
        gaps=_gaps(scene),
        noun=scene.cluster.config.noun_for(card.card.type for card in scene.cards),
    )


def _gaps(scene: GpusScene) -> list[Gap]:
    gaps = capacity_gaps(scene.cluster.seen, scene.cluster.capacity, scene.undecodable)
    unknown = sorted({card.unknown for card in scene.cards if card.unknown}, key=in_english)
    gaps += [gap("fit", why, Text("gap.fit-hint")) for why in unknown]
    # The cards of vendors whose usage is not counted: the device config does not name them.
    found = Counter[str]()
    for name in scene.names:
        for registration in read_registrations(scene.cluster.facts.nodes[name], BESIDE):
            if isinstance(registration, Registration) and registration.word not in scene.cluster.config.by_word:
                found[registration.word] += len(registration.cards)
        gaps += [
            gap("cards", Text("gpus.vendor", vendor=word, count=count), Text("gap.fit-hint"))
            for word, count in sorted(found.items())
        ]
    return gaps + ([scene.slices] if isinstance(scene.slices, Gap) else [])


def _tables(scene: GpusScene) -> tuple[Table, ...]:
    """The first is what is shown where there is little room: the cards of a node or a type, else the totals."""
    process, ledger = scene.cluster.process, scene.cluster.views[-1].ledger
    counted = differing(process, ledger)
    types = _types(scene.registered)
    rows = [_card_row(card, counted.get((card.node, card.card.uuid))) for card in scene.cards]
    shown = sorted(rows, key=lambda row: row.state != FREE) if scene.type else filter(_is_notable, rows)
    notable = sorted(rows, key=lambda row: not row.holders) if scene.node else _alike(shown)
    cards = [(row, row.card) for row in notable[:_MOST_ROWS]]
    brief = [row if isinstance(card, Text) else structs.replace(row, card=Uuid(card)) for row, card in cards]
    tables = TYPES.table(types, brief=types), CARDS.table(rows, brief=brief)
    return (*(tables[::-1] if scene.node or scene.type else tables), *ledger_table(process, ledger, scene.names))


def _is_notable(row: GpuRow) -> bool:
    """Whether it takes no pod, although something is left of it."""
    left = row.memory_free != 0 if row.divided else row.given[0] < row.given[1]
    return row.state != FREE and left


def _alike(rows: Iterable[GpuRow]) -> list[GpuRow]:
    groups: dict[tuple[str, str, str], list[GpuRow]] = {}
    for row in rows:
        groups.setdefault((row.node, row.type, row.state), []).append(row)
    return [_together(some) if len(some) > 1 else some[0] for some in groups.values()]


def _together(rows: Sequence[GpuRow]) -> GpuRow:
    return structs.replace(
        rows[0],
        card=Text("gpus.count", count=len(rows)).about(rows[0].noun),
        memory_used=_sum(row.memory_used for row in rows),
        memory_free=_sum(row.memory_free for row in rows),
        holders=NameList(chain.from_iterable(row.holders for row in rows)),
        slots="",
        cores_used=_sum(row.cores_used for row in rows),
    )


def _sum(numbers: Iterable[int | Literal[""] | None]) -> int | Literal[""] | None:
    known = [number for number in numbers if number != ""]
    return None if None in known else sum(filter(None, known)) if known else ""


def _card_row(card: CardSeen, differs: tuple[int, int] | None) -> GpuRow:
    slots, memory, cores = card.used or (None, None, None)
    return GpuRow(
        node=card.node,
        card=card.card.uuid,
        type=card.card.type,
        state=card.state,
        memory_used=memory,
        memory_free=card.free_mib if card.divided and (card.used is None or card.state != UNREGISTERED) else "",
        memory_total=card.card.memory_mib,
        holders=NameList([name if bound else f"{name} (reserved)" for name, bound in card.holders]),
        slots=intern(f"{'?' if slots is None else slots}/{card.card.slots}"),
        cores_used=cores,
        cores_total=card.cores,
        memory_counted=differs[0] if differs else "",
        noun=card.noun,
        divided=card.divided,
    )


def _types(cards: Sequence[CardSeen]) -> list[TypeRow]:
    by_type: dict[str, list[CardSeen]] = {}
    for card in cards:
        by_type.setdefault(card.card.type, []).append(card)
    rows = (_type_row(kind, some) for kind, some in by_type.items())
    return sorted(rows, key=lambda row: (-row.memory_total, row.type))


def _type_row(kind: str, cards: Sequence[CardSeen]) -> TypeRow:
    known = all(card.used is not None for card in cards)
    most = largest(card for card in cards if card.state == FREE)
    nobody = None if any(card.state == UNKNOWN for card in cards) else 0
    return TypeRow(
        type=kind,
        largest_slice=most.slice_mib if most else nobody,
        node=most.node if most else "",
        free=sum(1 for card in cards if card.state == FREE) if known else None,
        cards=len(cards),
        memory_total=sum(card.card.memory_mib for card in cards),
        memory_used=sum(card.used.memory_mib for card in cards if card.used) if known else None,
        memory_stranded=sum(card.stranded_mib for card in cards) if known else None,
    )


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
        click.Argument(["words"], nargs=-1, metavar="[NODE] [for 2h]"),
        ALL,
    ),
    request=request,
    gather=gather,
    diagnose=diagnose,
)
