"""With a week in a real Prometheus, memory scaling is advised by pool; without one it cannot be told."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from bot.hami.metrics.exposition import Sample
from bot.prometheus.client import Address, PrometheusClient
from tests.prometheus.server import prometheus_of_the_week, prometheus_that_scrapes
from tests.tune.support import cases, open_case, rows_of

pytestmark = pytest.mark.process

(IDLE_MEMORY,) = (case for case in cases() if case.name == "idle-memory")


@pytest.mark.parametrize(
    ("recorded", "target"),
    [("range.om.gz", ""), ("range-exported-labels.om.gz", ""), ("range.om.gz", "hami-system")],
    ids=["as exported", "all labels set anew", "the namespace alone set anew"],
)
def test_a_pool_may_promise_what_its_week_left_free_and_every_peak_proves_it(
    recorded: str, target: str, tmp_path: Path
) -> None:
    """One that uses half of what it asks for twice as much, one that uses nearly all no more."""
    with prometheus_of_the_week(recorded, tmp_path, target=target) as url:
        answer = IDLE_MEMORY.ask(PrometheusClient(Address(url)))
    scaling = {row.object: row for row in rows_of(answer) if row.topic == "memory-scaling"}
    (half,) = (row for of, row in scaling.items() if "pool=a100" in of)
    assert (half.direction, half.current) == ("raise", "1")
    assert float(half.recommended) <= 2.0
    assert [number for number in ("262,144 MiB", "115,124 MiB", "2.05") if number not in half.why] == []
    (most,) = (row for of, row in scaling.items() if "pool=t4" in of)
    assert most.direction == "refuse"
    assert "25,600 MiB / 24,658 MiB x 0.9 = 0.93" in most.why

    assert [gap.source for gap in answer.gaps if gap.source == "Prometheus"] == []
    assert "monitor-gap" not in [row.topic for row in rows_of(answer)]

    (found,) = (finding for finding in answer.findings if "2.05" in finding.claim)
    peaks = [proof for proof in found.evidence if proof.source == "metrics"]
    assert len(peaks) == 8
    assert {proof.command for proof in peaks} == {"PromQL: max_over_time(hami_vgpu_memory_used_bytes[7d])"}
    assert {proof.object for proof in found.evidence} == {proof.object for proof in peaks}
    assert len(found.evidence) == 16


class _AsOfTheScrape:
    """Asks for what was scraped in this test, and not as of the recording's time."""

    def __init__(self, url: str) -> None:
        self._client = PrometheusClient(Address(url))

    async def query(self, expression: str, at: datetime, labels: object = None) -> list[Sample]:
        del at
        return await self._client.query(expression, datetime.now(UTC))  # noqa: TID251  # when it scraped


@pytest.mark.parametrize("name", ["idle-holders", "idle-memory", "both-names", "names-2.7.1"])
def test_scraping_the_monitors_it_gives_the_same_advice_as_the_recording(name: str, tmp_path: Path) -> None:
    (case,) = (case for case in cases() if case.name == name)
    recording = open_case(name)
    texts = {
        f"monitor-{number}": recording.read(file).decode()
        for number, file in enumerate(
            sorted(file for file in recording.files("metrics/") if file.endswith("/9394.prom"))
        )
    }
    assert texts
    with prometheus_that_scrapes(texts, tmp_path) as url:
        scraped = case.ask(_AsOfTheScrape(url))
    assert rows_of(scraped) == rows_of(case.ask())
    assert [gap for gap in scraped.gaps if gap.source == "Prometheus"] == []
