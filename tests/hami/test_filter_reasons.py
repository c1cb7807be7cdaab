"""The atlas of reasons is complete."""

import pytest

from bot.hami.fit import verdicts
from bot.hami.scheduler_logs.scheduling_events import BY_TEXT, LOG_TEXTS, REASONS, finding_code, reason_of

CODES = {
    "CardNotHealth": ("card-not-healthy", (2, 7)),
    "CardCordoned": ("card-cordoned", (2, 10)),
    "CardTypeMismatch": ("card-type-mismatch", (2, 6)),
    "NumaNotFit": ("numa-not-fit", (2, 6)),
    "CardUuidMismatch": ("card-uuid-mismatch", (2, 6)),
    "CardTimeSlicingExhausted": ("card-time-slicing-exhausted", (2, 6)),
    "ExclusiveDeviceAllocateConflict": ("exclusive-device-conflict", (2, 6)),
    "ResourceQuotaNotFit": ("resource-quota-not-fit", (2, 7)),
    "CardInsufficientMemory": ("card-insufficient-memory", (2, 6)),
    "CardInsufficientCore": ("card-insufficient-core", (2, 6)),
    "CardComputeUnitsExhausted": ("card-compute-units-exhausted", (2, 6)),
    "CardMigTopologyInfeasible": ("mig-topology-infeasible", (2, 10)),
    "CardNotFoundCustomFilterRule": ("custom-filter-rule", (2, 6)),
    "AllocatedCardsInsufficientRequest": ("allocated-cards-insufficient", (2, 6)),
    "NodeInsufficientDevice": ("node-insufficient-device", (2, 6)),
    "ModeNotFit": ("mode-not-fit", (2, 9)),
    "NodeUnfitPod": ("node-unfit-pod", (2, 6)),
    "CardUnhealthy": ("card-not-healthy", (2, 7)),
    "CardQosPolicyMismatch": ("custom-filter-rule", (2, 7)),
    "CardAppClassMismatch": ("custom-filter-rule", (2, 7)),
    "node unregistered": ("node-unregistered", (2, 4)),
    "node not fit pod": ("node-unfit-pod", (2, 5)),
    "node usage unavailable": ("node-unfit-pod", (2, 10)),
    "Device type not found": ("node-unfit-pod", (2, 10)),
    "AddResourceUsage failed": ("node-unfit-pod", (2, 10)),
    "Device not found after Fit": ("node-unfit-pod", (2, 10)),
    "failed to fetch node info": ("node-unfit-pod", (2, 10)),
}


@pytest.mark.parametrize("text", CODES)
def test_each_text_has_its_finding_and_its_first_version(text):
    reason = reason_of(text)
    assert reason is not None
    assert (reason.finding, tuple(reason.since)[:2]) == CODES[text]


def test_the_atlas_names_nothing_twice_and_nothing_else():
    assert len(REASONS) == len(BY_TEXT)
    assert set(BY_TEXT) == set(CODES)


def test_every_reason_that_our_fit_gives_is_in_the_atlas():
    ours = {value for name, value in vars(verdicts).items() if name.isupper() and isinstance(value, str)}
    assert ours - {verdicts.DEFAULT_POLICY, verdicts.FIT} <= set(BY_TEXT)


def test_what_2_4_and_2_5_logged_stands_for_later_codes():
    assert set(LOG_TEXTS.values()) <= set(BY_TEXT)


def test_an_unknown_text_is_a_refusal_whose_meaning_is_not_known():
    assert reason_of("CardFromTheFuture") is None
    assert finding_code("CardFromTheFuture") == "node-unfit-pod"
    assert finding_code("CardCordoned") == "card-cordoned"
