"""Two questions about one cluster never contradict each other: over every recorded cluster and incident."""

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import pytest

from bot.errors import SourceError
from bot.report import Finding, Report
from tests.cases_support import VERSIONS, ask_cluster, opened, scenarios
from tests.incidents_support import incidents, open_incident

OF_THE_INSTALL = ("scheduler-down", "scheduler-no-leader", "scheduler-panic", "scheduler-ledger-stale")
"""Codes that `why` gives of HAMi itself, and that `status` then has to know."""
OF_A_LOCK = ("node-lock-held", "node-lock-dangling", "node-lock-malformed")
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
def _report(recording: str, verb: str, pod: str) -> Report | None:
    cluster = opened(recording) if recording in VERSIONS else open_incident(recording)
    words = {"since": "2d"} if verb == "logs" else {}
    try:
        return ask_cluster(cluster, pod, verb=verb, **words)
    except SourceError:
        return None


EVERY = [
    *(Asked(scenario.version, scenario.pod) for scenario in scenarios()),
    *(Asked(incident.name, incident.pod) for incident in incidents() if incident.verb == "why"),
]


@pytest.mark.parametrize("pod", EVERY, ids=str)
def test_no_two_questions_about_a_pod_and_its_cluster_contradict_each_other(pod: Asked) -> None:
    why, told = pod.why, pod.why.severity != "info"
    sure = told and why.confidence == "confirmed"

    namespace, _, name = pod.pod.partition("/")
    rows = [row for row in pod.cells("pending", "pending") if (row["namespace"], row["pod"]) == (namespace, name)]
    assert {row["cause"] for row in rows} <= {why.code}

    if told and why.code in OF_THE_INSTALL:  # status does not swear that HAMi is healthy, and knows what is proven
        report = pod.about("status")
        assert ("healthy", "confirmed") not in [(it.code, it.confidence) for it in (report.findings if report else ())]
        assert not sure or why.code in pod.codes("status")

    # Where a live pod has the name, only its own events tell more than `gpus` does.
    if sure and why.code == "scheduler-ledger-stale" and why.key != "scheduler-ledger-stale.namesake":
        assert "scheduler-ledger-stale" in pod.codes("gpus")
        assert {row["node"] for row in pod.cells("gpus", "scheduler's count")} >= set(why.scope.nodes)

    if why.code == "waiting-for-retry":  # nothing else refuses it
        assert "scheduler-ledger-stale" not in pod.codes("gpus") | pod.codes("status")

    for node in why.scope.nodes:
        if told and why.code in OF_A_LOCK:
            assert {code for code in pod.codes("nodes", node=node) if code.startswith("node-lock-")} <= {why.code}
        if why.code == "waiting-for-retry":
            assert not pod.codes("nodes", node=node, background=False) & {*UNKNOWN_TO_HAMI, "node-not-ready"}
        if told and why.code in UNKNOWN_TO_HAMI:  # it has no GPU that takes work
            assert "free" not in {row["state"] for row in pod.cells("gpus", "cards") if row["node"] == node}
            assert pod.codes("nodes", node=node) & {*UNKNOWN_TO_HAMI, "node-not-ready", "device-plugin-missing"}

    logged = pod.codes("logs", background=False) - {"not-enough-evidence"}
    assert "placed" not in pod.codes("logs") or why.code not in REFUSED
    assert why.code not in PLACED or not logged
    # Whose question made the extender panic was not just refused.
    assert not (told and why.code == "scheduler-panic") or logged <= {"scheduler-panic"}
