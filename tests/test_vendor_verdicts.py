"""What HAMi's own extender said of pods that ask for devices of every vendor, node by node.

`cases/fit-vendors/*.tar.gz` are worlds of nodes and pods with `probes.json`: pods as its webhook admitted them, and per
node the verdict when the extender was asked about that pod and that node alone. Where it answers by chance, the verdict
is in `nondeterministic.json` instead, with what was seen or is possible.
"""

import json
import tarfile
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bot.hami.fit.cluster_view import ClusterFacts, View
from bot.hami.fit.verdicts import Verdict
from bot.hami.pods.request_parsing import DeviceConfig, pod_request, read_device_config
from bot.hami.version import parse_version
from bot.kube.models import Node, Pod, ResourceQuota
from tests.cases_support import CASES

FOLDER = CASES / "fit-vendors"
WORLDS = sorted(FOLDER.glob("*.tar.gz"))
VERDICTS = 47_745
CONFIG = (FOLDER / "device-config.yaml").read_text()


OF_CHANCE = ("ascend-s2", "ascend-s6", "metax-sgpu-s4", "mixed")
"""The worlds with answers that chance decides."""


def name_of(world: Path) -> str:
    return world.name.removesuffix(".tar.gz")


by_world = pytest.mark.parametrize("world", WORLDS, ids=name_of)


def test_all_recorded_verdicts_are_here() -> None:
    assert (
        sum(len(probe["verdicts"]) for world in WORLDS for probe in json.loads(read(world)["probes.json"])) >= VERDICTS
    )


@by_world
def test_every_verdict_is_the_real_extender_s(world: Path) -> None:
    files = {name: json.loads(text) for name, text in read(world).items()}
    view = seen(files)
    differing: list[tuple[str, str, str, str]] = []
    for probe in files["probes.json"]:
        pod = msgspec.convert(probe["pod"], Pod)
        asked = pod_request(pod, view.facts.config, view.version)
        ours = view.forgetting(pod.metadata.uid).judge_each(probe["verdicts"], asked)
        said = probe["verdicts"].items()
        differing += [(pod.name, node, text, words(ours[node])) for node, text in said if text != words(ours[node])]
    assert differing == []


@pytest.mark.parametrize("world", [path for path in WORLDS if path.name.startswith(OF_CHANCE)], ids=name_of)
def test_where_chance_decides_every_answer_of_the_extender_is_told(world: Path) -> None:
    files = {name: json.loads(text) for name, text in read(world).items()}
    view, pods = seen(files), {probe["pod"]["metadata"]["name"]: probe["pod"] for probe in files["probes.json"]}
    for file in files.get("nondeterministic.json", []):
        pod = msgspec.convert(pods[file["pod"]], Pod)
        asked = pod_request(pod, view.facts.config, view.version)
        ours = view.forgetting(pod.metadata.uid).judge_each([file["node"]], asked)[file["node"]]
        assert set(file.get("seen", file.get("possible"))) <= {words(ours), *ours.instead}, file


def read(world: Path) -> dict[str, bytes]:
    with tarfile.open(world) as archive:
        members = [member for member in archive if member.isfile()]
        return {member.name: archive.extractfile(member).read() for member in members}  # type: ignore[union-attr]


def seen(files: dict[str, Any]) -> View:
    def items(name: str, kind: Any) -> list[Any]:
        return msgspec.convert(files.get(f"objects/{name}.json", {"items": []})["items"], list[kind])

    meta = files["meta.json"]
    nodes = {node.name: node for node in items("nodes", Node)}
    facts = ClusterFacts(
        nodes,
        items("pods", Pod),
        items("resourcequotas", ResourceQuota),
        config_of(meta),
        datetime.fromisoformat(meta["taken_at"]),
    )
    version = parse_version(meta["hami_version"])
    assert version is not None
    return View(facts, version)


def config_of(meta: dict[str, Any]) -> DeviceConfig:
    config = read_device_config(CONFIG)
    assert isinstance(config, DeviceConfig)
    return config.hinted(meta)


def words(verdict: Verdict) -> str:
    if verdict.fits is None:
        return f"unknown: {verdict.unknown}"
    return "fit" if verdict.fits else verdict.text()
