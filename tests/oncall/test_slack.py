"""People and triage threads, with the real bot: an alert comes in by HTTP, everything else happens in Slack."""

from pathlib import Path
from typing import Any

from pydantic import SecretStr

from bot.settings.oncall import OncallSettings
from bot.slack.render.blocks import value_of
from bot.slack.render.triage_head import REMIND, IncidentButton
from tests.oncall.bot import CHANNEL, GIVEN, ROOM, TOKEN, World, on_bot, played, webhook
from tests.oncall.rig import text
from tests.oncall.scenes import CAUSES, busy_cluster
from tests.slack.changing import actions

ADA, GRACE = "U0ADA00001", "U0GRACE001"


@on_bot(6)
async def test_an_alert_becomes_a_thread_that_people_work_on(world: World) -> None:
    head = await world.thread_of("trainer-0", "trainer-3")
    assert "2 of 2 pods" in text(head)
    await world.reply(head, "Evidence")
    await world.click("ada", head, "ack")
    await world.reply(head, "Acknowledged")
    head = await world.head("Acknowledged, warning")
    assert "triage:ack" not in actions(head)

    await world.form("grace", head, "note")
    typed = {"type": "plain_text_input", "value": "it's <!here> a cable"}
    await world.slack.submit("grace", {"note": {"text": typed}})
    note = await world.reply(head, "a cable")
    assert "<!here>" not in note["text"]

    await world.form("ada", head, "handover")
    await world.slack.submit("ada", {"person": {"text": {"type": "users_select", "selected_user": GRACE}}})
    await world.reply(head, "Handed over to")
    await world.slack.wait_for(lambda: GRACE in str(world._heads(CAUSES[0])[0]["blocks"]) or None)

    await world.slack.mention("grace", ROOM, "triage export", thread_ts=head["ts"])
    await world.slack.wait_for(lambda: _shared(world, "incident") or None)

    await world.click("grace", head, "close")
    head = await world.head("Closed, warning")
    assert actions(head) == {}


@on_bot(2)
async def test_a_reminder_is_asked_for_in_words_and_in_the_menu(world: World) -> None:
    head = await world.thread_of("trainer-0")
    await world.mention("grace", "remind me in 2h", "I will remind you in the thread at", head)
    await world.mention("grace", "remind me soon", "a reminder comes in at most 7 days", head)
    [menu] = [
        element
        for block in head["blocks"]
        for element in block.get("elements", [])
        if element.get("action_id") == REMIND
    ]
    assert [option["text"]["text"] for option in menu["options"]] == ["in 30 min", "in 1 h", "tomorrow 9:00"]
    await world.slack.click("ada", REMIND, channel=ROOM, message_ts=head["ts"], selected_option=menu["options"][2])
    told = await world.told("ada", "I will remind you in the thread at")
    assert " 09:00 (" in text(told)


def test_until_when_it_is_muted_is_asked_for_and_shown(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        head = await world.thread_of("trainer-0")
        view = await world.form("ada", head, "mute")
        options = {option["value"]: option["text"]["text"] for option in view["blocks"][0]["element"]["options"]}
        assert list(options) == ["1h", "4h", "24h", "until gone"]
        await world.slack.submit("ada", chosen("until node gpu-1 registers"))
        await world.told("ada", "node gpu-1 is registered: there is nothing to wait for")
        await world.form("ada", head, "mute")
        await world.slack.submit("ada", chosen("until gone"))
        await world.reply(head, "Muted until the cause is gone")
        await world.head("Muted, warning")
        await world.mention("ada", "triage mute until node gpu-9 registers", "there is no node gpu-9", head)

    def chosen(words: str) -> dict[str, Any]:
        option = {"text": {"type": "plain_text", "text": words}, "value": words}
        return {"mute": {"text": {"type": "radio_buttons", "selected_option": option}}}

    played(tmp_path, busy_cluster(tmp_path / "cluster", 3), scene)


@on_bot(3)
async def test_it_is_handed_over_to_no_bot_and_a_command_says_how_to_name_a_person(world: World) -> None:
    head = await world.thread_of("trainer-0")
    bot = world.slack.workspace.app.bot_user_id
    await world.form("ada", head, "handover")
    answer = await world.slack.submit("ada", {"person": {"text": {"type": "users_select", "selected_user": bot}}})
    assert "I cannot own an incident" in str(answer)
    await world.mention("ada", f"triage handover <@{bot}>", "I cannot own an incident", head)
    incident = text(head).split("Incident ")[1][:8]
    told = await world.mention("ada", "handover", "handover needs a person", head)
    assert "@hami-bot handover @ada" in text(told)
    assert "in a command" not in text(told)
    told = await world.command("ada", f"triage handover {incident} @grace", "press Hand over")
    assert "@hami-bot triage handover @ada" in told["text"]


def _shared(world: World, beginning: str) -> list[str]:
    """The files in the channel whose names begin so."""
    everything = world.slack.workspace.everything(CHANNEL)
    names = [file["name"] for _, message in everything for file in message.get("files", [])]
    return [name for name in names if name.startswith(beginning)]


@on_bot(3)
async def test_words_in_the_thread_do_what_buttons_do(world: World) -> None:
    head = await world.thread_of("trainer-0")
    for words, told in (
        ("mute 2h", "Muted until"),
        ("triage note it's known", "it's known"),
        ("triage close it's replaced", "it's replaced"),
    ):
        await world.slack.mention("ada", ROOM, words, thread_ts=head["ts"])
        await world.reply(head, told)
    await world.mention("ada", "triage ack", "it is closed", head)
    await world.slack.mention("ada", ROOM, "triage akc", thread_ts=head["ts"])
    answer = (await world.told("ada", "did you mean 'ack'"))["text"]
    assert answer.count("For example") == answer.count("@hami-bot") == 1


@on_bot(3)
async def test_a_command_lists_what_is_open_and_acts_by_its_id(world: World) -> None:
    await world.command("ada", "oncall", "No incident is open")
    head = await world.thread_of("trainer-0")
    incident = text(head).split("Incident ")[1][:8]
    await world.command("ada", "oncall", incident)
    await world.slack.command("ada", ROOM, f"triage ack {incident}")
    await world.reply(head, "Acknowledged")
    await world.command("ada", "oncall report", "On-call report, last 7 days: 1 incident opened")
    await world.command("ada", "triage ack 00000000", "there is no such incident")


@on_bot(3, GIVEN.model_copy(update={"rota": ("U0LINUS001", "U0ADA00001")}))
async def test_what_is_open_leads_to_its_thread_and_says_who_is_called_next(world: World) -> None:
    head = await world.thread_of("trainer-0")
    await world.reply(head, "Evidence")  # by then the thread is known
    incident = text(head).split("Incident ")[1][:8]
    thread = f"{world.slack.url}/archives/{CHANNEL}/p{head['ts'].replace('.', '')}"
    leads, calls = {"type": "link", "url": thread, "text": incident}, {"type": "user", "user_id": "U0LINUS001"}
    listed = await world.command("ada", "oncall", "next called:")
    await world.slack.open_home("ada")
    home = await world.slack.wait_for(lambda: world.slack.home("ada"))
    for shown in (listed, home):
        [row] = [row for row in rows_of(shown) if leads in row]
        assert row[row.index(calls) + 2]["type"] == "date"
    await world.click("ada", head, "ack")
    await world.reply(head, "Acknowledged")
    await world.slack.open_home("ada")
    await world.slack.wait_for(lambda: calls not in rows_of(world.slack.home("ada") or {})[0] or None)


def rows_of(shown: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """The lines of the lists in a message or view."""
    parts = [part for block in shown["blocks"] if block["type"] == "rich_text" for part in block["elements"]]
    return [element["elements"] for part in parts if part["type"] == "rich_text_list" for element in part["elements"]]


@on_bot(3)
async def test_what_is_closed_is_listed_nowhere_and_a_mute_is_lifted(world: World) -> None:
    head = await world.thread_of("trainer-0")
    incident = text(head).split("Incident ")[1][:8]
    await world.slack.mention("ada", ROOM, "mute 2h", thread_ts=head["ts"])
    await world.click("ada", await world.head("Muted, warning"), "unmute")
    await world.reply(head, "The mute ended")
    await world.head("Acknowledged, warning")
    await world.command("ada", "oncall", "Nobody is called: oncall.rota is empty")
    await world.slack.open_home("ada")
    await world.slack.wait_for(lambda: incident in text(world.slack.home("ada") or {}) or None)
    await world.slack.mention("ada", ROOM, "close", thread_ts=head["ts"])
    await world.head("Closed, warning")
    await world.command("ada", "oncall", "No incident is open")
    await world.slack.open_home("ada")
    await world.slack.wait_for(lambda: incident not in text(world.slack.home("ada") or {}) or None)


@on_bot(3, OncallSettings(channel=CHANNEL, token=SecretStr(TOKEN), responders=(ADA,)))
async def test_only_responders_act_where_they_are_named(world: World) -> None:
    head = await world.thread_of("trainer-0")
    await world.click("grace", head, "close")
    await world.told("grace", "You may not act on incidents")
    await world.click("ada", head, "close")
    await world.head("Closed, warning")


@on_bot(3)
async def test_what_a_client_makes_up_does_nothing(world: World) -> None:
    head = await world.thread_of("trainer-0")
    value = actions(head)["triage:ack"]
    await world.forged("ada", head, "triage:ack", "{")
    await world.forged("ada", head, "triage:explode", value)
    await world.forged("ada", head, "triage:ack", value_of(IncidentButton("ffffffff")))
    await world.told("ada", "there is no such incident")
    await world.forged("ada", head, "triage:close", value, room="general")
    await world.form("ada", head, "handover")
    await world.slack.submit("ada", {"person": {"text": {"type": "users_select", "selected_user": "<!here>"}}})
    await world.told("ada", "handed over to a person")
    shown = await world.mention("ada", "triage", "Open, warning", head)
    assert "1 of 1 pod" in text(shown)


@on_bot(3)
async def test_elsewhere_a_word_means_nothing_and_a_command_is_shown_the_channel_of_the_incident(world: World) -> None:
    await world.slack.say("ada", ROOM, "look at this")
    [said] = [message for message in world.slack.messages(ROOM, "ada") if message.get("text") == "look at this"]
    await world.slack.mention("ada", ROOM, "mute 2h", thread_ts=said["ts"])
    await world.told("ada", "I read “mute 2h” and do not know")
    incident = text(await world.thread_of("trainer-0")).split("Incident ")[1][:8]
    await world.slack.command("ada", "general", f"triage ack {incident}")
    refused = await world.slack.wait_for(channel="general", user="ada", containing="belongs to another channel")
    assert str({"type": "channel", "channel_id": CHANNEL}) in str(refused["blocks"])


@on_bot(6, None)
async def test_without_incidents_digests_are_asked_for_listed_posted_and_ended_where_the_bot_may_post(
    world: World,
) -> None:
    assert (await world.post(webhook("trainer-0")))[0] == 404
    added = await world.command("ada", "digest daily 09:00 Asia/Shanghai", "The next one comes")
    await world.command("ada", "digest list", "daily 09:00 Asia/Shanghai, about the default cluster")
    await world.slack.mention("grace", ROOM, "digest now")
    digest = await world.head("pods are pending for")
    assert "Nothing to compare with yet" in text(digest)
    await world.slack.wait_for(lambda: _shared(world, "gpus.png") or None)
    one = text(added).split("Digest ")[1][:6]
    await world.command("grace", f"digest stop {one}", f"Digest {one} has ended")
    await world.command("ada", "digest daily 25:00 Asia/Shanghai", "is not a time of day")
    await world.command("ada", "triage ack", "this bot opens no triage threads")
    workspace = world.slack.workspace
    rooms = [channel for channel in workspace.channels.values() if workspace.app.bot_user_id not in channel.members]
    room = next(room for room in rooms if not room.is_archived)
    await world.slack.command(room.members[0], room.id, "digest daily 09:00 Asia/Shanghai")
    await world.slack.wait_for(channel=room.id, containing="I may not post here")
