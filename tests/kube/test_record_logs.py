"""Which logs, metrics and words of HAMi's own pods a recording holds."""

import asyncio
import json

import pytest

from bot.hami.vendors import ANNOTATIONS
from bot.kube.models import PODS
from bot.kube.recording.record import record
from bot.kube.recording.record_logs import MOST_PLUGIN_PODS
from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.texts import in_english
from tests.kube.samples import a_list, folder, pod

SCHEDULER = "logs/hami-system/hami-scheduler-0"
PLUGIN = "logs/hami-system/hami-device-plugin-{}"
EXTENDER = "vgpu-scheduler-extender"


def of_hami(name, component, container, node="gpu-1", restarts=0):
    value = pod(name, "hami-system", containers=[{"name": container}], nodeName=node)
    value["metadata"]["labels"] = {"app.kubernetes.io/component": component}
    value["status"] = {"containerStatuses": [{"name": container, "ready": True, "restartCount": restarts}]}
    return value


def plugin(number, restarts=0):
    return of_hami(f"hami-device-plugin-{number}", "hami-device-plugin", "device-plugin", f"gpu-{number}", restarts)


def recorded(tmp_path, pods, logs, wanted=None):
    """The recording of a cluster of these pods, which has these logs, and its summary."""
    there = RecordedCluster.open(folder(tmp_path / "lab", {"objects/pods.json": a_list(*pods), **logs}))
    out = tmp_path / "out"
    ports = there
    summary = asyncio.run(record(there, out, pod=wanted, server_version="", annotations=ANNOTATIONS, ports=ports))
    return RecordedCluster.open(out), summary


def test_the_device_plugins_log_is_recorded_with_that_of_the_run_before(tmp_path):
    logs = {f"{PLUGIN.format(1)}/device-plugin{run}.log": f"run{run}\n".encode() for run in ("", ".previous")}
    again, summary = recorded(tmp_path, [plugin(1, restarts=2)], logs)
    assert {name: again.read(name) for name in summary.logs} == logs


def test_the_schedulers_previous_log_is_recorded_where_it_was_restarted(tmp_path):
    logs = {f"{SCHEDULER}/{EXTENDER}{run}.log": b"panic\n" for run in ("", ".previous")}
    again, summary = recorded(tmp_path, [of_hami("hami-scheduler-0", "hami-scheduler", EXTENDER, restarts=1)], logs)
    assert again.files("logs/") == sorted(logs) == list(summary.logs)


def test_a_recording_about_one_pod_keeps_what_the_scheduler_logs_of_no_pod(tmp_path):
    kept = (
        "a line about trainer-0",
        'I1121 pods.go:97] "Pod deleted" pod="ml/other"',
        "http: panic serving 10.0.0.1:1: index out of range",
        "http: TLS handshake error from 10.0.0.1:1: bad certificate",
        'nodes is forbidden: User "system:serviceaccount:hami-system:hami-scheduler" cannot list',
    )
    log = "\n".join(("a line about another", *kept)) + "\n"
    pods = [of_hami("hami-scheduler-0", "hami-scheduler", EXTENDER), pod("trainer-0")]
    logs = {f"{SCHEDULER}/{EXTENDER}.log": log.encode()}
    again, _ = recorded(tmp_path, pods, logs, wanted=("ml", "trainer-0"))
    assert again.read(f"{SCHEDULER}/{EXTENDER}.log").decode().splitlines() == list(kept)


@pytest.mark.parametrize(("flags", "port"), [([], 9395), (["--metrics-bind-address=:9500"], 9500)])
def test_metrics_are_recorded_from_the_port_that_the_scheduler_serves_them_on(tmp_path, flags, port):
    one = of_hami("hami-scheduler-0", "hami-scheduler", EXTENDER)
    one["spec"]["containers"][0]["args"] = ["scheduler", *flags]
    at = f"metrics/hami-system/hami-scheduler-0/{port}.prom"
    again, _ = recorded(tmp_path, [one], {at: b"up 1\n"})
    assert again.read(at) == b"up 1\n"


def test_of_many_device_plugins_the_pods_node_and_the_restarted_ones_come_first_and_the_rest_is_told(tmp_path):
    pods = [plugin(number, restarts=int(number == 40)) for number in range(50)]
    pods.append(pod("trainer-0", nodeName="gpu-45"))
    logs = {f"{PLUGIN.format(number)}/device-plugin.log": b"1\n" for number in range(50)}
    _, summary = recorded(tmp_path, pods, logs, wanted=("ml", "trainer-0"))
    assert len(summary.logs) == MOST_PLUGIN_PODS
    assert {f"{PLUGIN.format(number)}/device-plugin.log" for number in (40, 45)} <= set(summary.logs)
    assert "the logs of 30 more pods were not read" in [in_english(gap.text) for gap in summary.gaps]


def test_with_a_pod_the_device_plugins_lines_are_kept_that_do_not_name_it(tmp_path):
    logs = {f"{PLUGIN.format(1)}/device-plugin.log": b"nvml init failed: Driver Not Loaded\n"}
    again, _ = recorded(tmp_path, [plugin(1), pod("trainer-0", nodeName="gpu-1")], logs, wanted=("ml", "trainer-0"))
    assert again.read(f"{PLUGIN.format(1)}/device-plugin.log") == b"nvml init failed: Driver Not Loaded\n"


def test_the_log_of_a_workload_is_not_recorded(tmp_path):
    trainer = pod("trainer-0", containers=[{"name": "main"}], nodeName="gpu-1")
    _, summary = recorded(tmp_path, [trainer], {"logs/ml/trainer-0/main.log": b"mine\n"}, wanted=("ml", "trainer-0"))
    assert summary.logs == ()


def test_why_a_runtime_did_not_start_a_container_is_kept_and_a_programs_last_words_are_not(tmp_path):
    trainer = pod("trainer-0", containers=[{"name": "main"}, {"name": "other"}])
    ends = {"main": ("StartError", "nvml error: driver not loaded"), "other": ("Error", "my customers are")}
    trainer["status"] = {
        "containerStatuses": [
            {"name": name, "lastState": {"terminated": {"reason": reason, "exitCode": 1, "message": message}}}
            for name, (reason, message) in ends.items()
        ]
    }
    again, _ = recorded(tmp_path, [trainer], {})
    kept = asyncio.run(again.get(PODS, "trainer-0", "ml")).status.container_statuses
    assert [entry.last_state.terminated.message for entry in kept] == ["nvml error: driver not loaded", ""]


def test_of_environment_variables_the_names_stay_and_the_values_that_hami_reads(tmp_path):
    env = [{"name": "CUDA_DISABLE_CONTROL", "value": "true"}, {"name": "LICENSE", "value": "CANARY"}]
    again, _ = recorded(tmp_path, [pod("trainer-0", containers=[{"name": "main", "env": env}])], {})
    kept = asyncio.run(again.get(PODS, "trainer-0", "ml")).spec.containers[0].env
    assert [(entry.name, entry.value) for entry in kept] == [("CUDA_DISABLE_CONTROL", "true"), ("LICENSE", "***")]
    assert "CANARY" not in json.dumps(again.read("objects/pods.json").decode())


def test_what_each_monitor_measures_is_recorded(tmp_path):
    name = f"{PLUGIN.format(1)}/9394.prom".replace("logs/", "metrics/")
    metrics = {name: b'hami_vgpu_memory_used_bytes{pod="trainer-0"} 1024\n'}
    again, _ = recorded(tmp_path, [plugin(1)], metrics)
    assert {name: again.read(name)} == metrics


def test_many_monitors_that_cannot_be_read_are_one_gap(tmp_path):
    _, summary = recorded(tmp_path, [plugin(1), plugin(2), plugin(3)], {})
    (gap,) = (gap for gap in summary.gaps if gap.source == "metrics of vGPUmonitor")
    assert in_english(gap.text).startswith("3 of 3 could not be read")


def test_metrics_that_could_not_be_read_are_a_gap(tmp_path):
    _, summary = recorded(tmp_path, [of_hami("hami-scheduler-0", "hami-scheduler", EXTENDER)], {})
    assert "metrics of hami-system/hami-scheduler-0" in [gap.source for gap in summary.gaps]
