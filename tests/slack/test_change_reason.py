"""The reason that stands behind a button is the one that was typed."""

import pytest

from tests.slack.changing import World, actions, played, text_of

REASONS = (
    "the scheduler's queue isn't moving",
    "node's log says \"can't fit\"",
    r"C:\new 100% $HOME `x` a&b <c> &lt;",
    "because it's slow, because of --dry-run and more",
    "调度器'卡住'了",
)


@pytest.mark.parametrize("because", REASONS)
@played()
async def test_a_dry_runs_button_asks_with_the_reason_as_it_was_typed(world: World, *, because: str) -> None:
    told = await world.command("ada", f"verbosity 5 --dry-run for 30m because {because}", "-v=5")
    await world.click("ada", told, next(action for action in actions(told) if action.startswith("ask:")))

    def forms() -> list[object]:
        return [view for view in world.slack.views("ada") if view["callback_id"] == "change"]

    [form] = await world.slack.wait_for(forms, seconds=180)
    assert because in text_of(form).splitlines()
