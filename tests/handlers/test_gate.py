"""Who is of the bot's own workspace, as payloads say it."""

from typing import Any

import pytest
from msgspec.structs import replace

from bot.settings.schema import AccessSettings
from bot.slack.gateway import Identity
from bot.slack.people import LONGEST_S
from bot.slack.question_tasks import DEED_S
from handlers.gate import Home, home_of, origin_of
from handlers.parsing.question import Origin

pytestmark = pytest.mark.sampled(20)

ADA, PAT = "U0ADA00001", "U0PAT00001"
OURS, THEIRS, THEIR_GRID = "T0SANDBOX1", "T0PARTNER1", "E0PARTNER1"
OUR_GRID = "E0OURS0001"
WORKSPACE = home_of(AccessSettings(), Identity(OURS, "", "", "", "", frozenset()))
IN_A_GRID = home_of(AccessSettings(), Identity(OURS, "", "", "", "", frozenset(), OUR_GRID))
ALL_OF_A_GRID = home_of(AccessSettings(), Identity(OUR_GRID, "", "", "", "", frozenset(), OUR_GRID, is_org_wide=True))
NOBODY = Identity("", "", "", "", "", frozenset())
OTHER_OF_OURS = {"id": "T0OURS0002", "enterprise_id": OUR_GRID}


def clicked(team: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "block_actions", "user": {"id": ADA}, "team": team, **fields}


@pytest.mark.parametrize(
    ("home", "body", "expected"),
    [
        (WORKSPACE, clicked({"id": OURS}), True),
        (WORKSPACE, clicked({"id": OURS, "enterprise_id": OUR_GRID}), True),
        (IN_A_GRID, clicked({"id": OURS, "enterprise_id": OUR_GRID}), True),
        (IN_A_GRID, clicked(OTHER_OF_OURS), None),
        (IN_A_GRID, clicked({"id": THEIRS, "enterprise_id": THEIR_GRID}), False),
        (ALL_OF_A_GRID, clicked(OTHER_OF_OURS), True),
        (ALL_OF_A_GRID, clicked(None, enterprise={"id": OUR_GRID}, user={"id": PAT, "team_id": THEIRS}), None),
        (ALL_OF_A_GRID, clicked(None, enterprise={"id": OUR_GRID}, view={"team_id": THEIRS}), None),
        (ALL_OF_A_GRID, clicked(None, enterprise={"id": OUR_GRID}, user={"id": ADA, "team_id": OUR_GRID}), True),
        (ALL_OF_A_GRID, clicked(OTHER_OF_OURS, user={"id": PAT, "team_id": THEIRS}), None),
        (ALL_OF_A_GRID, clicked({"id": THEIRS, "enterprise_id": THEIR_GRID}), False),
        (ALL_OF_A_GRID, clicked({"id": THEIRS}), None),
        (ALL_OF_A_GRID, {"user_id": ADA, "team_id": OTHER_OF_OURS["id"], "enterprise_id": OUR_GRID}, True),
        (ALL_OF_A_GRID, {"user_id": ADA, "team_id": THEIRS, "enterprise_id": THEIR_GRID}, False),
        (WORKSPACE._replace(teams=frozenset({OURS, THEIR_GRID})), clicked({"id": THEIRS}), None),
    ],
)
def test_an_installation_for_all_of_a_grid_goes_by_the_enterprise(
    home: Home, body: dict[str, Any], expected: bool | None
) -> None:
    assert home.is_of(origin_of(body)) is expected


@pytest.mark.parametrize(
    ("about", "envelope", "expected"),
    [
        # slack-bolt's own tests of shared channels, with an app that T_OURS installed
        ({"team": "T_GRID", "user_team": OURS, "source_team": OURS}, {"team_id": "T_GRID"}, True),
        ({"team": OURS, "user_team": THEIR_GRID, "user_profile": {"team": THEIR_GRID}}, {"team_id": OURS}, False),
        ({"team": "T_GRID"}, {"team_id": "T_GRID", "enterprise_id": THEIR_GRID, "context_team_id": "T_GRID"}, False),
        ({"team": OURS}, {"team_id": OURS, "context_team_id": "T_GRID"}, None),
    ],
)
def test_in_a_shared_channel_the_persons_team_decides_and_not_the_envelopes(
    about: dict[str, Any], envelope: dict[str, Any], expected: bool | None
) -> None:
    told = {"type": "app_mention", "user": ADA, **about}
    body = {"type": "event_callback", "event": told, "is_ext_shared_channel": True, **envelope}
    assert WORKSPACE.is_of(origin_of(body)) is expected


def test_slack_hears_in_its_three_seconds_though_it_has_to_say_who_somebody_is_and_the_store_is_slow() -> None:
    assert LONGEST_S + DEED_S < 3


@pytest.mark.parametrize("identity", [NOBODY, replace(NOBODY, is_org_wide=True)])
def test_where_slack_does_not_say_whose_the_bot_is_nobody_is_ours(identity: Identity) -> None:
    home = home_of(AccessSettings(), identity)
    for body in (clicked({"id": THEIRS}), {"user_id": PAT, "team_id": THEIRS, "enterprise_id": THEIR_GRID}):
        assert home.is_of(origin_of(body)) is False


@pytest.mark.parametrize("odd", [None, 1, "x", [], {}, [{}], {"id": 5}, True])
def test_whatever_stands_in_a_payload_it_says_of_nobody_that_they_are_ours(odd: Any) -> None:
    names = ("event", "user", "team", "view", "enterprise", "team_id", "enterprise_id", "user_id")
    for body in (dict.fromkeys(names, odd), {"event": {"message": odd, "user_profile": odd, "team": odd, "user": 1}}):
        origin = origin_of(body)
        assert isinstance(origin, Origin)
        assert WORKSPACE.is_of(origin) is not True
