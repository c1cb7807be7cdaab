"""The recorded worlds of other vendors as whole clusters: HAMi as its chart installs it, and one of the extender's
probes as a pod that waits with the words that HAMi said of each node.
"""

import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.report import Report
from bot.texts import Language
from tests.cases_support import CASES, ask_cluster, files_in, write_recording
from tests.playbooks.world import FILES, scheduler

FOLDER = CASES / "fit-vendors"
CHART = (FOLDER / "device-config.yaml").read_text()
VERBS = ("why", "nodes", "gpus", "quota")
_LOG = "logs/hami-system/hami-scheduler-0/vgpu-scheduler-extender.log"
_FLAGS = ["--enable-ascend=true", "--enable-iluvatar=true"]


class Asked(NamedTuple):
    """A question about a world: `probe` is the pod that waits there."""

    world: str
    probe: str
    verb: str

    @property
    def name(self) -> str:
        return f"{self.verb} {self.world} {self.probe}"

    @property
    def expected(self) -> Any:
        return _answers()[self.name]

    def ask(self, folder: Path, language: Language = "en") -> Report:
        """The report."""
        path, pod = recording(self.world, self.probe, folder)
        values = {"pod": pod} if self.verb == "why" else {}
        return ask_cluster(RecordedCluster.open(path), verb=self.verb, language=language, **values)


def asked() -> list[Asked]:
    """Every verb of every world and probe that `cases/fit-vendors/questions.json` names."""
    worlds: dict[str, str] = json.loads((FOLDER / "questions.json").read_text())
    return [Asked(world, probe, verb) for world, probe in worlds.items() for verb in VERBS]


@cache
def _answers() -> dict[str, Any]:
    answers: dict[str, Any] = json.loads((FOLDER / "answers.json").read_text(encoding="utf-8"))
    return answers


def recording(world: str, probe: str, folder: Path) -> tuple[Path, str]:
    """The cluster in that folder, and the pod that waits."""
    files, pod = _files(world, probe)
    path = folder / f"{world}-{probe}.tar.gz"
    return path if path.exists() else write_recording(files, path), pod


@cache
def _files(world: str, probe: str) -> tuple[dict[str, bytes], str]:
    recorded = files_in(FOLDER / f"{world}.tar.gz")
    lists: dict[str, list[Any]] = {file: _items(recorded.get(file)) for file in FILES.values()}
    taken_at = json.loads(recorded["meta.json"])["taken_at"]
    for item in scheduler(config=CHART, flags=_FLAGS):
        if item["kind"] == "Lease":
            item["spec"]["renewTime"] = taken_at
        lists[FILES[item["kind"]]].append(item)
    found = next(load for load in json.loads(recorded["probes.json"]) if load["pod"]["metadata"]["name"] == probe)
    waits = _waiting(found)
    lists[FILES["Pod"]].append(waits)
    files = {name: json.dumps({"kind": "List", "items": items}).encode() for name, items in lists.items()}
    return files | {"meta.json": recorded["meta.json"], _LOG: b""}, f"{waits['metadata']['namespace']}/{probe}"


def _items(data: bytes | None) -> list[Any]:
    return json.loads(data)["items"] if data else []


def _waiting(probe: dict[str, Any]) -> dict[str, Any]:
    """The pod, with the recorded reasons as kube-scheduler sums them up. A taint of the recorder's does not keep it."""
    pod, total = probe["pod"], len(probe["verdicts"])
    reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(Counter(probe["verdicts"].values()).items()))
    said = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": f"0/{total} nodes are available: {reasons}.",
        "lastTransitionTime": pod["metadata"]["creationTimestamp"],
    }
    status = pod["status"] | {"conditions": [said]}
    return pod | {"status": status, "spec": pod["spec"] | {"tolerations": [{"operator": "Exists"}]}}
