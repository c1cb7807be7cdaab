"""Where the time goes: what a log does not show is unknown and never zero."""

from pathlib import Path

import pytest

from bot.render.terminal import terminal
from bot.report import Report
from bot.texts import Texts
from playbooks.latency.playbook import CountRow
from tests.latency.support import at, latency, pods_of, said, stages, started
from tests.playbooks.world import HAMI, READY, codes, event, gpu, pod, refused

ONE = said(filter=1, chosen=1.5, bind=2, bound=4)
TRIED = said(attempt=0.5)
RAISE = "verbosity 3 for 10m --container kube-scheduler"


def commands(report: Report) -> list[str]:
    return [action.command for finding in report.findings for action in finding.next_actions]


def unseen(report: Report) -> list[str]:
    """Why no log shows some moments."""
    return [gap.why for gap in report.gaps if gap.source == "kube-scheduler log"]


def test_each_stage_of_a_pod_is_measured(tmp_path: Path) -> None:
    report = latency(tmp_path, started(allocated=6), extender=ONE, kube=TRIED)
    assert stages(report) == {
        "created -> first attempt": (1, 0.5),
        "first attempt -> first filter": (1, 0.5),
        "first filter -> chosen": (1, 0.5),
        "chosen -> bind started": (1, 0.5),
        "bind started -> bound": (1, 2.0),
        "bound -> allocated": (1, 2.0),
        "allocated -> running": (1, 4.0),
        "created -> running": (1, 10.0),
    }


def test_the_slowest_stage_is_quoted_from_its_beginning_to_its_end(tmp_path: Path) -> None:
    first = latency(tmp_path, started(after=5), extender=said(filter=1, chosen=1, bind=1, bound=4), kube=TRIED).findings
    assert [
        "Attempting to bind" in proof.quote or "Successfully bound" in proof.quote for proof in first[0].evidence
    ] == [
        True,
        True,
    ]


def test_the_lines_of_2_4_are_read(tmp_path: Path) -> None:
    lines = said(filter_2_4=1, chosen_2_4=1.5, bind_2_4=2)
    kube = TRIED + at(4, 'schedule_one.go:252] "Successfully bound pod to node" pod="ml/wl" node="gpu-1"')
    found = stages(latency(tmp_path, started(), extender=lines, kube=kube, version="2.4.1"))
    assert found["first filter -> chosen"] == (1, 0.5)
    assert found["chosen -> bind started"] == (1, 0.5)
    assert found["bind started -> bound"] == (1, 2.0)


def test_kube_scheduler_may_log_in_json(tmp_path: Path) -> None:
    kube = (
        '{"ts":1795236600500.0,"caller":"scheduler/schedule_one.go:94","msg":"Attempting to schedule pod","v":3,'
        '"pod":{"name":"wl","namespace":"ml"}}\n'
    )
    assert stages(latency(tmp_path, started(), extender=ONE, kube=kube))["first attempt -> first filter"] == (1, 0.5)


def test_a_quiet_kube_scheduler_leaves_its_stage_unknown(tmp_path: Path) -> None:
    report = latency(tmp_path, started(), extender=ONE)
    found = stages(report)
    assert found["created -> first attempt"] == (0, None)
    assert found["first attempt -> first filter"] == (0, None)
    assert found["created -> first filter"] == (1, 1.0)
    assert unseen(report) == [
        "no line shows first attempt: kube-scheduler runs at level 0, and logs its attempts from level 3 on"
    ]
    assert commands(report) == [RAISE]


@pytest.mark.parametrize("level", [2, 4])
def test_a_log_that_cannot_be_read_is_why_nothing_is_shown_at_any_level(tmp_path: Path, level: int) -> None:
    report = latency(tmp_path, started(), extender=ONE, kube=None, kube_flags=[f"-v={level}"])
    assert unseen(report) == []
    assert f"log of {HAMI}/hami-scheduler-0/kube-scheduler" in [gap.source for gap in report.gaps]
    assert RAISE not in commands(report)


def test_at_a_level_that_shows_attempts_the_log_lacks_lines(tmp_path: Path) -> None:
    report = latency(tmp_path, started(), extender=ONE, kube_flags=["-v=4"], since="11m")
    why = "the log of kube-scheduler begins after these pods, or lines are missing in it"
    assert unseen(report) == [f"no line shows first attempt: {why}"]
    assert RAISE not in commands(report)


def test_without_a_pod_of_the_scheduler_that_is_why(tmp_path: Path) -> None:
    report = latency(tmp_path, started(), statuses=())
    assert unseen(report) == ["no line shows first attempt: no pod of HAMi's scheduler with kube-scheduler was found"]


def test_pods_that_are_tried_at_a_low_level_are_told_how_to_see_it(tmp_path: Path) -> None:
    report = latency(tmp_path, pod("wl", age=600, limits=gpu()))
    assert commands(report) == [RAISE]
    shell = terminal(report, Texts("en"), width=100, colour=False)
    assert "\n     hami-bot verbosity 3 for 10m --container kube-scheduler\n" in shell


def test_its_counts_are_of_what_they_say(tmp_path: Path) -> None:
    waiting = pod("new", age=600, limits=gpu())
    counts = {row.objects: row.number for row in latency(tmp_path, started(), waiting).typed(CountRow)}
    assert counts["new GPU pods of HAMi's scheduler"] == 2
    assert counts["of the new ones pending"] == 1
    assert counts["pods that were given GPUs"] == 0


def test_a_missing_log_of_kube_scheduler_is_a_gap_and_leaves_the_rest(tmp_path: Path) -> None:
    report = latency(tmp_path, started(), extender=ONE, kube=None)
    assert any("kube-scheduler" in gap.source for gap in report.gaps)
    assert stages(report)["bind started -> bound"] == (1, 2.0)
    assert report.findings[0].confidence == "suspected"


def test_without_lines_the_object_shows_whole_seconds(tmp_path: Path) -> None:
    noted = {"hami.io/vgpu-time": "1795236602", "hami.io/bind-time": "1795236605"}
    found = stages(latency(tmp_path, started(annotations=noted)))
    assert found["created -> chosen"] == (1, 2.0)
    assert found["chosen -> bind started"] == (1, 3.0)
    assert found["bind started -> bound"] == (1, 3.0)
    assert found["first filter -> chosen"] == (0, None)


def test_a_log_that_begins_after_the_pod_does_not_show_its_first_attempt(tmp_path: Path) -> None:
    late = at(200, "schedule_one.go:123] other") + said(attempt=300)
    found = stages(latency(tmp_path, started(after=310), extender=ONE, kube=None, others={_KUBE: late}))
    assert found["created -> first attempt"] == (0, None)


def test_what_a_retry_takes_counts_until_the_last_choice_and_from_the_first_bind(tmp_path: Path) -> None:
    lines = said(filter=1, chosen=1, bind=2, locked=2) + said(filter=7, chosen=7.5, bind=8, bound=9)
    report = latency(tmp_path, started(), extender=lines, kube=TRIED + said(attempt=7))
    found = stages(report)
    assert found["created -> first attempt"] == (1, 0.5)
    assert found["first filter -> chosen"] == (1, 6.5)
    assert found["chosen -> bind started"] == (1, 0.0)
    assert found["bind started -> bound"] == (1, 7.0)
    assert [row.filters for row in pods_of(report)] == [2]


def test_node_locks_are_told_with_their_lines(tmp_path: Path) -> None:
    lines = said(filter=1, chosen=1, bind=2, locked=2) + said(filter=7, chosen=7.5, bind=8, bound=9)
    report = latency(tmp_path, started(after=9), extender=lines, kube=TRIED)
    assert "Node locks refused to bind 1 time." in report.findings[0].claim
    assert any("Failed to lock node" in proof.quote for proof in report.findings[0].evidence)
    assert [action.command for action in report.findings[0].next_actions] == ["nodes"]


@pytest.mark.parametrize(("restarts", "total"), [(0, 10.0), (1, 10.0), (2, None)])
def test_a_restarted_pod_counts_from_its_first_start(tmp_path: Path, restarts: int, total: float | None) -> None:
    found = stages(latency(tmp_path, started(restarts=restarts), extender=ONE, kube=TRIED))
    assert found["created -> running"] == (1 if total else 0, total)


def test_a_pod_runs_when_its_last_container_does(tmp_path: Path) -> None:
    two = started()
    two["spec"]["containers"].append(two["spec"]["containers"][0] | {"name": "side"})
    assert stages(latency(tmp_path, two, extender=ONE, kube=TRIED))["created -> running"] == (0, None)


def test_pods_without_gpus_and_of_other_schedulers_are_left_out(tmp_path: Path) -> None:
    others = [started("cpu", limits={"cpu": "1"}), started("volcano", schedulerName="volcano")]
    report = latency(tmp_path, *others, extender=said("cpu", filter=1), kube=said("volcano", attempt=1))
    assert codes(report) == ["not-enough-evidence"]
    assert stages(report) == {}


def test_older_pods_and_lines_of_an_earlier_pod_of_that_name_are_left_out(tmp_path: Path) -> None:
    earlier = said(attempt=-20)
    report = latency(tmp_path, started(), started("old", age=90_000), extender=ONE, kube=earlier + TRIED)
    assert stages(report)["created -> first attempt"] == (1, 0.5)
    assert stages(report)["created -> running"] == (1, 10.0)


def test_names_that_begin_alike_are_told_apart(tmp_path: Path) -> None:
    pods = (started("wl"), started("wl-1"))
    lines = ONE + said("wl-1", filter=1, chosen=5, bind=6, bound=7)
    assert stages(latency(tmp_path, *pods, extender=lines, kube=TRIED))["first filter -> chosen"] == (2, 2.25)


def test_the_log_of_the_replica_that_scheduled_is_found(tmp_path: Path) -> None:
    begins = at(-60, "flags.go:27] FLAG")
    others = {
        f"{HAMI}/hami-scheduler-1/kube-scheduler": begins + TRIED,
        f"{HAMI}/hami-scheduler-1/vgpu-scheduler-extender": begins,
    }
    found = stages(latency(tmp_path, started(), extender=ONE, others=others, replicas=2, statuses=[READY, READY]))
    assert found["first attempt -> first filter"] == (1, 0.5)


def test_pending_pods_are_told_beside_the_figures_of_those_that_run(tmp_path: Path) -> None:
    waiting = pod("stuck", gpu(memory=1000), age=600)
    kube, extender = TRIED + said("stuck", attempt=2), ONE + said("stuck", filter=3, chosen=4, bind=5)
    report = latency(tmp_path, started(), waiting, extender=extender, kube=kube)
    assert stages(report)["created -> first attempt"] == (1, 0.5)
    assert "1 more is still pending and not in the figures." in report.findings[0].claim


def test_where_no_pod_runs_pending_pods_count_as_far_as_they_came(tmp_path: Path) -> None:
    waiting = pod("stuck", gpu(memory=1000), age=600)
    report = latency(tmp_path, waiting, kube=said("stuck", attempt=2), extender=said("stuck", filter=30, chosen=31))
    assert stages(report)["first attempt -> first filter"] == (1, 28.0)
    assert stages(report)["first filter -> chosen"] == (0, None)
    assert report.verdict.startswith("None of the GPU pods of the last 1h runs yet.")


def test_a_refusal_before_the_first_line_shows_that_an_earlier_try_is_missing(tmp_path: Path) -> None:
    waiting = pod("stuck", gpu(memory=1000), age=600, said=refused("0/1 nodes", seconds=590))
    report = latency(tmp_path, waiting, extender=said("stuck", filter=80), kube=said("stuck", attempt=80))
    assert codes(report) == ["not-enough-evidence"]


def test_a_pod_that_was_bound_without_a_line_shows_a_hole_in_the_log(tmp_path: Path) -> None:
    later = said(filter=90, chosen=91, bind=92, bound=93)
    pods = started(after=95, bound=93), started("lost", after=50, bound=40)
    found = stages(latency(tmp_path, *pods, extender=later, kube=said(attempt=90)))
    assert found["created -> first attempt"] == (0, None)
    assert found["first attempt -> first filter"] == (0, None)


def test_only_pending_pods_and_no_lines_are_not_enough(tmp_path: Path) -> None:
    report = latency(tmp_path, pod("stuck", gpu(memory=1000), age=600))
    assert codes(report) == ["not-enough-evidence"]
    assert "1 new GPU pod of the last 1h is pending" in report.verdict


def test_a_slow_allocation_is_told_from_a_slow_start(tmp_path: Path) -> None:
    first = latency(tmp_path, started(after=61, allocated=60), extender=ONE, kube=TRIED).findings[0]
    assert "bound -> allocated, 56 s" in first.claim
    assert "the device plugin allocates" in first.claim
    assert "{.status.startTime}" in first.evidence[1].command


def test_a_slow_start_is_shown_by_the_pods_events(tmp_path: Path) -> None:
    slow = started(after=300)
    pulled = event(slow, "Pulled", 'Successfully pulled image "example/main" in 4m50s', seconds=301)
    first = latency(tmp_path, slow, pulled, extender=ONE, kube=TRIED).findings[0]
    assert "bound -> running, 296 s" in first.claim
    assert any("in 4m50s" in proof.quote for proof in first.evidence)


def test_time_that_no_line_shows_is_not_put_down_to_anyone(tmp_path: Path) -> None:
    noted = {"hami.io/vgpu-time": "1795236640", "hami.io/bind-time": "1795236641"}
    first = latency(tmp_path, started(annotations=noted, bound=42, after=43)).findings[0]
    assert "created -> chosen, 40 s" in first.claim
    assert "The log shows nothing of it." in first.claim
    assert first.confidence == "suspected"


def test_a_pod_that_is_slow_in_other_filters_is_not_put_down_to_hami(tmp_path: Path) -> None:
    lines = said(filter=9, chosen=9.5, bind=9.5, bound=9.5)
    first = latency(tmp_path, started(), extender=lines, kube=TRIED).findings[0]
    assert "kube-scheduler's own filters" in first.claim


def test_one_held_back_request_does_not_explain_a_slow_binding(tmp_path: Path) -> None:
    wait = 'request.go:683] "Waited before sending request" delay="80ms" reason="client-side throttling, not priority'
    line = at(2, f'{wait} and fairness" verb="PATCH" URL="https://10.0.0.1/x"')
    lines = said(filter=1, chosen=1, bind=1, bound=60)
    first = latency(tmp_path, started(after=61), extender=lines + line, kube=TRIED).findings[0]
    assert "the log shows no reason" in first.claim


_KUBE = f"{HAMI}/hami-scheduler-0/kube-scheduler"


def test_the_most_time_is_told_where_few_pods_wait_long(tmp_path: Path) -> None:
    quick = [started(name, bound=4, after=4) for name in ("a", "b")]
    lines = "".join(said(name, filter=0, chosen=0.5, bind=0.5, bound=4) for name in ("a", "b"))
    lines += said("slow", filter=0, chosen=60, bind=60, bound=61)
    first = latency(tmp_path, *quick, started("slow", bound=61, after=61), extender=lines).findings[0]
    assert "Most of it: first filter -> chosen, 61 s in all." in first.claim
