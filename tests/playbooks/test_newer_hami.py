"""HAMi newer than any version that was read: its new port is no fault, and nothing is certain.

Flags and ports are those of HAMi's main branch.
"""

from pathlib import Path
from typing import Any

import pytest

from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.report import NEWER_HAMI
from tests.cases_support import CASES, ask, ask_cluster, newer_recording
from tests.playbooks.status_support import CONFIG, configured, healthy
from tests.playbooks.world import answer, cluster, codes, gpu_node, none_of, pod, record, refused
from tests.playbooks.world import ask as asked_of_hami

POD = "ml/s05-exclusive-cores100"
QUESTIONS: dict[str, dict[str, Any]] = {
    "why": {"pod": POD},
    "logs": {"pod": POD, "since": "1h"},
    "fit": {"cards": "1"},
    **{verb: {} for verb in ("status", "pending", "nodes", "gpus", "tune", "digest", "quota", "latency")},
}


def newer(folder: Path) -> RecordedCluster:
    return RecordedCluster.open(newer_recording(folder))


@pytest.mark.parametrize("verb", QUESTIONS)
def test_every_verdict_is_only_suspected_and_one_gap_names_the_version(verb: str, tmp_path: Path) -> None:
    report = ask_cluster(newer(tmp_path), verb=verb, **QUESTIONS[verb])
    assert {finding.confidence for finding in report.findings} == {"suspected"}
    assert ["2.11.0" in gap.why for gap in report.gaps if gap.source == NEWER_HAMI] == [True]


def test_the_newest_version_that_was_read_is_no_newer_one() -> None:
    report = ask(CASES / "hami-2.10" / "recording.tar.gz", POD)
    assert NEWER_HAMI not in [gap.source for gap in report.gaps]
    assert report.findings[0].confidence == "confirmed"


def asks_at(folder: Path, url: str, flag: str, version: str) -> list[str]:
    """What `status` finds where kube-scheduler asks at that URL; `flag` is the extender's --extender-bind."""
    flags = [f"--extender-bind={flag}"] if flag else []
    image = f"docker.io/projecthami/hami:{version}"
    objects = configured(healthy(flags=flags, image=image), CONFIG.replace("https://127.0.0.1:443", url))
    return codes(answer("status", record(folder, objects), {}))


@pytest.mark.parametrize(
    ("url", "flag", "version"),
    [
        ("https://127.0.0.1:9444", "127.0.0.1:9444", "v2.11.0"),
        ("http://127.0.0.1:9555", "127.0.0.1:9555", "v2.11.0"),
        ("https://127.0.0.1:9444", "", "v2.12.3"),
        ("https://127.0.0.1:9444", "", "main"),
        ("https://127.0.0.1:443", "", "v2.11.0"),
    ],
)
def test_the_extender_is_asked_at_its_own_port(tmp_path: Path, url: str, flag: str, version: str) -> None:
    assert "extender-misconfigured" not in asks_at(tmp_path, url, flag, version)


@pytest.mark.parametrize(
    ("url", "flag", "version"),
    [
        ("https://127.0.0.1:443", "127.0.0.1:9444", "v2.11.0"),
        ("https://127.0.0.1:9555", "", "v2.11.0"),
        ("https://127.0.0.1:9444", "127.0.0.1:9555", "v2.11.0"),
        ("https://127.0.0.1:9444", "", "v2.10.0"),
    ],
)
def test_an_address_where_nobody_listens_is_still_a_fault(tmp_path: Path, url: str, flag: str, version: str) -> None:
    assert "extender-misconfigured" in asks_at(tmp_path, url, flag, version)


def test_what_a_newer_hami_refuses_is_not_said_to_fit_by_the_rules_of_an_older_one(tmp_path: Path) -> None:
    said = refused(none_of(1, "1 1/1 CardInsufficientMemory"))
    objects = cluster(pod(said=said), gpu_node("gpu-1"), version="2.12.0")
    report = asked_of_hami(tmp_path, objects)
    assert (codes(report)[0], report.findings[0].confidence) == ("card-insufficient-memory", "suspected")
    assert "waiting-for-retry" not in codes(report)
