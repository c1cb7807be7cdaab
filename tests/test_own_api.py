"""Playbooks of a team's own: the examples of the documentation, and the names that they may import."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.report import Report
from bot.texts import LANGUAGES, Texts
from handlers.parsing.slack_grammar import build_grammar as slack_grammar
from handlers.shell_grammar import build_grammar
from playbooks import api
from playbooks.own import discovery
from playbooks.own.cluster import OwnCluster
from playbooks.own.discovery import playbook_of
from playbooks.own.interface import OPTIONS
from playbooks.playbook import ALL, Sources, load
from tests import own_playbooks as own
from tests.own_api import PROMISED, lines
from tests.own_playbooks import EXAMPLES
from tests.playbooks.world import cause, check, cluster, container, gpu, pod, record, text_of
from tests.shell import ROOT

folder, examples = own.folder, own.examples


def answered(verb: str, recording: Path, **values: Any) -> Report:
    """The report on a recording in English, after all checks that our own reports pass, in every language."""
    playbook = playbook_of(verb)
    snapshot = asyncio.run(playbook.gather(playbook.request(**values), Sources(RecordedCluster.open(recording))))
    english, *others = (playbook.report(snapshot, Texts(language)) for language in LANGUAGES)
    for report in (english, *others):
        assert all(finding.evidence or finding.severity == "info" for finding in report.findings)
        if all(finding.evidence for finding in report.findings):
            check(report, text_of(recording))
    assert [other.verdict for other in others] != [english.verdict]
    return english


# ------------------------------------------------------------------------------------------------- the examples


def evicted(name: str, node: str, why: str = "The node was low on resource: memory.", **status: Any) -> Any:
    told = {"phase": "Failed", "reason": "Evicted", "message": why} | status
    return pod(name, nodeName=node, status=told)


def rows(report: Report) -> list[tuple[str, ...]]:
    return [row for table in report.tables for row in table.rows]


def test_evictions_are_counted_by_node_with_the_kubelets_words(examples: Path, tmp_path: Path) -> None:
    newest = {"startTime": "2026-11-21T06:00:00Z"}
    objects = [evicted("a", "gpu-1"), evicted("b", "gpu-2", "", message=""), evicted("c", "gpu-2", **newest)]
    others = [pod("d", nodeName="gpu-3", status={"phase": "Failed", "reason": "Error"}), pod("e", nodeName="gpu-3")]
    told = answered("evictions", record(tmp_path, cluster(*objects, *others)), node="")
    assert told.verdict == "3 pods were evicted on 2 nodes, most on gpu-2."
    assert cause(told).scope.nodes == ("gpu-1", "gpu-2")
    assert "The node was low on resource: memory." in [proof.quote for proof in cause(told).evidence]
    assert rows(told) == [("gpu-2", "2", "ml/c"), ("gpu-1", "1", "ml/a")]


def test_evictions_of_one_node_only(examples: Path, tmp_path: Path) -> None:
    path = record(tmp_path, cluster(evicted("a", "gpu-1"), evicted("b", "gpu-2")))
    assert answered("evictions", path, node="gpu-2").verdict == "1 pod was evicted on 1 node, most on gpu-2."
    assert answered("evictions", path, node="gpu-9").verdict == "No pod that is still in the API was evicted."


def test_pods_that_could_not_be_read_were_not_evicted_nor_not(examples: Path, tmp_path: Path) -> None:
    told = answered("evictions", record(tmp_path, cluster(), missing=("pods",)), node="")
    assert told.verdict == "The pods could not be read, so evictions are unknown."
    assert [gap.source for gap in told.gaps] == ["pods"]


def test_whole_gpus_are_those_that_hami_gives_to_nobody_else(examples: Path, tmp_path: Path) -> None:
    objects = [
        pod("plain", gpu(2), namespace="a"),
        pod("all-cores", gpu(1, memory=1000, cores=100), namespace="b"),
        pod("half", gpu(1, **{"nvidia.com/gpumem-percentage": 50}), namespace="b"),
        pod("two", containers=[container(gpu(1)), container(gpu(3, memory=1000), "side")], namespace="b"),
        pod("done", gpu(8), namespace="c", status={"phase": "Succeeded"}),
        pod("none", {"cpu": "1"}, namespace="d"),
    ]
    told = answered("whole-gpus", record(tmp_path, cluster(*objects)), namespace="")
    assert rows(told) == [("a", "1", "2"), ("b", "2", "2")]
    assert told.verdict == "2 namespaces ask for 4 whole GPUs; a for most."
    assert cause(told).confidence == "confirmed"


def test_without_hamis_configuration_whole_gpus_are_suspected(examples: Path, tmp_path: Path) -> None:
    path = record(tmp_path, cluster(pod("plain", gpu(1), namespace="a")), missing=("configmaps",))
    told = answered("whole-gpus", path, namespace="")
    assert cause(told).confidence == "suspected"
    assert told.gaps


# ------------------------------------------------------------------------------------------------- the promise


def test_the_cluster_that_it_is_given_offers_nothing_but_reading() -> None:
    assert {name for name in dir(OwnCluster) if not name.startswith("_")} == {"get", "hami", "list", "name", "now"}


def test_the_verbs_that_are_reserved_are_those_of_both_grammars() -> None:
    taken = {*build_grammar().commands, *build_grammar().later, *slack_grammar().commands} - set(load())
    assert taken <= discovery.RESERVED
    assert discovery.RESERVED - taken <= {"init"}


def test_the_options_that_every_verb_has_are_those_of_both_grammars() -> None:
    every = [*build_grammar().options(), *slack_grammar().options()]
    every.remove(ALL)  # a playbook may say what it means
    assert OPTIONS - {"--help", "help"} == {flag for option in every for flag in (option.name, *option.opts)}


@pytest.mark.process
def test_the_examples_import_nothing_but_what_is_promised() -> None:
    code = "import sys; sys.path.insert(0, sys.argv[1]); import evictions, whole_gpus"
    subprocess.run([sys.executable, "-c", code, str(EXAMPLES)], cwd=ROOT, check=True)
    for file in EXAMPLES.glob("*.py"):
        imported = [line.split()[1] for line in file.read_text().splitlines() if line.startswith(("import", "from"))]
        assert set(imported) <= {"playbooks.api", "click", "typing", "collections", "asyncio"}


def test_the_page_lists_exactly_the_names_that_may_be_imported() -> None:
    page = (ROOT / "docs" / "own-playbooks.md").read_text(encoding="utf-8")
    table = page.partition("| from `playbooks.api` | what |\n")[2].partition("\n\n")[0].splitlines()[1:]
    assert sorted(name for row in table for name in re.findall(r"`(\w+)`", row.split(" | ")[0])) == sorted(api.__all__)


def test_what_was_promised_is_still_there_and_nothing_new_is_needed() -> None:
    promised, now = set(PROMISED.read_text(encoding="utf-8").splitlines()), set(lines())
    assert promised - now == set(), "this breaks playbooks that teams wrote: see docs/own-playbooks.md"
    functions = {line.partition("(")[0] for line in promised if "(" in line}
    new = {line for line in now - promised if line.endswith(")") and line.partition("(")[0] in functions}
    assert new == set(), "an argument that is new has to be optional"
