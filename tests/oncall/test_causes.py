"""What alerts are about, where nothing explains them."""

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from msgspec.structs import replace
from pydantic import SecretStr

from bot.errors import SourceError
from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.rows import GpuRow
from bot.settings.oncall import OncallSettings
from bot.triage.webhook import Alert, read_alerts
from handlers.oncall.causes import answer, questions, registration_state
from handlers.oncall.keeper import Keeper
from handlers.oncall.setup import plan
from playbooks.playbook import Sources
from tests.oncall.rig import Rig, a_rig, pending, text, with_rig
from tests.oncall.scenes import busy_cluster
from tests.playbooks.world import cluster, gpu_node, record
from tests.slack.outbox_support import ONCALL


async def test_alerts_about_nodes_that_are_gone_keep_their_own_words(database: str, tmp_path: Path) -> None:
    said = {"DiskFull": "the disk of ghost-1 is full", "KubeletDown": "the kubelet of ghost-2 is down"}

    async with a_rig(database, busy_cluster(tmp_path, 1)) as rig:
        keeper = rig.keeper()
        for number, (name, summary) in enumerate(said.items(), 1):
            alone = pending(name=name, pod="x", annotations={"summary": summary})
            await keeper.take([msgspec.structs.replace(alone, namespace="", pod="", node=f"ghost-{number}")])
        await rig.passes(10, keeper)
        told = sorted(text(head) for head in rig.heads())
        assert len(told) == len(said)
        assert all(sum(summary in text for text in told) == 1 for summary in said.values())


def test_a_node_that_cannot_be_read_is_not_one_that_is_gone(tmp_path: Path) -> None:
    odd = gpu_node("gpu-2") | {"spec": 7}
    sources = Sources(RecordedCluster.open(record(tmp_path, cluster(gpu_node("gpu-1"), odd))))
    assert asyncio.run(registration_state(sources, "gpu-3")) == "unknown"
    with pytest.raises(SourceError, match="gpu-2 cannot be read"):
        asyncio.run(registration_state(sources, "gpu-2"))


ALERTS: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parents[1] / "inputs/alerts.yaml").read_text())
LAB = Path(__file__).parents[1] / "cases/hami-2.10/recording.tar.gz"


def posted(labels: dict[str, str], **more: Any) -> Alert:
    alert = {"status": "firing", "labels": labels, "startsAt": "2026-11-26T13:50:00Z", **more}
    (read,) = read_alerts(json.dumps({"version": "4", "alerts": [alert]}).encode())
    return read


ABOUT = [case for case in ALERTS if case["asks"] != "-" and "cluster" not in case["labels"]]


@pytest.mark.parametrize("case", ABOUT, ids=[case["labels"]["alertname"] for case in ABOUT])
def test_an_alert_as_people_have_them_is_asked_about_as_what_it_is_about(case: dict[str, Any]) -> None:
    (asked,) = asyncio.run(questions(Sources(RecordedCluster.open(LAB)), [posted(case["labels"])]))
    assert f"{asked.verb} {asked.subject}".strip() == case["asks"]


def test_an_address_of_a_node_names_it(tmp_path: Path) -> None:
    objects = cluster(gpu_node("gpu-1"))
    next(item for item in objects if item["kind"] == "Node")["status"]["addresses"] = [{"address": "10.0.0.7"}]
    labels = {"alertname": "NodeClockSkew", "instance": "10.0.0.7:9100", "namespace": "monitoring"}
    (asked,) = asyncio.run(questions(Sources(RecordedCluster.open(record(tmp_path, objects))), [posted(labels)]))
    assert asked == ("nodes", "gpu-1", "gpu-1")


def test_a_program_s_alert_about_itself_is_about_its_pod() -> None:
    said = posted({"alertname": "QueueLong", "job": "vllm", "service": "vllm", "pod": "vllm-7d9f-x", "namespace": "ml"})
    (asked,) = asyncio.run(questions(Sources(RecordedCluster.open(LAB)), [said]))
    assert asked.subject == "ml/vllm-7d9f-x"


def threads(database: str, *alerts: Alert, clusters: tuple[str, ...] = ()) -> list[str]:
    """What the threads say in full that these alerts open, each with its head first."""
    found: list[str] = []

    async def scene(rig: Rig) -> None:
        keeper = rig.keeper()
        if clusters:
            deps = replace(rig.deps(), clusters=clusters, usual=clusters[0])
            settings = OncallSettings(channel=ONCALL, token=SecretStr("0123456789abcdef"))
            keeper = Keeper(deps, msgspec.structs.replace(plan(settings, deps, "one", 60.0), clock=rig.bot.clock.now))
        await keeper.take(list(alerts))
        await rig.passes(20, keeper)
        found.extend("\n".join([text(head), *rig.replies(head)]) for head in rig.heads())

    with_rig(database, LAB, scene)
    return found


def test_an_exporter_s_alert_is_about_its_node_and_says_who_has_the_gpu(database: str) -> None:
    (said,) = threads(database, posted(ALERTS[-1]["labels"], annotations={"summary": "XID 79 on gpu-node-18"}))
    assert "gpu-node-18" in said
    assert "card-not-healthy" in said
    assert "GPU-11111111-2222-3333-4444-555555555555 of gpu-node-18: HAMi has not registered this GPU" in said
    assert "not found" not in said


def test_a_gpu_is_told_with_the_pods_that_hold_it(database: str) -> None:
    report = asyncio.run(answer(Sources(RecordedCluster.open(LAB)), "gpus"))
    card = next(row for row in report.typed(GpuRow) if row.holders)
    (said,) = threads(database, posted({"alertname": "GpuHot", "UUID": str(card.card), "severity": "warning"}))
    assert f"{card.card} of {card.node}: held by {card.holders[0]}" in said


@pytest.mark.parametrize(
    ("owner", "verb"), [({"deployment": "hami-scheduler"}, "status"), ({"daemonset": "hami-device-plugin"}, "nodes")]
)
def test_hami_s_own_workloads_are_answered_as_status_and_nodes_do(
    database: str, owner: dict[str, str], verb: str
) -> None:
    (said,) = threads(database, posted({"alertname": "Stuck", "namespace": "hami-system", **owner}))
    assert f"{verb} --recording" in said
    assert "not-found" not in said


def test_what_always_fires_opens_no_thread(database: str) -> None:
    assert threads(database, *(posted(case["labels"]) for case in ALERTS if case["asks"] == "-")) == []


def test_an_alert_of_another_cluster_gets_a_thread_that_says_why_nothing_was_looked_for(database: str) -> None:
    labels = {"alertname": "KubePodNotReady", "cluster": "eu-9", "namespace": "ml", "pod": "s05-exclusive-cores100"}
    (said,) = threads(database, posted(labels), clusters=("lab",))
    assert "the alert is about cluster eu-9, the settings name lab" in said
    assert "exclusive" not in said.replace("s05-exclusive-cores100", "")
