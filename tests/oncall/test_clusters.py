"""Which cluster an alert or a digest is about, however it is named, and that one which hangs holds up no other."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from bot.periodic_jobs import Clock
from bot.settings.oncall import OncallSettings
from bot.settings.schema import ClusterSettings
from handlers.deps import Deps
from handlers.oncall.alert_sorter import SORTED_AT_ONCE
from handlers.oncall.keeper import Keeper
from handlers.oncall.setup import plan
from handlers.oncall.watcher import Patience, Watcher
from playbooks.playbook import Sources
from tests.oncall.bot import GIVEN, ROOM, World, played
from tests.oncall.rig import Rig, on_rig, pending, text
from tests.oncall.scenes import busy_cluster
from tests.slack.outbox_support import ONCALL

HERE = OncallSettings(channel=ONCALL, token=GIVEN.token)


def one_cluster(rig: Rig) -> tuple[Deps, Keeper]:
    deps = replace(rig.deps(), clusters=("prod",), usual="prod")
    return deps, Keeper(deps, replace(plan(HERE, deps, "one", 60.0), clock=rig.bot.clock.now))


@on_rig(4)
async def test_alertmanager_and_the_watcher_mean_the_one_cluster_without_naming_it(rig: Rig) -> None:
    deps, keeper = one_cluster(rig)
    await Watcher(deps, keeper, deps.clusters, Patience(minutes=1), "one").look()
    await keeper.take([pending(0), pending(3, cluster="prod")])
    await rig.passes(50, keeper, step_s=50)
    [head] = [head for head in rig.heads() if "card-insufficient-memory" in text(head)]
    assert "2 of 2 pods still affected, 4 alerts" in text(head)


def test_a_digest_that_names_no_cluster_is_about_the_only_one_and_another_name_is_told_which_there_are(
    tmp_path: Path,
) -> None:
    async def scene(world: World) -> None:
        await world.command("ada", "digest daily 09:00 Asia/Shanghai", "here, about prod.")
        await world.slack.command("ada", ROOM, "digest daily 09:00 Asia/Shanghai --cluster prdo")
        assert "Configured clusters: prod" in text(await world.told("ada", "there is no cluster 'prdo'"))

    played(tmp_path, busy_cluster(tmp_path / "cluster", 1), scene, None, {"prod": ClusterSettings()})


@pytest.mark.parametrize("given", [HERE, HERE.model_copy(update={"cluster": "ours"})])
@on_rig(7)
async def test_where_the_settings_name_no_cluster_an_alert_that_names_one_is_about_the_usual_one(
    rig: Rig, *, given: OncallSettings
) -> None:
    deps = rig.deps()
    keeper = Keeper(deps, msgspec.structs.replace(plan(given, deps, "one", 60.0), clock=rig.bot.clock.now))
    await keeper.take([pending(0, cluster="prod"), pending(3), pending(6, cluster="another")])
    await rig.passes(50, keeper, step_s=50)
    [head] = rig.heads()
    assert "3 of 3 pods still affected" in text(head)


@contextlib.asynccontextmanager
async def running(keeper: Keeper) -> AsyncGenerator[None]:
    async with Clock() as clock:
        work = asyncio.create_task(keeper.run(clock))
        try:
            yield
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)


@on_rig(4)
async def test_a_cluster_that_hangs_holds_up_neither_people_nor_other_clusters(rig: Rig) -> None:
    hanging = asyncio.Event()

    @contextlib.asynccontextmanager
    async def sources(cluster: str) -> AsyncGenerator[Sources]:
        if cluster == "hangs":
            hanging.set()
            await asyncio.Event().wait()
        async with rig.sources(cluster) as opened:
            yield opened

    deps = replace(rig.deps(), clusters=("hangs", "well"), open_sources=sources)
    keeper = Keeper(deps, replace(plan(HERE, deps, "one", 0.01), clock=rig.bot.clock.now))
    async with running(keeper):
        await keeper.take([pending(0, cluster="hangs"), pending(3, cluster="well")])
        await hanging.wait()
        while not rig.heads() or not rig.replies(rig.heads()[0]):
            await rig.send()
        [row] = await rig.store.incidents.opened()
        await rig.acts(row, "ack")
        keeper.soon()
        while not any("Acknowledged" in reply for reply in rig.replies(rig.heads()[0])):
            await rig.send()
    assert [incident.cluster for incident in await rig.store.alerts.unsorted(5, "hangs")] == ["hangs"]


@on_rig(1, new=True)
async def test_however_many_alerts_wait_for_a_cluster_that_hangs_others_are_not_held_up(rig: Rig) -> None:
    @contextlib.asynccontextmanager
    async def sources(cluster: str) -> AsyncGenerator[Sources]:
        if cluster == "hangs":
            await asyncio.Event().wait()
        async with rig.sources(cluster) as opened:
            yield opened

    deps = replace(rig.deps(), clusters=("hangs", "well"), open_sources=sources)
    keeper = Keeper(deps, replace(plan(HERE, deps, "one", 0.01), clock=rig.bot.clock.now))
    crowd = [pending(pod=f"stuck-{number}", cluster="hangs") for number in range(SORTED_AT_ONCE)]
    await rig.store.alerts.take(crowd)
    async with running(keeper):
        await keeper.take([pending(0, cluster="well")])
        while not rig.heads():
            await rig.send()
    [head] = rig.heads()
    assert "1 of 1 pod still affected" in text(head)


@on_rig(1)
async def test_what_the_bot_saw_in_a_cluster_that_was_taken_out_of_the_settings_is_over(rig: Rig) -> None:
    both = replace(rig.deps(), clusters=("prod", "old"))
    before = Keeper(both, replace(plan(HERE, both, "one", 60.0), clock=rig.bot.clock.now))
    await Watcher(both, before, both.clusters, Patience(minutes=1), "one").look()
    await rig.passes(10, before)
    deps, keeper = one_cluster(rig)
    assert len(await rig.store.alerts.firing(source="watch", cluster="old")) == 1
    await Watcher(deps, keeper, ("prod",), Patience(minutes=1), "one").look()
    await rig.passes(400, keeper, step_s=100)
    assert await rig.store.alerts.firing(source="watch", cluster="old") == []
    assert len(await rig.store.alerts.firing(source="watch", cluster="prod")) == 1
    [gone] = [head for head in rig.heads() if "Resolved" in text(head)]
    assert "old" in text(gone)
    assert [reply for reply in rig.replies(gone) if "their cluster is no longer in the settings" in reply]
