"""What a person can do in Slack, over Socket Mode and over signed HTTP alike, with the real slack-bolt."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bot.errors import NotFound, Unusable
from bot.kube.recording.recorded_cluster import RecordedCluster
from playbooks.playbook import Sources
from tests.slack.bot import POD, RECORDING, VERDICT, Here, Mode, a_bot, played
from tests.slack.surfaces import HELD, HELD_VERDICT, button, posted_to_channel, text_of

pytestmark = pytest.mark.each_way


class Passing:
    """The recorded cluster, from which the pod may be gone, or which may be down."""

    def __init__(self) -> None:
        self.gone = self.down = False
        self._cluster = RecordedCluster.open(RECORDING)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    async def get(self, kind: Any, name: str, namespace: str = "") -> Any:
        if self.down:
            raise Unusable("the cluster is down")
        if self.gone and name == POD:
            raise NotFound(f"pods {name!r} not found")
        return await self._cluster.get(kind, name, namespace)

    async def list(self, kind: Any, namespace: str = "", **selected: Any) -> Any:
        found = await self._cluster.list(kind, namespace, **selected)
        return [entry for entry in found if not (self.gone and entry.name == POD)]

    @asynccontextmanager
    async def opener(self, cluster: str) -> AsyncGenerator[Sources]:
        del cluster
        yield Sources(self)


@played()
async def test_a_command_is_answered_to_the_person_who_asked_alone(here: Here, *, mode: Mode) -> None:
    ack = await here.slack.command("ada", "gpu-oncall", f"why {POD}")
    assert ack.ok
    answer = await here.slack.wait_for(channel="gpu-oncall", containing=VERDICT, user="ada")
    assert answer["ephemeral"]
    assert answer["text"].startswith(VERDICT)
    assert VERDICT not in "\n".join(map(text_of, here.slack.messages("gpu-oncall", "grace")))


async def test_an_answer_that_is_another_one_by_now_is_shown_to_who_read_the_old_one_and_not_posted(
    tmp_path: Path,
) -> None:
    cluster = Passing()
    async with asyncio.timeout(180), a_bot(tmp_path, opener=cluster.opener) as here:
        read = await here.command("ada", f"why ml/{POD}", VERDICT)
        cluster.gone = True
        await here.slack.click("ada", button(read, "post-to-channel"), channel="gpu-oncall", message_ts=read["ts"])
        new = await here.slack.wait_for(channel="gpu-oncall", containing="nothing was posted", user="ada")
        assert "not found" in new["text"]
        assert [
            message["ts"] for message in here.slack.messages("gpu-oncall", "ada") if VERDICT in message["text"]
        ] == [read["ts"]]
        assert [message for message in here.slack.messages("gpu-oncall", "grace") if message.get("bot_id")] == []
        await here.slack.click("ada", button(new, "post-to-channel"), channel="gpu-oncall", message_ts=new["ts"])
        await here.slack.wait_for(channel="gpu-oncall", containing="not found", user="grace")


async def test_a_post_that_fails_leaves_the_answer_that_was_read(tmp_path: Path) -> None:
    cluster = Passing()
    async with asyncio.timeout(180), a_bot(tmp_path, opener=cluster.opener) as here:
        read = await here.command("ada", f"why ml/{POD}", VERDICT)
        cluster.down = True
        await here.slack.click("ada", button(read, "post-to-channel"), channel="gpu-oncall", message_ts=read["ts"])
        await here.slack.wait_for(channel="gpu-oncall", containing="is down", user="ada")
        assert VERDICT in "".join(message["text"] for message in here.slack.messages("gpu-oncall", "ada"))
        assert [message for message in here.slack.messages("gpu-oncall", "grace") if message.get("bot_id")] == []


@played()
async def test_a_mention_is_answered_in_its_thread_and_marked_as_done(here: Here, *, mode: Mode) -> None:
    asked, answer = await here.mention("grace", f"why ml/{POD}", VERDICT)
    assert answer["thread_ts"] == asked

    def marks() -> list[str]:
        question = next(message for message in here.slack.messages("gpu-oncall", "grace") if message["ts"] == asked)
        return [reaction["name"] for reaction in question.get("reactions", [])]

    await here.slack.wait_for(lambda: marks() == ["white_check_mark"])


@played(mode="socket")
async def test_a_thread_remembers_its_last_pod_whatever_else_is_asked_there(here: Here) -> None:
    slack = here.slack

    async def answers(thread: str, number: int) -> list[Any]:
        def come() -> list[Any]:
            said = [message for message in slack.messages("gpu-oncall", "ada", thread) if message.get("blocks")]
            found = [message for message in said if message.get("bot_id") and "Looking at" not in message["text"]]
            return found if len(found) == number else []

        return await slack.wait_for(come)

    for *asked, about in (
        ("status", "why", VERDICT),
        ("why ml/s01-fit-a100", "logs --since 2h", "s01-fit-a100"),
        (f"logs ml/{POD} --since 2h", "why", VERDICT),
        ("quota", "", VERDICT),
    ):
        first = await slack.mention("grace", "gpu-oncall", f"why ml/{POD}")
        last = await answers(first.ts, 1)
        for number, words in enumerate(asked, start=2):
            await slack.mention("ada", "gpu-oncall", words, thread_ts=first.ts)
            last = await answers(first.ts, number)
        assert about in text_of(last[-1]), asked


@played()
async def test_a_thread_under_a_posted_answer_knows_its_pod(here: Here, *, mode: Mode) -> None:
    posted = await posted_to_channel(here)
    await here.slack.mention("grace", "gpu-oncall", "why", thread_ts=posted["ts"])

    def reply():
        replies = here.slack.messages("gpu-oncall", "grace", posted["ts"])
        return [reply for reply in replies if VERDICT in reply["text"] and reply["ts"] != posted["ts"]]

    await here.slack.wait_for(reply)


@played()
async def test_the_message_shortcut_answers_where_its_message_stands(here: Here, *, mode: Mode) -> None:
    slack = here.slack
    head = await slack.say("grace", "gpu-oncall", f"`ml/{POD}` hangs again, anybody?")
    reply = await slack.say("linus", "gpu-oncall", f"ml/{POD}: I look at it", thread_ts=head.ts)
    await slack.shortcut("ada", "diagnose", channel="gpu-oncall", message_ts=reply.ts)
    await slack.wait_for(channel="gpu-oncall", containing=VERDICT, user="ada", thread_ts=head.ts)
    await slack.shortcut("linus", "diagnose", channel="gpu-oncall", message_ts=head.ts)
    answer = await slack.wait_for(channel="gpu-oncall", containing=VERDICT, user="linus")
    assert answer["ephemeral"]
    assert "thread_ts" not in answer


@played()
async def test_the_message_shortcut_lets_choose_between_several_pods(here: Here, *, mode: Mode) -> None:
    said = await here.slack.say("grace", "gpu-oncall", f"{POD} and s01-fit-a100")
    await here.slack.shortcut("ada", "diagnose", channel="gpu-oncall", message_ts=said.ts)
    choice = await here.slack.wait_for(channel="gpu-oncall", containing="why ml/s01-fit-a100", user="ada")
    ids = [
        element["action_id"]
        for block in choice["blocks"]
        for element in block.get("elements", [])
        if POD in str(element.get("value"))
    ]
    await here.slack.click("ada", ids[0], channel="gpu-oncall", message_ts=choice["ts"])
    await here.slack.wait_for(channel="gpu-oncall", containing=VERDICT, user="ada")


@played()
async def test_the_message_shortcut_says_when_no_pod_is_named(here: Here, *, mode: Mode) -> None:
    said = await here.slack.say("grace", "gpu-oncall", "lunch?")
    await here.slack.shortcut("ada", "diagnose", channel="gpu-oncall", message_ts=said.ts)
    await here.slack.wait_for(channel="gpu-oncall", containing="/hami why", user="ada")


@played()
async def test_a_next_action_is_one_click(here: Here, *, mode: Mode) -> None:
    asked, answer = await here.mention("grace", f"why {HELD}", HELD_VERDICT)
    await here.slack.click("grace", button(answer, "ask:"), channel="gpu-oncall", message_ts=answer["ts"])
    await here.slack.wait_for(channel="gpu-oncall", containing="can still take a pod", thread_ts=asked)


@played()
async def test_a_forged_button_can_ask_no_more_than_its_sender_may_type(here: Here, *, mode: Mode) -> None:
    asked, answer = await here.mention("grace", f"why ml/{POD}", VERDICT)
    forged = json.dumps({"v": 1, "ask": "fit -f /etc/passwd", "cluster": ""})
    where = {"channel": "gpu-oncall", "message_ts": answer["ts"]}
    await here.slack.click("grace", button(answer, "ask:"), **where, value=forged)
    refused = await here.slack.wait_for(channel="gpu-oncall", containing="there is no option", thread_ts=asked)
    assert "root:" not in text_of(refused)


@played()
async def test_fit_takes_a_manifest_in_a_form(here: Here, *, mode: Mode) -> None:
    await here.slack.command("ada", "gpu-oncall", "fit")
    await here.slack.wait_for(lambda: here.slack.views("ada"))
    manifest = (Path(__file__).parents[1] / "cases" / "pod.yaml").read_text()

    def typed(text: str):
        return {"manifest": {"text": {"type": "plain_text_input", "value": text}}}

    wrong = await here.slack.submit("ada", typed("kind: Deployment"))
    assert "without a pod or a pod template" in wrong.payload["errors"]["manifest"]
    await here.slack.submit("ada", typed(manifest))
    answer = await here.slack.wait_for(channel="gpu-oncall", containing="trainer-0 fits now", user="ada")
    assert answer["ephemeral"]


@played()
async def test_the_home_tab_says_how_to_start_and_asks(here: Here, *, mode: Mode) -> None:
    await here.slack.open_home("ada")
    home = await here.slack.wait_for(lambda: here.slack.home("ada"))
    assert "/hami why" in text_of(home)
    await here.slack.click("ada", "ask-form", view_id=home["id"])
    form = (await here.slack.wait_for(lambda: here.slack.views("ada")))[-1]
    values = {
        "question": {"text": {"type": "plain_text_input", "value": f"why {POD}"}},
    }
    assert form["callback_id"] == "ask"
    await here.slack.submit("ada", values)
    await here.slack.wait_for(channel=here.slack.dm("ada"), containing=VERDICT)


@played()
async def test_a_question_of_the_home_tab_is_answered_directly(here: Here, *, mode: Mode) -> None:
    slack, room = here.slack, here.slack.dm("ada")
    await slack.open_home("ada")
    home = await slack.wait_for(lambda: slack.home("ada"))
    for shown in ("no incident is open", "You may not change the scheduler"):
        assert shown in text_of(home)
    await slack.click("ada", "ask:pending", view_id=home["id"])
    await slack.wait_for(lambda: [message for message in slack.messages(room) if message.get("blocks")])
    await slack.click("ada", "ask:help", view_id=home["id"])
    await slack.wait_for(channel=room, containing="You can ask, for example")


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("", "why ml/"),
        ("why", "For example: /hami why"),
        ("profile compare", "For example: /hami profile compare cpu-"),
        ("why ml/x -n other", "another namespace"),
        ("why elsewhere/s03-card-insufficient-memory", "why ml/s03-card-insufficient-memory"),
        ("x" * 8000, "8,000 characters"),
        ("why 'a", "quotes"),
        ("why --help", "Usage"),
        ("why s03-card-insufficient-memory --cluster nowhere --lang xx", "xx"),
    ],
)
@played(mode="socket")
async def test_a_mistake_gets_a_short_answer_with_an_example(here: Here, *, typed: str, told: str) -> None:
    ack = await here.slack.command("ada", "gpu-oncall", typed)
    assert ack.ok
    answer = await here.slack.wait_for(channel="gpu-oncall", containing=told, user="ada")
    assert re.search(r"why ml/|/hami (nodes|profile) ", text_of(answer))
    assert len(answer["text"]) < 3000


@played(mode="socket")
async def test_an_example_is_as_it_is_typed_where_the_mistake_was_made(here: Here) -> None:
    slack, room = here.slack, here.slack.dm("ada")
    asked = await slack.mention("ada", "gpu-oncall", "why ml/x --foo")
    answer = await slack.wait_for(channel="gpu-oncall", containing="no option", thread_ts=asked.ts)
    assert "@hami-bot why ml/trainer-0" in text_of(answer)
    await slack.say("ada", room, "why ml/x --foo")
    answer = await slack.wait_for(channel=room, containing="no option")
    assert answer["text"].endswith("For example: why ml/trainer-0")
    for shown in ("/hami", "@hami-bot"):
        assert shown not in text_of(answer)
    await slack.say("ada", room, "help why")
    assert "/hami" not in text_of(await slack.wait_for(channel=room, containing="Usage: why"))


@played(mode="socket")
async def test_a_question_in_chinese_is_answered_in_chinese(here: Here) -> None:
    await here.mention("ada", f"为什么 {POD} 一直 pending？", "等待无济于事")


@pytest.mark.parametrize("typed", ["Help", "？", "/hami"])
@played(mode="socket")
async def test_help_is_found_without_knowing_how(here: Here, *, typed: str) -> None:
    await here.slack.say("ada", here.slack.dm("ada"), typed)
    await here.slack.wait_for(channel=here.slack.dm("ada"), containing="You can ask, for example")


@played()
async def test_text_that_slack_cut_in_the_middle_of_a_character_is_answered(here: Here, *, mode: Mode) -> None:
    if mode == "socket":  # over HTTP a command is a form, which has no such text
        await here.command("ada", "why \ud83d", "Did you mean one of these?")
    await here.slack.say("linus", here.slack.dm("linus"), "why \ud83d")
    await here.slack.wait_for(channel=here.slack.dm("linus"), containing="Did you mean one of these?")
