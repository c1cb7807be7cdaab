"""What schedulers say about a pod: kube-scheduler's `0/N nodes are available` and HAMi's own events.

Texts of every version: HAMi pkg/scheduler/event.go, scheduler.go at v2.4 to v2.10; kube-scheduler's FitError. `REASONS`
has each code that some HAMi version gives for a refused node or GPU: pkg/scheduler/score.go@v2.6.1,
pkg/device/common/common.go@v2.7.0 to v2.10.0, pkg/device/metax/sdevice.go, pkg/scheduler/scheduler.go@v2.4.0 to
v2.10.0.
"""

import re
from typing import Literal, NamedTuple

import msgspec

from bot.finding_codes import Code
from bot.hami.version import Version

_AVAILABLE = re.compile(r"0/(\d+) nodes (?:are )?available: (.*)", re.DOTALL)
_PREEMPTION = "preemption: "
_NO_CLAIMS = re.compile(r",?\.? ?(?:no new claims to deallocate|still not schedulable),?\.?$")
_COUNTED = re.compile(r"(\d+) (.+)", re.DOTALL)
_CARDS = re.compile(r"(\d+)/(\d+) (\w+)")
_COMBINED = "(combined from similar events): "
_EVENT_REASON_PREFIX = "EventReason"

_CODE_EVENT = re.compile(r"(\d+) nodes (\w+)\(([^()]*)\)")
_NONE_FIT = re.compile(r"no available node, (?:(\d+) nodes do not meet|all node scores do not meet)")
_FIT_COUNTS = re.compile(r"(\d{1,9}) nodes not fit, (\d{1,9}) nodes fit\(")
_FIT_NODE = re.compile(r"find fit node\(([^()]+)\)|Successfully filtered to following nodes: \[([^\[\]]*)\]")
# Bounded, so that a long word is not searched from each letter to its end.
_GUIDES_FORM = re.compile(r"\b(\w{1,64}) on node (\S+)")


class CardCount(msgspec.Struct, frozen=True):
    """How many of a node's GPUs were refused for a reason: `count/of Code`. `of` is 0 when the text has no counts."""

    code: str
    count: int
    of: int


class NodesReason(NamedTuple):
    """One reason in a FailedScheduling text and its number of nodes. `cards` is filled for a reason of HAMi's."""

    nodes: int
    text: str
    cards: tuple[CardCount, ...] = ()


class Unschedulable(NamedTuple):
    """The parts of kube-scheduler's message `0/N nodes are available: …`."""

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
    """An event's reason without `EventReason`: HAMi's guides write the name of the Go constant."""
    return reason.removeprefix(_EVENT_REASON_PREFIX)


def parse_unschedulable(message: str) -> Unschedulable | None:
    """The reasons in a FailedScheduling or PodScheduled text; None for another kind of text.

    2.10 puts HAMi's whole reason, with commas of its own, into the comma list: a piece that begins with `a/b Code`
    continues the reason before it; one that begins with a number and a space starts the next.
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
    """The counts in HAMi's reason for a node: `1/8 CardNotHealth, 3/8 CardInsufficientMemory`; empty for other text."""
    if (reason := reason_of(text)) is not None:
        return (CardCount(reason.text, 0, 0),)
    pieces = [_CARDS.fullmatch(piece.strip()) for piece in text.split(",")]
    if not pieces or None in pieces:
        return ()
    return tuple(CardCount(piece[3], _int(piece[1]), _int(piece[2])) for piece in pieces if piece)


class CodeEvent(NamedTuple):
    """One reason of one filter run in an event `k nodes Code(node,…)` (HAMi 2.7 and later)."""

    code: str
    nodes: tuple[str, ...]


def parse_code_event(message: str) -> CodeEvent | None:
    """Code and nodes in a FilteringFailed message, also in the guides' form `Code on node X`; None for other text."""
    message = strip_combined(message)
    if found := _CODE_EVENT.fullmatch(message):
        return CodeEvent(found[2], tuple(sorted(filter(None, found[3].split(",")))))
    found = _GUIDES_FORM.search(message)
    return CodeEvent(found[1], (found[2].rstrip(",."),)) if found and found[1] in BY_TEXT else None


def says_none_fit(message: str) -> bool:
    """Whether a FilteringFailed message says that no candidate fits, without saying why."""
    return _NONE_FIT.match(strip_combined(message)) is not None


def unfit_count(message: str) -> int:
    """The number of nodes in a FilteringFailed message that no candidate fits; 0 where it gives none."""
    found = _NONE_FIT.match(strip_combined(message))
    return _int(found[1]) if found and found[1] else 0


def chosen_node(message: str) -> str:
    """The node that a FilteringSucceed message chose; empty where it names none."""
    found = _FIT_NODE.search(message)
    return (found[1] or found[2] or "").strip() if found else ""


def nodes_judged(message: str) -> int:
    """How many nodes a filter's event counts, fit or not; 0 where it gives no number, as up to HAMi 2.5."""
    found = _FIT_COUNTS.search(message)
    return _int(found[1]) + _int(found[2]) if found else unfit_count(message)


def _int(digits: str) -> int:
    return int(digits) if len(digits) < 10 else 0


Nature = Literal["use", "pod", "card", "node", "summary"]
"""What refuses a pod: `use` by others, the `pod`'s own constraints, a `card`'s state, the `node`, or a `summary`."""


class RefusalReason(NamedTuple):
    """One reason for a refusal: HAMi's text (without names), our finding code, its first version, its nature."""

    text: str
    finding: Code
    since: Version
    nature: Nature


_V24, _V25, _V26, _V27, _V29, _V210 = (Version(2, minor) for minor in (4, 5, 6, 7, 9, 10))

REASONS: tuple[RefusalReason, ...] = (
    RefusalReason("CardInsufficientMemory", "card-insufficient-memory", _V26, "use"),
    RefusalReason("CardInsufficientCore", "card-insufficient-core", _V26, "use"),
    RefusalReason("CardTimeSlicingExhausted", "card-time-slicing-exhausted", _V26, "use"),
    RefusalReason("CardComputeUnitsExhausted", "card-compute-units-exhausted", _V26, "use"),
    RefusalReason("ExclusiveDeviceAllocateConflict", "exclusive-device-conflict", _V26, "use"),
    RefusalReason("ResourceQuotaNotFit", "resource-quota-not-fit", _V27, "use"),
    RefusalReason("CardMigTopologyInfeasible", "mig-topology-infeasible", _V210, "use"),
    RefusalReason("CardNotFoundCustomFilterRule", "custom-filter-rule", _V26, "use"),
    RefusalReason("CardQosPolicyMismatch", "custom-filter-rule", _V27, "use"),
    RefusalReason("CardAppClassMismatch", "custom-filter-rule", _V27, "use"),
    RefusalReason("NumaNotFit", "numa-not-fit", _V26, "use"),
    RefusalReason("NodeInsufficientDevice", "node-insufficient-device", _V26, "use"),
    RefusalReason("CardTypeMismatch", "card-type-mismatch", _V26, "pod"),
    RefusalReason("CardUuidMismatch", "card-uuid-mismatch", _V26, "pod"),
    RefusalReason("ModeNotFit", "mode-not-fit", _V29, "pod"),
    RefusalReason("CardNotHealth", "card-not-healthy", _V27, "card"),
    RefusalReason("CardUnhealthy", "card-not-healthy", _V27, "card"),
    RefusalReason("CardCordoned", "card-cordoned", _V210, "card"),
    RefusalReason("AllocatedCardsInsufficientRequest", "allocated-cards-insufficient", _V26, "summary"),
    RefusalReason("node unregistered", "node-unregistered", _V24, "node"),
    RefusalReason("node not fit pod", "node-unfit-pod", _V25, "summary"),
    RefusalReason("NodeUnfitPod", "node-unfit-pod", _V26, "summary"),
    RefusalReason("node usage unavailable", "node-unfit-pod", _V210, "summary"),
    RefusalReason("Device type not found", "node-unfit-pod", _V210, "summary"),
    RefusalReason("AddResourceUsage failed", "node-unfit-pod", _V210, "summary"),
    RefusalReason("Device not found after Fit", "node-unfit-pod", _V210, "summary"),
    RefusalReason("failed to fetch node info", "node-unfit-pod", _V210, "summary"),
)

BY_TEXT = {reason.text: reason for reason in REASONS}

_WITH_DETAILS = (
    (re.compile(r"AddResourceUsage failed for device .+", re.DOTALL), BY_TEXT["AddResourceUsage failed"]),
    (re.compile(r'Device with UUID ".*" not found on node \S+ after Fit'), BY_TEXT["Device not found after Fit"]),
    (re.compile(r"failed to fetch node info: .+", re.DOTALL), BY_TEXT["failed to fetch node info"]),
)
"""HAMi 2.10's texts that name a device or an error: patterns, and the short text that stands for each."""

_OLD_SPELLING = {"node unregisterd": "node unregistered"}
"""A reason as HAMi up to 2.4 and its predecessor misspell it (pkg/scheduler/scheduler.go)."""

LOG_TEXTS = {
    "card type mismatch,continuing...": "CardTypeMismatch",
    "card uuid mismatch,": "CardUuidMismatch",
    "Numa not fit, resotoreing": "NumaNotFit",
    "card Insufficient remaining memory": "CardInsufficientMemory",
    "card Insufficient remaining cores": "CardInsufficientCore",
    "the container wants exclusive access to an entire card, but the card is already in use": (
        "ExclusiveDeviceAllocateConflict"
    ),
    "can't allocate core=0 job to an already full GPU": "CardComputeUnitsExhausted",
    "request devices nums cannot exceed the total number of devices on the node.": "NodeInsufficientDevice",
}
"""What HAMi 2.4 and 2.5 log in place of a code, and the code of later versions."""


def reason_of(text: str) -> RefusalReason | None:
    """The refusal reason that a text names; None for a text of no known version."""
    if (reason := BY_TEXT.get(_OLD_SPELLING.get(text, text))) is not None:
        return reason
    return next((reason for pattern, reason in _WITH_DETAILS if pattern.fullmatch(text)), None)


def finding_code(text: str) -> Code:
    """The finding code of a refusal's text; `node-unfit-pod` for an unknown text."""
    reason = reason_of(text)
    return reason.finding if reason else "node-unfit-pod"
