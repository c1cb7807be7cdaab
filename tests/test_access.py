"""Who may change something: every role, action, channel and whose change it is."""

from itertools import product

import pytest

from bot.access import Action, WhyDenied, groups_in, role_of, why_denied
from bot.settings.schema import AccessSettings
from bot.texts import in_english

OPERATOR, APPROVER, BOTH, VIEWER = "U0OPERATOR", "U0APPROVER", "U0BOTH", "U0VIEWER"
MEMBER, GROUP, BOSSES = "U0MEMBER", "S0OPERATORS", "S0BOSSES"
ROOM, ELSEWHERE, DIRECT = "C0ROOM", "C0ELSEWHERE", "D0DIRECT"
SET = AccessSettings(operators=(OPERATOR, BOTH, GROUP), approvers=(APPROVER, BOTH, BOSSES), channels=(ROOM,))
PEOPLE = {
    OPERATOR: (frozenset(), "operator"),
    APPROVER: (frozenset(), "approver"),
    BOTH: (frozenset(), "approver"),
    VIEWER: (frozenset(), "viewer"),
    MEMBER: (frozenset({GROUP}), "operator"),
    "U0BOSS": (frozenset({BOSSES, GROUP}), "approver"),
    "U0OTHER": (frozenset({"S0UNNAMED"}), "viewer"),
}
ACTIONS = ("raise", "extend", "revert", "approve", "refuse", "examine")


def may(user: str, channel: str, action: str, requester: str = "U0SOMEONE", access: AccessSettings = SET) -> bool:
    return why_denied(access, user, PEOPLE[user][0], channel, action, requester=requester) is None


@pytest.mark.parametrize("user", PEOPLE)
def test_the_highest_role_of_a_person_counts_be_it_theirs_or_their_groups(user: str) -> None:
    assert role_of(SET, user, PEOPLE[user][0]) == PEOPLE[user][1]


@pytest.mark.parametrize(("user", "channel", "action"), list(product(PEOPLE, (ROOM, ELSEWHERE, DIRECT), ACTIONS)))
def test_the_whole_matrix(user: str, channel: str, action: str) -> None:
    role = PEOPLE[user][1]
    expected = {
        "raise": role != "viewer" and channel == ROOM,
        "extend": role != "viewer" and channel == ROOM,
        "revert": role != "viewer",
        "approve": role == "approver",
        "refuse": role == "approver",
        "examine": role != "viewer",
    }
    assert may(user, channel, action) is expected[action]


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("user", PEOPLE)
def test_by_default_nobody_may_change_anything(user: str, action: str) -> None:
    assert not may(user, ROOM, action, access=AccessSettings())


@pytest.mark.parametrize("user", PEOPLE)
def test_nobody_approves_what_they_asked_for(user: str) -> None:
    assert not may(user, ROOM, "approve", requester=user)


@pytest.mark.parametrize("user", PEOPLE)
def test_who_asked_for_a_change_may_always_end_it(user: str) -> None:
    assert may(user, ELSEWHERE, "revert", requester=user)
    assert may(user, ELSEWHERE, "refuse", requester=user)


def test_without_named_channels_every_channel_will_do() -> None:
    assert may(OPERATOR, ELSEWHERE, "raise", access=SET.model_copy(update={"channels": ()}))


def test_what_somebody_else_has_to_approve_is_not_asked_for_where_nobody_else_is() -> None:
    everywhere = SET.model_copy(update={"channels": ()})
    together = everywhere.model_copy(update={"two_person": True})
    assert may(OPERATOR, DIRECT, "raise", access=everywhere)
    assert not may(OPERATOR, DIRECT, "raise", access=together)
    assert may(OPERATOR, ROOM, "raise", access=together)


def test_a_refusal_says_why_and_who_may() -> None:
    everybody = tuple(sorted({*SET.operators, *SET.approvers}))
    assert refused(SET, VIEWER, ROOM, "raise") == ("You may not change the scheduler", everybody, ())
    assert refused(SET, VIEWER, ROOM, "approve") == ("You may not approve a change", (*sorted(SET.approvers),), ())
    assert refused(SET, OPERATOR, ELSEWHERE, "raise") == ("changes are not asked for here", (), (ROOM,))
    assert "access.operators" in refused(AccessSettings(), VIEWER, ROOM, "raise")[0]


def refused(
    access: AccessSettings, user: str, channel: str, action: Action
) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    denied = why_denied(access, user, (), channel, action)
    assert isinstance(denied, WhyDenied)
    return in_english(denied.why), denied.who, denied.where


def test_one_who_may_approve_is_told_who_else_may() -> None:
    denied = why_denied(SET, BOTH, (), ROOM, "approve", requester=BOTH)
    assert isinstance(denied, WhyDenied)
    assert denied.who == (BOSSES, APPROVER)


def test_only_the_groups_of_the_settings_are_asked_for() -> None:
    assert groups_in(SET) == (BOSSES, GROUP)
    assert groups_in(AccessSettings()) == ()
