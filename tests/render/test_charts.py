"""Charts of latency by stage, and of each pool's use and requests."""

import io

import pytest
from msgspec.structs import replace
from PIL import Image

from bot.render.charts import Chart, charts
from bot.report import SCHEMA, Report, Sheet, Subject, Table
from bot.rows import PoolRow, StageRow
from tests.render import SAY

STAGES, POOLS = Sheet("latency", StageRow), Sheet("pools", PoolRow)
SLOW = StageRow("created -> bound", 60, 40.63, 82.82, 87.63, "log")
UNSEEN = StageRow("bound -> running", 0, None, None, None, "")
POOL = PoolRow("pool=a100", 2, 16, 10, 1_310_720, 262_144, 91_850, 0, 0, 0, 8)


def report(*tables: Table) -> Report:
    subject = Subject("Cluster", "", "")
    return Report(SCHEMA, "tune", "c", "2026-11-23T00:00:00Z", subject, "v", "info", (), tables)


def drawn(*tables: Table) -> dict[str, Chart]:
    return {chart.name: chart for chart in charts(report(*tables), SAY)}


def inks(chart: Chart) -> set[tuple[int, int, int]]:
    image = Image.open(io.BytesIO(chart.png)).convert("RGB")
    return {colour for _, colour in image.getcolors(maxcolors=10_000) or ()}  # type: ignore[misc]


def test_a_report_without_such_rows_has_no_chart() -> None:
    assert charts(report(), SAY) == []


def test_a_stage_is_told_with_its_median_and_its_95th_percentile() -> None:
    chart = drawn(STAGES.table([SLOW, UNSEEN]))["latency"]
    assert chart.alt_text == "Scheduling latency by stage. created -> bound: 40.63 / 82.82 s"


def test_what_no_pod_shows_is_not_drawn() -> None:
    assert drawn(STAGES.table([UNSEEN])) == {}


def test_a_pool_has_a_chart_of_its_use_and_one_of_its_requests() -> None:
    found = drawn(POOLS.table([POOL]))
    assert found["use"].alt_text == "GPU memory by pool. pool=a100: 89.7 GiB of 256 GiB"
    assert "pool=a100: 16 GiB and more: 8; split into 10" in found["requests"].alt_text


def test_use_that_is_not_known_is_no_use_of_nothing() -> None:
    chart = drawn(POOLS.table([replace(POOL, used_mib=None)]))["use"]
    assert chart.alt_text.endswith("pool=a100: ? of 256 GiB")
    assert (0, 84, 148) not in inks(chart)


def test_the_same_rows_give_the_same_bytes() -> None:
    assert drawn(POOLS.table([POOL])) == drawn(POOLS.table([POOL]))


@pytest.mark.parametrize("count", [1, 30, 500])
def test_a_chart_stays_small_whatever_the_cluster(count: int) -> None:
    chart = drawn(POOLS.table([replace(POOL, pool=f"pool-{number}") for number in range(count)]))["use"]
    width, height = Image.open(io.BytesIO(chart.png)).size
    assert (width, height <= 1600) == (1000, True)


def test_a_pool_that_is_empty_is_drawn_without_dividing_by_nothing() -> None:
    empty = replace(POOL, memory_mib=0, given_mib=0, used_mib=0, from_16_gib=0)
    assert "use" in drawn(POOLS.table([empty]))
