"""What HAMi's own extender said of pods that ask for devices of every vendor, node by node.

`cases/fit-vendors/*.tar.gz` are worlds of nodes and pods with `probes.json`: pods as its webhook admitted them, and per
node the verdict when the extender was asked about that pod and that node alone. Where it answers by chance, the verdict
was left out of them.
"""

import json
import tarfile
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bot.hami.fit import Verdict
from bot.hami.requests import DeviceConfig, pod_request, read_device_config
from bot.hami.version import parse_version
from bot.hami.view import Facts, View
from bot.kube.models import Node, Pod, ResourceQuota
from tests.cases_support import CASES

FOLDER = CASES / "fit-vendors"
WORLDS = sorted(FOLDER.glob("*.tar.gz"))
CONFIG = (FOLDER / "device-config.yaml").read_text()


@pytest.mark.parametrize("world", WORLDS, ids=lambda path: path.name.removesuffix(".tar.gz"))
def test_every_verdict_is_the_real_extender_s(world: Path) -> None:
    files = {name: json.loads(text) for name, text in read(world).items()}
    view = seen(files)
    differing: list[tuple[str, str, str, str]] = []
    for probe in files["probes.json"]:
        pod = msgspec.convert(probe["pod"], Pod)
        asked = pod_request(pod, view.facts.config, view.version)
        ours = view.forgetting(pod.metadata.uid).judge_each(probe["verdicts"], asked)
        said = probe["verdicts"].items()
        differing += [(pod.name, node, one, words(ours[node])) for node, one in said if one not in told(ours[node])]
    assert differing == []


def read(world: Path) -> dict[str, bytes]:
    with tarfile.open(world) as archive:
        members = [member for member in archive if member.isfile()]
        return {member.name: archive.extractfile(member).read() for member in members}  # type: ignore[union-attr]


def seen(files: dict[str, Any]) -> View:
    def items(name: str, kind: Any) -> list[Any]:
        return msgspec.convert(files.get(f"objects/{name}.json", {"items": []})["items"], list[kind])

    meta = files["meta.json"]
    nodes = {node.name: node for node in items("nodes", Node)}
    facts = Facts(
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
    soft = "hamiVnpuCore: true" if meta.get("hami_vnpu_core") else "hamiVnpuCore: false"
    config = read_device_config(CONFIG.replace("hamiVnpuCore: false", soft))
    assert isinstance(config, DeviceConfig)
    return config


def words(verdict: Verdict) -> str:
    if verdict.fits is None:
        return f"unknown: {verdict.unknown}"
    return "fit" if verdict.fits else verdict.text()


def told(verdict: Verdict) -> tuple[str, ...]:
    """What HAMi may say, by our verdict."""
    return (words(verdict), *verdict.instead)
