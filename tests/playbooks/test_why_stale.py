"""HAMi's scheduler refuses what the objects allow: by its metrics, or by what it said again and again."""

from datetime import datetime
from pathlib import Path
from typing import ClassVar

import pytest

from bot.hami.metrics.exposition import Sample
from bot.hami.pods.allocations import NODE_KEY
from bot.kube.cluster import PodAnswer, PodGet
from bot.report import Report
from playbooks.gather.scheduler_process import MOST_FINISHED
from tests.playbooks.refused_support import FULL, refused_again
from tests.playbooks.scheduler_metrics import GIB, counted, scrape
from tests.playbooks.world import (
    EXTENDER,
    HAMI,
    READY,
    Object,
    ago,
    ask,
    card,
    cause,
    cluster,
    codes,
    commands,
    event,
    fit,
    given,
    gpu,
    gpu_node,
    none_of,
    plugin_pod,
    pod,
    quotes,
    refused,
    running,
    scheduler,
)
from tests.tune.lab import KERNEL, USED, FakePrometheus, use


def by_metrics(tmp_path: Path, objects: list[Object], *lines: str) -> Report:
    return ask(tmp_path, objects, metrics=scrape(*lines))


# ----------------------------------------------------------------------------------------------- by its metrics


@pytest.mark.parametrize("old", [False, True], ids=["2.9 and later", "2.4 to 2.7"])
def test_a_pod_that_only_the_scheduler_knows_is_named_with_its_gpu(tmp_path: Path, old: bool) -> None:
    line = counted("gone", 15 * GIB, old=old)
    report = by_metrics(tmp_path, cluster(gpu_node(), *refused_again(count=1, first=30)), line)
    found = cause(report)
    assert (found.code, found.confidence, found.scope.nodes) == ("scheduler-ledger-stale", "confirmed", ("gpu-1",))
    assert "takes 1 GPU of gpu-1 for used: it still counts 15,360 MiB for ml/gone" in report.verdict
    assert line in quotes(report)
    assert commands(report) == [f"kubectl -n {HAMI} rollout restart deployment/hami-scheduler"]


def test_a_pod_made_anew_under_the_name_of_a_ghost_is_told_as_the_holder_it_is_not(tmp_path: Path) -> None:
    objects = cluster(gpu_node(), *refused_again())
    report = by_metrics(tmp_path, objects, counted("wl", GIB))
    assert codes(report) == ["scheduler-ledger-stale"]
    assert "ml/wl" in report.verdict


def test_metrics_that_agree_with_the_pods_prove_that_the_next_attempt_succeeds(tmp_path: Path) -> None:
    holder = running("holder", "gpu-1", ("GPU-gpu-1", 1000, 0))
    objects = cluster(gpu_node(), holder, *refused_again())
    report = by_metrics(tmp_path, objects, counted("holder", GIB))
    assert codes(report) == ["waiting-for-retry"]


def test_the_proof_asks_the_port_that_was_asked(tmp_path: Path) -> None:
    metrics = scrape(counted("gone", GIB))
    objects = [*scheduler(flags=["--metrics-bind-address=:9999"]), gpu_node(), *refused_again()]
    report = ask(tmp_path, objects, metrics=metrics, settings={"ports": Ports(metrics, metrics)})
    proofs = [proof.command for proof in cause(report).evidence if proof.source == "scheduler metrics"]
    assert proofs
    assert all(":9999/proxy/metrics" in (command or "") for command in proofs)


class Ports:
    """A metrics port that serves one of these texts after the other; an empty one is refused."""

    def __init__(self, *served: str) -> None:
        self._served = list(served)

    async def pod_get(self, wanted: PodGet) -> PodAnswer:
        text = self._served.pop(0)
        return PodAnswer(200 if text else 503, {}, text.encode(), cut=False)


@pytest.mark.parametrize("left", [[], [counted("other", GIB)]], ids=["of all", "of one"])
def test_a_pod_that_ended_while_its_gpu_was_looked_up_is_no_ghost(tmp_path: Path, left: list[str]) -> None:
    first = scrape(counted("gone", GIB), *left)
    ports = Ports(first, scrape(*left))
    report = ask(tmp_path, cluster(gpu_node(), *refused_again()), metrics=first, settings={"ports": ports})
    assert "ml/gone" not in report.verdict
    assert codes(report)[0] == ("scheduler-ledger-stale" if left else "waiting-for-retry")


def test_figures_that_cannot_be_read_again_prove_no_ghost(tmp_path: Path) -> None:
    ports = Ports(scrape(counted("gone", GIB)), "")
    report = ask(tmp_path, cluster(gpu_node(), *refused_again()), settings={"ports": ports})
    assert (cause(report).code, cause(report).confidence) == ("scheduler-ledger-stale", "suspected")
    assert any("HTTP 503" in gap.why for gap in report.gaps)


def test_a_reservation_is_no_ghost(tmp_path: Path) -> None:
    reserved = pod("reserved", annotations=given("gpu-1", ("GPU-gpu-1", 1000, 0)))
    report = by_metrics(tmp_path, cluster(gpu_node(), reserved, *refused_again()), counted("reserved", GIB))
    assert codes(report) == ["waiting-for-retry"]


def test_a_ghost_on_a_node_that_is_too_small_anyway_is_no_cause(tmp_path: Path) -> None:
    waiting = pod(limits=gpu(memory=20000), said=refused(none_of(1, FULL)))
    report = by_metrics(tmp_path, cluster(gpu_node(), waiting), counted("gone", GIB))
    assert "scheduler-ledger-stale" not in codes(report)


def test_a_node_that_the_scheduler_does_not_know_has_its_registration_ignored(tmp_path: Path) -> None:
    objects = cluster(gpu_node("gpu-2"), *refused_again("1 node unregistered"))
    report = by_metrics(tmp_path, objects)
    found = cause(report)
    assert (found.code, found.confidence, found.scope.nodes) == ("registration-ignored", "confirmed", ("gpu-2",))


# ------------------------------------------------------------------------------------------- by what it said


@pytest.mark.parametrize(
    ("reasons", "code"),
    [
        (FULL, "scheduler-ledger-stale"),
        ("1 1/1 CardTimeSlicingExhausted", "scheduler-ledger-stale"),
        ("1 node unregistered", "registration-ignored"),
        ("1 1/1 CardCordoned", "card-cordoned"),
        ("1 1/1 CardNotHealth", "registration-ignored"),
    ],
)
def test_what_hami_says_again_and_again_outweighs_our_fit(tmp_path: Path, reasons: str, code: str) -> None:
    report = ask(tmp_path, cluster(gpu_node(), *refused_again(reasons)))
    found = cause(report)
    assert (found.code, found.confidence, found.scope.nodes) == (code, "suspected", ("gpu-1",))
    assert "gpu-1" in report.verdict


REFUSED_AGAIN = {
    "its type": ("1 1/1 CardTypeMismatch", 3600, 30),
    "a cordon, within seconds": ("1 1/1 CardCordoned", 90, 30),
    "a cordon, and was not tried since": ("1 1/1 CardCordoned", 3600, 1200),
    "bad health, and was not tried since": ("1 1/1 CardNotHealth", 3600, 1200),
}


@pytest.mark.parametrize(("reasons", "first", "last"), REFUSED_AGAIN.values(), ids=REFUSED_AGAIN)
def test_a_pod_that_would_fit_since_an_annotation_changed_waits_for_a_try_where_it_was_refused_for(
    tmp_path: Path, reasons: str, first: float, last: float
) -> None:
    report = ask(tmp_path, cluster(gpu_node(), *refused_again(reasons, first=first, last=last)))
    assert codes(report)[0] == "waiting-for-retry"
    assert not any("rollout restart" in command for command in commands(report))


def test_a_cordon_of_another_node_proves_nothing_of_one_refused_for_a_type_that_the_pod_named(tmp_path: Path) -> None:
    waiting, told = refused_again("1 1/1 CardTypeMismatch, 1 1/1 CardCordoned")
    texts = "1 nodes CardTypeMismatch(gpu-1)", "1 nodes CardCordoned(gpu-2)"
    named = [event(waiting, "FilteringFailed", text, 30) for text in texts]
    cordoned = gpu_node("gpu-2", annotations={"hami.io/device-cordon": "GPU-gpu-2"})
    report = ask(tmp_path, cluster(gpu_node(), cordoned, waiting, told, *named))
    assert codes(report)[0] == "waiting-for-retry"


def test_a_quota_that_has_room_now_may_just_have_been_raised(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(gpu_node(), *refused_again("1 1/1 ResourceQuotaNotFit")))
    assert codes(report) == ["waiting-for-retry"]


@pytest.mark.parametrize(("first", "count"), [(60, 1), (70, 3)], ids=["once", "in a burst of attempts"])
def test_one_refusal_is_retried(tmp_path: Path, first: float, count: int) -> None:
    report = ask(tmp_path, cluster(gpu_node(), *refused_again(first=first, last=60, count=count)))
    assert codes(report) == ["waiting-for-retry"]


def test_a_scheduler_that_started_after_its_last_word_counts_anew(tmp_path: Path) -> None:
    began = {"name": EXTENDER, "ready": True, "state": {"running": {"startedAt": ago(20)}}}
    objects = [*scheduler(statuses=[READY | {"containerStatuses": [began]}]), gpu_node(), *refused_again(last=60)]
    assert codes(ask(tmp_path, objects)) == ["waiting-for-retry"]


def test_a_pod_that_the_scheduler_let_go_after_its_last_word_left_the_room(tmp_path: Path) -> None:
    line = 'I1121 04:59:50.000000       1 pods.go:164] "Pod taken and deleted" pod="ml/gone" nodeID="gpu-1"'
    report = ask(tmp_path, cluster(gpu_node(), *refused_again()), logs=line)
    assert codes(report) == ["waiting-for-retry"]


def test_a_pod_that_finished_after_the_last_word_left_the_room(tmp_path: Path) -> None:
    done = running("done", "gpu-1", ("GPU-gpu-1", 15000, 0))
    terminated = {"terminated": {"exitCode": 0, "finishedAt": ago(10)}}
    done["status"] = {"phase": "Succeeded", "containerStatuses": [{"name": "main", "state": terminated}]}
    assert codes(ask(tmp_path, cluster(gpu_node(), done, *refused_again()))) == ["waiting-for-retry"]


def test_without_a_lease_the_replica_that_counts_is_believed(tmp_path: Path) -> None:
    objects = [item for item in scheduler(replicas=2, statuses=[READY, READY]) if item["kind"] != "Lease"]
    report = by_metrics(tmp_path, [*objects, gpu_node(), *refused_again()], counted("gone", 15 * GIB))
    assert codes(report)[0] == "scheduler-ledger-stale"


def test_a_node_that_became_ready_after_the_last_word_is_tried_next(tmp_path: Path) -> None:
    node = gpu_node()
    node["status"]["conditions"] = [{"type": "Ready", "status": "True", "lastTransitionTime": ago(10)}]
    report = ask(tmp_path, cluster(node, *refused_again("1 node unregistered")))
    assert codes(report) == ["waiting-for-retry"]


def test_a_second_node_that_hami_did_not_refuse_is_tried_next(tmp_path: Path) -> None:
    waiting, told = refused_again()
    named = event(waiting, "FilteringFailed", "1 nodes CardInsufficientMemory(gpu-2)", 30)
    report = ask(tmp_path, cluster(gpu_node(), waiting, told, named))
    assert codes(report) == ["waiting-for-retry"]


# ------------------------------------------------------------------------------------------------- something unread


def test_the_log_tells_of_repeated_refusals_where_the_events_are_gone(tmp_path: Path) -> None:
    lines = [
        f"I1121 04:{minute}:00.000000       1 {text}"
        for minute in (49, 54, 59)
        for text in (
            'scheduler.go:517] "Starting schedule filter process" pod="wl" uuid="uid-wl" namespace="ml"',
            'score.go:166] "NodeUnfitPod" pod="ml/wl" node="gpu-1" reason="1/1 CardInsufficientMemory"',
        )
    ]
    waiting = pod(age=3600, said=refused(none_of(1, "1 NodeUnfitPod"), 3600))
    report = ask(tmp_path, cluster(gpu_node(), waiting), logs="\n".join(lines))
    assert codes(report) == ["scheduler-ledger-stale"]
    assert "last at 2026-11-21T04:59:00Z" in report.verdict


UNREAD = "Whether GPUs became free since then could not be read"


def test_where_releases_could_not_be_read_nothing_is_said_to_need_a_restart(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(gpu_node(), *refused_again()), missing=["logs"])
    assert (codes(report)[0], cause(report).confidence) == ("scheduler-ledger-stale", "suspected")
    assert UNREAD in cause(report).claim
    assert not any("rollout restart" in command for command in commands(report))
    assert any(gap.source.startswith("log of") for gap in report.gaps)


def test_where_the_log_tells_of_no_release_a_restart_is_proposed(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(gpu_node(), *refused_again()))
    assert UNREAD not in cause(report).claim
    assert any("rollout restart" in command for command in commands(report))


def finished(count: int) -> list[Object]:
    """Pods that HAMi placed and that ended a day ago."""
    pods = [pod(f"job-{number}", labels={NODE_KEY: "gpu-1"}, nodeName="gpu-1", age=90_000) for number in range(count)]
    for item in pods:
        item["status"] = {"phase": "Succeeded"}
    return pods


@pytest.mark.parametrize(("count", "told_of"), [(3, False), (MOST_FINISHED, True)])
def test_more_finished_pods_than_are_read_are_a_gap(tmp_path: Path, count: int, told_of: bool) -> None:
    report = ask(tmp_path, cluster(gpu_node(), *refused_again(), *finished(count)))
    assert codes(report)[0] == "scheduler-ledger-stale"
    assert (UNREAD in cause(report).claim) is told_of
    assert ("finished pods" in [gap.source for gap in report.gaps]) is told_of


@pytest.mark.parametrize("missing", ["nodes", "resourcequotas"])
def test_a_ghost_is_told_also_where_our_own_fit_is_not_known(tmp_path: Path, missing: str) -> None:
    waiting, told = refused_again()
    named = event(waiting, "FilteringFailed", "1 nodes CardInsufficientMemory(gpu-1)", 30)
    objects = cluster(gpu_node(), waiting, told, named)
    report = ask(tmp_path, objects, metrics=scrape(counted("gone", 15 * GIB)), missing=[missing])
    assert codes(report)[0] == "scheduler-ledger-stale"
    assert all(finding.severity == "info" for finding in report.findings[1:])


def test_without_the_pods_condition_its_age_tells_that_it_was_refused_before(tmp_path: Path) -> None:
    message = none_of(1, FULL)
    waiting = pod(age=600)
    waiting["status"].pop("conditions", None)
    refusal = event(waiting, "FailedScheduling", message, 30)
    assert codes(ask(tmp_path, cluster(gpu_node(), waiting, refusal))) == ["scheduler-ledger-stale"]


def test_a_new_pod_that_was_refused_once_waits_for_the_next_attempt(tmp_path: Path) -> None:
    message = none_of(1, FULL)
    waiting = pod(age=60)
    waiting["status"].pop("conditions", None)
    refusal = event(waiting, "FailedScheduling", message, 30)
    assert codes(ask(tmp_path, cluster(gpu_node(), waiting, refusal))) == ["waiting-for-retry"]


HOUR = 3600
NO_ROOM = refused(none_of(1, "1 1/1 CardInsufficientMemory"))
UNUSED = use(USED, "old", "GPU-gpu-1", 4 * GIB) + use(KERNEL, "old", "GPU-gpu-1", 22500)
BUSY = use(USED, "old", "GPU-gpu-1", 4 * GIB) + use(KERNEL, "old", "GPU-gpu-1", 30)


def holder(name: str = "old", memory: int = 12000, uuid: str = "GPU-gpu-1", **fields: object) -> Object:
    return running(name, "gpu-1", (uuid, memory, 0), **{"age": 48 * HOUR} | fields)


def of_team(one: Object, team: str) -> Object:
    one["metadata"]["labels"]["team"] = team
    return one


def why(folder: Path, *holders: Object, monitor: str | None = UNUSED, memory: int = 9000, **more: object) -> Report:
    """The answer about a pod that the only node refused for want of memory."""
    waiting = pod(limits=gpu(memory=memory), said=NO_ROOM)
    objects = cluster(waiting, gpu_node(), plugin_pod("gpu-1"), *(holders or [holder()]))
    return ask(folder, objects, monitors={} if monitor is None else {"gpu-1": monitor}, **more)


def test_why_names_the_holder_that_launches_no_kernel(tmp_path: Path) -> None:
    report = why(tmp_path, of_team(holder(), "vision"))
    assert codes(report)[:2] == ["card-insufficient-memory", "idle-holder"]
    assert report.findings[1].claim == (
        "Waiting for ml/old: 12,000 MiB, no kernel for 6h15m, owner vision; "
        "with that given back, gpu-1 would take the pod."
    )
    assert "Ask vision about ml/old" in cause(report).next_actions[0].label


def test_its_figure_and_what_hami_gave_it_are_quoted(tmp_path: Path) -> None:
    figure, held = why(tmp_path).findings[1].evidence
    assert figure.quote == UNUSED.splitlines()[1]
    assert "pods/hami-device-plugin-gpu-1:9394/proxy/metrics" in figure.command
    assert "GPU-gpu-1,NVIDIA,12000,0" in held.quote


def test_a_manifest_without_room_is_told_it_too(tmp_path: Path) -> None:
    objects = cluster(gpu_node(), plugin_pod("gpu-1"), holder())
    limits = "{nvidia.com/gpu: 1, nvidia.com/gpumem: 9000}"
    manifest = f"{{kind: Pod, metadata: {{name: a}}, spec: {{containers: [{{resources: {{limits: {limits}}}}}]}}}}"
    report = fit(tmp_path, objects, manifest, monitors={"gpu-1": UNUSED})
    assert codes(report)[:2] == ["fits-nowhere", "idle-holder"]
    assert cause(report).next_actions[1].command == "gpus --idle --node gpu-1"


def test_prometheus_is_asked_for_these_gpus_where_there_is_one(tmp_path: Path) -> None:
    asked = FakePrometheus(UNUSED)
    report = why(tmp_path, monitor=UNUSED, settings={"prometheus": asked})
    assert report.findings[1].evidence[0].command.startswith("PromQL: hami_container_last_kernel_elapsed_seconds")


@pytest.mark.parametrize("prometheus", [FakePrometheus(), FakePrometheus(fails="connection refused")], ids=["", "down"])
def test_where_prometheus_has_no_figure_the_monitor_is_asked(tmp_path: Path, prometheus: FakePrometheus) -> None:
    report = why(tmp_path, monitor=UNUSED, settings={"prometheus": prometheus})
    assert "9394/proxy/metrics" in report.findings[1].evidence[0].command


def test_a_name_that_is_no_uuid_does_not_get_into_a_query(tmp_path: Path) -> None:
    class Listening(FakePrometheus):
        asked: ClassVar[list[str]] = []

        async def query(self, expression: str, at: datetime, labels: object = None) -> list[Sample]:
            self.asked.append(expression)
            return await super().query(expression, at)

    odd = running("old", "gpu-1", ('G"} or up{a=~".*', 12000, 0), age=48 * HOUR)
    node = gpu_node("gpu-1", card('G"} or up{a=~".*'))
    waiting = pod(limits=gpu(memory=9000), said=NO_ROOM)
    objects = cluster(waiting, node, plugin_pod("gpu-1"), odd)
    ask(tmp_path, objects, monitors={"gpu-1": UNUSED}, settings={"prometheus": Listening(UNUSED)})
    assert not [query for query in Listening.asked if "up{" in query]


@pytest.mark.parametrize(
    ("monitor", "holders"),
    [
        pytest.param(BUSY, [holder()], id="it uses its GPU"),
        pytest.param("", [holder()], id="nothing is measured of it"),
        pytest.param(None, [holder()], id="there is no monitor"),
        pytest.param(use(KERNEL, "old", "GPU-gpu-1", "NaN"), [holder()], id="its figure is no number"),
        pytest.param(UNUSED, [holder(memory=1000), holder("new", 11000, age=60)], id="its end would not be enough"),
        pytest.param(UNUSED, [holder(deleted=ago(5))], id="it is ending already"),
    ],
)
def test_nobody_is_named_where(tmp_path: Path, monitor: str | None, holders: list[Object]) -> None:
    report = why(tmp_path, *holders, monitor=monitor)
    assert "idle-holder" not in codes(report)
    assert not [gap for gap in report.gaps if "monitor" in gap.source.casefold()]


def test_of_two_gpus_that_a_holder_has_both_must_be_measured(tmp_path: Path) -> None:
    both = running("old", "gpu-1", ("GPU-gpu-1", 12000, 0), ("GPU-b", 12000, 0), age=48 * HOUR)
    waiting = pod(limits=gpu(memory=9000), said=NO_ROOM)
    node = gpu_node("gpu-1", card("GPU-gpu-1"), card("GPU-b"))
    report = ask(tmp_path, cluster(waiting, node, plugin_pod("gpu-1"), both), monitors={"gpu-1": UNUSED})
    assert "idle-holder" not in codes(report)


def test_two_are_named_where_neither_alone_is_enough(tmp_path: Path) -> None:
    figures = "".join(use(KERNEL, name, "GPU-gpu-1", 8 * HOUR) for name in ("old", "older", "small"))
    holders = [holder(memory=7000), holder("older", 7000), holder("small", 500)]
    report = why(tmp_path, *holders, monitor=figures, memory=14000)
    assert "Waiting for ml/old, ml/older: 14,000 MiB, no kernel for 8h" in report.findings[1].claim
    first, second, *others = (step.label for step in cause(report).next_actions if step.changes_cluster)
    assert first.startswith("Either: Ask Namespace ml about ml/old,")
    assert second.startswith("And: Ask Namespace ml about ml/older")
    assert others[0].startswith("Or: ")
    assert all("one of 2 pods" in label and "would then take" not in label for label in (first, second))


def test_the_end_of_the_same_pod_is_one_way_and_is_told_once(tmp_path: Path) -> None:
    ends = [step for step in cause(why(tmp_path)).next_actions if "delete pod old" in step.command]
    assert len(ends) == 1


def test_a_monitor_that_does_not_answer_beside_one_that_does_is_a_gap(tmp_path: Path) -> None:
    waiting = pod(limits=gpu(memory=9000), said=NO_ROOM)
    other = running("there", "gpu-2", ("GPU-gpu-2", 12000, 0), age=48 * HOUR)
    nodes = [gpu_node("gpu-1"), gpu_node("gpu-2"), plugin_pod("gpu-1"), plugin_pod("gpu-2")]
    report = ask(tmp_path, cluster(waiting, *nodes, holder(), other), monitors={"gpu-1": UNUSED})
    assert codes(report)[:2] == ["card-insufficient-memory", "idle-holder"]
    assert [gap.source for gap in report.gaps] == ["vGPUmonitor metrics of hami-system/hami-device-plugin-gpu-2"]


def test_a_scheduler_that_is_down_is_not_waited_for_with_the_holder(tmp_path: Path) -> None:
    waiting = pod(limits=gpu(memory=9000), said=NO_ROOM)
    objects = [waiting, gpu_node(), plugin_pod("gpu-1"), holder()]
    report = ask(tmp_path, objects, monitors={"gpu-1": UNUSED})
    assert cause(report).code != "card-insufficient-memory"
    assert "idle-holder" not in codes(report)
