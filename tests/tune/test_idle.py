"""Who holds GPUs without using them: `gpus --idle`, on a recording with vGPUmonitor's figures."""

import asyncio
import re

import pytest

from bot.errors import UsageError
from bot.report import Report, Rows
from bot.texts import Texts
from playbooks.gpus.idle import HolderRow
from playbooks.gpus.playbook import PLAYBOOK, request
from playbooks.playbook import Sources
from tests.tune.support import open_case


def ask(case: str, *since: str, node: str = "", all_of_them: bool = False) -> Report:
    cluster = open_case(case)
    wanted = request(node=node, all=all_of_them, idle=True, words=since)
    snapshot = asyncio.run(PLAYBOOK.gather(wanted, Sources(cluster, ports=cluster)))
    return PLAYBOOK.report(snapshot, Texts("en"))


def rows(report: Report) -> list[HolderRow]:
    return list(report.typed(HolderRow))


def overview(report: Report) -> list[str]:
    (table,) = report.tables
    assert isinstance(table.rows, Rows)
    return [row.pod for row in table.rows.brief or ()]


def idle(report: Report) -> dict[str, str]:
    return {row.pod: row.idle for row in rows(report) if row.idle is not None}


def test_the_largest_idle_holders_come_first_and_those_not_measured_last() -> None:
    found = [row.pod for row in rows(ask("idle-holders"))]
    assert found[:6] == ["labs/ws-3", "labs/ws-1", "labs/ws-7", "labs/ws-6", "labs/ws-0", "labs/ws-4"]


def test_the_overview_has_only_those_that_are_idle() -> None:
    assert overview(ask("idle-holders")) == ["labs/ws-3", "labs/ws-1", "labs/ws-7", "labs/ws-6", "labs/ws-0"]
    assert overview(ask("no-metrics")) == []


def test_that_some_are_not_measured_is_told_beside_those_that_are() -> None:
    assert (
        ask("idle-holders")
        .findings[0]
        .claim.endswith("or longer. 1 more pod is not measured: whether it is idle cannot be told.")
    )
    assert ask("idle-holders", "for", "900h").verdict.startswith("No measured pod holds GPUs without a kernel for 900h")


def test_a_pod_without_figures_is_not_known_to_be_idle() -> None:
    (row,) = (row for row in rows(ask("idle-holders")) if row.pod == "labs/ws-4")
    assert row.idle is None
    assert "nothing is measured" in row.why


def test_a_pod_whose_process_is_gone_still_holds_its_share() -> None:
    (row,) = (row for row in rows(ask("idle-holders")) if row.pod == "labs/ws-6")
    assert (row.idle, row.why) == ("26h", "no process of it is on a GPU")


def test_the_claim_sums_up_what_its_evidence_shows() -> None:
    (finding,) = ask("idle-holders").findings
    assert finding.claim.startswith("5 pods hold 172,032 MiB of GPU memory without a kernel for 6h or longer")
    assert len(finding.evidence) == 5
    assert all("last_kernel" in proof.quote for proof in finding.evidence)


def test_another_time_may_be_asked_for() -> None:
    (finding,) = ask("idle-holders", "for", "24h").findings
    assert finding.claim.startswith("2 pods hold 65,536 MiB")


def test_one_node_may_be_asked_for() -> None:
    assert {row.node for row in rows(ask("idle-holders", node="gpu-node-07", all_of_them=True))} == {"gpu-node-07"}


def test_of_a_node_that_is_not_there_nothing_is_confirmed() -> None:
    (finding,) = ask("idle-holders", node="gpu-node-99").findings
    assert (finding.code, finding.claim) == ("not-found", "There is no node gpu-node-99.")


def test_a_node_without_holders_is_not_taken_for_a_missing_one() -> None:
    (finding,) = ask("idle-holders", node="cp-node-01").findings
    assert finding.code == "idle-holder"


def test_its_gpus_and_its_owner_are_named() -> None:
    found = {row.pod: row for row in rows(ask("idle-holders"))}
    assert found["labs/ws-3"].uuids == "GPU-5dd79e3a-4979-43e4-af9d-34f6fef818fd"
    assert {row.owner for row in found.values()} >= {"user3", "user4"}


def test_without_any_figure_nobody_is_called_idle() -> None:
    report = ask("no-metrics")
    assert idle(report) == {}
    told = re.fullmatch(r"Idle GPUs cannot be told: none of the (\d+) pods that hold GPUs .*", report.verdict)
    assert told is not None
    assert int(told[1]) == len(rows(report)) > 1
    assert report.severity == "info"
    assert report.findings[0].confidence == "suspected"
    assert any("vGPUmonitor" in gap.source for gap in report.gaps)


@pytest.mark.parametrize("words", [("gpu-1", "2h"), ("for",), ("for", "soon"), ("for", "2h", "now")])
def test_words_that_make_no_sense_are_refused_with_an_example(words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError) as refused:
        request(idle=True, words=words)
    assert refused.value.example == "gpus --idle for 2h"


def test_a_time_without_idle_is_refused() -> None:
    with pytest.raises(UsageError, match="for 2h"):
        request(words=("for", "2h"))
