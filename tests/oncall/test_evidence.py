"""The evidence of a thread: the answer with its recording, which says the same offline and tells no secret."""

import io
import tarfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from msgspec.structs import replace

from bot.kube.cluster import Cluster
from bot.kube.models import Kind
from bot.kube.recording.recorded_cluster import RecordedCluster
from handlers.oncall.causes import answer
from handlers.oncall.incident_threads import Bounds, EvidenceRequest, evidence
from handlers.oncall.keeper import Keeper
from playbooks.playbook import Sources
from sandbox.slack.content import strings_of
from tests.cases_support import CASES
from tests.oncall.rig import Rig, files, on_rig, pending, text
from tests.playbooks.world import cluster, gpu, gpu_node, none_of, pod, record, refused, running
from tests.slack.outbox_support import ONCALL

SECRET = "hunter2secret"


async def content(file: dict[str, Any]) -> bytes:
    async with aiohttp.ClientSession() as session, session.get(file["url_private"]) as answered:
        return await answered.read()


def recorded(folder: Path, **more: Any) -> Path:
    """Two pods that wait for memory, one of which was annotated with a secret."""
    full = refused(none_of(1, "1 1/1 CardInsufficientMemory"))
    holder = running("holder", "gpu-1", ("GPU-gpu-1", 12_000, 10), namespace="other")
    spoken = {"annotations": {"example.com/note": f"password={SECRET}"}}
    pods = [pod("trainer-0", gpu(memory=8000), said=full, **spoken), pod("trainer-3", gpu(memory=8000), said=full)]
    (folder / "c").mkdir()
    return record(folder / "c", cluster(gpu_node("gpu-1"), holder, *pods), **more)


@on_rig(recorded)
async def test_the_evidence_brings_a_recording_that_gives_the_same_answer_offline(rig: Rig, *, tmp_path: Path) -> None:
    keeper = rig.keeper()
    await keeper.take([pending(0), pending(3)])
    await rig.passes(100, keeper, step_s=50)
    [head] = rig.heads()
    [reply] = rig.replies(head)
    [row] = await rig.store.incidents.opened()
    [file] = files(rig)
    assert file["name"] == f"incident-{row.id}.tar.gz"
    assert f"hami-bot why ml/trainer-0 --recording {file['name']}" in reply
    packed = await content(file)
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        read = [archive.extractfile(member) for member in archive if member.isfile()]
        assert read
        assert not [body for body in read if body and SECRET.encode() in body.read()]
    saved = tmp_path / file["name"]
    saved.write_bytes(packed)
    told = [
        (await answer(Sources(RecordedCluster.open(file)), "why", "ml/trainer-0")).findings
        for file in (saved, rig.recording)
    ]
    assert told[0] == told[1]


@pytest.mark.parametrize(
    ("bounds", "told"),
    [
        (Bounds(most_pods=4), "the cluster has 5 pods"),
        (Bounds(most_events=-1), "the cluster has 0 events"),
        (Bounds(largest=99), "bytes"),
    ],
)
@on_rig(3, new=True)
async def test_what_is_too_large_is_not_attached_and_the_evidence_says_so(
    rig: Rig, *, bounds: Bounds, told: str
) -> None:
    message, _ = await evidence(rig.deps(), "", EvidenceRequest("why", "ml/trainer-0", "x.tar.gz"), bounds)
    said = "".join(strings_of(list(message.blocks)))
    assert "No recording is attached: " in said
    assert told in said
    assert "Evidence" in said
    assert [file.name for file in message.files if file.name.endswith(".tar.gz")] == []


class _Asked:
    """The cluster, of which it is kept whether all of a kind were read whole."""

    def __init__(self, read: Cluster) -> None:
        self._read = read
        self.whole: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._read, name)

    async def list(self, kind: Kind[Any], namespace: str = "", **how: Any) -> list[Any]:
        if not namespace and not any(how.values()):
            self.whole.append(kind.plural)
        return await self._read.list(kind, namespace, **how)


@on_rig(3, new=True)
async def test_of_a_cluster_with_too_many_pods_they_are_not_read_to_be_counted(rig: Rig) -> None:
    asked = _Asked(RecordedCluster.open(rig.recording))

    @asynccontextmanager
    async def sources(_: str) -> AsyncGenerator[Sources]:
        yield Sources(asked)

    deps = replace(rig.deps(), open_sources=sources)
    await evidence(deps, "", EvidenceRequest("why", "ml/trainer-0", "x.tar.gz"), Bounds(most_pods=4))
    assert not {"pods", "events"}.intersection(asked.whole)
    await evidence(deps, "", EvidenceRequest("why", "ml/trainer-0", "x.tar.gz"))
    assert {"pods", "events"}.issubset(asked.whole)


@on_rig(3)
async def test_head_and_evidence_tell_one_severity(rig: Rig, keeper: Keeper) -> None:
    await keeper.take([pending(0, severity="page")])
    await rig.passes(60, keeper, step_s=30)
    [head] = rig.heads()
    [reply] = rig.replies(head)
    assert head["text"].startswith("🔴 Open, critical: ")
    assert "🔴 Critical: " in reply
    assert "Warning: " not in reply


@on_rig(lambda _: CASES / "hami-2.10" / "recording.tar.gz", new=True)
async def test_the_head_s_next_step_is_the_first_of_the_answer_in_its_thread(rig: Rig, keeper: Keeper) -> None:
    await keeper.take([pending(0, pod="s11-card-not-health")])
    await rig.passes(120, keeper, step_s=30)
    [head] = rig.heads()
    [reply] = rig.replies(head)
    first = "Find the GPUs that are registered as unhealthy, and their Xid errors in dmesg on gpu-node-18"
    assert f"Next: \ntext\n{first}\n" in text(head)
    assert f"\n1. {first}" in reply


@on_rig(3)
async def test_the_evidence_of_what_is_critical_waits_for_no_head_of_what_is_not(rig: Rig, keeper: Keeper) -> None:
    calm = [
        msgspec.structs.replace(pending(name=f"Disk{number}", pod="x"), namespace="", pod="") for number in range(8)
    ]
    await keeper.take([*calm, pending(0, severity="critical")])
    await keeper.look()
    await rig.outbox.step(ONCALL)
    await keeper.look()
    await rig.send()
    said = [message["text"] for message in rig._said()]
    assert said[0].startswith("🔴 Open, critical: ")
    assert "\nCritical, " in said[1]


@on_rig(lambda folder: recorded(folder, missing=("configmaps",)), new=True)
async def test_what_a_recording_lacks_is_said_beside_it(rig: Rig) -> None:
    message, _ = await evidence(rig.deps(), "", EvidenceRequest("why", "ml/trainer-0", "x.tar.gz"))
    assert "The recording lacks what could not be read: " in "".join(strings_of(list(message.blocks)))
    assert "x.tar.gz" in [file.name for file in message.files]
