"""Two questions about one cluster never contradict each other: over every recorded cluster and incident."""

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import pytest

from bot.errors import SourceError
from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.report import Finding, Report
from tests.cases_support import VERSIONS, ask_cluster, opened, scenarios
from tests.incidents_support import incidents, open_incident

pytestmark = pytest.mark.few(3)
OF_THE_INSTALL = ("scheduler-down", "scheduler-no-leader", "scheduler-panic", "scheduler-ledger-stale")
"""Codes that `why` gives of HAMi itself, and that `status` then has to know."""
UNKNOWN_TO_HAMI = ("node-unregistered", "handshake-stale", "handshake-deleted")
PLACED = ("running", "succeeded", "placed")
REFUSED = ("waiting-for-retry", "kubernetes-filter", "impossible-anywhere", "scheduler-ledger-stale")


class Asked(NamedTuple):
    """A pod of a recorded cluster."""

    recording: str
    pod: str

    def about(self, verb: str) -> Report | None:
        """The answer about the pod, or about its cluster; None where the recording is too small for the question."""
        return _report(self.recording, verb, self.pod if verb in ("why", "logs") else "")

    @property
    def why(self) -> Finding:
        report = self.about("why")
        assert report is not None
        return report.findings[0]

    def codes(self, verb: str, *, node: str = "", background: bool = True) -> set[str]:
        """The codes of an answer; of one node where it is named, and only warnings without the background."""
        report = self.about(verb)
        findings = report.findings if report else ()
        kept = (finding for finding in findings if background or finding.severity != "info")
        return {finding.code for finding in kept if not node or node in finding.scope.nodes}

    def cells(self, verb: str, title: str) -> Iterator[dict[str, str]]:
        report = self.about(verb)
        for table in report.tables if report else ():
            if table.title == title:
                yield from (dict(zip(table.columns, row, strict=True)) for row in table.rows)


@cache
def _cluster(recording: str) -> RecordedCluster:
    if recording in VERSIONS:
        return opened(recording)
    return open_incident(recording)


@cache
def _report(recording: str, verb: str, pod: str) -> Report | None:
    words = {"since": "2d"} if verb == "logs" else {}
    try:
        return ask_cluster(_cluster(recording), pod, verb=verb, **words)
    except SourceError:
        return None


EVERY = [
    *(Asked(scenario.version, scenario.pod) for scenario in scenarios()),
    *(Asked(incident.name, incident.pod) for incident in incidents() if incident.verb == "why"),
]


def of_pods(*codes: str, sure: bool = False) -> list[Asked]:
    """The pods of which `why` names one of these causes first; `sure`: those where it is proven."""
    told = [answers for answers in EVERY if answers.why.code in codes and answers.why.severity != "info"]
    return [text for text in told if text.why.confidence == "confirmed" or not sure]


def test_pending_names_the_cause_that_why_names() -> None:
    for answers in EVERY:
        namespace, _, name = answers.pod.partition("/")
        rows = [
            row for row in answers.cells("pending", "pending") if (row["namespace"], row["pod"]) == (namespace, name)
        ]
        assert {row["cause"] for row in rows} <= {answers.why.code}, answers


def test_a_lock_is_judged_alike_by_why_and_by_nodes() -> None:
    for pod in of_pods("node-lock-held", "node-lock-dangling", "node-lock-malformed"):
        for node in pod.why.scope.nodes:
            locks = {code for code in pod.codes("nodes", node=node) if code.startswith("node-lock-")}
            assert locks <= {pod.why.code}, pod


def test_status_knows_what_why_proves_about_hami_itself() -> None:
    for pod in of_pods(*OF_THE_INSTALL, sure=True):
        assert pod.why.code in pod.codes("status"), pod


def test_where_why_suspects_hami_itself_status_does_not_swear_that_it_is_healthy() -> None:
    for pod in of_pods(*OF_THE_INSTALL):
        report = pod.about("status")
        assert ("healthy", "confirmed") not in [(it.code, it.confidence) for it in (report.findings if report else ())]


def test_gpus_tells_of_the_ghosts_that_why_blames() -> None:
    for pod in of_pods("scheduler-ledger-stale", sure=True):
        if pod.why.key == "scheduler-ledger-stale.namesake":  # a live pod has the name: only its own events tell more
            continue
        assert "scheduler-ledger-stale" in pod.codes("gpus"), pod
        assert {row["node"] for row in pod.cells("gpus", "scheduler's count")} >= set(pod.why.scope.nodes), pod


def test_a_pod_that_only_has_to_be_tried_again_is_refused_by_nothing_else() -> None:
    for answers in (asked for asked in EVERY if asked.why.code == "waiting-for-retry"):
        assert "scheduler-ledger-stale" not in answers.codes("gpus") | answers.codes("status"), answers
        for node in answers.why.scope.nodes:
            assert not answers.codes("nodes", node=node, background=False) & {*UNKNOWN_TO_HAMI, "node-not-ready"}, (
                answers
            )


def test_a_node_that_hami_does_not_know_has_no_gpu_that_takes_work() -> None:
    for pod in of_pods(*UNKNOWN_TO_HAMI):
        for node in pod.why.scope.nodes:
            states = {row["state"] for row in pod.cells("gpus", "cards") if row["node"] == node}
            assert "free" not in states, pod
            assert pod.codes("nodes", node=node) & {*UNKNOWN_TO_HAMI, "node-not-ready", "device-plugin-missing"}, pod


def test_what_the_log_calls_placed_is_not_refused() -> None:
    for answers in EVERY:
        logged = answers.codes("logs", background=False) - {"not-enough-evidence"}
        assert "placed" not in answers.codes("logs") or answers.why.code not in REFUSED, answers
        assert answers.why.code not in PLACED or not logged, answers


def test_a_pod_whose_question_made_the_extender_panic_was_not_just_refused() -> None:
    for pod in of_pods("scheduler-panic"):
        assert pod.codes("logs", background=False) <= {"scheduler-panic", "not-enough-evidence"}, pod
