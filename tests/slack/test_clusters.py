"""Several clusters: the one that is named, else the thread's, else the channel's; where nothing tells, the bot asks."""

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bot.errors import SourceError, UsageError
from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.main import running
from bot.settings import load_settings
from bot.settings.schema import ChannelSettings, ClusterSettings, Settings
from bot.texts import in_english
from handlers.cluster_choice import ClusterChoice, open_sources
from playbooks.playbook import Sources
from sandbox.slack import SlackServer
from sandbox.slack.content import elements_of, strings_of
from tests.cases_support import CASES
from tests.slack.bot import PATIENT, POD, Mode, a_bot, settings, staged

QUESTION = f"why ml/{POD}"
NEW, OLD = "hami-2.10", "hami-2.7.1"
FOUND = "20,000 MiB"
WHICH = "Which cluster do you mean?"
BOTH = {"prod": NEW, "staging": OLD}


def recording(version: str) -> Path:
    return CASES / version / "recording.tar.gz"


@staged
@asynccontextmanager
async def played(
    tmp_path: Path, mode: Mode, channel: str = "", default: str = "", clusters=BOTH
) -> AsyncGenerator[SlackServer]:
    """A bot that knows these clusters (name to recording).

    `channel` is the cluster of #gpu-oncall, `default` the one that `serve --cluster` names.
    """
    file = tmp_path / "settings.yaml"
    known = {name: {"recording": str(recording(version))} for name, version in clusters.items()}
    file.write_bytes(msgspec.json.encode({"clusters": known}))

    def opener(cluster: str):
        return open_sources(ClusterChoice(config=file, cluster=cluster or default))

    async with asyncio.timeout(180), SlackServer(deadline_s=60) as slack:
        usual = {slack.workspace.channel_id("gpu-oncall"): ChannelSettings(cluster=channel)} if channel else {}
        named = {name: ClusterSettings(**one) for name, one in known.items()}
        wanted = settings(slack, tmp_path, mode).model_copy(update={"clusters": named, "channels": usual})
        async with running(wanted, wanted.slack, opener, PATIENT) as address:
            if mode == "http":
                slack.delivery, slack.request_url = "http", f"{address}/slack/events"
            yield slack


def text_of(message: Any) -> str:
    return "\n".join(strings_of(message))


def buttons(message: Any) -> dict[str, str]:
    """The action ids by the buttons' labels."""
    found = [
        element for block in message["blocks"] for element in elements_of(block) if element.get("type") == "button"
    ]
    return {element["text"]["text"]: element["action_id"] for element in found}


async def asked(slack: SlackServer, words: str, containing: str, channel: str = "gpu-oncall") -> Any:
    """The answer to a command."""
    await slack.command("ada", channel, words)
    return await slack.wait_for(channel=channel, containing=containing, user="ada")


# --------------------------------------------------------------------------------------------------- in Slack


@played()
async def test_where_nothing_names_a_cluster_the_bot_asks_and_a_click_answers(
    slack: SlackServer, *, mode: Mode
) -> None:
    choice = await asked(slack, QUESTION, WHICH)
    assert list(buttons(choice)) == ["prod", "staging"]
    await slack.click("ada", buttons(choice)["prod"], channel="gpu-oncall", message_ts=choice["ts"])
    answer = await slack.wait_for(channel="gpu-oncall", containing=FOUND, user="ada")
    assert "cluster prod" in text_of(answer)


@played(channel="prod")
async def test_a_direct_message_is_asked_which_cluster_it_means(slack: SlackServer, *, mode: Mode) -> None:
    room = slack.dm("linus")
    await slack.say("linus", room, QUESTION)
    choice = await slack.wait_for(channel=room, containing=WHICH)
    await slack.click("linus", buttons(choice)["staging"], channel=room, message_ts=choice["ts"])
    assert "cluster staging" in text_of(await slack.wait_for(channel=room, containing=FOUND, thread_ts=choice["ts"]))


@played(clusters={"prod": NEW})
async def test_the_only_cluster_need_not_be_named(slack: SlackServer, *, mode: Mode) -> None:
    room = slack.dm("linus")
    await slack.say("linus", room, QUESTION)
    assert "cluster prod" in text_of(await slack.wait_for(channel=room, containing=FOUND))


@played(default="prod")
async def test_the_cluster_that_serve_was_started_for_need_not_be_named(slack: SlackServer, *, mode: Mode) -> None:
    assert "cluster prod" in text_of(await asked(slack, QUESTION, FOUND))


@played(channel="staging")
async def test_a_thread_stays_with_its_cluster(slack: SlackServer, *, mode: Mode) -> None:
    first = await slack.mention("grace", "gpu-oncall", f"{QUESTION} --cluster prod")
    await slack.wait_for(channel="gpu-oncall", containing=FOUND, thread_ts=first.ts)
    await slack.mention("grace", "gpu-oncall", "why ml/s01-fit-a100", thread_ts=first.ts)
    answer = await slack.wait_for(
        channel="gpu-oncall", containing="s01-fit-a100 (Running), cluster", thread_ts=first.ts
    )
    assert "cluster prod" in text_of(answer)


@played(channel="staging")
async def test_the_next_question_under_an_answer_is_about_its_cluster(slack: SlackServer, *, mode: Mode) -> None:
    answer = await asked(slack, f"{QUESTION} --cluster prod", FOUND)
    await slack.click("ada", buttons(answer)["Post to channel"], channel="gpu-oncall", message_ts=answer["ts"])
    assert "cluster prod" in text_of(await slack.wait_for(channel="gpu-oncall", containing=FOUND, user="grace"))


@played(channel="staging")
async def test_the_shortcut_looks_in_the_channels_cluster(slack: SlackServer, *, mode: Mode) -> None:
    said = await slack.say("grace", "gpu-oncall", f"is {POD} stuck?")
    await slack.shortcut("ada", "diagnose", channel="gpu-oncall", message_ts=said.ts)
    answer = await slack.wait_for(channel="gpu-oncall", containing=FOUND, user="ada")
    assert "cluster staging" in text_of(answer)


@played()
async def test_a_shortcut_without_a_cluster_names_the_clusters(slack: SlackServer, *, mode: Mode) -> None:
    said = await slack.say("grace", "gpu-oncall", f"is {POD} stuck?")
    await slack.shortcut("ada", "diagnose", channel="gpu-oncall", message_ts=said.ts)
    error = await slack.wait_for(channel="gpu-oncall", containing="prod, staging", user="ada")
    assert "--cluster prod" in text_of(error)


@played(channel="staging")
async def test_a_cluster_that_does_not_exist_is_answered_with_those_that_do(slack: SlackServer, *, mode: Mode) -> None:
    assert "prod, staging" in text_of(await asked(slack, f"{QUESTION} --cluster prdo", "'prdo'"))


@pytest.mark.parametrize("usual", ["", "prod"])
async def test_a_cluster_is_opened_once_whether_it_is_named_or_not(tmp_path: Path, usual: str) -> None:
    opened: list[str] = []
    clusters = {"prod": ClusterSettings(recording=str(recording(NEW)))}
    clusters |= {"staging": ClusterSettings(recording=str(recording(OLD)))} if usual else {}

    @asynccontextmanager
    async def opener(cluster: str) -> AsyncGenerator[Sources]:
        opened.append(cluster)
        yield Sources(RecordedCluster.open(recording(NEW), name=cluster))

    async with asyncio.timeout(180), SlackServer(deadline_s=60) as slack:
        wanted = settings(slack, tmp_path).model_copy(update={"clusters": clusters})
        async with running(wanted, wanted.slack, opener, PATIENT, usual=usual):
            await asked(slack, QUESTION, FOUND)
            await asked(slack, "why ml/s01-fit-a100 --cluster prod", "s01-fit-a100")
    assert opened == ["prod"]


async def test_a_bot_whose_settings_name_no_cluster_knows_the_one_that_it_was_started_for_alone(tmp_path: Path) -> None:
    opened: list[str] = []

    @asynccontextmanager
    async def opener(cluster: str) -> AsyncGenerator[Sources]:
        opened.append(cluster)
        yield Sources(RecordedCluster.open(recording(NEW), name=cluster))

    async with asyncio.timeout(180), SlackServer(deadline_s=60) as slack:
        wanted = settings(slack, tmp_path)
        async with running(wanted, wanted.slack, opener, PATIENT, usual="lab"):
            assert "cluster lab" in text_of(await asked(slack, f"{QUESTION} --cluster lab", FOUND))
            refused = await asked(slack, f"{QUESTION} --cluster other", "'other'")
            assert "Configured clusters: lab" in text_of(refused)
    assert opened == ["lab"]


async def test_who_asks_while_a_login_fails_is_told_with_the_others_and_who_asks_later_logs_in_again(
    tmp_path: Path,
) -> None:
    logins: list[asyncio.Event] = []

    @asynccontextmanager
    async def opener(cluster: str) -> AsyncGenerator[Sources]:
        logins.append(asyncio.Event())
        await logins[-1].wait()
        raise SourceError(f"login {len(logins)} took too long")
        yield Sources(RecordedCluster.open(recording(NEW), name=cluster))

    async with asyncio.timeout(180), a_bot(tmp_path, opener=opener) as here:
        slack = here.slack
        for user in ("ada", "grace", "linus"):
            await slack.command(user, "gpu-oncall", QUESTION)
        for user in ("ada", "grace", "linus"):
            await slack.wait_for(channel="gpu-oncall", containing="answer comes as a new message", user=user)
        logins[0].set()
        for user in ("ada", "grace", "linus"):
            await slack.wait_for(channel="gpu-oncall", containing="login 1 took", user=user)
        await slack.command("ada", "gpu-oncall", QUESTION)
        await slack.wait_for(lambda: len(logins) == 2)
        logins[1].set()
        await slack.wait_for(channel="gpu-oncall", containing="login 2 took", user="ada")


# ---------------------------------------------------------------------------------------------- settings, shell


def checked(tmp_path: Path, channels: Any) -> Settings | None:
    file = tmp_path / "settings.yaml"
    file.write_bytes(msgspec.json.encode({"clusters": {"prod": {}}, "channels": channels}))
    return load_settings(file)


def test_a_channel_may_be_written_in_lower_case_as_the_environment_gives_it(tmp_path: Path) -> None:
    read = checked(tmp_path, {"c0123abcd": {"cluster": "prod"}})
    assert read is not None
    assert read.channels == {"C0123ABCD": ChannelSettings(cluster="prod")}


@pytest.mark.parametrize(
    ("channels", "said"),
    [
        ({"C0123": {"cluster": "prdo"}}, "the cluster of entry 1 of channels is none of those under clusters"),
        ({"gpu-oncall": {"cluster": "prod"}}, "not by its name"),
        ({"C0123": {}}, "channels.NAME.cluster [line 1]"),
        ({"C0123": {"cluster": "prod", "color": "red"}}, "channels.NAME.NAME [line 1]: there is no such setting"),
    ],
)
def test_a_channel_setting_that_cannot_be_meant_is_an_error_at_the_start(
    tmp_path: Path, channels: Any, said: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        checked(tmp_path, channels)


def test_in_a_shell_several_clusters_are_named_with_an_example(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_bytes(msgspec.json.encode({"clusters": {"prod": {}, "staging": {}}}))

    async def opened() -> None:
        async with open_sources(ClusterChoice(config=file)):
            pass

    with pytest.raises(UsageError) as told:
        asyncio.run(opened())
    assert "prod, staging" in in_english(told.value.hint)
    assert "--cluster prod" in in_english(told.value.hint)
