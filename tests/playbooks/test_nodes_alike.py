"""A node that is like one already looked at has the faults that it has when it is looked at by itself."""

import asyncio
import gc
import json
import re
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any
from weakref import ref

import pytest
from msgspec import structs

from bot.kube.recording.recorded_cluster import RecordedCluster
from playbooks.gather.nodes_in_question import NodesInQuestion
from playbooks.nodes import playbook
from playbooks.playbook import Sources
from playbooks.rules.nodes.faults import faults_of
from tests.cases_support import files_in, write_recording
from tests.vendor_worlds import FOLDER, recording

WORLDS = json.loads((FOLDER / "questions.json").read_text())
_UUID = re.compile(
    r"DCU-T\d+|(?:GPU|BRGPU)-[0-9a-f]{8}-[0-9a-f-]{27}|[0-9A-F]{8}(?:-[0-9A-F]{8}){4}|(?:XPU|vastai|biren)-[0-9a-f]{12}"
)
_SECONDS = re.compile(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d")


def renumbered(node: Any) -> Any:
    """Like it, with devices of its own."""
    return json.loads(_UUID.sub(lambda found: f"{found[0]}-copy", json.dumps(node)))


def unoffered(node: Any) -> Any:
    """Kubelet offers no device."""
    amounts = node["status"].get("allocatable") or {}
    node["status"]["allocatable"] = {name: "0" if "/" in name else amount for name, amount in amounts.items()}
    return node


def unhealthy(node: Any) -> Any:
    """One of its devices is registered as unhealthy."""
    return texts_replaced(node, "register", lambda text: re.sub(r"\btrue\b", "false", text, count=1))


def unreadable(node: Any) -> Any:
    """What it registers cannot be read."""
    return texts_replaced(node, "register", lambda text: text[:-9])


def silent(node: Any) -> Any:
    """Nobody has answered the scheduler for a year."""
    return texts_replaced(node, "handshake", lambda text: _SECONDS.sub("2025-01-01 00:00:00", text))


def without_labels(node: Any) -> Any:
    node["metadata"]["labels"] = {}
    return node


def with_sick_condition(node: Any) -> Any:
    """A monitor says that a GPU is broken."""
    broken = {"type": "GpuUnhealthy", "status": "True", "reason": "Xid79", "message": "a GPU fell off the bus"}
    node["status"].setdefault("conditions", []).append(broken)
    return node


def with_well_condition(node: Any) -> Any:
    """A monitor says that no GPU is broken."""
    node["status"].setdefault("conditions", []).append({"type": "GpuUnhealthy", "status": "False", "reason": "None"})
    return node


def texts_replaced(node: Any, kind: str, change: Callable[[str], str]) -> Any:
    texts = node["metadata"].get("annotations") or {}
    node["metadata"]["annotations"] = {key: change(text) if kind in key else text for key, text in texts.items()}
    return node


CHANGES = (unoffered, unhealthy, unreadable, silent, without_labels, with_sick_condition, with_well_condition)


def with_copies(path: Path) -> Path:
    """The recording with each node once more, and once more for each thing that may change about it."""
    files = files_in(path)
    listed = json.loads(files["objects/nodes.json"])
    nodes = []
    for node in listed["items"]:
        nodes += [node, renamed(renumbered(node), "copy")]
        for change in CHANGES:
            nodes += [
                renamed(change(renumbered(deepcopy(node))), f"{change.__name__.replace('_', '-')}-{i}") for i in (1, 2)
            ]
    files["objects/nodes.json"] = json.dumps({**listed, "items": nodes}).encode()
    return write_recording(files, path.with_name(f"copies-{path.name}"))


def renamed(node: Any, suffix: str) -> Any:
    node["metadata"]["name"] += f"-{suffix}"
    return node


@pytest.mark.parametrize(("world", "probe"), WORLDS.items(), ids=WORLDS)
def test_a_node_that_is_like_another_has_the_faults_that_it_has_alone(world: str, probe: str, tmp_path: Path) -> None:
    cluster = RecordedCluster.open(with_copies(recording(world, probe, tmp_path)[0]))
    scene = asyncio.run(playbook.gather(playbook.request(), Sources(cluster))).scene
    scene = scene.questioning(NodesInQuestion({}), ())

    def faults(nodes: Any) -> set[Any]:
        found = structs.replace(scene, nodes=nodes).alike
        return {(name, fault) for node, names in found for fault in faults_of(node) for name in names}

    alone = set[Any]().union(*(faults([node]) for node in scene.nodes))
    assert faults(scene.nodes) == alone


def test_a_node_of_other_vendors_is_looked_at_once_however_many_are_like_it(tmp_path: Path) -> None:
    world, probe = next(pair for pair in WORLDS.items() if "hygon" in pair[0] or "dcu" in pair[0].lower())
    cluster = RecordedCluster.open(with_copies(recording(world, probe, tmp_path)[0]))
    scene = asyncio.run(playbook.gather(playbook.request(), Sources(cluster))).scene
    node = scene.nodes[0].name
    together = [names for _, names in scene.questioning(NodesInQuestion({}), ()).alike if node in names]
    assert [f"{node}-copy" in names for names in together] == [True]
    assert [f"{node}-unhealthy-1" in names for names in together] == [False]


def test_what_was_read_of_nodes_is_gone_with_the_answer(tmp_path: Path) -> None:
    world, probe = next(iter(WORLDS.items()))
    cluster = RecordedCluster.open(recording(world, probe, tmp_path)[0])
    gc.disable()
    try:
        snapshot = asyncio.run(playbook.gather(playbook.request(), Sources(cluster)))
        playbook.diagnose(snapshot)
        scene = ref(snapshot.scene)
        del snapshot
        assert scene() is None
    finally:
        gc.enable()
