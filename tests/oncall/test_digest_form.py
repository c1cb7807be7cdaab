"""Digests are managed in Slack: what there is, how to have one more, a form for it; with the real bot."""

from typing import Any

from bot.slack.render.digest import OPEN
from tests.oncall.bot import ROOM, World, on_bot
from tests.oncall.rig import text


def typed(when: str, zone: str, at: str = "09:00") -> dict[str, Any]:
    fields = {"when": when, "zone": zone}
    values = {name: {"text": {"type": "plain_text_input", "value": value}} for name, value in fields.items()}
    return values | {"at": {"text": {"type": "timepicker", "selected_time": at}}}


@on_bot(1, None)
async def test_the_command_alone_shows_what_there_is_and_how_to_have_one_and_its_form_adds_one(world: World) -> None:
    told = await world.command("ada", "digest", "No digest is posted here")
    assert "digest daily 09:00 Asia/Shanghai" in text(told)
    assert "digest 0 9 * * 1-5 Europe/Berlin" in text(told)

    await world.slack.click("ada", OPEN, channel=ROOM, message_ts=told["ts"])
    await world.slack.wait_for(lambda: world.slack.views("ada") or None)
    wrong = await world.slack.submit("ada", typed("daily", "Asia/Beijing"))
    assert "is not a time zone" in wrong.payload["errors"]["zone"]
    wrong = await world.slack.submit("ada", typed("* * * * *", "UTC"))
    assert "more than once an hour" in wrong.payload["errors"]["when"]

    await world.slack.submit("ada", typed("0 9 * * 1-5", "Europe/Berlin"))
    await world.told("ada", '"0 9 * * 1-5" Europe/Berlin')
    await world.command("grace", "digest list", '"0 9 * * 1-5" Europe/Berlin, about the default cluster; next')

    await world.slack.click("ada", OPEN, channel=ROOM, message_ts=told["ts"])
    view = await world.slack.wait_for(lambda: world.slack.views("ada") or None)
    assert "Europe/London" in str(view)  # ada's zone in Slack
    await world.slack.submit("ada", typed("mon,thu", "Europe/Berlin", "17:30"))
    await world.told("ada", "mon,thu 17:30 Europe/Berlin")


@on_bot(1, None)
async def test_a_time_without_a_zone_is_meant_in_the_zone_of_the_person(world: World) -> None:
    await world.command("ada", "digest daily 9am", "daily 09:00 Europe/London")
    await world.command("ada", "digest weekdays 5:30 pm", "17:30 Europe/London")


@on_bot(1, None)
async def test_a_form_that_asks_for_no_time_of_day_says_what_is_missing(world: World) -> None:
    told = await world.command("ada", "digest", "No digest is posted here")
    await world.slack.click("ada", OPEN, channel=ROOM, message_ts=told["ts"])
    await world.slack.wait_for(lambda: world.slack.views("ada") or None)
    for words, field in ((("now", "UTC"), "when"), (("daily 09:00", "utc+8"), "zone")):
        wrong = await world.slack.submit("ada", typed(*words))
        assert "For example: digest" in wrong.payload["errors"][field], words
