"""What the bot notices by itself becomes a thread, and what it does not see any more is over only if it saw all."""

from pathlib import Path

from bot.errors import SourceError
from bot.triage.state import MuteUntil
from handlers.oncall.keeper import LOOKED_S
from handlers.oncall.watcher import Patience, Watcher
from tests.oncall.rig import Rig, a_rig, on_rig, text
from tests.oncall.watching import seen, waiting
from tests.playbooks.world import gpu_node, pod


def watcher(rig: Rig, **patience) -> Watcher:
    return Watcher(rig.deps(), rig.keeper(), ("",), Patience(**patience), "one")


async def looked(rig: Rig, *watchers: Watcher) -> None:
    for candidate in watchers:
        await candidate.look()
    await rig.passes(1)


def unregistered(folder: Path) -> Path:
    bare = gpu_node("gpu-2")
    bare["metadata"]["annotations"].clear()
    return seen(folder / "c", bare)


@on_rig(lambda folder: seen(folder / "c", waiting("old", 11), waiting("new", 9)))
async def test_a_pod_that_waits_for_too_long_is_a_thread(rig: Rig) -> None:
    await looked(rig, watcher(rig), watcher(rig))
    [head] = rig.heads()
    assert "1 of 1 pod still affected, 1 alert" in text(head)
    assert "ml/old" in text(head)


async def test_a_namespace_has_its_own_patience(database: str, tmp_path: Path) -> None:
    objects = waiting("a", 30, "batch"), waiting("b", 30, "ml"), waiting("c", 2, "web")
    async with a_rig(database, seen(tmp_path / "c", *objects)) as rig:
        await looked(rig, watcher(rig, of_namespace={"batch": 60, "ml": 0, "web": 1}))
        [head] = rig.heads()
        assert "web/c" in text(head)
        assert "1 of 1 pod" in text(head)


async def test_pods_of_other_schedulers_are_left_to_them(database: str, tmp_path: Path) -> None:
    objects = [
        pod("kai", age=900, schedulerName="kai-scheduler"),
        pod("koord", age=900, schedulerName="koord-scheduler"),
    ]
    misspelt = pod("misspelt", age=900, schedulerName="hami-schedulr")
    async with a_rig(database, seen(tmp_path / "c", misspelt, *objects)) as rig:
        await looked(rig, watcher(rig), watcher(rig))
        [head] = rig.heads()
        assert "ml/misspelt" in text(head)
        assert "1 of 1 pod" in text(head)


@on_rig(lambda folder: seen(folder / "c", waiting("old", 11)))
async def test_it_is_over_when_the_pod_waits_no_more(rig: Rig, *, tmp_path: Path) -> None:
    one = watcher(rig)
    await looked(rig, one)
    rig.recording = seen(tmp_path / "later")
    await looked(rig, one)
    assert await _quiet(rig)


async def _quiet(rig: Rig) -> bool:
    return await rig.store.alerts.firing(source="watch", cluster="") == []


@on_rig(unregistered)
async def test_trouble_has_to_be_there_twice_and_is_over_only_for_who_sees_as_much(rig: Rig, *, tmp_path: Path) -> None:
    one = watcher(rig)
    await looked(rig, one)
    assert rig.heads() == []
    await looked(rig, one)
    [head] = rig.heads()
    assert "node-unregistered" in text(head)
    rig.recording = seen(tmp_path / "blind", missing=("configmaps",))
    await looked(rig, one)
    assert not await _quiet(rig)
    rig.recording = seen(tmp_path / "well")
    await looked(rig, one)
    assert await _quiet(rig)


async def muted(rig: Rig) -> None:
    """The thread of the node's trouble is muted until it registers."""
    one = watcher(rig)
    await looked(rig, one)
    await looked(rig, one)
    [row] = await rig.store.incidents.opened()
    await rig.acts(row, "mute", until=MuteUntil(node="gpu-2"))


@on_rig(unregistered, new=True)
async def test_a_mute_until_a_node_is_registered_ends_when_the_node_is_gone(rig: Rig, *, tmp_path: Path) -> None:
    keeper = rig.keeper()
    await muted(rig)
    rig.down = SourceError("GET /api/v1/nodes: HTTP 503")
    await rig.passes(200, keeper, step_s=50)
    assert "Muted, warning" in text(rig.heads()[0])
    rig.down, rig.recording = None, seen(tmp_path / "without")
    await rig.passes(200, keeper, step_s=50)
    [head] = rig.heads()
    assert "Open, " in text(head)
    assert [reply for reply in rig.replies(head) if "the node no longer exists: gpu-2" in reply]


@on_rig(unregistered)
async def test_a_mute_until_a_node_is_registered_ends_when_a_look_shows_it(rig: Rig, *, tmp_path: Path) -> None:
    keeper = rig.keeper()
    await muted(rig)
    await rig.passes(200, keeper, step_s=50)
    [head] = rig.heads()
    assert "Muted, warning" in text(head)
    assert "node gpu-2 is registered again" in text(head)
    read = rig.read
    await rig.passes(LOOKED_S / 2, keeper)
    assert rig.read <= read + 1
    rig.recording = seen(tmp_path / "well", gpu_node("gpu-2"))
    await rig.passes(200, keeper, step_s=50)
    [head] = rig.heads()
    assert "Open, " in text(head)
    assert [reply for reply in rig.replies(head) if "The mute ended: node gpu-2 is registered again" in reply]
