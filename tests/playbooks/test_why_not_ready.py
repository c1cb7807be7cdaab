"""Pods that have their node and do not get on there: not ready, killed by a probe, behind an init container, alone."""

import json
from pathlib import Path
from typing import Any

import pytest

from bot.render.terminal import terminal
from bot.report import as_json
from bot.texts import Texts
from tests.playbooks.started_support import PLACED, REJECTED, container_status, placed, report_on
from tests.playbooks.world import Object, ago, ask, cause, cluster, codes, event, gpu_node, quotes

RUNNING = {"running": {"startedAt": ago(220)}}
STARTUP = 'Startup probe failed: Get "http://10.42.1.9:8000/health": connection refused'
LIVENESS = "Liveness probe failed: HTTP probe failed with statuscode: 503"
UNREADY = {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": ago(220)}
UNREADY["message"] = "containers with unready status: [main]"

# ------------------------------------------------------------------------------------------------------- not ready


@pytest.mark.parametrize(("since", "severity"), [(220, "info"), (5000, "warning")])
def test_a_pod_whose_probe_fails_is_not_called_well(tmp_path: Path, since: float, severity: str) -> None:
    statuses = container_status(state={"running": {"startedAt": ago(since)}}, ready=False)
    waiting = placed(phase="Running", containerStatuses=statuses, conditions=[UNREADY])
    report = report_on(tmp_path, waiting, event(waiting, "Unhealthy", STARTUP, 10))
    assert (codes(report), report.severity) == (["image-or-start-failure"], severity)
    assert f"Running on gpu-1, but not ready: container main: {STARTUP[:20]}" in report.verdict
    assert {STARTUP, UNREADY["message"]} <= set(quotes(report))


def test_without_the_event_its_condition_tells_that_it_is_not_ready(tmp_path: Path) -> None:
    waiting = placed(phase="Running", containerStatuses=container_status(state=RUNNING), conditions=[UNREADY])
    assert "but not ready: containers with unready status: [main]" in report_on(tmp_path, waiting).verdict


def test_a_probe_that_failed_before_the_container_was_ready_is_over(tmp_path: Path) -> None:
    waiting = placed(phase="Running", containerStatuses=container_status(state=RUNNING, ready=True))
    assert codes(report_on(tmp_path, waiting, event(waiting, "Unhealthy", STARTUP, 100))) == ["running"]


def test_a_probe_of_another_container_is_not_told_of_the_one_that_is_not_ready(tmp_path: Path) -> None:
    statuses = [{"name": name, "state": RUNNING, "ready": name == "main"} for name in ("main", "istio-proxy")]
    waiting = placed(phase="Running", containerStatuses=statuses)
    of_main, of_proxy = event(waiting, "Unhealthy", LIVENESS, 10), event(waiting, "Unhealthy", STARTUP, 30)
    of_main["involvedObject"]["fieldPath"] = "spec.containers{main}"
    of_proxy["involvedObject"]["fieldPath"] = "spec.containers{istio-proxy}"
    assert "container istio-proxy: Startup" in report_on(tmp_path, waiting, of_main, of_proxy).verdict


# ------------------------------------------------------------------------------------------------ killed by a probe

KILLED = "Container main failed liveness probe, will be restarted"


def restarted(finished: float = 55, lasted: float = 120) -> Object:
    end = {"exitCode": 137, "reason": "Error", "startedAt": ago(finished + lasted), "finishedAt": ago(finished)}
    state = {"running": {"startedAt": ago(finished - 5)}}
    return placed(
        phase="Running", containerStatuses=container_status(state=state, lastState={"terminated": end}, restartCount=7)
    )


def test_a_container_that_kubelet_kills_for_its_probe_is_told_so(tmp_path: Path) -> None:
    waiting = restarted()
    report = report_on(
        tmp_path, waiting, event(waiting, "Unhealthy", LIVENESS, 58), event(waiting, "Killing", KILLED, 57)
    )
    assert codes(report) == ["image-or-start-failure"]
    assert f"kubelet kills container main, as it fails its liveness probe (exit code 137, restarts: 7): {LIVENESS}" in (
        cause(report).claim
    )
    assert {KILLED, LIVENESS} <= set(quotes(report))


def test_a_kill_of_an_earlier_run_does_not_explain_the_last_end(tmp_path: Path) -> None:
    waiting = restarted()
    report = report_on(tmp_path, waiting, event(waiting, "Killing", KILLED, 4000))
    assert "container main exited with code 137" in report.verdict


def test_a_kill_whose_probe_left_no_event_is_told_alone(tmp_path: Path) -> None:
    waiting = restarted()
    assert (
        "fails its liveness probe" in cause(report_on(tmp_path, waiting, event(waiting, "Killing", KILLED, 57))).claim
    )


# -------------------------------------------------------------------------------------------------- init containers

INITIALIZING = {"name": "main", "state": {"waiting": {"reason": "PodInitializing"}}}
INCOMPLETE = {"type": "Initialized", "status": "False", "message": "containers with incomplete status: [wait-db]"}


def behind_init(*inits: Object, **fields: Any) -> Object:
    return placed(phase="Pending", initContainerStatuses=list(inits), containerStatuses=[INITIALIZING], **fields)


def test_an_init_container_that_does_not_end_is_named(tmp_path: Path) -> None:
    init = {"name": "wait-db", "state": {"running": {"startedAt": ago(3000)}}}
    waiting = behind_init(init, conditions=[INCOMPLETE])
    report = report_on(tmp_path, waiting, event(waiting, "FailedMount", "timed out", 3200))
    assert (codes(report), report.severity) == (["image-or-start-failure"], "warning")
    assert "init container wait-db has been running for 50 min" in cause(report).claim
    assert INCOMPLETE["message"] in quotes(report)


def test_nobody_waits_for_a_sidecar_to_end(tmp_path: Path) -> None:
    waiting = behind_init({"name": "mesh", "state": RUNNING})
    waiting["spec"]["initContainers"] = [{"name": "mesh", "restartPolicy": "Always"}]
    assert "its containers are being created" in report_on(tmp_path, waiting).verdict


def test_an_init_container_that_keeps_failing_is_not_called_running(tmp_path: Path) -> None:
    state = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}}
    end = {"terminated": {"exitCode": 22, "reason": "Error"}}
    report = report_on(tmp_path, behind_init({"name": "fetch", "state": state, "lastState": end, "restartCount": 8}))
    assert "An init container keeps failing on gpu-1" in report.verdict
    assert "container fetch exited with code 22" in cause(report).claim


def test_a_sidecar_that_keeps_failing_is_told_although_the_others_run(tmp_path: Path) -> None:
    state = {"waiting": {"reason": "CrashLoopBackOff"}}
    mesh = {"name": "mesh", "state": state, "lastState": {"terminated": {"exitCode": 1, "reason": "Error"}}}
    main = {"name": "main", "state": RUNNING, "ready": True}
    report = report_on(tmp_path, placed(phase="Running", initContainerStatuses=[mesh], containerStatuses=[main]))
    assert "The pod keeps failing on gpu-1" in report.verdict


# ----------------------------------------------------------------------------------------- its state in kubectl's words


def waits_for(reason: str, name: str = "main") -> Object:
    return {"name": name, "state": {"waiting": {"reason": reason}}}


def has_ended(code: int, reason: str = "", name: str = "main") -> Object:
    return {"name": name, "state": {"terminated": {"exitCode": code, "reason": reason}}}


LOOPS = "CrashLoopBackOff"
RUNS = {"name": "main", "state": RUNNING, "ready": True}
DONE, BEHIND = has_ended(0, "Completed", "fetch"), [INITIALIZING]
REJECTION = {"reason": "UnexpectedAdmissionError", "message": REJECTED.format("no binding pod found")}
STATES: dict[str, tuple[Object, str]] = {
    "its phase": ({"phase": "Running", "containerStatuses": [RUNS]}, "Running"),
    "its phase without containers": ({"phase": "Pending"}, "Pending"),
    "its phase behind an init container": (
        {"phase": "Pending", "initContainerStatuses": [RUNS], "containerStatuses": BEHIND},
        "Pending",
    ),
    "what a container waits for": ({"phase": "Running", "containerStatuses": [waits_for(LOOPS)]}, LOOPS),
    "what the second container waits for": (
        {"phase": "Pending", "containerStatuses": [RUNS, waits_for("ImagePullBackOff", "side")]},
        "ImagePullBackOff",
    ),
    "what an init container waits for": (
        {
            "phase": "Pending",
            "initContainerStatuses": [DONE, waits_for(LOOPS, "wait-db")],
            "containerStatuses": BEHIND,
        },
        f"Init:{LOOPS}",
    ),
    "how an init container ended": (
        {"phase": "Failed", "initContainerStatuses": [has_ended(3, name="fetch")], "containerStatuses": BEHIND},
        "Init:ExitCode:3",
    ),
    "why a container ended": ({"phase": "Failed", "containerStatuses": [has_ended(137, "OOMKilled")]}, "OOMKilled"),
    "how a container ended": ({"phase": "Failed", "containerStatuses": [has_ended(3)]}, "ExitCode:3"),
    "that it has completed": ({"phase": "Succeeded", "containerStatuses": [has_ended(0, "Completed")]}, "Completed"),
    "why kubelet refused it": ({"phase": "Failed"} | REJECTION, "UnexpectedAdmissionError"),
}


@pytest.mark.parametrize(("status", "shown"), STATES.values(), ids=STATES)
def test_a_pod_s_state_is_told_in_kubectl_s_words(tmp_path: Path, status: Object, shown: str) -> None:
    assert report_on(tmp_path, placed(**status)).pod_status == shown


def test_a_pod_that_is_being_deleted_is_terminating_whatever_its_containers_do(tmp_path: Path) -> None:
    leaving = placed(phase="Running", containerStatuses=[waits_for(LOOPS)])
    leaving["metadata"]["deletionTimestamp"] = ago(-10)
    assert report_on(tmp_path, leaving).pod_status == "Terminating"


def test_a_pod_s_state_stands_beside_its_name_and_in_the_json(tmp_path: Path) -> None:
    report = report_on(tmp_path, placed(phase="Running", containerStatuses=[waits_for(LOOPS)]))
    for whole in (True, False):
        shown = terminal(report, Texts("en"), width=100, colour=False, whole=whole)
        assert f"Pod ml/wl ({LOOPS}), cluster lab" in shown
    assert json.loads(as_json(report))["pod_status"] == LOOPS


def test_what_is_no_pod_has_no_state(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(gpu_node()), "ml/gone")
    assert "pod_status" not in json.loads(as_json(report))
    assert "()" not in terminal(report, Texts("en"), colour=False)


# ---------------------------------------------------------------------------------------------------- the node


def down(**condition: object) -> Object:
    node = gpu_node("gpu-1")
    node["status"]["conditions"] = [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"} | condition]
    return node


def test_a_pod_that_runs_on_a_node_that_is_not_ready_is_told_of_its_node_first(tmp_path: Path) -> None:
    waiting = placed(phase="Running")
    silent = "Kubelet stopped posting node status."
    lost = event(waiting, "NodeNotReady", "Node is not ready", 400)
    report = report_on(tmp_path, waiting, down(message=silent), lost)
    assert (codes(report), report.severity) == (["node-not-ready", "running"], "warning")
    assert "out of date" in cause(report).claim
    assert {silent, "Node is not ready"} <= set(quotes(report))


def test_a_node_whose_kubelet_says_that_it_is_not_ready_is_not_called_silent(tmp_path: Path) -> None:
    why = "container runtime is down"
    report = report_on(tmp_path, placed(phase="Running"), down(status="False", message=why))
    assert codes(report)[0] == "node-not-ready"
    assert why in cause(report).claim
    assert "out of date" not in cause(report).claim


def test_a_pod_that_has_ended_does_not_care_about_its_node(tmp_path: Path) -> None:
    assert codes(report_on(tmp_path, placed(phase="Failed", message="gone"), down())) == ["image-or-start-failure"]


def test_kubelet_s_topology_manager_is_named_where_it_refuses_a_pod(tmp_path: Path) -> None:
    why = "Pod was rejected: Resources cannot be allocated with Topology locality"
    report = report_on(tmp_path, placed(phase="Failed", reason="TopologyAffinityError", message=why))
    assert codes(report) == ["image-or-start-failure"]
    assert "kubelet's topology manager refused the pod" in cause(report).claim
    assert why in quotes(report)
    assert any("topologyManagerPolicy" in action.label for action in cause(report).next_actions)


# ------------------------------------------------------------------------------------------- annotations that are gone

NO_POD = REJECTED.format("no binding pod found on node gpu-1")
BOUND = "Successfully binding node [gpu-1] to ml/wl"


@pytest.mark.parametrize("sign", ["event", "label"])
def test_a_pod_that_hami_bound_and_that_lost_its_annotations_is_not_said_to_have_gone_past_hami(
    tmp_path: Path, sign: str
) -> None:
    waiting = placed({}, phase="Failed", reason="UnexpectedAdmissionError", message=NO_POD)
    events = [event(waiting, "BindingSucceed", BOUND, 149, type="Normal")] if sign == "event" else []
    waiting["metadata"]["labels"] = {"hami.io/vgpu-node": "gpu-1"} if sign == "label" else {}
    report = ask(tmp_path, cluster(gpu_node(), waiting, *events))
    assert codes(report) == ["allocate-failed"]
    assert "bound the pod to gpu-1, but the pod's hami.io/* annotations are gone" in cause(report).claim
    assert (BOUND if sign == "event" else "gpu-1") in quotes(report)
    assert "schedulerName" not in str(cause(report).next_actions)


def test_a_pod_that_kept_its_annotations_lost_none(tmp_path: Path) -> None:
    waiting = placed(PLACED, phase="Failed", reason="UnexpectedAdmissionError", message=NO_POD)
    report = report_on(tmp_path, waiting, event(waiting, "BindingSucceed", BOUND, 149, type="Normal"))
    assert "annotations are gone" not in cause(report).claim
