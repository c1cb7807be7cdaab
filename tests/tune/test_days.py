"""Two days of a Prometheus are compared by what HAMi's metrics show."""

import asyncio
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from bot.errors import SourceError, UsageError
from bot.hami.exposition import Sample, read_samples
from bot.hami.usage import NAMES, REGISTERED
from bot.prometheus.api import Prometheus
from bot.prometheus.client import Address, PrometheusClient
from bot.report import Report
from bot.texts import LANGUAGES, Texts
from handlers.grammar import read
from handlers.shell import build_grammar
from handlers.tune_shell import DaysAsked, compare_of_prometheus
from handlers.where import Where
from playbooks.gather.usage_of_day import gather_day
from playbooks.tune.compare import ChangeRow, FigureRow
from playbooks.tune.days import compare_days
from tests.prometheus.server import WEEK_ENDS, prometheus_of_the_week
from tests.tune.lab import GIB, KERNEL, LIMIT, USED, use
from tests.tune.support import CASES

OLD, NEW = date(2026, 11, 15), date(2026, 11, 20)
GPU_USED, GPU_SIZE = "hami_host_gpu_memory_used_bytes", "hami_gpu_memory_limit_bytes"


class Days:
    """Answers with the averages of each day, and with HAMi's version then."""

    def __init__(self, texts: Mapping[date, str]) -> None:
        self._texts = texts

    async def query(self, expression: str, at: datetime) -> list[Sample]:
        days = [
            text for day, text in self._texts.items() if at == datetime(day.year, day.month, day.day + 1, tzinfo=UTC)
        ]
        known = (*NAMES, *REGISTERED, "hami_build_info")
        asked = set(re.split(r"[^\w:]+", expression))
        return [sample for text in days for sample in read_samples(text, known) if sample.name in asked]


def day(gib: float, *, size: int = 80, gpus: int = 12, kernel: float = 60, version: str = "v2.10.0") -> str:
    """So many GPUs with one share each, which uses so much of 40 GiB."""
    lines = [f'hami_build_info{{version="{version}"}} 1\n']
    for number in range(gpus):
        uuid, name = f"GPU-{number}", f"wl-{number}"
        of_share = use(USED, name, uuid, gib * GIB) + use(LIMIT, name, uuid, 40 * GIB) + use(KERNEL, name, uuid, kernel)
        of_gpu = f'{GPU_USED}{{device_uuid="{uuid}"}} {(gib + number / 10) * GIB}\n'
        lines += [of_share, of_gpu, f'{GPU_SIZE}{{device_uuid="{uuid}"}} {size * GIB}\n']
    return "".join(lines)


def compared(prometheus: Prometheus, old: date = OLD, new: date = NEW) -> Report:
    async def ask() -> list[Report]:
        days = [await gather_day(prometheus, one, datetime(2026, 11, 22, 13, tzinfo=UTC)) for one in (old, new)]
        return [compare_days(days[0], days[1], "prod", Texts(language)) for language in LANGUAGES]

    english, chinese = asyncio.run(ask())
    assert english.tables[1].rows == chinese.tables[1].rows
    return english


def answers(report: Report) -> dict[str, str]:
    return {row.figure: row.answer for row in report.typed(FigureRow)}


def test_more_memory_in_use_after_more_was_registered_helped() -> None:
    report = compared(Days({OLD: day(20), NEW: day(35, size=160)}))
    assert report.verdict.startswith(
        "It helped: 21,043 MiB were in use of a GPU on 2026-11-15, 36,403 MiB on 2026-11-20"
    )
    assert report.typed(ChangeRow) == [
        ChangeRow("registered memory of a GPU", "81,920 MiB (12 GPUs)", "163,840 MiB (12 GPUs)")
    ]
    assert answers(report)["memory in use of a share's limit, %"] == "better"
    assert report.findings[0].confidence == "confirmed"


def test_every_figure_is_quoted_with_its_query_and_its_day() -> None:
    first = compared(Days({OLD: day(20), NEW: day(35, size=160)})).findings[0].evidence[0]
    assert first.quote.endswith(str((20 + 1.1) * GIB))
    assert first.at == "2026-11-16T00:00:00Z"
    assert "from 2026-11-15T00:00:00Z to 2026-11-16T00:00:00Z" in first.command


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        (day(20, version="v2.9.0"), day(10), "It got worse"),
        (day(20, version="v2.9.0"), day(20), "It did not help"),
        (day(20), day(35), "21,043 MiB were in use"),
        (day(20, gpus=9), day(35), "Not enough data: Prometheus has nearly the whole day of 9 GPUs"),
        (day(20), day(35, gpus=40), "Not enough data: 12 shares"),
        ("", day(35), "Not enough data: Prometheus has nearly the whole day of 0 GPUs"),
        ("", "", "Not enough data"),
    ],
    ids=["worse", "the same", "nothing changed", "few GPUs", "another load", "no day before", "nothing at all"],
)
def test_it_is_told_only_what_the_days_show(old: str, new: str, verdict: str) -> None:
    report = compared(Days({OLD: old, NEW: new}))
    assert report.verdict.startswith(verdict)
    assert report.severity == ("warning" if verdict == "It got worse" else "info")


def test_what_one_day_lacks_is_no_change() -> None:
    without = "".join(
        line for line in day(20).splitlines(keepends=True) if GPU_SIZE not in line and "build" not in line
    )
    assert compared(Days({OLD: without, NEW: day(35)})).typed(ChangeRow) == []


def test_shares_without_a_kernel_are_counted() -> None:
    report = compared(Days({OLD: day(20, gpus=20, kernel=30000), NEW: day(20, gpus=20)}))
    assert answers(report)["shares without a kernel for 6 h on average"] == "better"


def test_two_dates_are_typed_in_a_shell() -> None:
    asked = read(build_grammar(), ["tune", "compare", "2026-11-15", "2026-11-20"])
    assert isinstance(asked, DaysAsked)
    assert (asked.before, asked.after) == (OLD, NEW)


def test_without_a_prometheus_the_settings_are_named() -> None:
    where = Where(recording=CASES / "healthy" / "recording.tar.gz")
    with pytest.raises(UsageError, match="settings name none"):
        asyncio.run(compare_of_prometheus(DaysAsked(OLD, NEW, {}), where, Texts("en")))


def test_a_prometheus_that_is_down_is_an_error() -> None:
    with pytest.raises(SourceError):
        compared(PrometheusClient(Address("http://127.0.0.1:1")))


@pytest.mark.few(1)
@pytest.mark.parametrize("recorded", ["range.om.gz", "range-exported-labels.om.gz"])
def test_a_real_prometheus_has_the_average_of_every_share_with_a_whole_day(recorded: str, tmp_path: Path) -> None:
    with prometheus_of_the_week(recorded, tmp_path) as url:
        client = PrometheusClient(Address(url))
        gap, whole = (asyncio.run(gather_day(client, date(2026, 11, day), WEEK_ENDS)) for day in (17, 20))
    assert (len(gap.used), len(whole.used)) == (11, 12)
    (ocr,) = (one.value for of, one in whole.used.items() if (of.namespace, of.pod) == ("vision", "ocr-5"))
    assert 8 * GIB < ocr < 20 * GIB
