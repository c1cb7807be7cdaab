"""The tables of `nodes`: a row for each node, and one node with everything about it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Literal, NamedTuple

import msgspec

from bot.finding_codes import Code
from bot.hami.nodes.cards import Card
from bot.hami.nodes.node_lock import LockState
from bot.hami.nodes.node_state import cordoned_uuids, core_factor, memory_factor
from bot.hami.nodes.registration import JSON_SINCE, Unreadable, Unregistered, judge_by_guides, parse_handshake
from bot.hami.vendors import FIRST, LOCK_KEYS
from bot.kube.models import Pod
from bot.kube.node_conditions import is_about_gpus, is_cordoned, not_ready, other_taints, pressures
from bot.report import Sheet, Table
from playbooks.gather.node_side import Plugin
from playbooks.rules.common import prose
from playbooks.rules.nodes.faults import locks_of, other_handshake
from playbooks.scenes.nodes import NodeScene, NodesScene


class NodeRow(msgspec.Struct, frozen=True):
    """A row for a node, its problems the worst first. A value that does not apply, or is not known, is empty."""

    node: str
    problems: tuple[str, ...]
    kubernetes: tuple[str, ...]
    cards: int | Literal[""]
    type: str
    memory: str
    healthy: str
    cordoned: int | Literal[""]
    mode: str
    numa: str
    slots: str
    split: str
    scaling: str
    format: str
    handshake: str
    lock: str
    plugin: str
    plugin_pod: str


class AboutRow(NamedTuple):
    """A row for one fact about one node."""

    what: str
    value: str


class NodeCardRow(msgspec.Struct, frozen=True):
    """A row for a GPU that one node has registered. Memory in MiB."""

    card: str
    number: int
    type: str
    memory: int
    cores: int
    slots: int
    healthy: bool
    cordoned: bool
    mode: str
    numa: int


WHOLE = Sheet("nodes", NodeRow)
PROBLEMS = Sheet(
    "nodes",
    NodeRow,
    fields=(
        *("node", "problems", "kubernetes", "lock", "handshake", "plugin", "healthy"),
        *("cordoned", "slots", "cards", "format"),
    ),
    brief="node problems kubernetes handshake plugin healthy cordoned lock slots",
    listed=True,
)
"""The columns of `nodes` that tell problems, the most telling first: a message shows few."""
ABOUT = Sheet("node", AboutRow)
CARDS = Sheet("cards", NodeCardRow, names="number=index")

_HANDSHAKE = "hami.io/node-handshake"
_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


class NodeRows:
    """Makes the rows of one scene's nodes, with what is wrong with each."""

    def __init__(self, scene: NodesScene, problems: Mapping[str, Sequence[Code]]) -> None:
        self._scene = scene
        self._problems = problems

    def of_nodes(self, nodes: Iterable[NodeScene]) -> list[NodeRow]:
        """One row for each of these nodes, those with problems first."""
        place = {name: at for at, name in enumerate(self._problems)}
        ordered = sorted(nodes, key=lambda node: (place.get(node.name, len(place)), node.name))
        return [self._row(node) for node in ordered]

    def of_node(self, seen: NodeScene) -> tuple[Table, ...]:
        """The tables about one node: its row as a column, with its annotations, and its GPUs."""
        node = seen.node
        rows = list(zip(WHOLE.columns, WHOLE.cells(self._row(seen)), strict=True))
        keys = sorted(key for key in node.metadata.annotations or () if key.startswith(_HANDSHAKE))
        rows += [(key, node.metadata.annotation(key) or "") for key in (*keys, *LOCK_KEYS)]
        conditions = (each for each in node.status.conditions or () if is_about_gpus(each.type))
        # In their own words: only those of `bot.kube.node_conditions` are judged.
        words = ((each, ": ".join(filter(None, (each.reason, each.message)))) for each in conditions)
        rows += [(each.type, ", ".join(filter(None, (each.status, said)))) for each, said in words]
        about = ABOUT.table(AboutRow(what, value) for what, value in rows if value)
        cordoned = cordoned_uuids(node)
        cards = [
            NodeCardRow(
                card=card.uuid,
                number=card.index,
                type=card.type,
                memory=card.memory_mib,
                cores=card.cores,
                slots=card.slots,
                healthy=card.health,
                cordoned=card.uuid in cordoned,
                mode=card.mode,
                numa=card.numa,
            )
            for card in sorted(seen.cards, key=lambda card: (card.index, card.uuid))
        ]
        return (about, CARDS.table(cards)) if cards else (about,)

    def _row(self, node: NodeScene) -> NodeRow:
        cards = node.cards
        cordoned = cordoned_uuids(node.node) & {card.uuid for card in cards}
        return NodeRow(
            node=node.name,
            problems=tuple(dict.fromkeys(self._problems.get(node.name, ()))),
            kubernetes=_kubernetes(node),
            cards=len(cards) if node.concerns else "",
            type=_types(cards),
            memory=", ".join(map(prose.mib, sorted({card.memory_mib for card in cards}))),
            healthy=f"{sum(card.health for card in cards)}/{len(cards)}" if cards else "",
            cordoned=len(cordoned) or "",
            mode=_each(card.mode for card in cards),
            numa=_each(card.numa for card in cards),
            slots=_slots(node),
            split=_each(card.slots for card in cards),
            scaling=self._factors(node),
            format=self._format(node),
            handshake=self._handshake(node),
            lock=", ".join(self._lock_state(state) for _, state in locks_of(node)),
            plugin=_plugin(node),
            plugin_pod=f"{pod.namespace}/{pod.name}" if (pod := node.plugin.pod) else "",
        )

    def _factors(self, node: NodeScene) -> str:
        cards = node.own.cards if node.own else ()
        memory = {memory_factor(card, node.node, self._scene.settings) for card in cards if card.mode != "mig"} - {None}
        cores = {core_factor(card) for card in cards}
        parts = [f"memory x{_each(f'{amount:g}' for amount in memory if amount)}" if memory else ""]
        parts += [f"cores x{_each(f'{amount:g}' for amount in cores)}" if cores else ""]
        return ", ".join(filter(None, parts))

    def _format(self, node: NodeScene) -> str:
        text = _each(found.encoding for found in node.registrations)
        state = node.state
        if isinstance(state, Unregistered) and state.why == "other-format" and self._scene.version:
            return f"{text}, HAMi {self._scene.version} reads {'json' if self._scene.version >= JSON_SINCE else 'text'}"
        unreadable = state is not None and isinstance(state, Unregistered) and state.why == "unreadable"
        return "unreadable" if unreadable or any(isinstance(other, Unreadable) for other in node.others) else text

    def _handshake(self, node: NodeScene) -> str:
        """What this version makes of it; 2.8 asks kubelet's count instead. Of several vendors each one's."""
        version, parts = self._scene.version, list[str]()
        text = node.node.metadata.annotation(FIRST.names.handshake)
        if node.expects_gpus and text is not None:
            judged = "?"
            if version is not None and (2, 8) <= version < (2, 9):
                judged = "not used"
            elif version is not None:
                judged = judge_by_guides(parse_handshake(text), version, node.allocatable, self._scene.judged_at)
            stamp, is_lost = self._stamp(text), isinstance(node.state, Unregistered)
            parts.append(stamp if is_lost and judged == "alive" else f"{judged} ({stamp})")
        elif node.expects_gpus:
            parts.append("none")
        for found in node.registrations:
            if found.vendor is not FIRST.names and (judged := other_handshake(node, found)):
                parts.append(f"{found.word} {judged}")
        return ", ".join(parts)

    def _stamp(self, text: str) -> str:
        handshake = parse_handshake(text)
        if handshake.at is None:
            return handshake.state
        zone = timedelta() if handshake.zoned else self._scene.zone
        return f"{handshake.state} {_ago(self._scene.now + zone - handshake.at)}"

    def _lock_state(self, state: LockState) -> str:
        if state.lock is None:
            return state.phase
        named, owners = (state.lock.namespace, state.lock.pod), self._scene.owners
        owner = owners.get(named)
        gone = named in owners and owner is None
        phase = owner.status.phase if isinstance(owner, Pod) else "gone" if gone else "?"
        holder = f"{state.lock.namespace}/{state.lock.pod} ({phase})" if state.lock.pod else "no pod named"
        return f"{state.phase} by {holder}, {_ago(state.age)}"


def _types(cards: Sequence[Card]) -> str:
    types = Counter(card.type for card in cards)
    if len(types) < 2:
        return ", ".join(types)
    return ", ".join(f"{count} x {kind}" for kind, count in sorted(types.items()))


def _kubernetes(seen: NodeScene) -> tuple[str, ...]:
    node = seen.node
    parts = ["not ready" if not_ready(node) else "ready" if node.status.conditions else "?"]
    parts += ["cordoned"] if is_cordoned(node) else []
    return (*parts, *pressures(node), *other_taints(node))


def _slots(node: NodeScene) -> str:
    if not node.expects_gpus:
        return ""
    registered = node.slots[0]
    return str(registered) if registered == node.allocatable else f"{registered}, kubelet offers {node.allocatable}"


def _plugin(node: NodeScene) -> str:
    """HAMi's own device plugin, and other vendors' as far as they are known by a label."""
    own = [_of_plugin(node.plugin)] if node.expects_gpus else []
    return ", ".join([*own, *(f"{word} {_of_plugin(plugin)}" for word, plugin in node.plugins_beside.items())])


def _of_plugin(plugin: Plugin) -> str:
    if plugin.health == "unseen":
        return "?"
    parts = [plugin.health.replace("-", " "), plugin.why]
    parts += [f"{plugin.restarts} restarts"] if plugin.restarts else []
    return ", ".join(filter(None, parts))


def _each(values: Iterable[object]) -> str:
    different = set(values)
    numbers = sorted(value for value in different if isinstance(value, int))
    return ", ".join(map(str, [*numbers, *sorted(str(value) for value in different if not isinstance(value, int))]))


def _ago(age: timedelta) -> str:
    seconds = max(0, int(age.total_seconds()))
    size, unit = next((entry for entry in _UNITS if seconds >= entry[0]), _UNITS[-1])
    return f"{seconds // size} {unit}"
