"""What schedulers say about a pod: kube-scheduler's `0/N nodes are available` and HAMi's own events.

The texts of every version: HAMi pkg/scheduler/event.go, scheduler.go at v2.4 to v2.10; kube-scheduler's FitError.
"""

import re
from typing import NamedTuple

import msgspec

from bot.hami.scheduler_logs.filter_reasons import BY_TEXT, reason_of

_AVAILABLE = re.compile(r"0/(\d+) nodes (?:are )?available: (.*)", re.DOTALL)
_PREEMPTION = "preemption: "
_NO_CLAIMS = re.compile(r",?\.? ?(?:no new claims to deallocate|still not schedulable),?\.?$")
_COUNTED = re.compile(r"(\d+) (.+)", re.DOTALL)
_CARDS = re.compile(r"(\d+)/(\d+) (\w+)")
_COMBINED = "(combined from similar events): "
_EVENT_REASON_PREFIX = "EventReason"

_CODE_EVENT = re.compile(r"(\d+) nodes (\w+)\(([^()]*)\)")
_NONE_FIT = re.compile(r"no available node, (?:(\d+) nodes do not meet|all node scores do not meet)")
_FIT_NODE = re.compile(r"find fit node\(([^()]+)\)|Successfully filtered to following nodes: \[([^\[\]]*)\]")
# Bounded, or a long word would be tried from each of its letters to its end.
_GUIDES_FORM = re.compile(r"\b(\w{1,64}) on node (\S+)")


class CardCount(msgspec.Struct, frozen=True):
    """`count/of Code`: how many of a node's cards were refused for a reason. `of` 0 when the text has no counts."""

    code: str
    count: int
    of: int


class NodesReason(NamedTuple):
    """One reason of a FailedScheduling text and the number of nodes that it stands for.

    `cards` is filled when the reason is HAMi's; `text` is verbatim.
    """

    nodes: int
    text: str
    cards: tuple[CardCount, ...] = ()


class Unschedulable(NamedTuple):
    """A parsed `0/N nodes are available: …`."""

    total: int
    reasons: tuple[NodesReason, ...]

    @property
    def by_hami(self) -> tuple[NodesReason, ...]:
        return tuple(reason for reason in self.reasons if reason.cards)

    @property
    def by_kubernetes(self) -> tuple[NodesReason, ...]:
        return tuple(reason for reason in self.reasons if not reason.cards)


def strip_combined(message: str) -> str:
    """The message without client-go's mark of aggregated events."""
    return message.removeprefix(_COMBINED)


def event_reason(reason: str) -> str:
    """The reason as it is on the wire; the guides write HAMi's with the Go constants' prefix."""
    return reason.removeprefix(_EVENT_REASON_PREFIX)


def parse_unschedulable(message: str) -> Unschedulable | None:
    """The reasons of a FailedScheduling or PodScheduled text, None when it is another kind of text.

    2.10 puts HAMi's whole reason there, whose commas are the list's commas too: a piece that begins with `a/b Code`
    goes on with the reason before it, a piece that begins with a number and a space starts the next.
    """
    found = _AVAILABLE.search(strip_combined(message))
    if not found:
        return None
    listed = found[2].partition(_PREEMPTION)[0].strip()
    reasons: list[list[str]] = []
    for piece in _NO_CLAIMS.sub("", listed).strip().rstrip(".").split(", "):
        if reasons and not _COUNTED.fullmatch(piece):
            reasons[-1].append(piece)
        elif piece:
            reasons.append([piece])
    counted = (_COUNTED.fullmatch(", ".join(pieces)) for pieces in reasons)
    return Unschedulable(
        total=_int(found[1]),
        reasons=tuple(NodesReason(_int(match[1]), match[2], read_reason(match[2])) for match in counted if match),
    )


def read_reason(text: str) -> tuple[CardCount, ...]:
    """HAMi's reason for one node, `1/8 CardNotHealth, 3/8 CardInsufficientMemory`; empty when it is not HAMi's."""
    if (reason := reason_of(text)) is not None:
        return (CardCount(reason.text, 0, 0),)
    pieces = [_CARDS.fullmatch(piece.strip()) for piece in text.split(",")]
    if not pieces or None in pieces:
        return ()
    return tuple(CardCount(piece[3], _int(piece[1]), _int(piece[2])) for piece in pieces if piece)


class CodeEvent(NamedTuple):
    """`k nodes Code(node,…)`: one reason of one filter run (2.7 and later)."""

    code: str
    nodes: tuple[str, ...]


def parse_code_event(message: str) -> CodeEvent | None:
    """A FilteringFailed message that names a code and nodes; the guides' `Code on node X` is understood too."""
    message = strip_combined(message)
    if found := _CODE_EVENT.fullmatch(message):
        return CodeEvent(found[2], tuple(sorted(filter(None, found[3].split(",")))))
    found = _GUIDES_FORM.search(message)
    return CodeEvent(found[1], (found[2].rstrip(",."),)) if found and found[1] in BY_TEXT else None


def says_none_fit(message: str) -> bool:
    """Whether a FilteringFailed message says that no candidate fits, without saying why."""
    return _NONE_FIT.match(strip_combined(message)) is not None


def unfit_count(message: str) -> int:
    """How many nodes such a message says do not fit; 0 when it gives no number."""
    found = _NONE_FIT.match(strip_combined(message))
    return _int(found[1]) if found and found[1] else 0


def chosen_node(message: str) -> str:
    """The node that a FilteringSucceed message chose; empty when it names none."""
    found = _FIT_NODE.search(message)
    return (found[1] or found[2] or "").strip() if found else ""


def _int(digits: str) -> int:
    return int(digits) if len(digits) < 10 else 0
