"""What alerts are about, where nothing explains them."""

from pathlib import Path

from tests.oncall.rig import Rig, pending, text, with_rig
from tests.oncall.scenes import busy_cluster


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
        assert all(sum(summary in one for one in told) == 1 for summary in said.values())

    with_rig(database, busy_cluster(tmp_path, 1), scene)
