"""What `why` reads of a cluster where many nodes have trouble: the logs of three device plugins, 2 MiB of each."""

import asyncio
from pathlib import Path

import pytest

from bot.hami.pods.request_parsing import DeviceConfig, read_device_config
from bot.kube.client.connect import open_cluster
from bot.kube.models import NODES as GPU_NODES
from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.report import Report
from bot.texts import Texts
from playbooks.gather.nodes_in_question import gather_nodes_in_question
from playbooks.playbook import Sources, find
from sandbox.apiserver import ApiServer
from tests.playbooks.inside_support import looping, placed
from tests.playbooks.node_side_support import NONE_HEALTHY, counted, crashing, plugin, refused_pod
from tests.playbooks.world import Object, bind_error, cluster, codes, gpu_node, none_of, pod, record, refused

LOG_BYTES = 2 * 1024 * 1024
NODES = [f"gpu-{number}" for number in range(12)]
SICK = [counted(name, capacity=20, allocatable=0) for name in NODES]
CRASHING = [plugin(name, device=crashing()) for name in NODES]


def ask_live(tmp_path: Path, subject: Object, *objects: Object) -> tuple[Report, list[str], list[int]]:
    """The report on the pod, the device plugins' pods whose logs were read, and the bytes asked of each."""
    recording = record(tmp_path, cluster(subject, *objects))
    playbook = find("why")

    async def ask() -> tuple[Report, list[str], list[int]]:
        async with ApiServer.from_recording(recording) as server:
            config = tmp_path / "kubeconfig"
            config.write_text(server.kubeconfig())
            async with await open_cluster(kubeconfig=config) as reached:
                snapshot = await playbook.gather(playbook.request(pod="ml/wl"), Sources(reached))
            logs = [
                request
                for request in server.requests
                if "device-plugin" in request.path and request.path.endswith("/log")
            ]
            names = sorted({log.path.split("/")[-2] for log in logs})
            return playbook.report(snapshot, Texts("en")), names, [int(log.query["limitBytes"]) for log in logs]

    return asyncio.run(ask())


@pytest.mark.parametrize(("verb", "words"), [("why", {"pod": "ml/wl"}), ("pending", {}), ("status", {})])
def test_the_scheduler_s_log_is_read_once_for_a_question(tmp_path: Path, verb: str, words: Object) -> None:
    waits = pod(said=bind_error("bind failed: EOF", 18))
    refused_too = pod("other", said=refused(none_of(1, "1 CardInsufficientMemory")))
    recording = record(tmp_path, cluster(gpu_node(), waits, refused_too))
    playbook = find(verb)

    async def logs() -> list[str]:
        async with ApiServer.from_recording(recording) as server:
            config = tmp_path / "kubeconfig"
            config.write_text(server.kubeconfig())
            async with await open_cluster(kubeconfig=config) as reached:
                await playbook.gather(playbook.request(**words), Sources(reached))
            return [
                request.path
                for request in server.requests
                if request.path.endswith("/log") and "scheduler" in request.path
            ]

    assert len(asyncio.run(logs())) == 1


@pytest.mark.parametrize("answer", ["12 node unregistered", "12 CardInsufficientMemory"])
def test_of_many_sick_nodes_three_device_plugins_are_read(tmp_path: Path, answer: str) -> None:
    waits = pod(said=refused(none_of(12, answer)))
    _, plugins, asked = ask_live(tmp_path, waits, *SICK, *CRASHING)
    assert len(plugins) == 3
    assert max(asked) <= LOG_BYTES


def renamed(name: str, offered: int) -> Object:
    """A node of a cluster whose device config calls the GPUs example.com/gpu."""
    one = counted(name, capacity=20, allocatable=offered)
    for amounts in (one["status"]["capacity"], one["status"]["allocatable"]):
        amounts["example.com/gpu"] = amounts.pop("nvidia.com/gpu")
    return one


def test_a_node_that_offers_gpus_under_another_name_is_not_in_question(tmp_path: Path) -> None:
    there = RecordedCluster.open(record(tmp_path, [renamed(name, 0 if name == "gpu-9" else 20) for name in NODES]))
    config = read_device_config("nvidia:\n  resourceCountName: example.com/gpu\n")
    assert isinstance(config, DeviceConfig)

    async def names() -> list[str]:
        return list((await gather_nodes_in_question(there, None, await there.list(GPU_NODES), config)).sides)

    assert asyncio.run(names()) == ["gpu-9"]


def test_of_a_refused_pod_the_device_plugin_of_its_node_is_read(tmp_path: Path) -> None:
    _, plugins, asked = ask_live(tmp_path, refused_pod(NONE_HEALTHY), *SICK, *CRASHING)
    assert plugins == ["hami-device-plugin-gpu-1"]
    assert max(asked) <= LOG_BYTES


def test_of_a_container_that_started_no_device_plugin_is_read(tmp_path: Path) -> None:
    report, plugins, _ = ask_live(tmp_path, placed(looping(1)), *SICK, *CRASHING)
    assert (codes(report), plugins) == (["image-or-start-failure"], [])
