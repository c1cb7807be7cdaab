"""Two days of a Prometheus are compared by what HAMi's metrics show."""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from bot.errors import UsageError
from bot.hami.fit.allocated_totals import Holding, Share
from bot.hami.metrics.exposition import Sample, read_samples
from bot.hami.metrics.gpu_usage import NAMES, REGISTERED
from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.prometheus import Prometheus
from bot.prometheus.client import Address, PrometheusClient
from bot.report import Report
from bot.texts import LANGUAGES, Texts
from handlers.parsing.grammar import ParsedQuestion, read
from handlers.parsing.slack_grammar import understand
from handlers.shell_grammar import build_grammar
from playbooks.gather import past_days
from playbooks.gather.past_days import gather_day
from playbooks.playbook import Sources
from playbooks.tune.compare import ChangeRow, MeasuredRow
from playbooks.tune.playbook import PLAYBOOK, Request
from tests.latency.support import started
from tests.playbooks.world import HAMI, NOW, Object, check, record, scheduler, text_of
from tests.prometheus.server import WEEK_ENDS, prometheus_of_the_week
from tests.tune.lab import GIB, KERNEL, LIMIT, USED, use
from tests.tune.support import open_case

OLD, NEW = date(2026, 11, 15), date(2026, 11, 20)
GPU_USED, GPU_SIZE = "hami_host_gpu_memory_used_bytes", "hami_gpu_memory_limit_bytes"


class Days:
    """Answers with the averages of each day, and with HAMi's version then."""

    def __init__(self, texts: Mapping[date, str]) -> None:
        self._texts = texts

    async def query(self, expression: str, at: datetime, labels: object = None) -> list[Sample]:
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


def compared(prometheus: Prometheus | None, path: Path | None = None, old: date = OLD, new: date = NEW) -> Report:
    """Of the recording `healthy`, which is younger than both days, or of another."""
    cluster = RecordedCluster.open(path) if path else open_case("healthy")
    days = asyncio.run(PLAYBOOK.gather(Request(all=False, days=(old, new)), Sources(cluster, prometheus=prometheus)))
    english, chinese = (PLAYBOOK.report(days, Texts(language)) for language in LANGUAGES)
    assert english.tables[1].rows == chinese.tables[1].rows
    return english


def answers(report: Report) -> dict[str, str]:
    return {row.figure: row.answer for row in report.typed(MeasuredRow)}


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


@pytest.mark.parametrize("read_words", [lambda words: read(build_grammar(), words), understand], ids=["shell", "Slack"])
def test_two_dates_are_typed_in_a_shell_and_in_slack(read_words: Callable[[list[str]], ParsedQuestion]) -> None:
    asked = read_words(["tune", "compare", "2026-11-15", "2026-11-20"])
    assert isinstance(asked, ParsedQuestion)
    assert asked.request == Request(all=False, days=(OLD, NEW))


@pytest.mark.parametrize("prometheus", [None, PrometheusClient(Address("http://127.0.0.1:1"))], ids=["none", "down"])
def test_without_a_prometheus_that_is_a_gap_of_each_day(prometheus: Prometheus | None) -> None:
    report = compared(prometheus)
    assert report.verdict.startswith("Not enough data: of 2026-11-15 0 GPU pods still exist")
    assert {gap.source for gap in report.gaps} >= {"2026-11-15: Prometheus", "2026-11-20: Prometheus"}
    assert set(answers(report).values()) == {"not enough data"}


@pytest.mark.process
@pytest.mark.parametrize("recorded", ["range.om.gz", "range-exported-labels.om.gz"])
def test_a_real_prometheus_has_the_average_of_every_share_with_a_whole_day_and_who_exceeds_the_least_request(
    recorded: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past_days, "CORE_NAMES", (USED,))  # the recorded week has cores at one moment alone
    held = [Holding("nlp", name, name, "n", True, {"GPU-a": Share(1, 1024, 30)}) for name in ("a", "b")]
    with prometheus_of_the_week(recorded, tmp_path) as url:
        client = PrometheusClient(Address(url))
        gap, whole = (asyncio.run(gather_day(client, date(2026, 11, day), WEEK_ENDS)) for day in (17, 20))
        seen = asyncio.run(past_days.gather_cores(client, held, WEEK_ENDS))
    assert (len(gap.used), len(whole.used)) == (11, 12)
    (ocr,) = (one.value for of, one in whole.used.items() if (of.namespace, of.pod) == ("vision", "ocr-5"))
    assert 8 * GIB < ocr < 20 * GIB
    assert (seen.gap, seen.limited, seen.known, len(seen.above)) == (None, 2, 12, 12)
    assert ("vision", "ocr-5") in {(use.of.namespace, use.of.pod) for use in seen.above}


TODAY = date(2026, 11, 22)
"""On which the case `healthy` was recorded."""


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (date(2026, 11, 20), date(2026, 11, 23), "2026-11-23 has not begun\nName days up to 2026-11-22."),
        (date(2026, 11, 24), date(2026, 11, 20), "2026-11-24 has not begun\nName days up to 2026-11-22."),
        (NEW, OLD, "2026-11-20 is not before 2026-11-15\nName two days, the earlier one first."),
        (NEW, NEW, "2026-11-20 is not before 2026-11-20\nName two days, the earlier one first."),
    ],
    ids=["not begun", "not begun and reversed", "reversed", "the same day"],
)
def test_days_that_cannot_be_compared_are_refused(old: date, new: date, told: str) -> None:
    with pytest.raises(UsageError) as refused:
        compared(None, old=old, new=new)
    assert str(refused.value) == told


def test_today_is_compared_as_far_as_it_has_gone() -> None:
    asked: list[tuple[str, datetime]] = []

    class Noted(Days):
        async def query(self, expression: str, at: datetime, labels: object = None) -> list[Sample]:
            asked.append((expression, at))
            return await super().query(expression, at)

    report = compared(Noted({OLD: day(20)}), old=OLD, new=TODAY)
    hours = {at: expression for expression, at in asked if "avg_over_time" in expression}
    assert set(hours) == {datetime(2026, 11, 16, tzinfo=UTC), datetime(2026, 11, 22, 13, tzinfo=UTC)}
    assert "[13h:1h]) >= 12" in hours[datetime(2026, 11, 22, 13, tzinfo=UTC)]
    assert "[24h:1h]) >= 22" in hours[datetime(2026, 11, 16, tzinfo=UTC)]
    (rest,) = (gap for gap in report.gaps if gap.source == "2026-11-22: rest of the day")
    assert rest.why == "only its first 13h28m have passed"
    assert report.findings[0].confidence == "suspected"


# ------------------------------------------------------------------------------------- of the cluster's own objects


FIRST, SECOND = NOW.date() - timedelta(days=4), NOW.date() - timedelta(days=1)


def at(day: date, hour: float = 0) -> str:
    return (datetime.combine(day, datetime.min.time(), UTC) + timedelta(hours=hour)).strftime("%Y-%m-%dT%H:%M:%SZ")


def replica_set(name: str, began: str, revision: str, *flags: str, history: str = "", of: str = "") -> Object:
    """One of the scheduler's Deployment, or of another."""
    (deployment, *_) = scheduler(flags=flags)
    annotations = {"deployment.kubernetes.io/revision": revision}
    if history:
        annotations["deployment.kubernetes.io/revision-history"] = history
    owners = [{"kind": "Deployment", "name": of or "hami-scheduler", "uid": "d"}]
    metadata = {"name": name, "namespace": HAMI, "uid": name, "creationTimestamp": began, "annotations": annotations}
    return deployment | {"kind": "ReplicaSet", "metadata": metadata | {"ownerReferences": owners}}


def pods_of(day: date, seconds: int, count: int = 12) -> list[Object]:
    """Pods that were created on the day, an hour after it began, and ran so many seconds later."""
    found = [started(f"wl-{day.day}-{number}", after=seconds) for number in range(count)]
    for item in found:
        created = datetime.fromisoformat(at(day, 1))
        item["metadata"]["creationTimestamp"] = at(day, 1)
        began = (created + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
        item["metadata"]["annotations"] = {
            key: text for key, text in item["metadata"].get("annotations", {}).items() if "time" not in key
        }
        item["status"]["startTime"] = began
        item["status"]["conditions"] = []
        for status in item["status"]["containerStatuses"]:
            status["state"] = {"running": {"startedAt": began}}
    return found


SLOW_THEN_FAST = [*pods_of(FIRST, 50), *pods_of(SECOND, 2)]
OLD_RS = replica_set("rs-1", at(FIRST, -30), "1", "--kube-qps=5")
NEW_RS = replica_set("rs-2", at(FIRST, 40), "2", "--kube-qps=50")


def of_objects(folder: Path, objects: Sequence[Object]) -> Report:
    path = record(folder, [*scheduler(flags=["--kube-qps=50"]), *objects])
    report = compared(None, path, FIRST, SECOND)
    check(report, text_of(path))
    return report


def test_the_arguments_and_the_latency_of_two_days_are_those_of_the_objects_that_are_left(tmp_path: Path) -> None:
    report = of_objects(tmp_path, [OLD_RS, NEW_RS, *SLOW_THEN_FAST])
    assert report.verdict == "It helped: GPU pods took 50.0 s from created to running before, 2.0 s after (median)."
    assert report.typed(ChangeRow) == [ChangeRow("--kube-qps", "5", "50")]
    assert answers(report)["created -> running"] == "better"
    assert report.findings[0].confidence == "suspected"
    assert [proof.quote for proof in report.findings[0].evidence[:2]] == ["--kube-qps=5", "--kube-qps=50"]


def test_few_pods_that_are_left_are_not_enough_data(tmp_path: Path) -> None:
    report = of_objects(tmp_path, [OLD_RS, NEW_RS, *pods_of(FIRST, 50, 9), *pods_of(SECOND, 2)])
    assert report.verdict.startswith("Not enough data: of")
    assert report.typed(ChangeRow) == [ChangeRow("--kube-qps", "5", "50")]


@pytest.mark.parametrize(
    "sets",
    [
        [replica_set("rs-1", at(FIRST, 5), "1", "--kube-qps=5"), NEW_RS],
        [OLD_RS, replica_set("rs-2", at(SECOND, 5), "2", "--kube-qps=50")],
        [OLD_RS, replica_set("rs-3", at(FIRST, 40), "3", "--kube-qps=50")],
        [replica_set("rs-1", at(FIRST, -30), "3", "--kube-qps=5", history="1"), NEW_RS],
        [OLD_RS, replica_set("other-2", at(FIRST, 40), "2", "--kube-qps=50", of="other")],
        [],
    ],
    ids=["began on the day", "changed on the day", "one is gone", "a rollback", "of another Deployment", "none"],
)
def test_arguments_that_are_not_certain_are_no_change(tmp_path: Path, sets: list[Object]) -> None:
    report = of_objects(tmp_path, [*sets, *SLOW_THEN_FAST])
    assert report.typed(ChangeRow) == []
    assert "It helped" not in report.verdict
