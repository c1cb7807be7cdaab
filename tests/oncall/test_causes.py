"""What alerts are about, where nothing explains them."""

import asyncio
from pathlib import Path

import pytest

from bot.errors import SourceError
from bot.kube.recording.recorded_cluster import RecordedCluster
from handlers.oncall.causes import registration_state
from playbooks.playbook import Sources
from tests.oncall.rig import Rig, pending, text, with_rig
from tests.oncall.scenes import busy_cluster
from tests.playbooks.world import cluster, gpu_node, record


def test_alerts_about_nodes_that_are_gone_keep_their_own_words(database: str, tmp_path: Path) -> None:
    said = {"DiskFull": "the disk of ghost-1 is full", "KubeletDown": "the kubelet of ghost-2 is down"}

    async def scene(rig: Rig) -> None:
        keeper = rig.keeper()
        for number, (name, summary) in enumerate(said.items(), 1):
            alone = pending(name=name, pod="x", annotations={"summary": summary})
            await keeper.take([alone._replace(namespace="", pod="", node=f"ghost-{number}")])
        await rig.passes(10, keeper)
        told = sorted(text(head) for head in rig.heads())
        assert len(told) == len(said)
        assert all(sum(summary in text for text in told) == 1 for summary in said.values())

    with_rig(database, busy_cluster(tmp_path, 1), scene)


def test_a_node_that_cannot_be_read_is_not_one_that_is_gone(tmp_path: Path) -> None:
    odd = gpu_node("gpu-2") | {"spec": 7}
    sources = Sources(RecordedCluster.open(record(tmp_path, cluster(gpu_node("gpu-1"), odd))))
    assert asyncio.run(registration_state(sources, "gpu-3")) == "unknown"
    with pytest.raises(SourceError, match="gpu-2 cannot be read"):
        asyncio.run(registration_state(sources, "gpu-2"))
