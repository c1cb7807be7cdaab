"""What the scenes with a bot in Slack are given."""

import pytest

from tests.slack.bot import MODES, Mode


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> Mode:
    return request.param
