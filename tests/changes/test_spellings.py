"""Raise, restart, effective, revert over real sockets: the pod template is as it was, however it spells its flags.

The controllers of a cluster run beside the sandbox's API server, so pods really are replaced. The same is done on the
cluster of HAMI_BOT_TEST_KUBECONFIG, if it is set, with a look-alike Deployment in a namespace of its own.
"""

import asyncio
import copy
import itertools
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bot.changes.changer import Changer
from bot.changes.deployments import ChangeFailed
from bot.changes.kinds import VERBOSITY, ChangeKind
from bot.changes.plan import Plan, Raise, unfinished_rollout
from bot.errors import BotError
from bot.hami.version import Version
from bot.kube.client.connect import open_writer
from bot.kube.client.responses import ServerClock
from bot.kube.client.writer import Writer
from bot.store import open_store
from handlers.changes.execute import ChangeMaker
from handlers.changes.leader_pass import WritableCluster
from sandbox.apiserver import ApiServer, Fault
from sandbox.apiserver.controllers import Timing
from tests.cases_support import VERSIONS, files_of
from tests.changes.deployments import EVERY, EXTENDER, KUBE_SCHEDULER, NOW, but, new_value, wants
from tests.changes.memory import Cluster, MemoryJournal, Replica
from tests.changes.rig import NAME, NEWEST, Killed, Steps, crash_points, raised
from tests.real_cluster import REAL, namespace_of_our_own, send_as_it_is
from tests.stores import new_store

AT_ONCE = Timing(ready_s=0, gone_s=0, lease_s=0)
SPELLINGS = ["-v=4", "--v=4", "-v 4", "--v 4", "-v4", "-v=1 --debug --v=4", ""]
LEVEL = wants(VERBOSITY, "6", EXTENDER, 600, "U1", "a pod hangs")
SCHEDULER = ("hami-system", "hami-scheduler")


async def raised_and_reverted(writer: Writer, where: tuple[str, str], wanted: Raise, version: Version) -> None:
    """One whole change on the Deployment, with a real rollout after the raise and after the revert."""
    now = [NOW]
    journal = MemoryJournal()
    bot = Changer(timeless(writer), journal, namespace=where[0], now=lambda: now[0])
    before = await settled(writer, where)
    plan = await bot.plan(*where, wanted, version, "c1")
    assert isinstance(plan, Plan), plan
    await bot.raise_(plan, version)
    raised = await settled(writer, where)
    assert raised["spec"] != before["spec"]
    assert [event.kind for event in await bot.passes.reconcile()] == ["effective"]
    now[0] += 599
    assert await bot.passes.reconcile() == []
    now[0] += 2
    assert [event.kind for event in await bot.passes.reconcile()] == ["reverted"]
    after = await settled(writer, where)
    assert json.dumps(after["spec"]) == json.dumps(before["spec"])
    assert _annotations(after) == _annotations(before)
    assert journal.ends() == {"c1": "reverted"}


def timeless(writer: Writer) -> Any:
    """The writer, of which nobody learns the server's time: that of a real cluster cannot be moved."""

    class Timeless:
        clock = ServerClock()

        def __getattr__(self, name: str) -> Any:
            return getattr(writer, name)

    return Timeless()


def _annotations(deployment: dict[str, Any]) -> dict[str, str]:
    found = deployment["metadata"].get("annotations") or {}
    return {key: value for key, value in found.items() if key != "deployment.kubernetes.io/revision"}


async def settled(writer: Writer, where: tuple[str, str], within_s: float = 10) -> dict[str, Any]:
    """The Deployment when its rollout is through."""
    async with asyncio.timeout(within_s):
        while True:
            deployment = await writer.deployment(*where)
            if not unfinished_rollout(deployment):
                return deployment
            await asyncio.sleep(0.01 if within_s <= 10 else 0.5)


@asynccontextmanager
async def served(folder: Path, objects: dict[str, list[Any]]) -> AsyncGenerator[Writer]:
    async with ApiServer(objects, timing=AT_ONCE) as server:
        config = folder / "kubeconfig"
        config.write_text(server.kubeconfig())
        async with await open_writer(kubeconfig=config, timeout_s=60) as writer:
            yield writer


def recorded(version: str) -> dict[str, list[Any]]:
    """The scheduler of a recording, its pods and ReplicaSets, and the nodes they run on."""
    files = files_of(version)
    names = ("deployments.apps", "replicasets.apps", "pods", "nodes")
    items = {name: json.loads(files.get(f"objects/{name}.json", b'{"items": []}'))["items"] for name in names}
    keep = ("hami-scheduler",)
    return {
        name: [item for item in found if name == "nodes" or item["metadata"]["name"].startswith(keep)]
        for name, found in items.items()
    }


def spelled(words: str) -> list[str]:
    return words.split()


def guides(words: Sequence[str], container: str = EXTENDER) -> dict[str, list[Any]]:
    """The layout of the public guides: one container, its flags in `args`."""
    labels = {"app": "hami-scheduler"}
    one = {
        "name": container,
        "image": "registry.k8s.io/pause:3.10",
        "args": ["scheduler", *words, "--scheduler-name=x"],
    }
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [one]}},
    }
    meta = {"namespace": SCHEDULER[0], "name": SCHEDULER[1], "uid": "u-1", "generation": 1, "resourceVersion": "1"}
    status = {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1}
    node = {"metadata": {"name": "n1", "uid": "n-1", "resourceVersion": "1"}, "spec": {}, "status": {}}
    return {"deployments.apps": [{"metadata": meta, "spec": spec, "status": status}], "nodes": [node]}


def respelled(objects: dict[str, list[Any]], container: str, words: Sequence[str]) -> dict[str, list[Any]]:
    """The recorded Deployment with the container's level spelled another way, as if it had been installed so."""
    objects = copy.deepcopy(objects)
    [deployment] = objects["deployments.apps"]
    for template in [item["spec"] for item in (*objects["replicasets.apps"], deployment)]:
        for item in template["template"]["spec"]["containers"]:
            field = "command" if item.get("command") else "args"
            if item["name"] == container:
                kept = [word for word in item[field] if word.lstrip("-").partition("=")[0] != "v"]
                item[field] = [*kept, *words]
    return objects


def done(folder: Path, objects: dict[str, list[Any]], wanted: Raise, version: Version = NEWEST) -> None:
    async def run() -> None:
        async with served(folder, objects) as writer:
            await raised_and_reverted(writer, SCHEDULER, wanted, version)

    asyncio.run(run())


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("version", VERSIONS)
def test_each_chart_is_as_it_was_after_a_raise_a_restart_and_a_revert(
    version: str, spelling: str, tmp_path: Path
) -> None:
    """Both containers of the charts hold their flags in `command`; every other spelling is done on kube-scheduler."""
    container = (EXTENDER, KUBE_SCHEDULER)[(VERSIONS.index(version) + SPELLINGS.index(spelling)) % 2]
    objects = respelled(recorded(version), container, spelled(spelling))
    done(tmp_path, objects, but(LEVEL, container=container))


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_the_layout_of_the_guides_is_as_it_was(spelling: str, tmp_path: Path) -> None:
    done(tmp_path, guides(spelled(spelling)), LEVEL)


@pytest.mark.parametrize("spelling", ["", "{}={}", "{}={} {}={}"])
@pytest.mark.parametrize(("kind", "container"), EVERY)
def test_every_kind_is_changed_and_reverted(spelling: str, kind: ChangeKind, container: str, tmp_path: Path) -> None:
    wanted = but(LEVEL, kind=kind, value=new_value(kind), container=container)
    shown = spelling.format(*[kind.flag.shown, kind.values.default] * 2)
    done(tmp_path, guides(spelled(shown), container), wanted)


RUNNING = but(LEVEL, container=KUBE_SCHEDULER, means="debug-flags")


class Running:
    """Two running kube-schedulers whose level is set without a restart; see tests/changes/memory.py."""

    def __init__(self, journal: Any = None) -> None:
        self.cluster = Cluster()
        self.replica = Replica(self.cluster, journal or MemoryJournal())

    async def raise_(self, steps: Steps | None = None) -> None:
        await raised(self.replica.changer(steps), RUNNING)

    async def pass_(self, at: float) -> list[str]:
        self.cluster.now = NOW + at
        return [event.kind for event in await self.replica.changer().passes.reconcile()]

    def assert_undone(self) -> None:
        assert set(self.cluster.levels.values()) == {"3"}
        assert self.cluster.record() is None
        assert json.dumps(self.cluster.live()["spec"]) == self.cluster.original


async def test_running_processes_are_set_and_set_back_and_no_pod_restarts() -> None:
    here = Running()
    await here.raise_()
    assert set(here.cluster.levels.values()) == {"6"}
    assert await here.pass_(15) == ["effective"]
    assert await here.pass_(600) == ["reverted"]
    here.assert_undone()


@pytest.mark.parametrize("act", ["raise", "pass"])
async def test_killed_at_any_step_it_is_in_effect_only_with_its_level_set_and_the_old_one_is_back_by_the_deadline(
    act: str, record_property: Callable[[str, object], None]
) -> None:
    async def begun(here: Running, steps: Steps) -> None:
        if act == "raise":
            await here.raise_(steps)
            return
        await here.raise_()
        here.cluster.now += 600
        await here.replica.changer(steps).passes.reconcile()

    whole = Steps()
    await begun(Running(), whole)
    points = crash_points(whole.names)
    for (at, when), is_seen in itertools.product(points, (True, False)):
        here = Running()
        with pytest.raises(Killed):
            await begun(here, Steps(at, when))
        if act == "raise" and is_seen:
            told = await here.pass_(15)
            levels = set(here.cluster.levels.values())
            assert levels == ({"6"} if here.cluster.record() else {"3"}), (at, when)
            assert ("effective" in told) == (levels == {"6"}), (at, when)
        for moment in (600, 615, 800):
            await here.pass_(moment)
        here.assert_undone()
        assert await here.replica.journal.opened() == []
    record_property("crash_points", len(points))


async def test_a_killed_raise_is_not_in_effect_while_one_of_two_processes_cannot_be_set() -> None:
    whole = Steps()
    await Running().raise_(whole)
    here = Running()
    with pytest.raises(Killed):
        await here.raise_(Steps(whole.names.index("set_verbosity"), "before"))
    here.cluster.silent.add("pod-2")
    assert await here.pass_(15) == []
    here.cluster.silent.clear()
    assert await here.pass_(30) == ["raised", "effective"]
    assert set(here.cluster.levels.values()) == {"6"}
    assert await here.pass_(600) == ["reverted"]
    here.assert_undone()


async def test_a_killed_raise_whose_deed_is_resumed_has_its_level_set_before_it_is_told_as_done(tmp_path: Path) -> None:
    whole = Steps()
    await Running().raise_(whole)
    async with open_store(new_store(tmp_path / "store.db")) as store:
        here = Running(store.changes("lab"))
        with pytest.raises(Killed):
            await here.raise_(Steps(whole.names.index("set_verbosity"), "after"))
        assert set(here.cluster.levels.values()) == {"3", "6"}
        deps: Any = SimpleNamespace(store=store)
        unused: Any = None
        maker = ChangeMaker(deps, unused, unused, exact=False)
        writable = WritableCluster("lab", here.replica.writer(), here.replica.changer(), unused, asyncio.Lock())
        assert await maker.resume(writable, "c1") == "raised"
        assert set(here.cluster.levels.values()) == {"6"}


async def test_where_one_of_two_processes_cannot_be_set_none_is() -> None:
    here = Running()
    here.cluster.silent.add("pod-2")
    with pytest.raises(ChangeFailed, match="some of the pods"):
        await here.raise_()
    assert here.cluster.levels["pod-1"] == "3"
    here.cluster.silent.clear()
    await here.pass_(600)
    here.assert_undone()


async def test_one_process_that_cannot_be_set_back_keeps_no_other_from_it_and_is_told() -> None:
    here = Running()
    await here.raise_()
    here.cluster.silent.add("pod-1")
    await here.pass_(600)
    assert here.cluster.levels == {"pod-1": "6", "pod-2": "3"}
    assert await here.pass_(661) == ["failed"]
    here.cluster.silent.clear()
    assert await here.pass_(675) == ["reverted"]
    here.assert_undone()


async def test_a_pod_that_restarted_meanwhile_has_its_old_level() -> None:
    here = Running()
    await here.raise_()
    here.cluster.restart_pod("pod-1", "pod-3")
    assert await here.pass_(600) == ["reverted"]
    here.assert_undone()


async def test_a_raise_that_was_reverted_while_it_stood_still_sets_its_processes_back() -> None:
    """Between the record and the PUTs, for longer than the change lasts."""
    here = Running()
    quick = Steps()
    await here.raise_(quick)
    first_put = quick.names.index("set_verbosity")
    here = Running()

    async def meanwhile() -> None:
        assert await here.pass_(700) == ["reverted"]

    with pytest.raises(ChangeFailed, match="reverted before"):
        await here.raise_(Steps(first_put, "before", meanwhile))
    here.assert_undone()


async def test_words_that_somebody_changed_are_what_the_old_pods_are_set_to() -> None:
    """The rollout may stand still, and the old pods run on."""
    here = Running()
    await here.raise_()
    words = ["kube-scheduler", "-v=2"]
    here.cluster.edit(lambda object_: object_["spec"]["template"]["spec"]["containers"][3].update(command=words))
    assert await here.pass_(600) == ["drifted"]
    assert set(here.cluster.levels.values()) == {"2"}


async def test_where_no_process_takes_a_level_nothing_is_told_as_raised() -> None:
    here = Running()
    here.cluster.levels.clear()
    with pytest.raises(ChangeFailed, match="nothing was changed"):
        await here.raise_()
    assert here.cluster.record() is None


async def test_over_real_sockets_a_running_process_is_set_and_set_back(tmp_path: Path) -> None:
    async with served(tmp_path, recorded("hami-2.10")) as writer:
        now = [NOW]
        bot = Changer(timeless(writer), MemoryJournal(), now=lambda: now[0])
        before = await writer.deployment(*SCHEDULER)
        plan = await bot.plan(*SCHEDULER, RUNNING, NEWEST, "c1")
        assert isinstance(plan, Plan), plan
        await bot.raise_(plan, NEWEST)
        now[0] += 601
        assert [event.kind for event in await bot.passes.reconcile()] == ["reverted"]
        assert (await writer.deployment(*SCHEDULER))["spec"] == before["spec"]


async def test_over_real_sockets_what_may_not_be_set_leaves_nothing_behind(tmp_path: Path) -> None:
    proxy = Fault(r"/proxy/", "status", status=403)
    async with ApiServer(recorded("hami-2.10"), timing=AT_ONCE, faults=[proxy]) as server:
        config = tmp_path / "kubeconfig"
        config.write_text(server.kubeconfig())
        async with await open_writer(kubeconfig=config, timeout_s=60) as writer:
            bot = Changer(timeless(writer), MemoryJournal(), now=lambda: NOW)
            plan = await bot.plan(*SCHEDULER, RUNNING, NEWEST, "c1")
            assert isinstance(plan, Plan), plan
            with pytest.raises(BotError, match="403"):
                await bot.raise_(plan, NEWEST)


# -------------------------------------------------------------------------------------------------- a real cluster


@pytest.mark.skipif(not REAL, reason="HAMI_BOT_TEST_KUBECONFIG names no real cluster")
@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("field", ["args", "command"])
async def test_on_a_real_cluster_a_look_alike_is_as_it_was(spelling: str, field: str) -> None:
    """Pause, which takes no heed of its words; `command` names its binary first."""
    async with await open_writer(kubeconfig=Path(REAL)) as writer, namespace_of_our_own(writer) as namespace:
        [made] = guides(spelled(spelling))["deployments.apps"]
        one = made["spec"]["template"]["spec"]["containers"][0]
        one[field] = ["/pause", *one.pop("args")] if field == "command" else one["args"]
        made = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": made["spec"], "metadata": {"name": NAME}}
        await send_as_it_is(writer, "POST", f"/apis/apps/v1/namespaces/{namespace}/deployments", made)
        await settled(writer, (namespace, NAME), 120)
        await raised_and_reverted(writer, (namespace, NAME), LEVEL, NEWEST)
