"""What the real scheduler said of every probe pod on every node of its cluster, against what the fit says.

`cases/fit/*.tar.gz` are recordings of nodes and pods under HAMi's own extender, with `probes.json`: pods as its webhook
admitted them, and per node the extender's verdict when it was asked about that pod and that node alone.
"""

import json
import tarfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from bot.hami.requests import DeviceConfig, pod_request
from bot.hami.version import Version, parse_version
from bot.hami.view import Facts, View
from bot.kube.models import Node, Pod
from bot.kube.times import parse_time

CASES = sorted((Path(__file__).parent / "cases" / "fit").glob("*.tar.gz"))
CONFIG = DeviceConfig()


class Probe(msgspec.Struct):
    pod: Pod
    verdicts: dict[str, str]


class Nodes(msgspec.Struct):
    items: list[Node]


class Pods(msgspec.Struct):
    items: list[Pod]


class Difference(NamedTuple):
    node: str
    pod: str
    said: list[str]
    ours: list[str]


class Outcome(NamedTuple):
    checked: int
    differing: list[Difference]


@cache
def compare(archive: Path) -> Outcome:
    with tarfile.open(archive) as files:
        read = {member.name: files.extractfile(member).read() for member in files}  # type: ignore[union-attr]
    meta = json.loads(read["meta.json"])
    nodes = msgspec.json.decode(read["objects/nodes.json"], type=Nodes).items
    pods = msgspec.json.decode(read["objects/pods.json"], type=Pods).items
    probes = msgspec.json.decode(read["probes.json"], type=list[Probe])
    version, now = parse_version(meta["hami_version"]), parse_time(meta["taken_at"])
    assert version is not None
    assert now is not None
    view = View(Facts({node.name: node for node in nodes}, pods, [], CONFIG, now), version)
    asked = [
        Difference(name, probe.pod.name, sorted(said.split(", ")), verdict(view, version, probe.pod, name))
        for probe in probes
        for name, said in probe.verdicts.items()
    ]
    return Outcome(len(asked), [one for one in asked if one.said != one.ours])


def verdict(view: View, version: Version, pod: Pod, name: str) -> list[str]:
    """The parts of the reason, sorted: versions before 2.10 give them in any order."""
    judged = view.judge(name, pod_request(pod, CONFIG, version))
    if judged.fits is None:
        return [f"unknown: {judged.unknown}"]
    return ["fit"] if judged.fits else sorted(judged.text().split(", "))


@pytest.mark.parametrize("archive", CASES, ids=lambda path: path.name.removesuffix(".tar.gz"))
def test_every_verdict_is_the_real_scheduler_s(archive):
    assert compare(archive).differing == []


def test_the_number_of_verdicts_checked_is_told(capsys):
    outcomes = [compare(archive) for archive in CASES]
    checked, differing = sum(one.checked for one in outcomes), sum(len(one.differing) for one in outcomes)
    with capsys.disabled():
        print(f"\nfit: {checked} verdicts checked, {differing} differing")  # noqa: T201
    assert checked == 9240
