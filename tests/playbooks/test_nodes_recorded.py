"""`nodes` on the recorded clusters: every fault that is in the objects is found on its nodes, and no other."""

import json
import tarfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from bot.report import Report
from tests.cases_support import CASES, ask

ARCHIVES = sorted((CASES / "fit").glob("*.tar.gz"))
REGISTER = "hami.io/node-nvidia-register"
CORDON = "hami.io/device-cordon"
Faults = dict[str, set[str]]


def found_in(report: Report) -> Faults:
    """The nodes of each finding; of all nodes, those that have nothing wrong with them are named nowhere."""
    found: Faults = defaultdict(set)
    for finding in report.findings:
        if finding.code != "nodes-healthy":
            found[finding.code].update(finding.scope.nodes)
    return dict(found)


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.name.removesuffix(".tar.gz"))
def test_in_the_random_clusters_what_the_objects_show_is_found_and_nothing_else(archive: Path) -> None:
    report = ask(archive, verb="nodes")
    assert found_in(report) == in_objects(archive)


def in_objects(archive: Path) -> Faults:
    """What was made to be wrong there, read from the objects without any of our own code."""
    with tarfile.open(archive) as files:
        nodes = json.load(files.extractfile("objects/nodes.json"))["items"]  # type: ignore[arg-type]
    code_of_cordon = "card-cordoned" if archive.name.startswith("2.10") else "card-cordon-ignored"
    found: Faults = defaultdict(set)
    for node in nodes:
        name, texts = node["metadata"]["name"], node["metadata"].get("annotations", {})
        health = healthy_cards(texts.get(REGISTER, ""))
        if any(taint["key"] == "node.kubernetes.io/not-ready" for taint in node["spec"].get("taints", [])):
            found["node-not-ready"].add(name)
        if not health:
            found["node-unregistered"].add(name)
        if not all(health):
            found["card-not-healthy"].add(name)
        if texts.get(CORDON) and (health or code_of_cordon == "card-cordon-ignored"):
            found[code_of_cordon].add(name)
    return dict(found)


def healthy_cards(text: str) -> list[bool]:
    """Per registered card whether it is healthy, in either format."""
    if text.startswith("["):
        cards: list[dict[str, Any]] = json.loads(text)
        return [card.get("health", False) for card in cards]
    return [card.split(",")[6] == "true" for card in text.split(":") if card]
