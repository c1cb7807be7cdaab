"""`logs`: what the schedulers logged about one pod, over replicas and containers, and nothing about another pod."""

import copy
import re
import tarfile
from pathlib import Path

import pytest

from bot.changes.record import KEY, Record, write_record
from bot.errors import UsageError
from bot.report import Report
from playbooks.logs.playbook import MOST_LINES, request
from tests import cases_support
from tests.cases_support import Question, Scenario, scenarios
from tests.playbooks.tables import table
from tests.playbooks.world import (
    EXTENDER,
    HAMI,
    Object,
    ago,
    answer,
    card,
    cause,
    cluster,
    codes,
    commands,
    gpu_node,
    pod,
    quotes,
    record,
    running,
    scheduler,
)

CASES = Path(__file__).parents[1] / "cases"
HEAD = "I1121 04:59:{second:02d}.000001   15866 "
START = 'scheduler.go:1] "Starting schedule filter process" pod="{name}" uuid="{uid}" namespace="{ns}"'
UNFIT = 'score.go:1] "NodeUnfitPod" pod="{ns}/{name}" node="{node}" reason="{reason}"'


def start(second: int = 1, name: str = "wl", ns: str = "ml", uid: str = "uid-wl") -> str:
    return HEAD.format(second=second) + START.format(name=name, ns=ns, uid=uid)


def unfit(node: str, reason: str, second: int = 1, name: str = "wl", ns: str = "ml") -> str:
    return HEAD.format(second=second) + UNFIT.format(node=node, reason=reason, name=name, ns=ns)


def line(text: str, second: int = 1) -> str:
    return HEAD.format(second=second) + text


def ask(
    tmp_path: Path, *log: str, objects: tuple[Object, ...] | None = None, name: str = "ml/wl", **more: str
) -> Report:
    """What `logs` says of the extender's `log`. `more`: kube (kube-scheduler's log), since."""
    path = record(tmp_path, cluster(*(objects if objects is not None else (pod(),))), logs="\n".join(log) + "\n")
    if "kube" in more:
        (path / "logs" / HAMI / "hami-scheduler-0" / "kube-scheduler.log").write_text(more["kube"], encoding="utf-8")
    return answer("logs", path, {}, pod=name, **({"since": more["since"]} if "since" in more else {}))


def gaps(report: Report) -> str:
    return "\n".join(gap.why for gap in report.gaps)


# ------------------------------------------------------------------------------------------- the newest run


def test_the_newest_run_is_summed_up_by_hamis_own_reasons(tmp_path: Path) -> None:
    report = ask(
        tmp_path,
        start(1),
        unfit("gpu-1", "1/1 CardTypeMismatch", 1),
        start(5),
        unfit("gpu-1", "1/1 CardInsufficientMemory", 5),
        unfit("gpu-2", "1/1 CardInsufficientMemory", 5),
        unfit("gpu-3", "1/1 CardCordoned", 5),
        line('score.go:1] "NodeFitPod" pod="ml/wl" node="gpu-4" score=0', 5),
    )
    assert codes(report) == ["card-insufficient-memory", "card-cordoned", "log-verbosity"]
    assert cause(report).claim == (
        "HAMi filtered ml/wl 2 times in the 59 s that the log covers; at 04:59:05 it refused 3 of 4 nodes: "
        "CardInsufficientMemory 2, CardCordoned 1."
    )
    assert (cause(report).scope.nodes, cause(report).severity) == (("gpu-1", "gpu-2"), "warning")
    assert commands(report)[0] == "why ml/wl"
    rows = table(report, "filter runs")
    assert [(row["run"], row["node"], row["reason"]) for row in rows][-1] == ("1", "gpu-1", "1/1 CardTypeMismatch")


def test_a_bind_that_failed_is_told_with_its_lock(tmp_path: Path) -> None:
    report = ask(
        tmp_path,
        start(),
        line('scheduler.go:1] "Scheduling pod to node" podNamespace="ml" podName="wl" nodeID="gpu-1"'),
        line('scheduler.go:1] "Failed to lock node" err="node gpu-1 has been locked within 5m0s" pod="ml/wl"', 2),
    )
    assert codes(report)[0] == "binding-failed"
    assert cause(report).confidence == "confirmed"
    assert "it chose gpu-1, but Bind failed: node gpu-1 has been locked" in cause(report).claim


def test_a_pod_that_was_bound_is_no_warning(tmp_path: Path) -> None:
    report = ask(
        tmp_path,
        start(),
        line('scheduler.go:1] "Scheduling pod to node" podNamespace="ml" podName="wl" nodeID="gpu-1"'),
        line('scheduler.go:1] "Successfully bound pod to node" pod="wl" namespace="ml" node="gpu-1"'),
        objects=(running("wl", "gpu-1"),),
    )
    assert (codes(report)[0], report.severity) == ("placed", "info")


def test_what_hami_answered_is_also_in_kube_schedulers_sum(tmp_path: Path) -> None:
    none_fit = 'message="no available node, 1 nodes do not meet"'
    kube = line(
        'schedule_one.go:1] "Unable to schedule pod; no fit; waiting" pod="ml/wl" '
        'err="0/3 nodes are available: 1 node unregistered, 2 node(s) had untolerated taint(s)."',
        2,
    )
    event = line(f'event.go:1] "Event occurred" object="ml/wl" reason="FilteringFailed" {none_fit}')
    report = ask(tmp_path, start(), event, kube=kube)
    assert codes(report) == ["node-unregistered", "kubernetes-filter", "log-verbosity"]
    assert cause(report).confidence == "confirmed"


def test_json_lines_of_kube_scheduler_are_read(tmp_path: Path) -> None:
    kube = (
        '{"ts":1795237198123.4,"caller":"s.go:1","msg":"Unable to schedule pod; no fit; waiting","v":2,'
        '"pod":{"name":"wl","namespace":"ml"},"err":"0/2 nodes are available: 2 Insufficient cpu."}'
    )
    report = ask(tmp_path, kube=kube)
    assert codes(report)[0] == "kubernetes-filter"
    assert "dropped 2 of 2 nodes" in cause(report).claim


def test_runs_in_a_row_that_end_alike_are_told_once_whatever_order_the_nodes_came_in(tmp_path: Path) -> None:
    one, two = ("gpu-1", "1/1 CardCordoned"), ("gpu-2", "1/1 NumaNotFit")
    log = [start(1), unfit(*one, 1), start(2), unfit(*two, 2), unfit(*one, 2), start(3), unfit(*one, 3), unfit(*two, 3)]
    rows = table(ask(tmp_path, *log), "filter runs")
    both = "2026-11-21 04:59:02.000 - 04:59:03.000"
    assert [(row["run"], row["time"], row["node"], row["reason"]) for row in rows] == [
        ("2-3", both, "gpu-1", "1/1 CardCordoned"),
        ("2-3", both, "gpu-2", "1/1 NumaNotFit"),
        ("1", "2026-11-21 04:59:01.000", "gpu-1", "1/1 CardCordoned"),
    ]


# ------------------------------------------------------------------------------------------- cards


def test_a_line_about_a_card_gets_its_node_from_the_registrations_alone(tmp_path: Path) -> None:
    refused = 'device.go:1] "CardInsufficientMemory" pod="ml/wl" device="{}" device total memory=15360'
    log = [
        start(),
        *(line(refused.format(uuid)) for uuid in ("GPU-a", "GPU-b", "GPU-x")),
        unfit("gpu-1", "1/1 NumaNotFit"),
    ]
    nodes = (gpu_node("gpu-1", card("GPU-a"), card("GPU-x")), gpu_node("gpu-2", card("GPU-b"), card("GPU-x")))
    rows = table(ask(tmp_path, *log, objects=(pod(), *nodes)), "filter runs")
    found = {row["card"]: row["node"] for row in rows if row["card"]}
    assert found == {"GPU-a": "gpu-1", "GPU-b": "gpu-2", "GPU-x": "?"}
    assert {row["figures"] for row in rows if row["card"]} == {"device total memory 15360"}


# ------------------------------------------------------------------------------------------- whose lines


def test_lines_of_pods_with_a_similar_name_are_left_alone(tmp_path: Path) -> None:
    others = [("wl-1", "other"), ("wl-10", "ml"), ("awl-1", "ml"), ("wl-1.x", "ml")]
    log = [start(2, "wl-1", uid="u"), unfit("mine", "1/1 CardCordoned", 2, "wl-1")]
    for name, ns in others:
        log += [start(3, name, ns, "u"), unfit("theirs", "1/1 NumaNotFit", 3, name, ns)]
    report = ask(tmp_path, *log, objects=(pod("wl-1", uid="u"),), name="ml/wl-1")
    assert codes(report) == ["card-cordoned", "log-verbosity"]
    assert {row["node"] for row in table(report, "filter runs")} == {"mine"}
    assert not any("theirs" in row["line"] for row in table(report, "lines"))


def test_lines_that_name_no_namespace_are_left_out_when_two_pods_have_the_name(tmp_path: Path) -> None:
    bare = line('scheduler.go:1] "No available nodes meet the required scores" pod="wl"', 2)
    alone = ask(tmp_path, start(), bare)
    assert any("No available" in row["line"] for row in table(alone, "lines"))
    both = ask(tmp_path, start(), bare, start(3, ns="other", uid="x"))
    assert not any("No available" in row["line"] for row in table(both, "lines"))
    assert "1 line names wl without a namespace and is left out: other" in gaps(both)


def test_runs_of_an_earlier_pod_of_that_name_are_only_counted(tmp_path: Path) -> None:
    report = ask(
        tmp_path, start(1, uid="before"), unfit("a", "1/1 NumaNotFit"), start(2), unfit("b", "1/1 CardCordoned", 2)
    )
    assert codes(report)[0] == "card-cordoned"
    assert "filtered ml/wl 1 time" in cause(report).claim
    assert "1 filter run of an earlier pod" in gaps(report)


def test_a_pod_that_is_gone_is_found_by_its_name(tmp_path: Path) -> None:
    report = ask(tmp_path, start(), unfit("gpu-1", "1/1 CardCordoned"), objects=(), name="wl")
    assert codes(report)[0] == "card-cordoned"
    assert "ml/wl (gone)" in report.verdict
    assert report.severity == "info"


def test_two_runs_that_overlap_are_said_to(tmp_path: Path) -> None:
    report = ask(tmp_path, start(), unfit("n", "1/1 NumaNotFit"), unfit("n", "1/1 CardCordoned"))
    assert all(finding.confidence == "suspected" for finding in report.findings if finding.code != "log-verbosity")
    assert "two filter runs of the pod overlap" in gaps(report)


# ------------------------------------------------------------------------------------------- nothing, or not all


def test_nothing_in_the_log_says_why_that_may_be(tmp_path: Path) -> None:
    report = ask(tmp_path, start(name="another", uid="x"))
    assert codes(report) == ["not-in-log", "log-verbosity"]
    assert "no scheduler has tried the pod yet" in report.verdict
    other = ask(tmp_path, start(name="another"), objects=(pod(schedulerName="default-scheduler"),))
    assert "the pod names the scheduler default-scheduler, HAMi's is hami-scheduler" in other.findings[1].claim
    assert other.findings[1].evidence[0].quote == "default-scheduler"


def test_a_node_that_is_refused_for_several_reasons_is_said_to_count_with_each(tmp_path: Path) -> None:
    report = ask(tmp_path, start(), unfit("gpu-1", "1/2 CardCordoned, 1/2 NumaNotFit"))
    assert "it refused 1 of 1 node: NumaNotFit 1, CardCordoned 1 (a node counts once for each of its reasons)." in (
        cause(report).claim
    )


def test_a_name_that_nobody_has_is_not_found(tmp_path: Path) -> None:
    report = ask(tmp_path, start(), name="ml/nosuch")
    assert codes(report)[0] == "not-found"
    assert commands(report)[:2] == ["pending -n ml", "kubectl -n ml get deployments,statefulsets,daemonsets,jobs"]


def test_a_name_that_several_pods_have_is_asked_about_again_with_logs(tmp_path: Path) -> None:
    other = pod(namespace="web", uid="uid-other")
    report = ask(tmp_path, start(name="someone"), objects=(pod(), other), name="wl")
    assert commands(report)[:2] == ["logs ml/wl", "logs web/wl"]


def test_without_any_log_nothing_is_known(tmp_path: Path) -> None:
    path = record(tmp_path, cluster(pod()), missing=("logs",))
    report = answer("logs", path, {}, pod="ml/wl")
    assert codes(report)[0] == "not-enough-evidence"
    assert "is not in the recording" in gaps(report)


def test_older_lines_than_asked_for_are_no_part_of_the_answer(tmp_path: Path) -> None:
    log = (start(1), unfit("n", "1/1 NumaNotFit", 1), start(40), unfit("n", "1/1 CardCordoned", 40))
    report = ask(tmp_path, *log, since="30s")
    assert codes(report)[0] == "card-cordoned"
    assert "1 time in 30s" in cause(report).claim
    none = ask(tmp_path, *log[:2], since="10s")
    assert codes(none)[0] == "not-in-log"
    assert none.verdict.endswith("HAMi's newest lines about the pod are older, from 2026-11-21T04:59:01Z.")
    assert "its newest line about the pod is from 2026-11-21T04:59:01Z" in gaps(none)


def test_the_run_before_a_restart_is_read_too(tmp_path: Path) -> None:
    hami = scheduler()
    (running_pod,) = [item for item in hami if item["kind"] == "Pod"]
    ended = {"terminated": {"exitCode": 2, "finishedAt": ago(30)}}
    running_pod["status"] = running_pod["status"] | {
        "containerStatuses": [{"name": EXTENDER, "restartCount": 1, "lastState": ended}]
    }
    path = record(tmp_path, [*hami, pod()], logs="")
    previous = path / "logs" / HAMI / "hami-scheduler-0" / f"{EXTENDER}.previous.log"
    previous.write_text("\n".join((start(), unfit("n", "1/1 NumaNotFit"))), encoding="utf-8")
    report = answer("logs", path, {}, pod="ml/wl")
    assert codes(report)[0] == "numa-not-fit"
    assert "--previous" in cause(report).evidence[0].command


def test_a_log_in_another_time_zone_is_said_to_be(tmp_path: Path) -> None:
    ahead = start().replace("04:59", "12:59"), unfit("n", "1/1 NumaNotFit").replace("04:59", "12:59")
    report = ask(tmp_path, *ahead)
    assert codes(report)[0] == "numa-not-fit"
    assert "2 lines have a time in the future" in gaps(report)


def test_many_lines_are_left_out_but_the_newest(tmp_path: Path) -> None:
    many = [line(f'a.go:1] "Something" pod="ml/wl" number="{number}"') for number in range(MOST_LINES + 5)]
    report = ask(tmp_path, *many)
    assert len(table(report, "lines")) == MOST_LINES
    assert f'"{MOST_LINES + 4}"' in table(report, "lines")[0]["line"]
    assert '"5"' in table(report, "lines")[-1]["line"]
    assert "5 older rows are left out" in gaps(report)


def test_the_verbosity_is_quoted_with_what_a_higher_one_adds(tmp_path: Path) -> None:
    report = ask(tmp_path, start(), unfit("n", "1/1 NumaNotFit"))
    assert report.findings[-1].code == "log-verbosity"
    assert "at -v=5 HAMi would also log each refused GPU" in report.findings[-1].claim
    assert "-v=4" in quotes(report)


@pytest.mark.parametrize(("began", "level"), [(3600, 6), (60, 4)], ids=["still running", "restarted since"])
def test_a_level_that_was_raised_in_the_running_process_is_the_one_that_counts(
    tmp_path: Path, began: float, level: int
) -> None:
    raised = Record(
        v=1,
        id="c-1",
        target=f"{HAMI}/hami-scheduler",
        flag="v",
        container="kube-scheduler",
        field="command",
        words_before=(),
        words_after=(),
        old="4",
        new="6",
        means="debug-flags",
        raised_at=ago(300),
        at=ago(-300),
        by="ada",
    )
    deployment, running_pod, *rest = copy.deepcopy(scheduler())
    deployment["metadata"]["annotations"] = {KEY: write_record(raised)}
    running_pod["spec"]["containers"][0]["command"].append("-v=4")
    began_at = {"name": "kube-scheduler", "state": {"running": {"startedAt": ago(began)}}}
    running_pod["status"] = running_pod["status"] | {"containerStatuses": [began_at]}
    report = answer("logs", record(tmp_path, [deployment, running_pod, *rest, pod()], logs=start()), {}, pod="ml/wl")
    assert f"kube-scheduler -v={level}:" in report.findings[-1].claim
    quoted = [proof.object for proof in report.findings[-1].evidence]
    assert (f"Deployment {HAMI}/hami-scheduler" in quoted) is (level == 6)


# ------------------------------------------------------------------------------------------- how it is asked


@pytest.mark.parametrize(("typed", "seconds"), [("30s", 30), ("10m", 600), ("1h", 3600), (" 2d ", 172800)])
def test_how_far_back(typed: str, seconds: int) -> None:
    assert request("ml/wl", since=typed).since.total_seconds() == seconds


@pytest.mark.parametrize("typed", ["", "0s", "h", "1", "1.5h", "-1h", "1w", "9999999h"])
def test_a_time_that_is_none_is_said_to_be(typed: str) -> None:
    with pytest.raises(UsageError, match="not a time to look back"):
        request("ml/wl", since=typed)


@pytest.mark.parametrize("scenario", scenarios(), ids=lambda scenario: f"{scenario.version} {scenario.pod}")
def test_logs_of_a_pod_that_waits_begin_with_the_cause_that_why_names(scenario: Scenario) -> None:
    why, logs = (
        Question(scenario.version, verb, scenario.pod, {"pod": scenario.pod}).ask() for verb in ("why", "logs")
    )
    if any(table.title == "candidate nodes" for table in why.tables):  # nodes have a say: it waits
        assert logs.findings[0].code == why.findings[0].code


def grepped(version: str) -> set[str]:
    """The pods whose newest event in the extender's log is a failure."""
    with tarfile.open(CASES / version / "recording.tar.gz") as recording:
        logs = [name for name in recording.getnames() if "vgpu-scheduler-extender" in name]
        [text] = [recording.extractfile(name).read().decode() for name in logs if "previous" not in name]  # type: ignore[union-attr]
    newest: dict[str, str] = {}
    for line in text.splitlines():
        found = re.search(r'"Event occurred" object="([^"]+)".* reason="(\w+?)(?:ed|Succeed)?"', line)
        if found and found[2].startswith(("Filtering", "Binding")) and "does not request any" not in line:
            newest[found[1]] = re.search(r' reason="(\w+)"', line)[1]  # type: ignore[index]
    return {name for name, reason in newest.items() if reason.endswith("Failed")}


@pytest.mark.parametrize("version", ["hami-2.5.1", "hami-2.7.1", "hami-2.10"])
def test_without_a_pod_it_tells_whom_hami_refused_as_grep_counts_them(version: str) -> None:
    report = cases_support.ask(CASES / version / "recording.tar.gz", verb="logs", since="2d")
    [refused] = [table for table in report.tables if table.title == "refused pods"]
    assert {row[0] for row in refused.rows} == grepped(version)
    assert "that the log covers: " in report.verdict
    assert all(finding.evidence for finding in report.findings)


def test_a_refusal_older_than_the_time_that_was_asked_for_is_left_out() -> None:
    recording = CASES / "hami-2.10" / "recording.tar.gz"  # its newest refusal is 82 s old
    assert codes(cases_support.ask(recording, verb="logs", since="30s")) == ["not-in-log"]


def test_of_a_log_without_refusals_it_says_that_there_were_none(tmp_path: Path) -> None:
    chosen = line('scheduler.go:1] "Scheduling pod to node" pod="ml/wl" nodeID="gpu-1"')
    assert codes(ask(tmp_path, start(), chosen, name="")) == ["not-in-log"]


def test_a_pod_counts_for_the_reason_that_keeps_it_off_most_nodes(tmp_path: Path) -> None:
    of_each = (("a", "CardTypeMismatch"), ("b", "CardTypeMismatch"), ("c", "CardInsufficientMemory"))
    lines = [
        said
        for name, reason in of_each
        for said in (
            start(name=name, uid=f"uid-{name}"),
            *(unfit(f"gpu-{number}", f"1/1 {reason}", name=name) for number in (1, 2)),
            unfit("gpu-3", "1/1 CardCordoned", name=name),
        )
    ]
    assert "3 pods in" in (report := ask(tmp_path, *lines, name="")).verdict
    assert "2 of them mainly for CardTypeMismatch" in report.verdict
