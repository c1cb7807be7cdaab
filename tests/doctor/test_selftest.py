"""The bot tests itself: a known question, and what it has to read of each cluster."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from bot.errors import SourceError
from bot.health import HealthFacts, judge
from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.main import running
from bot.store.facts import Mark
from bot.texts import Texts
from handlers.doctor import checks
from handlers.doctor.checks import BLIND, find_links, of_cluster
from handlers.doctor.links import wrong_with
from handlers.health_monitor import EVERY_S, SelfTest
from playbooks.playbook import Sources
from sandbox.apiserver import Rule
from sandbox.slack import SlackServer
from tests.cases_support import CASES
from tests.doctor.support import RECORDING, a_world
from tests.oncall.bot import CHANNEL, GIVEN
from tests.oncall.rig import Rig, a_rig
from tests.slack.bot import PATIENT, settings
from tests.slack.outbox_support import seed

SAY = Texts("en")


# ------------------------------------------------------------------------------------------------ the known answer


def wrong() -> str:
    return SAY.words(wrong_with(asyncio.run(find_links("self-test", None))))


def test_the_known_question_is_answered_as_it_has_to_be() -> None:
    assert wrong() == ""


def test_another_answer_is_told_with_both_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "RECORDING", RECORDING)
    monkeypatch.setattr(checks, "WORDS", ("why", "ml/s05-card-time-slicing"))
    assert "instead of impossible-anywhere" in wrong()


def test_a_recording_that_is_not_there_is_a_wrong_answer_and_no_crash(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(checks, "RECORDING", tmp_path / "gone")
    assert "does not exist" in wrong()


# ------------------------------------------------------------------------------------------- what has to be readable


def unseen(folder: Path, *taken: Rule, without: str = "") -> str:
    async def main() -> str:
        async with a_world(folder) as world:
            world.server.access.refused.extend(taken)
            async with world.sources() as sources:
                return SAY.words(wrong_with(await of_cluster("self-test", sources._replace(hami_namespace=without))))

    return asyncio.run(main())


def test_with_the_charts_rights_everything_is_seen(tmp_path: Path) -> None:
    assert unseen(tmp_path) == ""


@pytest.mark.parametrize("resource", ["pods", "nodes"])
def test_a_list_that_is_refused_makes_the_bot_blind(resource: str, tmp_path: Path) -> None:
    assert resource in unseen(tmp_path, Rule(["list", "watch"], [resource]))


def test_so_does_a_cluster_in_which_hami_is_not_found(tmp_path: Path) -> None:
    assert "no scheduler of HAMi" in unseen(tmp_path, without="elsewhere")


# --------------------------------------------------------------------------------------------- hourly, and remembered


@asynccontextmanager
async def self_test(folder: Path) -> AsyncGenerator[tuple[Rig, SelfTest]]:
    async with a_rig(f"sqlite:///{folder / 'bot.db'}", CASES / "hami-2.10" / "recording.tar.gz") as rig:
        yield rig, SelfTest(rig.deps(), "one")


async def blind(rig: Rig) -> list[Mark]:
    return await rig.store.marks.all(BLIND)


async def test_one_failure_is_no_news_and_two_in_a_row_are(tmp_path: Path) -> None:
    async with self_test(tmp_path) as (rig, test):
        rig.down = SourceError("GET /version: connection refused")
        await test.test()
        assert await blind(rig) == []
        await test.test()
        assert [mark.text for mark in await blind(rig)] == ["GET /version: connection refused"]
        rig.down = None
        await test.test()
        assert await blind(rig) == []


async def test_it_is_done_every_hour_and_sooner_while_something_is_wrong(tmp_path: Path) -> None:
    async with self_test(tmp_path) as (rig, test):

        async def looks() -> int:
            before = rig.read
            await test._look()
            return rig.read - before

        assert await looks() == 1
        assert await looks() == 0
        await rig.bot.clock.advance(EVERY_S)
        rig.down = SourceError("gone")
        assert [await looks(), await looks(), await looks()] == [1, 1, 1]
        rig.down = None
        assert [await looks(), await looks()] == [1, 0]


async def test_another_replica_does_not_test_as_well(tmp_path: Path) -> None:
    async with self_test(tmp_path) as (rig, test):
        await test._look()
        await rig.store.marks.drop("self-test")
        before = rig.read
        await SelfTest(rig.deps(), "two")._look()
        assert rig.read == before


# ------------------------------------------------------------------------------------------------------------- told


def test_each_blind_cluster_is_a_trouble_of_its_own_that_keeps_the_bot_ready() -> None:
    found = judge(HealthFacts(blind={"prod": "no nodes", "lab": "gone"}))
    assert [entry.key for entry in found] == ["blind:lab", "blind:prod"]
    assert not any(entry.is_unready for entry in found)
    assert SAY.words(found[1].text) == "the bot is blind on the cluster prod: no nodes"


async def test_the_running_bot_tests_itself_and_tells_the_first_channel(tmp_path: Path) -> None:
    @asynccontextmanager
    async def gone(cluster: str) -> AsyncGenerator[Sources]:
        del cluster
        raise SourceError("GET /version: connection refused")
        yield Sources(RecordedCluster.open(RECORDING))

    async with asyncio.timeout(180), SlackServer(seed=seed(), deadline_s=60) as slack:
        wanted = settings(slack, tmp_path).model_copy(update={"oncall": GIVEN})
        limits = replace(PATIENT, test_s=0.02, look_s=0.02)
        async with running(wanted, wanted.slack, gone, limits):
            await slack.wait_for(channel=CHANNEL, containing="the bot is blind on the cluster (default)")
