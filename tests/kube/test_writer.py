"""The bot's writes over real sockets: done once, or told truly."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from bot.changes.kinds import VERBOSITY
from bot.changes.plan import Plan, plan_raise
from bot.changes.record import KEY
from bot.errors import NotFound, SourceError
from bot.hami.version import Version
from bot.kube.client.connect import open_writer
from bot.kube.client.writer import Conflict, OutcomeUnknown, Writer
from bot.texts import in_english
from sandbox.apiserver import ApiServer, Fault
from tests.cases_support import CASES, files_of
from tests.changes.deployments import EXTENDER, KUBE_SCHEDULER, NOW, due_on, wants

SCHEDULER = ("hami-system", "hami-scheduler")
PATCH = r"/deployments/hami-scheduler"


def written(
    folder: Path,
    talk: Callable[[Writer, ApiServer], Awaitable[Any]],
    *faults: Fault,
    version: str = "hami-2.10",
    timeout_s: float = 60,
) -> Any:
    """What `talk` gives, with a writer of a served recording."""

    async def run() -> Any:
        recording = CASES / version / "recording.tar.gz"
        async with ApiServer.from_recording(recording, faults=list(faults)) as server:
            config = folder / "kubeconfig"
            config.write_text(server.kubeconfig())
            async with await open_writer(kubeconfig=config, timeout_s=timeout_s) as writer:
                return await asyncio.wait_for(talk(writer, server), 120)

    return asyncio.run(run())


async def planned(writer: Writer, **values: Any) -> Plan:
    deployment = await writer.deployment(*SCHEDULER)
    wanted = wants(**({"kind": VERBOSITY, "value": "5", "container": EXTENDER, "seconds": 600, "by": "U1"} | values))
    plan = plan_raise(deployment, wanted, now=NOW, change_id="c1", version=Version(2, 10))
    assert isinstance(plan, Plan), plan
    return plan


@pytest.mark.parametrize("container", [EXTENDER, KUBE_SCHEDULER])
def test_a_raise_and_its_revert_leave_the_pod_template_as_it_was_to_the_byte(tmp_path: Path, container: str) -> None:
    async def talk(writer: Writer, _: ApiServer) -> None:
        before = await writer.deployment(*SCHEDULER)
        after = await writer.patch_deployment(*SCHEDULER, (await planned(writer, container=container)).patch)
        assert after["metadata"]["generation"] == before["metadata"]["generation"] + 1
        assert await writer.annotated(KEY) == [SCHEDULER]
        due = due_on(after, NOW + 600)
        assert due.event.kind == "reverted"
        undone = await writer.patch_deployment(*SCHEDULER, due.patch)
        assert json.dumps(undone["spec"]) == json.dumps(before["spec"])
        assert await writer.annotated(KEY) == []

    written(tmp_path, talk)


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    async def talk(writer: Writer, _: ApiServer) -> None:
        before = await writer.deployment(*SCHEDULER)
        shown = await writer.patch_deployment(*SCHEDULER, (await planned(writer)).patch, dry_run=True)
        assert KEY in shown["metadata"]["annotations"]
        assert await writer.deployment(*SCHEDULER) == before

    written(tmp_path, talk)


def test_the_same_patch_again_is_a_conflict(tmp_path: Path) -> None:
    async def talk(writer: Writer, _: ApiServer) -> None:
        plan = await planned(writer)
        await writer.patch_deployment(*SCHEDULER, plan.patch)
        with pytest.raises(Conflict):
            await writer.patch_deployment(*SCHEDULER, plan.patch)

    written(tmp_path, talk)


TROUBLE = {
    "500": Fault(PATCH, "status", status=500),
    "503": Fault(PATCH, "status", status=503),
    "a closed connection": Fault(PATCH, "refuse"),
    "silence": Fault(PATCH, "hang"),
    "half an answer": Fault(PATCH, "cut"),
}


@pytest.mark.parametrize("fault", TROUBLE.values(), ids=TROUBLE)
def test_a_write_that_was_not_answered_may_have_been_done_and_is_not_repeated(tmp_path: Path, fault: Fault) -> None:
    async def talk(writer: Writer, server: ApiServer) -> None:
        plan = await planned(writer)
        server.faults.append(fault)
        with pytest.raises(OutcomeUnknown):
            await writer.patch_deployment(*SCHEDULER, plan.patch)
        server.faults.clear()
        done = KEY in ((await writer.deployment(*SCHEDULER))["metadata"].get("annotations") or {})
        assert done is (fault.kind == "cut")

    written(tmp_path, talk, timeout_s=2 if fault.kind == "hang" else 60)


def test_a_server_that_cannot_be_reached_has_done_nothing(tmp_path: Path) -> None:
    async def talk(writer: Writer, server: ApiServer) -> None:
        plan = await planned(writer)
        await server.__aexit__(None, None, None)
        with pytest.raises(SourceError) as told:
            await writer.patch_deployment(*SCHEDULER, plan.patch)
        assert not isinstance(told.value, Conflict)

    written(tmp_path, talk)


def test_a_refusal_says_what_to_grant(tmp_path: Path) -> None:
    async def talk(writer: Writer, server: ApiServer) -> None:
        plan = await planned(writer)
        server.faults.append(Fault(PATCH, "status", status=403))
        with pytest.raises(SourceError, match="403") as told:
            await writer.patch_deployment(*SCHEDULER, plan.patch)
        assert not isinstance(told.value, Conflict | OutcomeUnknown)
        assert "patch" in in_english(told.value.hint)

    written(tmp_path, talk)


def test_what_is_gone_is_told_as_gone(tmp_path: Path) -> None:
    async def talk(writer: Writer, _: ApiServer) -> None:
        with pytest.raises(NotFound):
            await writer.deployment("hami-system", "elsewhere")

    written(tmp_path, talk)


def test_a_running_kube_scheduler_is_set_without_a_restart(tmp_path: Path) -> None:
    async def talk(writer: Writer, _: ApiServer) -> None:
        before = await writer.deployment(*SCHEDULER)
        await writer.set_verbosity("hami-system", scheduler_pod(), "6")
        assert await writer.deployment(*SCHEDULER) == before

    written(tmp_path, talk)


def scheduler_pod() -> str:
    pods = json.loads(files_of("hami-2.10")["objects/pods.json"])["items"]
    return next(pod["metadata"]["name"] for pod in pods if pod["metadata"]["name"].startswith("hami-scheduler-"))


def test_the_servers_own_time_is_known_after_a_request(tmp_path: Path) -> None:
    async def talk(writer: Writer, _: ApiServer) -> None:
        await writer.deployment(*SCHEDULER)
        assert writer.clock.time() is not None

    written(tmp_path, talk)
