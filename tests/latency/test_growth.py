"""What HAMi's filter and bind grow with: planted in a log it is found, and nothing is told of too few calls."""

import asyncio
import random
import re
import tarfile
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bot import process_counters
from bot.hami.scheduler_logs.filter_runs import SchedulerCall, read_calls
from bot.hami.scheduler_logs.scheduling_latency import Growth, slopes
from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.report import Report
from handlers.metrics_poller import SchedulerCalls
from playbooks.playbook import Sources
from tests.latency.support import at, latency, started
from tests.playbooks.world import record, scheduler

SUCCEEDED = (
    'event.go:389] "Event occurred" object="ml/{name}" kind="Pod" type="Normal" reason="FilteringSucceed" '
    'message="find fit node(gpu-1), {unfit} nodes not fit, 1 nodes fit(gpu-1:0.00)"'
)
WAIT = (
    'request.go:752] "Waited before sending request" delay="{delay}s" reason="client-side throttling, not priority and '
    'fairness" verb="GET" URL="https://10.0.0.1/{number}"'
)
MEASURED = "HAMi's filter takes"


def runs(count: int, per_node_ms: float, noise: float = 0.1, every_s: float = 4.0) -> str:
    """Filter runs of 5 ms and so many ms for each candidate, give or take the noise, one after the other."""
    chance = random.Random(7)
    lines: list[str] = []
    for number in range(count):
        nodes, name, begin = chance.randint(5, 60), f"run-{number}", 20 + number * every_s
        took = (5 + per_node_ms * nodes) * chance.uniform(1 - noise, 1 + noise) / 1000
        start = f'scheduler.go:1068] "Starting schedule filter process" pod="{name}" uuid="u" namespace="ml"'
        lines += [at(begin, start), at(begin + took, SUCCEEDED.format(name=name, unfit=nodes - 1))]
    return "".join(lines)


def growth(report: Report, factor: str = "candidates") -> Growth:
    return next(row for row in report.typed(Growth) if row.grows_with == factor)


def claims(report: Report) -> list[str]:
    return [finding.claim for finding in report.findings if MEASURED in finding.claim]


@pytest.mark.parametrize("planted", [0.4, 1.9, 25.0])
def test_a_planted_slope_is_found_within_a_twentieth_and_its_interval_holds_it(tmp_path: Path, planted: float) -> None:
    row = growth(latency(tmp_path, started(), extender=runs(120, planted)))
    assert row.each_ms == pytest.approx(planted, rel=0.05)
    assert row.low_ms is not None
    assert row.high_ms is not None
    assert row.low_ms < planted < row.high_ms
    assert (row.call, row.runs, row.state) == ("filter", 120, "grows")


def test_the_answer_says_what_the_slope_means_at_twice_the_nodes(tmp_path: Path) -> None:
    (claim,) = claims(latency(tmp_path, started(), extender=runs(120, 1.9)))
    words = r"It grows with the candidate nodes, by (\S+) ms each .* at (\d+) instead of (\d+) .* (\S+) ms"
    found = re.search(words, claim)
    assert found
    assert int(found[2]) == 2 * int(found[3])
    assert float(found[4]) == pytest.approx(5 + 1.9 * int(found[2]), rel=0.1)


def test_what_does_not_grow_is_told_so(tmp_path: Path) -> None:
    (claim,) = claims(latency(tmp_path, started(), extender=runs(120, 0.0)))
    assert "It does not grow with the candidate nodes." in claim


def test_two_causes_at_once_are_told_apart() -> None:
    chance = random.Random(3)
    values = {name: [chance.randint(1, most) for _ in range(200)] for name, most in (("nodes", 90), ("pending", 40))}
    both = zip(values["nodes"], values["pending"], strict=True)
    nodes, pending = slopes("filter", [30 + 1.9 * one + 6 * other + chance.gauss(0, 4) for one, other in both], values)
    assert nodes.each_ms == pytest.approx(1.9, rel=0.05)
    assert pending.each_ms == pytest.approx(6, rel=0.05)


def test_of_two_numbers_that_move_together_only_the_first_is_given_a_slope() -> None:
    values = list(range(1, 41))
    first, second = slopes("filter", [2.0 * value for value in values], {"candidates": values, "nodes": values})
    assert (first.state, second.grows_with, second.each_ms) == ("grows", "nodes", None)


@pytest.mark.parametrize("count", [0, 1, 19])
def test_of_too_few_runs_nothing_is_told(tmp_path: Path, count: int) -> None:
    report = latency(tmp_path, started(), extender=runs(count, 1.9))
    assert claims(report) == []
    assert {row.state for row in report.typed(Growth)} <= {"too few points"}


def test_a_number_that_never_changes_tells_nothing() -> None:
    (row,) = slopes("filter", [float(took) for took in range(50)], {"nodes": [15] * 50})
    assert (row.each_ms, row.state) == (None, "too few points")


def test_noise_is_no_proof_that_nothing_grows() -> None:
    chance = random.Random(5)
    values = [chance.randint(5, 60) for _ in range(25)]
    (row,) = slopes("filter", [chance.expovariate(1 / 10) ** 3 for _ in values], {"candidates": values})
    assert row.state == "too few points"


def test_a_few_long_calls_are_no_growth() -> None:
    chance = random.Random(5)
    values = [chance.randint(5, 60) for _ in range(400)]
    (row,) = slopes(
        "filter", [2000.0 if value > 45 and chance.random() < 0.3 else 0.7 for value in values], {"n": values}
    )
    assert row.state == "too few points"


def test_requests_that_are_held_back_are_named_as_the_cause(tmp_path: Path) -> None:
    slow = started(after=20, bound=19)
    own = 'scheduler.go:1068] "Starting schedule filter process" pod="wl" uuid="u" namespace="ml"'
    bind = 'scheduler.go:999] "Attempting to bind pod to node" pod="wl" namespace="ml" node="gpu-1"'
    waits = "".join(at(20 + number, WAIT.format(delay=1.5, number=number)) for number in range(30))
    report = latency(tmp_path, slow, extender=at(1, own) + at(9, bind) + runs(60, 1.9) + waits)
    assert ["holds back are most of that time" in claim for claim in claims(report)] == [True]


# ------------------------------------------------------------------------------------------------------- the calls

CASES = Path(__file__).parent.parent / "cases"
VERSIONS = ["2.5.1", "2.7.1", "2.8.1", "2.9.0", "2.10"]


def recorded(version: str) -> str:
    """The extender's log of that version's recorded cluster."""
    with tarfile.open(CASES / f"hami-{version}" / "recording.tar.gz") as recording:
        name = next(name for name in recording.getnames() if name.endswith("vgpu-scheduler-extender.log"))
        log = recording.extractfile(name)
        assert log
        return log.read().decode()


def calls_in(text: str) -> list[SchedulerCall]:
    now = datetime(2026, 11, 27, tzinfo=UTC)
    return read_calls(text.splitlines(), now)


@pytest.mark.parametrize("version", VERSIONS)
def test_filters_are_as_many_as_grep_counts_in_the_log_of_each_version(version: str) -> None:
    text = recorded(version)
    filters = [call for call in calls_in(text) if call.verb == "filter"]
    assert len(filters) == text.count('"Starting schedule filter process"')
    assert sum(bool(call.codes) for call in filters) == text.count('message="no available node')


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_reasons_are_as_many_as_grep_counts_in_the_log_of_each_version(version: str) -> None:
    text = recorded(version)
    said = Counter(re.findall(r'message="\d+ nodes (\w+)\(', text))
    told = Counter(code for call in calls_in(text) for code in call.codes)
    assert {code: told[code] for code in said} == said


@pytest.mark.parametrize("version", VERSIONS)
async def test_metrics_are_what_grep_counts_and_a_second_look_counts_nothing_twice(
    tmp_path: Path, version: str
) -> None:
    text, cluster = recorded(version), f"metrics-{version}"
    halves = [text[: text.index("\n", len(text) // 2) + 1], text]
    paths = [record(tmp_path / str(number), scheduler(), logs=log) for number, log in enumerate(["", *halves, text])]
    calls = SchedulerCalls()
    for path in paths:
        await calls.look(cluster, Sources(RecordedCluster.open(path)), asyncio.Lock())
    told = {labels: (counts, total) for labels, counts, total in process_counters.SCHEDULER_CALLS.cumulated()}
    filters, took = told[cluster, "filter"]
    expected = [call.seconds for call in calls_in(text) if call.verb == "filter"]
    assert filters[-1] == text.count('"Starting schedule filter process"') == len(expected)
    assert filters[:-1] == [
        sum(seconds <= edge for seconds in expected) for edge in process_counters.SCHEDULER_CALLS.edges
    ]
    assert took == pytest.approx(sum(expected))
    refused = {code: n for (of, code), n in process_counters.REFUSALS.items() if of == cluster}
    said = Counter(re.findall(r'message="\d+ nodes (\w+)\(', text))
    assert {code: refused.get(code) for code in said} == said
