"""`gpus` on the recordings: card by card the figures of HAMi's own metrics."""

import gzip
import json
import re
from collections import defaultdict
from pathlib import Path

import pytest

from bot.texts import LANGUAGES
from tests import cases_support
from tests.cases_support import CASES, VERSIONS
from tests.playbooks.tables import table
from tests.playbooks.world import cause

DATA = Path(__file__).parent / "data"
Card = tuple[str, str]
Figures = tuple[int, int, int, int, int]
LIMIT_OF_MEMORY, MEMORY, CORES, SHARED, LIMIT_OF_CORES = range(5)
METRICS = {
    "GPUDeviceMemoryLimit": LIMIT_OF_MEMORY,
    "GPUDeviceMemoryAllocated": MEMORY,
    "GPUDeviceCoreAllocated": CORES,
    "GPUDeviceSharedNum": SHARED,
    "GPUDeviceCoreLimit": LIMIT_OF_CORES,
    "hami_gpu_memory_limit_bytes": LIMIT_OF_MEMORY,
    "hami_gpu_memory_allocated_bytes": MEMORY,
    "hami_gpu_core_allocated_ratio": CORES,
    "hami_gpu_shared_count": SHARED,
    "hami_gpu_core_limit_ratio": LIMIT_OF_CORES,
}
NOT_COUNTED_BY_HAMI: dict[str, dict[Card, Figures]] = {
    # ml/s17-slice-2 was given a share of this card, and binding it failed. HAMi forgets such a reservation when it
    # tries the pod again, which by its log it did in the very second of the recording; the pod's annotation stays.
    "hami-2.5.1": {("gpu-node-10", "GPU-33be18b3-bf76-46bf-843b-41a1f86f4f91"): (0, 100, 0, 1, 0)},
}


def metrics(version: str) -> dict[Card, Figures]:
    """Per node and card: memory limit and memory given in MiB, cores given, how many share it, and its cores."""
    found: dict[Card, list[int]] = defaultdict(lambda: [-1] * 5)
    for line in gzip.decompress((DATA / f"{version}.prom.gz").read_bytes()).decode().splitlines():
        name, labels, value = re.fullmatch(r"(\w+)\{(.*)\} (\S+)", line).groups()
        if (kind := METRICS.get(name)) is None:
            continue
        label = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        at = label.get("nodeid") or label["node"], label.get("deviceuuid") or label["device_uuid"]
        found[at][kind] = int(float(value)) >> (20 if kind in (LIMIT_OF_MEMORY, MEMORY) else 0)
    return {at: tuple(figures) for at, figures in found.items()}


@pytest.mark.parametrize("version", VERSIONS)
def test_every_card_s_figures_are_those_of_the_real_scheduler(version: str) -> None:
    report = cases_support.ask(CASES / version / "recording.tar.gz", verb="gpus")
    ours: dict[Card, Figures] = {}
    for row in table(report, "cards"):
        if row["state"] != "unregistered":
            shared = row["slots"].split("/")[0]
            figures = (row["memory total"], row["memory used"], row["cores used"], shared, row["cores total"])
            ours[row["node"], row["card"]] = tuple(map(int, figures))
            assert int(row["memory free"]) == max(int(row["memory total"]) - int(row["memory used"]), 0)
    for at, more in NOT_COUNTED_BY_HAMI.get(version, {}).items():
        ours[at] = tuple(mine - extra for mine, extra in zip(ours[at], more, strict=True))
    assert len(ours) == 102
    assert ours == metrics(version)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_sums_per_type_are_those_of_the_real_scheduler(version: str) -> None:
    report = cases_support.ask(CASES / version / "recording.tar.gz", verb="gpus")
    sums = table(report, "largest free slice by type")
    theirs = metrics(version).values()
    extra = sum(value[MEMORY] for value in NOT_COUNTED_BY_HAMI.get(version, {}).values())
    assert sum(int(row["cards"]) for row in sums) == len(theirs)
    assert sum(int(row["memory total"]) for row in sums) == sum(their[LIMIT_OF_MEMORY] for their in theirs)
    assert sum(int(row["memory used"]) for row in sums) == sum(their[MEMORY] for their in theirs) + extra


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("version", VERSIONS)
def test_every_quote_about_a_recorded_cluster_stands_in_it(version: str, language: str) -> None:
    seen = "\0".join(_texts(version))
    report = cases_support.ask(CASES / version / "recording.tar.gz", verb="gpus", language=language)
    assert cause(report).code == "capacity"
    assert all(evidence.quote in seen for finding in report.findings for evidence in finding.evidence)
    assert all(finding.evidence for finding in report.findings)


def _texts(version: str) -> list[str]:
    objects = [data for name, data in cases_support.files_of(version).items() if name.startswith("objects/")]
    return [json.dumps(json.loads(data), ensure_ascii=False).replace('\\"', '"') for data in objects]
