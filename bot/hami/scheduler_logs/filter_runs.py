"""Rebuilds a pod's filter runs from the extender's log lines about the pod: run x node x GPU x reason.

Nothing in a line tells one run from another: a run is everything after a start line of its pod. kube-scheduler asks for
one pod at a time, so runs of a pod overlap only where it stopped waiting for an answer; then a node is judged twice in
one run, which `mixed` says. Nodes are scored in parallel and lines about GPUs name no node, so only a GPU's uuid tells
its node.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Literal, NamedTuple, cast

import msgspec

from bot.hami.scheduler_logs.log_lines import FILTER_STARTS, NODE_UNFIT, LogLine, pod_key_of, read_line
from bot.hami.scheduler_logs.scheduling_events import (
    BY_TEXT,
    LOG_TEXTS,
    CodeEvent,
    chosen_node,
    event_reason,
    nodes_judged,
    parse_code_event,
    read_reason,
    says_none_fit,
    unfit_count,
)

INIT_UNFIT = "Init container does not fit"
NODE_FITS = ("NodeFitPod", "calcScore:node fit pod")
CHOSEN = ("Scheduling pod to node",)
BIND_FAILED = ("Failed to lock node", "Failed to bind pod", "Failed to patch pod annotations")
BOUND = ("Successfully bound pod to node",)
NO_REQUEST = ("Pod does not request any resources",)
REQUESTS = "Resource requirements collected"
CARD_TRIED = "scoring pod"
ALLOCATING = "Allocating device for container request"
EVENT = "Event occurred"

CARD_CODES = frozenset(reason.text for reason in BY_TEXT.values() if reason.nature not in ("node", "summary")) | {
    "AllocatedCardsInsufficientRequest"
}
"""The log messages that refuse a GPU: each is a reason code."""

# Bounded, as in bot.hami.scheduler_logs.log_lines, so that no line is searched from each of its words.
_FIGURE = re.compile(r"(?:^| )([A-Za-z][\w ()]{0,59}?)=(-?\d+(?:\.\d+)?)(?= |$)")
_CARD_IN_TEXT = re.compile(r'current device info is:=\{"ID":"([^"]+)"')
_REQUESTS = re.compile(r" requests=(\[.*\])$", re.DOTALL)


class CardRefusal(NamedTuple):
    """One log line that refuses a GPU. `card` is empty where this version does not name it; `figures` as logged."""

    card: str
    code: str
    figures: str
    line: LogLine


class NodeVerdict(NamedTuple):
    """HAMi's verdict on one node in the log; `reason` is empty where the pod fits, and up to HAMi 2.5."""

    node: str
    fits: bool
    reason: str
    line: LogLine

    @property
    def codes(self) -> tuple[str, ...]:
        """The distinct codes of the reason; the whole text where it has no known code."""
        found = tuple(dict.fromkeys(card.code for card in read_reason(self.reason)))
        return found or ((self.reason,) if self.reason else ())


class Cycle(msgspec.Struct, frozen=True):
    """One filter run of a pod, and the bind that followed, as the log tells. `start` is None where the log does not
    reach back.

    `requests`: for each container, whether it asks for devices. `chosen` is the node taken, `choice` the line that says
    so, `outcome` the last line about the bind (or that nothing was asked for). `none_fit` is HAMi's line that no node
    fits, `unfit` its number of nodes. `mixed`: a node was judged twice.
    """

    start: LogLine | None
    lines: tuple[LogLine, ...]
    nodes: tuple[NodeVerdict, ...] = ()
    cards: tuple[CardRefusal, ...] = ()
    code_events: tuple[tuple[CodeEvent, LogLine], ...] = ()
    requests: tuple[bool, ...] = ()
    none_fit: LogLine | None = None
    unfit: int = 0
    chosen: str = ""
    choice: LogLine | None = None
    outcome: LogLine | None = None
    mixed: bool = False

    @property
    def uid(self) -> str:
        return self.start.values.get("uuid", "") if self.start else ""

    @property
    def at(self) -> datetime | None:
        """The time of the run's first line that has one; None without any."""
        return next((line.at for line in self.lines if line.at), None)

    @property
    def cards_tried(self) -> int:
        """How many GPUs were tried; 0 below the verbosity that logs it (0 up to HAMi 2.5, then 4)."""
        return sum(line.message == CARD_TRIED for line in self.lines)

    @property
    def refused(self) -> tuple[NodeVerdict, ...]:
        return tuple(node for node in self.nodes if not node.fits)

    @property
    def bound(self) -> bool:
        """Whether the last line about the run's outcome is a bind that worked."""
        return self.outcome is not None and self.outcome.message in BOUND

    @property
    def bind_error(self) -> str:
        """HAMi's words about a bind that failed; empty when none did."""
        return bind_error(self.outcome) if self.outcome else ""

    @property
    def asked_nothing(self) -> bool:
        return self.outcome is not None and _asks_nothing(self.outcome)

    def nodes_by_code(self) -> dict[str, list[str]]:
        """The nodes that each code refused, the code with the most nodes first; on a tie, codes of use come first. Read
        from the verdicts at -v=4, else from the events that every verbosity logs (2.7 and later).
        """
        found: dict[str, set[str]] = {}
        for verdict in self.refused:
            for code in verdict.codes:
                found.setdefault(code, set()).add(verdict.node)
        if not self.refused:
            for event, _ in self.code_events:
                found.setdefault(event.code, set()).update(event.nodes)
        order = sorted(found, key=lambda code: (-len(found[code]), _ORDER.get(code, len(_ORDER)), code))
        return {code: sorted(found[code]) for code in order}

    @property
    def has_result(self) -> bool:
        """Whether the log tells how the run ended: a node, a refusal, or that nothing was asked for."""
        return bool(self.chosen or self.refused or self.none_fit or self.asked_nothing or self.nodes_by_code())

    def proof_of(self, code: str) -> LogLine | None:
        """A log line that gives this code, if possible a verdict on a node; None without one."""
        verdicts = (verdict.line for verdict in self.refused if code in verdict.codes)
        events = (line for event, line in self.code_events if event.code == code)
        cards = (card.line for card in self.cards if card.code == code)
        return next((line for lines in (verdicts, events, cards) for line in lines), None)


_ORDER = {reason: position for position, reason in enumerate(BY_TEXT)}


def bind_error(line: LogLine) -> str:
    """The error in a log line about a bind that failed; empty for other lines."""
    if line.message in BIND_FAILED:
        return line.values.get("err") or line.message
    is_event = line.message == EVENT and event_reason(line.values.get("reason", "")) == "BindingFailed"
    return line.values.get("message", "") if is_event else ""


def rebuild(lines: Iterable[LogLine]) -> list[Cycle]:
    """The filter runs of one pod, from one process's lines about it, in order. Lines before the first start line are
    the rest of a run if they tell of the filter, not only of webhook or bind.
    """
    runs: list[list[LogLine]] = []
    for line in lines:
        if not runs or line.message in FILTER_STARTS:
            runs.append([])
        runs[-1].append(line)
    cycles = map(_cycle, runs)
    return [
        run for run in cycles if run.start or run.nodes or run.cards or run.code_events or run.none_fit or run.chosen
    ]


class SchedulerCall(NamedTuple):
    """One filter or bind of a pod, from its first to its last line in the log of one extender process.

    `candidates`: the nodes that the filter judged; 0 where the log gives no number. `codes`: why it took none of them,
    empty where it took one; `NOT_SAID` where this version or verbosity does not say.
    """

    verb: Literal["filter", "bind"]
    pod: str
    first: LogLine
    last: LogLine
    candidates: int = 0
    codes: tuple[str, ...] = ()

    @property
    def at(self) -> datetime:
        return _at(self.first)

    @property
    def seconds(self) -> float:
        return max(0.0, (_at(self.last) - self.at).total_seconds())


NOT_SAID = "not-said"
BINDS = ("Attempting to bind pod to node", "Bind")


def read_calls(raws: Iterable[str], now: datetime) -> list[SchedulerCall]:
    """The filters and binds with beginning and end in one process's log lines, which may have any order, by pod."""
    by_pod: dict[str, list[LogLine]] = {}
    for raw in raws:
        if (line := read_line(raw, now)) and line.at and (key := pod_key_of(line)):
            by_pod.setdefault(key, []).append(line)
    return [call for pod, some in by_pod.items() for run in rebuild(sorted(some, key=_at)) for call in _calls(pod, run)]


def _calls(pod: str, cycle: Cycle) -> Iterator[SchedulerCall]:
    binds = [place for place, line in enumerate(cycle.lines) if line.message in BINDS]
    bind = cycle.lines[binds[0]] if binds else None
    told = [line for line in cycle.lines if _is(line, "FilteringSucceed")]
    end = cycle.none_fit or (told[-1] if told else cycle.choice)
    if cycle.start and end:
        last = min(end, bind or end, key=_at)  # an event is logged a moment after what it tells of
        codes = tuple(code if code in CARD_CODES or code in BY_TEXT else "other" for code in cycle.nodes_by_code())
        judged = nodes_judged(end.values.get("message", "")) or len({node.node for node in cycle.nodes})
        refused = (tuple(dict.fromkeys(codes)) or (NOT_SAID,)) if cycle.none_fit else ()
        yield SchedulerCall("filter", pod, cycle.start, last, judged, refused)
    for place in binds:
        for line in cycle.lines[place:]:
            if line.message in BOUND or bind_error(line) or _is(line, "BindingSucceed"):
                yield SchedulerCall("bind", pod, cycle.lines[place], line)
                break


def _at(line: LogLine) -> datetime:
    return cast("datetime", line.at)  # read_calls leaves out lines without a time


def _cycle(lines: list[LogLine]) -> Cycle:
    start = lines[0] if lines[0].message in FILTER_STARTS else None
    nodes = [verdict for line in lines if (verdict := _verdict(line))]
    events = [(line, line.values.get("message", "")) for line in lines if line.message == EVENT]
    failed = [(line, text) for line, text in events if _is(line, "FilteringFailed")]
    codes = [(code, line) for line, text in failed if not says_none_fit(text) and (code := parse_code_event(text))]
    none_fit = [line for line, text in failed if says_none_fit(text)]
    judged = [node.node for node in nodes if node.line.message != INIT_UNFIT]  # which has a line besides the node's
    ends = (line for line in reversed(lines) if line.message in BOUND or _asks_nothing(line) or bind_error(line))
    chosen = [(line.values["nodeID"], line) for line in lines if line.message in CHOSEN and line.values.get("nodeID")]
    chosen += [(node, line) for line, text in events if _is(line, "FilteringSucceed") and (node := chosen_node(text))]
    return Cycle(
        start=start,
        lines=tuple(lines),
        nodes=tuple(nodes),
        cards=tuple(card for line in lines if (card := card_refusal(line))),
        code_events=tuple(codes),
        requests=next((found for line in lines if (found := _requests(line))), ()),
        none_fit=none_fit[-1] if none_fit else None,
        unfit=unfit_count(none_fit[-1].values["message"]) if none_fit else 0,
        chosen=chosen[0][0] if chosen else "",
        choice=chosen[0][1] if chosen else None,
        outcome=next(ends, None),
        mixed=len(set(judged)) < len(judged) or len({node for node, _ in chosen}) > 1,
    )


def _verdict(line: LogLine) -> NodeVerdict | None:
    node = line.values.get("node", "")
    if not node or line.message not in NODE_UNFIT + NODE_FITS:
        return None
    fits = line.message in NODE_FITS
    return NodeVerdict(node, fits, "" if fits else line.values.get("reason", ""), line)


def card_refusal(line: LogLine) -> CardRefusal | None:
    """The refusal of a GPU that the line tells of; None for other lines."""
    code = LOG_TEXTS.get(line.message, line.message)
    if code not in CARD_CODES:
        return None
    found = _CARD_IN_TEXT.search(line.raw)
    card = line.values.get("device") or (found[1] if found else "")
    _, _, rest = line.raw.partition(f'"{line.message}"')
    figures = (f"{key.strip()} {value}" for key, value in _FIGURE.findall(rest) if key.strip() != "device index")
    return CardRefusal(card, code, ", ".join(figures), line)


def _is(line: LogLine, reason: str) -> bool:
    return event_reason(line.values.get("reason", "")) == reason


def _asks_nothing(line: LogLine) -> bool:
    return line.message.startswith(NO_REQUEST)


def _requests(line: LogLine) -> tuple[bool, ...]:
    found = _REQUESTS.search(line.raw) if line.message == REQUESTS and pod_key_of(line) else None
    try:
        asked = msgspec.json.decode(found[1], type=list[dict[str, object] | None]) if found else []
    except ValueError:
        return ()
    return tuple(map(bool, asked))
