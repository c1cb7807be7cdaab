"""`why` of a pod that asks for another vendor's devices: that vendor's names, rules and words."""

import json
from pathlib import Path

from bot.report import Report
from tests.playbooks.world import (
    Object,
    ask,
    cause,
    codes,
    commands,
    node,
    none_of,
    pod,
    quotes,
    refused,
    scheduler,
)

DCU = "hygon.com/dcunum"
CHART = (Path(__file__).parents[1] / "cases" / "fit-vendors" / "device-config.yaml").read_text()


def why(tmp_path: Path, asked: Object, said: str, *nodes: Object, **fields: object) -> Report:
    """A pod that asks for this, what HAMi says of it, and the nodes, under the chart's device config.

    `flags`: the scheduler's; every vendor is on without.
    """
    flags = fields.pop("flags", ["--enable-ascend", "--enable-iluvatar"])
    one = pod(limits=asked, said=refused(none_of(len(nodes), said)), **fields)
    return ask(tmp_path, [*scheduler(config=CHART, flags=flags), *nodes, one])


def dcus(name: str, *cards: str) -> Object:
    """A node with Hygon's cards, as its plugin writes them."""
    register = "".join(f"{one}:" for one in cards)
    return node(name, {"hami.io/node-dcu-register": register}, allocatable={DCU: "8"})


def npus(name: str, chip: str = "Ascend910B3", count: int = 1, **annotations: str) -> Object:
    """A node with Ascend's cards."""
    cards = [
        {"id": f"{name}-{i}", "index": i, "count": 4, "devmem": 65536, "devcore": 20, "type": chip, "health": True}
        for i in range(count)
    ]
    given = {f"hami.io/node-register-{chip}": json.dumps(cards), **annotations}
    return node(name, given, allocatable={f"huawei.com/{chip}": str(4 * count)})


def test_a_card_that_is_too_small_is_told_with_the_vendor_s_own_resources(tmp_path: Path) -> None:
    asked = {DCU: "1", "hygon.com/dcumem": "20000", "hygon.com/dcucores": "50"}
    report = why(tmp_path, asked, "1 1/1 CardInsufficientMemory", dcus("dcu-1", "DCU-0,4,16384,100,DCU-Z100,0,true"))
    assert codes(report)[0] == "card-insufficient-memory"
    assert "20,000 MiB" in cause(report).claim
    assert "GPU" not in cause(report).claim
    assert "20000" in quotes(report)
    assert not any("nvidia.com" in command for command in commands(report))


def test_an_unhealthy_card_is_named_where_it_is_registered(tmp_path: Path) -> None:
    report = why(tmp_path, {DCU: "1"}, "1 1/1 CardNotHealth", dcus("dcu-1", "DCU-0,4,16384,100,DCU-Z100,0,false"))
    assert codes(report)[0] == "card-not-healthy"
    assert any("hami\\.io/node-dcu-register" in one.command for one in cause(report).evidence)


def test_a_soft_pod_needs_a_node_that_is_set_up_for_it(tmp_path: Path) -> None:
    asked = {"huawei.com/Ascend910B3": "1", "huawei.com/Ascend910B3-memory": "16384"}
    soft = {"annotations": {"huawei.com/vnpu-mode": "hami-core"}}
    report = why(tmp_path, asked, "1 1/1 ModeNotFit", npus("npu-1"), **soft)
    assert codes(report)[0] == "mode-not-fit"
    assert "hami-core" in quotes(report)


def test_a_register_annotation_that_cannot_be_read_is_the_vendor_s(tmp_path: Path) -> None:
    broken = node("dcu-1", {"hami.io/node-dcu-register": "abc:"}, allocatable={DCU: "4"})
    report = why(tmp_path, {DCU: "1"}, "1 node unregistered", broken)
    assert codes(report)[0] == "node-unregistered"
    assert "abc:" in quotes(report)


def test_nodes_of_another_vendor_s_are_nothing_to_mend(tmp_path: Path) -> None:
    few = dcus("dcu-1", "DCU-0,4,16384,100,DCU-Z100,0,true")
    report = why(tmp_path, {DCU: "2"}, "2 NodeInsufficientDevice", npus("npu-1"), few)
    assert codes(report)[0] in ("node-insufficient-device", "impossible-anywhere")
    assert "node-unregistered" not in codes(report)


def test_of_a_vendor_that_the_scheduler_s_flags_leave_out_nothing_is_concluded(tmp_path: Path) -> None:
    asked = {"huawei.com/Ascend910B3": "2"}
    report = why(tmp_path, asked, "1 NodeInsufficientDevice", npus("npu-1"), flags=[])
    assert "node-unregistered" not in codes(report)
    assert any("huawei.com/Ascend910B3" in gap.why for gap in report.gaps)
