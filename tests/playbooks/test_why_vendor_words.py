"""Other vendors' devices that refuse a pod: what HAMi's word means for them."""

import json
from pathlib import Path
from typing import Any

import pytest

from bot.report import Report
from tests.playbooks.world import Object, ask, cause, codes, node, none_of, pod, refused, running, scheduler

CONFIG = """
nvidia: {resourceCountName: nvidia.com/gpu}
hygon: {resourceCountName: hygon.com/dcunum, resourceMemoryName: hygon.com/dcumem, resourceCoreName: hygon.com/dcucores}
vnpus:
- {commonWord: Ascend910B3, resourceName: huawei.com/Ascend910B3, resourceMemoryName: huawei.com/Ascend910B3-memory,
   resourceCoreName: huawei.com/Ascend910B3-core, memoryAllocatable: 65536, memoryCapacity: 65536, aiCore: 20}
"""


def dcus(kind: str = "DCU-K100_AI") -> Object:
    text = "".join(f"DCU-{at},4,65536,100,{kind},0,true:" for at in range(2))
    return node("dcu-1", {"hami.io/node-dcu-register": text}, allocatable={"hygon.com/dcunum": "8"})


def npus(**annotations: str) -> Object:
    cards = [
        {"id": f"NPU-{at}", "count": 4, "devmem": 65536, "devcore": 20, "type": "Ascend910B3", "health": True}
        for at in range(2)
    ]
    register = {"hami.io/node-register-Ascend910B3": json.dumps(cards)}
    return node("npu-1", register | annotations, allocatable={"huawei.com/Ascend910B3": "8"})


def refusal(tmp_path: Path, reason: str, limits: Object, *objects: Object, **fields: Any) -> Report:
    waiting = pod(limits=limits, **fields)
    waiting["status"]["conditions"] = [refused(none_of(1, f"1 {reason}"))]
    return ask(tmp_path, [*scheduler(config=CONFIG, flags=["--enable-ascend"]), waiting, *objects])


def holder(cores: int) -> Object:
    held = "".join(f"DCU-{at},DCU,1000,{cores}:" for at in range(2)) + ";"
    return running("holder", "dcu-1", annotations={"hami.io/dcu-devices-allocated": held})


@pytest.mark.parametrize(
    ("cores", "reason", "code"),
    [
        (0, "ExclusiveDeviceAllocateConflict", "exclusive-device-conflict"),
        (10, "CardInsufficientCore", "card-insufficient-core"),
    ],
)
def test_cores_that_are_left_out_mean_whole_unused_devices(tmp_path: Path, cores: int, reason: str, code: str) -> None:
    report = refusal(tmp_path, reason, {"hygon.com/dcunum": "1", "hygon.com/dcumem": "900"}, dcus(), holder(cores))
    assert codes(report)[0] == code
    assert "names no hygon.com/dcucores" in cause(report).claim


def test_a_type_without_the_word_does_not_count(tmp_path: Path) -> None:
    report = refusal(tmp_path, "NodeInsufficientDevice", {"hygon.com/dcunum": "1"}, dcus("K100_AI"))
    assert (codes(report), cause(report).claim) == (
        ["node-insufficient-device"],
        "dcu-1: no registered device has DCU in its type.",
    )


def test_more_devices_than_a_node_has_are_counted_by_the_word(tmp_path: Path) -> None:
    report = refusal(tmp_path, "NodeInsufficientDevice", {"hygon.com/dcunum": "3", "hygon.com/dcumem": "1000"}, dcus())
    assert "a node has at most 2 DCUs that count for the request" in cause(report).claim
    assert "fewer devices with DCU in their type than the 3" in report.findings[1].claim


def test_a_soft_split_needs_a_node_that_is_set_up_for_it(tmp_path: Path) -> None:
    limits = {"huawei.com/Ascend910B3": "1", "huawei.com/Ascend910B3-memory": "8192"}
    soft = {"huawei.com/vnpu-mode": "hami-core"}
    report = refusal(tmp_path, "ModeNotFit", limits, npus(), annotations=soft)
    assert codes(report)[0] == "mode-not-fit"
    assert cause(report).claim == (
        "npu-1: not set up for the soft split that the pod asks for (huawei.com/vnpu-mode: hami-core)."
    )


@pytest.mark.parametrize(
    ("limits", "step"),
    [
        (
            {"hygon.com/dcunum": "1", "hygon.com/dcumem": "16Gi"},
            "Give hygon.com/dcumem as a plain number, in units of 1 MiB",
        ),
        ({"hygon.com/dcumem": "2000"}, "Add hygon.com/dcunum to the container's limits if it needs a GPU"),
    ],
)
def test_a_quantity_in_bytes_or_no_count_asks_for_nothing(tmp_path: Path, limits: Object, step: str) -> None:
    waiting = pod(limits=limits)
    report = ask(tmp_path, [*scheduler(config=CONFIG), waiting, dcus()])
    (told,) = [finding for finding in report.findings if finding.code == "no-device-request"]
    assert "needs hygon.com/dcunum, and plain numbers" in told.claim
    assert [action.label.partition(";")[0] for action in told.next_actions] == [step]
