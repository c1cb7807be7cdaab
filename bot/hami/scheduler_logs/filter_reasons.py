"""The reason atlas: every code that some HAMi version gives for a refused node or card.

Sources: pkg/scheduler/score.go@v2.6.1, pkg/device/common/common.go@v2.7.0 to v2.10.0, pkg/device/metax/sdevice.go,
pkg/scheduler/scheduler.go@v2.4.0 to v2.10.0 for the texts of whole nodes.
"""

import re
from typing import Literal, NamedTuple

from bot.finding_codes import Code
from bot.hami.version import Version

Nature = Literal["use", "pod", "card", "node", "summary"]
"""What stands in the way: `use` by others, the `pod`'s own constraints, the state of a `card`, the `node` as a whole,
or a `summary` that other codes explain."""


class Reason(NamedTuple):
    """One reason: HAMi's exact text (without what it names), our finding code, its first version, and its nature."""

    text: str
    finding: Code
    since: Version
    nature: Nature


_V24, _V25, _V26, _V27, _V29, _V210 = (Version(2, minor) for minor in (4, 5, 6, 7, 9, 10))

REASONS: tuple[Reason, ...] = (
    Reason("CardInsufficientMemory", "card-insufficient-memory", _V26, "use"),
    Reason("CardInsufficientCore", "card-insufficient-core", _V26, "use"),
    Reason("CardTimeSlicingExhausted", "card-time-slicing-exhausted", _V26, "use"),
    Reason("CardComputeUnitsExhausted", "card-compute-units-exhausted", _V26, "use"),
    Reason("ExclusiveDeviceAllocateConflict", "exclusive-device-conflict", _V26, "use"),
    Reason("ResourceQuotaNotFit", "resource-quota-not-fit", _V27, "use"),
    Reason("CardMigTopologyInfeasible", "mig-topology-infeasible", _V210, "use"),
    Reason("CardNotFoundCustomFilterRule", "custom-filter-rule", _V26, "use"),
    Reason("CardQosPolicyMismatch", "custom-filter-rule", _V27, "use"),
    Reason("CardAppClassMismatch", "custom-filter-rule", _V27, "use"),
    Reason("NumaNotFit", "numa-not-fit", _V26, "use"),
    Reason("NodeInsufficientDevice", "node-insufficient-device", _V26, "use"),
    Reason("CardTypeMismatch", "card-type-mismatch", _V26, "pod"),
    Reason("CardUuidMismatch", "card-uuid-mismatch", _V26, "pod"),
    Reason("ModeNotFit", "mode-not-fit", _V29, "pod"),
    Reason("CardNotHealth", "card-not-healthy", _V27, "card"),
    Reason("CardUnhealthy", "card-not-healthy", _V27, "card"),
    Reason("CardCordoned", "card-cordoned", _V210, "card"),
    Reason("AllocatedCardsInsufficientRequest", "allocated-cards-insufficient", _V26, "summary"),
    Reason("node unregistered", "node-unregistered", _V24, "node"),
    Reason("node not fit pod", "node-unfit-pod", _V25, "summary"),
    Reason("NodeUnfitPod", "node-unfit-pod", _V26, "summary"),
    Reason("node usage unavailable", "node-unfit-pod", _V210, "summary"),
    Reason("Device type not found", "node-unfit-pod", _V210, "summary"),
    Reason("AddResourceUsage failed", "node-unfit-pod", _V210, "summary"),
    Reason("Device not found after Fit", "node-unfit-pod", _V210, "summary"),
    Reason("failed to fetch node info", "node-unfit-pod", _V210, "summary"),
)

BY_TEXT = {reason.text: reason for reason in REASONS}

_WITH_DETAILS = (
    (re.compile(r"AddResourceUsage failed for device .+", re.DOTALL), BY_TEXT["AddResourceUsage failed"]),
    (re.compile(r'Device with UUID ".*" not found on node \S+ after Fit'), BY_TEXT["Device not found after Fit"]),
    (re.compile(r"failed to fetch node info: .+", re.DOTALL), BY_TEXT["failed to fetch node info"]),
)
"""Texts of 2.10 that name a device or an error: what they look like, and the short text that stands for them."""

_OLD_SPELLING = {"node unregisterd": "node unregistered"}
"""As the predecessor and HAMi up to 2.4 write it (pkg/scheduler/scheduler.go)."""

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
"""What 2.4 and 2.5 log where later versions give a code."""


def reason_of(text: str) -> Reason | None:
    """The reason that a text names, None for a text that no known version gives (it may be a newer one's)."""
    if (reason := BY_TEXT.get(_OLD_SPELLING.get(text, text))) is not None:
        return reason
    return next((reason for pattern, reason in _WITH_DETAILS if pattern.fullmatch(text)), None)


def finding_code(text: str) -> Code:
    """The finding code of a reason's text; an unknown one is a refusal whose meaning we do not know."""
    reason = reason_of(text)
    return reason.finding if reason else "node-unfit-pod"
