"""What the tests of `nodes` share: the question, nodes with their device plugin, and the answer's parts."""

from pathlib import Path

from bot.report import Report
from tests.playbooks.world import HAMI, PLUGIN, Object, ago, answer, codes, gpu_node, pod, record, scheduler

CHART = (Path(__file__).parents[1] / "cases" / "fit-vendors" / "device-config.yaml").read_text()
"""HAMi's device config as its chart installs it."""
EVERY_VENDOR = ["--enable-ascend", "--enable-iluvatar"]


def ask(tmp_path: Path, *objects: Object, version: str = "2.10.0", **more: object) -> Report:
    """What `nodes` says under the chart's device config, every vendor on.

    `more`: node, all; `missing` and `others` go to the recording, `flags` (the scheduler's) and `statuses` to its pods.
    """
    recorded = {key: more.pop(key) for key in ("missing", "others") if key in more}
    hami = {"flags": EVERY_VENDOR} | {key: more.pop(key) for key in ("flags", "statuses") if key in more}
    path = record(tmp_path, [*scheduler(version, config=CHART, **hami), *objects], **recorded)
    return answer("nodes", path, {}, **more)


def healthy(name: str = "gpu-1", **fields: object) -> list[Object]:
    """A healthy node with its device plugin's pod."""
    return [gpu_node(name, **fields), plugin(name)]


def plugin(on: str, *, ready: bool = True, restarts: int = 0, **status: object) -> Object:
    """The device plugin's pod of a node; `status` is the container's: waiting (a reason), ended (seconds ago)."""
    one = pod(f"hami-device-plugin-{on}", {}, namespace=HAMI, labels=PLUGIN, nodeName=on)
    state = {"waiting": {"reason": status["waiting"]}} if "waiting" in status else {"running": {"startedAt": ago(90)}}
    ended = {"terminated": {"reason": "Error", "finishedAt": ago(status["ended"])}} if "ended" in status else {}
    container = {"name": "device-plugin", "ready": ready, "restartCount": restarts, "state": state, "lastState": ended}
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    one["status"] = {"phase": "Running", "conditions": [condition], "containerStatuses": [container]}
    return one


def rows(report: Report, title: str = "nodes") -> dict[str, dict[str, str]]:
    found = next(table for table in report.tables if table.title == title)
    return {row[0]: dict(zip(found.columns, row, strict=True)) for row in found.rows}


def about(report: Report) -> dict[str, str]:
    return {what: row["value"] for what, row in rows(report, "node").items()}


def faults(report: Report) -> list[str]:
    return [code for code in codes(report) if code != "nodes-healthy"]
