"""How answers find their way: what goes wrong while they are made, while they are shown, and what is said meanwhile."""

import asyncio
import contextlib
import re
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from bot.errors import SourceError
from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.main import running
from bot.settings.schema import ClusterSettings
from bot.slack.render.blocks import EVERYTHING
from handlers.inbox import AT_ONCE
from playbooks.playbook import Sources
from sandbox.slack import Fault, Seed, SlackServer
from tests.slack.bot import (
    PATIENT,
    POD,
    RECORDING,
    VERDICT,
    Gated,
    Here,
    Mode,
    a_recorded_bot,
    connected,
    held,
    played,
    recorded,
    settings,
)
from tests.slack.deliveries import later, sent
from tests.slack.surfaces import HELD, HELD_VERDICT, button, posted_to_channel, text_of

pytestmark = pytest.mark.each_way

LOOKING = "Looking at the cluster"
QUICK = structs.replace(PATIENT, answer_s=0.3)
OUTSIDE = replace(
    Seed(), channels=tuple(replace(channel, with_app=channel.name != "gpu-oncall") for channel in Seed().channels)
)


async def test_few_questions_at_once_read_a_cluster_and_the_others_wait_their_turn(tmp_path: Path) -> None:
    cluster = Gated()
    reading: list[str] = []
    enough = asyncio.Event()

    class Counting:
        def __getattr__(self, name: str) -> Any:
            return getattr(cluster, name)

        async def get(self, kind: Any, name: str, namespace: str = "") -> Any:
            reading.append(name)
            if len(reading) == AT_ONCE:
                enough.set()
            return await cluster.get(kind, name, namespace)

    @asynccontextmanager
    async def opener(name: str) -> AsyncGenerator[Sources]:
        del name
        yield Sources(Counting())

    async with a_recorded_bot(tmp_path, opener=opener) as here:
        names = [f"question-{number}" for number in range(2 * AT_ONCE)]
        for number, name in enumerate(names):
            await here.slack.command(("ada", "grace")[number % 2], "gpu-oncall", f"why ml/{name}")
        await enough.wait()
        await later(here.slack)
        assert len(reading) == AT_ONCE
        cluster.gate.set()
        for name in names:
            await here.slack.wait_for(channel="gpu-oncall", containing=f'"{name}"')
        assert sorted(set(reading)) == sorted(names)


@pytest.mark.parametrize("elsewhere", [True, False])
async def test_a_person_is_answered_while_many_questions_of_another_hang(tmp_path: Path, *, elsewhere: bool) -> None:
    cluster = Gated()

    class HangingForSome:
        def __getattr__(self, name: str) -> Any:
            return getattr(recorded_cluster, name)

        async def get(self, kind: Any, name: str, namespace: str = "") -> Any:
            return await (cluster if name.startswith("hangs") else recorded_cluster).get(kind, name, namespace)

    recorded_cluster = RecordedCluster.open(RECORDING)

    @asynccontextmanager
    async def opener(name: str) -> AsyncGenerator[Sources]:
        del name
        yield Sources(HangingForSome())

    async with a_recorded_bot(tmp_path, opener=opener) as here:
        for number in range(5 * AT_ONCE):
            await here.slack.command("ada", "gpu-oncall", f"why ml/hangs-{number}")
        room = "general" if elsewhere else "gpu-oncall"
        await here.slack.command("grace", room, f"why {POD}")
        await here.slack.wait_for(channel=room, containing=VERDICT, user="grace")
        cluster.gate.set()


async def test_after_a_restart_few_of_the_old_questions_are_begun_at_once(tmp_path: Path) -> None:
    first, second = Gated(), Gated()
    async with asyncio.timeout(180), SlackServer(deadline_s=60) as slack:
        names = [f"question-{number}" for number in range(AT_ONCE + 3)]
        async with connected(slack, tmp_path, opener=first.opener, limits=structs.replace(PATIENT, drain_s=0.1)):
            for name in names:
                await slack.command("ada", "gpu-oncall", f"why ml/{name}")
        async with connected(slack, tmp_path, opener=second.opener):
            while await asyncio.to_thread(begun_again, tmp_path) < AT_ONCE:  # one after the other
                pass
            await later(slack)
            assert await asyncio.to_thread(begun_again, tmp_path) == AT_ONCE
            second.gate.set()
            for name in names:
                await slack.wait_for(channel="gpu-oncall", containing=f'"{name}"', user="ada")


def begun_again(folder: Path) -> int:
    with contextlib.closing(sqlite3.connect(folder / "bot.db", timeout=60)) as store:
        return store.execute("SELECT count(*) FROM seen WHERE owner != '' AND payload LIKE '%question-%'").fetchone()[0]


def broken(error: Exception):
    cluster = Gated(error)
    cluster.gate.set()
    return cluster.opener


@asynccontextmanager
async def unreachable(cluster: str) -> AsyncGenerator[Sources]:
    raise SourceError(f"no answer from {cluster or 'the cluster'}", hint="Is the VPN up?")
    yield


# ------------------------------------------------------------------------------------------ making an answer


@played(opener=broken(RuntimeError("out of paper")))
async def test_a_bug_is_told_without_its_traceback(here: Here, *, mode: Mode) -> None:
    assert (await here.slack.command("ada", "gpu-oncall", f"why {POD}")).ok
    told = text_of(await here.slack.wait_for(channel="gpu-oncall", containing="a bug", user="ada"))
    assert "RuntimeError: out of paper" in told
    assert "report it" in told
    assert re.search(r"request_id [0-9a-f]{8}\b", told)
    assert "Traceback" not in told
    asked, _ = await here.mention("grace", f"why {POD}", "out of paper")
    await here.slack.wait_for(lambda: reactions(here, asked) == ["x"])


def reactions(here: Here, ts: str) -> list[str]:
    message = next(message for message in here.slack.messages("gpu-oncall", "grace") if message["ts"] == ts)
    return [reaction["name"] for reaction in message.get("reactions", [])]


@played(opener=unreachable)
async def test_a_cluster_that_cannot_be_opened_is_told_with_what_to_do(here: Here, *, mode: Mode) -> None:
    told = await here.command("ada", f"why {POD}", "no answer from the cluster")
    assert "Is the VPN up?" in text_of(told)


async def test_work_that_takes_longer_than_its_limit_is_told(tmp_path: Path, mode: Mode) -> None:
    async with a_recorded_bot(tmp_path, mode, Gated().opener, QUICK) as here:
        told = await here.command("ada", f"why {POD}", "gave up after")
        assert "Ask again" in text_of(told)
        await here.mention("grace", f"why {POD}", "gave up after")


async def test_a_cluster_that_hangs_while_it_is_opened_holds_up_no_other(tmp_path: Path) -> None:
    hanging = asyncio.Event()

    @asynccontextmanager
    async def opener(cluster: str) -> AsyncGenerator[Sources]:
        if cluster == "far":
            hanging.set()
            await asyncio.Event().wait()
        async with recorded(cluster) as sources:
            yield sources

    async with asyncio.timeout(180), SlackServer(deadline_s=60) as slack:
        clusters = {"far": ClusterSettings(), "near": ClusterSettings()}
        wanted = settings(slack, tmp_path).model_copy(update={"clusters": clusters})
        async with running(wanted, wanted.slack, opener, structs.replace(PATIENT, answer_s=8)):
            await slack.command("ada", "gpu-oncall", f"why {POD} --cluster far")
            await hanging.wait()
            await slack.command("grace", "gpu-oncall", f"why {POD} --cluster near")
            await slack.wait_for(channel="gpu-oncall", containing=VERDICT, user="grace")
            await slack.wait_for(channel="gpu-oncall", containing="gave up after", user="ada")


async def test_a_listener_that_fails_before_its_ack_acks_all_the_same(tmp_path: Path, mode: Mode) -> None:
    view = {"id": "V1", "hash": "1", "type": "modal", "state": {"values": {}}, "private_metadata": "{"}
    odd = {"type": "button", "block_id": "b", "action_ts": "1"}

    async with a_recorded_bot(tmp_path, mode=mode) as here:
        for callback in ("fit", "ask"):
            assert (await sent(here.slack, "view_submission", view=view | {"callback_id": callback})).ok
        assert (await sent(here.slack, "message_action", callback_id="diagnose")).ok
        for value in ("", "[", "{}", '{"v":1,"ask":7,"cluster":[]}'):
            actions = [odd | {"action_id": "ask:0", "value": value}]
            container = {"type": "message", "message_ts": "1.0", "channel_id": "C0GPUONC01"}
            assert (await sent(here.slack, "block_actions", actions=actions, container=container)).ok
        assert (await sent(here.slack, "block_actions", actions=[odd | {"action_id": "post-to-channel"}])).ok
        await later(here.slack)


# ------------------------------------------------------------------------------------------ showing an answer


@played(slack=lambda: SlackServer(seed=OUTSIDE, deadline_s=60))
async def test_post_to_channel_works_where_the_bot_is_no_member(here: Here, *, mode: Mode) -> None:
    posted = await posted_to_channel(here, HELD, HELD_VERDICT)
    await here.slack.click("grace", button(posted, "ask:"), channel="gpu-oncall", message_ts=posted["ts"])
    await here.slack.wait_for(lambda: len(here.slack.messages("gpu-oncall", "linus", posted["ts"])) > 1)


@pytest.mark.parametrize("kind", ["hang", "reset", "rate_limited"])
@played(limits=structs.replace(PATIENT, drain_s=0.2))
async def test_a_receipt_that_cannot_be_given_does_not_hold_up_the_answer(here: Here, *, kind: str) -> None:
    here.slack.faults.append(Fault(kind, where="^api/reactions", times=None, retry_after="60"))
    asked = await here.slack.mention("ada", "gpu-oncall", f"why {POD}")
    await here.slack.wait_for(channel="gpu-oncall", containing=VERDICT, thread_ts=asked.ts, seconds=50)
    here.slack.faults.clear()


# ------------------------------------------------------------------------------------------ meanwhile


@held()
async def test_what_announces_the_answer_to_a_command_is_still_true_when_the_answer_stands_below_it(
    here: Here, cluster: Gated, *, mode: Mode
) -> None:
    ack = await here.slack.command("ada", "gpu-oncall", f"why {POD}")
    assert ack.payload == {}
    await here.slack.wait_for(channel="gpu-oncall", containing="answer comes as a new message", user="ada")
    cluster.gate.set()
    await here.slack.wait_for(channel="gpu-oncall", containing=VERDICT, user="ada")
    await later(here.slack)
    told = [text_of(message) for message in here.slack.messages("gpu-oncall", "ada") if message.get("ephemeral")]
    assert ["answer comes" in text for text in told] == [True, False]
    assert LOOKING not in "".join(told)


@held()
async def test_while_a_click_is_answered_its_message_shows_the_progress_and_then_the_answer(
    here: Here, cluster: Gated
) -> None:
    cluster.gate.set()
    answer = await here.command("ada", f"why {POD}", VERDICT)
    cluster.gate.clear()
    await here.slack.click("ada", EVERYTHING, channel="gpu-oncall", message_ts=answer["ts"])
    told = await here.slack.wait_for(channel="gpu-oncall", containing=LOOKING, user="ada")
    cluster.gate.set()
    await here.slack.wait_for(channel="gpu-oncall", containing=VERDICT, user="ada")
    assert told["ts"] == answer["ts"]
    assert [message["ts"] for message in here.slack.messages("gpu-oncall", "ada") if message.get("ephemeral")] == [
        told["ts"]
    ]


@held()
async def test_while_a_public_answer_is_made_its_progress_is_posted_and_then_edited(
    here: Here, cluster: Gated, *, mode: Mode
) -> None:
    asked, told = await here.mention("ada", f"why {POD}", LOOKING)
    assert reactions(here, asked) == ["eyes"]
    cluster.gate.set()
    answer = await here.slack.wait_for(channel="gpu-oncall", containing=VERDICT, thread_ts=asked)
    assert answer["ts"] == told["ts"]
    assert LOOKING not in "".join(text_of(message) for message in here.slack.messages("gpu-oncall", "grace", asked))


@held(limits=structs.replace(PATIENT, drain_s=0.1))
async def test_progress_repeats_nobodys_mention(here: Here, cluster: Gated) -> None:
    await here.slack.mention("ada", "gpu-oncall", 'gpus --type "@channel @grace *b* <https://a.b|c>"')
    told = await here.slack.wait_for(channel="gpu-oncall", containing=LOOKING)
    assert "<" not in told["text"]


@played()
async def test_a_thread_keeps_its_pod_also_after_questions_about_a_node_and_a_type(here: Here) -> None:
    asked, _ = await here.mention("ada", f"why {POD}", VERDICT)
    for text, says in (("who is using gpu-node-09?", "its GPUs"), ("which T4s are free?", "GPUs T4"), ("why", VERDICT)):
        asked_then = await here.slack.mention("ada", "gpu-oncall", text, thread_ts=asked)

        def answered(after: str = asked_then.ts, says: str = says) -> bool:
            told = here.slack.messages("gpu-oncall", "ada", asked)
            return any(says in text_of(message) for message in told if float(message["ts"]) > float(after))

        await here.slack.wait_for(answered)
