"""What a person gets of a long answer over the real Slack app: all of it by a button, or as a file beside it."""

import asyncio
from pathlib import Path

from tests.scenes import as_test
from tests.slack.bot import POD, VERDICT, Here, a_bot

ROOM = "gpu-oncall"
FILE = "answer.md"


def played(tmp_path: Path, scene) -> None:
    async def play() -> None:
        async with asyncio.timeout(180), a_bot(tmp_path) as here:
            await scene(here)
            assert here.slack.unknown_methods == []

    asyncio.run(play())


async def asked_privately(here: Here, room: str = ROOM):
    await here.slack.command("grace", room, f"why {POD}")
    return await here.slack.wait_for(channel=room, containing=VERDICT, user="grace")


def files(here: Here, channel: str, user: str, thread_ts: str = "") -> list[str]:
    """The names of the files that the user sees there."""
    seen = here.slack.messages(channel, user, thread_ts)
    return [file["name"] for message in seen for file in message.get("files", [])]


def answers(here: Here, room: str = ROOM):
    return [message for message in here.slack.messages(room, "grace") if VERDICT in message["text"]]


@as_test(played, "tmp_path")
async def test_a_private_answer_sends_no_direct_message_by_itself(here: Here) -> None:
    answer = await asked_privately(here)
    assert answer["ephemeral"]
    assert here.slack.journal.of("api", "files.") == []
    assert here.slack.messages(here.slack.dm("grace"), "grace") == []


@as_test(played, "tmp_path")
async def test_show_everything_brings_the_file_and_leaves_one_answer(here: Here) -> None:
    answer = await asked_privately(here)
    ack = await here.slack.click("grace", "show-everything", channel=ROOM, message_ts=answer["ts"])
    assert ack.ok
    direct = here.slack.dm("grace")
    await here.slack.wait_for(
        lambda: any(
            files(here, direct, "grace", message["ts"]) == [FILE] for message in here.slack.messages(direct, "grace")
        )
    )
    await here.slack.wait_for(channel=ROOM, containing="in your direct messages with me", user="grace")
    assert any("Files of your question: why " in message["text"] for message in here.slack.messages(direct, "grace"))
    (shown,) = answers(here)
    assert shown["ephemeral"]
    assert "show-everything" not in str(shown["blocks"])


@as_test(played, "tmp_path")
async def test_an_answer_for_everyone_is_one_message_whose_files_whoever_asks_for_them_gets(here: Here) -> None:
    question = await here.slack.mention("grace", ROOM, f"why ml/{POD}")
    answer = await here.slack.wait_for(channel=ROOM, containing=VERDICT, thread_ts=question.ts)
    await here.slack.click("linus", "show-everything", channel=ROOM, message_ts=answer["ts"])
    direct = here.slack.dm("linus")
    await here.slack.wait_for(
        lambda: any(
            files(here, direct, "linus", message["ts"]) == [FILE] for message in here.slack.messages(direct, "linus")
        )
    )
    assert files(here, ROOM, "grace", question.ts) == []
    (left,) = (message for message in here.slack.messages(ROOM, "grace", question.ts) if VERDICT in message["text"])
    assert left["blocks"] == answer["blocks"]
