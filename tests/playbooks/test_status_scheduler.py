"""`status`: what is wrong with the scheduler, its leader and kube-scheduler's configuration."""

import asyncio
import json
from pathlib import Path

import pytest

from bot.kube.cluster import MOST_LINES, Cluster
from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.report import Report
from bot.texts import in_english
from playbooks.gather.scheduler_logs import ExtenderLines, gather_extender_lines
from playbooks.gather.scheduler_process import gather_panics
from playbooks.gather.scheduling import gather_install
from playbooks.playbook import Sources
from sandbox.apiserver import ApiServer
from tests.kube.live_servers import reached
from tests.playbooks.scheduler_metrics import GIB, counted, scrape
from tests.playbooks.status_support import (
    CONFIG,
    ROLE,
    ask,
    changed,
    component,
    configured,
    endpoints,
    healthy,
    without,
)
from tests.playbooks.tables import only, table
from tests.playbooks.world import (
    EXTENDER,
    READY,
    Object,
    ago,
    answer,
    cause,
    cluster,
    codes,
    commands,
    quotes,
    record,
    refused,
    running,
    scheduler,
)

FORBIDDEN = (
    'E1121 04:59:00.000000       1 scheduler.go:100] "Failed" err="nodes \\"gpu-1\\" is forbidden: '
    'User \\"system:serviceaccount:hami-system:hami-scheduler\\" cannot patch resource \\"nodes\\" in API group"\n'
)


# ------------------------------------------------------------------------------------------------ scheduler


def test_the_last_crash_of_a_day_is_told_and_an_older_one_stands_in_the_table(tmp_path: Path) -> None:
    def crashed(seconds: float) -> Object:
        ended = {"reason": "OOMKilled", "exitCode": 137, "finishedAt": ago(seconds)}
        status = {"name": EXTENDER, "ready": True, "restartCount": 3, "lastState": {"terminated": ended}}
        return READY | {"containerStatuses": [status]}

    def fix_counts(one: Object) -> None:
        one["status"] = {"replicas": 1, "readyReplicas": 1}

    recent = ask(tmp_path / "a", changed(healthy(statuses=(crashed(7200),)), "Deployment", fix_counts))
    assert codes(recent) == ["scheduler-degraded"]
    assert "OOMKilled" in recent.verdict
    old = ask(tmp_path / "b", changed(healthy(statuses=(crashed(200_000),)), "Deployment", fix_counts))
    assert codes(old) == ["healthy"]
    assert "restarts: 3, last OOMKilled" in component(old, "scheduler pod")["details"]


@pytest.mark.parametrize("seconds", [120, 7200])
@pytest.mark.parametrize("ended", [{"reason": "OOMKilled", "exitCode": 137}, {"reason": "Error", "exitCode": 137}])
def test_a_scheduler_that_was_killed_leads_to_a_profile_of_its_heap(
    tmp_path: Path, ended: Object, seconds: float
) -> None:
    state = {"terminated": ended | {"finishedAt": ago(seconds)}}
    status = {"name": EXTENDER, "ready": True, "restartCount": 3, "lastState": state}
    report = ask(tmp_path, healthy(statuses=(READY | {"containerStatuses": [status]},)))
    assert codes(report) == ["scheduler-degraded"]
    assert "profile heap" in cause(report).next_actions[0].command


@pytest.mark.parametrize(
    ("what", "seconds", "told"), [("memory", 900, True), ("pids", 900, True), ("memory", 1e6, False)]
)
def test_an_evicted_scheduler_is_told_for_a_day_and_leads_to_its_heap_for_memory(
    tmp_path: Path, what: str, seconds: float, *, told: bool
) -> None:
    words = f"The node was low on resource: {what}. Container {EXTENDER} was using 14893292Ki, request is 256Mi."
    gone = {"type": "Ready", "status": "False", "lastTransitionTime": ago(seconds)}
    objects = healthy(
        statuses=(READY, {"phase": "Failed", "reason": "Evicted", "message": words, "conditions": [gone]})
    )
    report = ask(tmp_path, objects)
    assert (codes(report) == ["scheduler-degraded"]) == told
    assert ("profile heap" in " ".join(commands(report))) == (told and what == "memory")
    assert (words in quotes(report)) == told


def test_a_lease_that_could_not_be_read_is_a_gap(tmp_path: Path) -> None:
    report = ask(tmp_path, healthy(), missing=["leases"])
    assert codes(report) == ["healthy"]
    assert cause(report).confidence == "suspected"
    assert any("lease" in gap.source for gap in report.gaps)


def test_a_leader_without_its_label_leaves_the_webhook_without_endpoints(tmp_path: Path) -> None:
    objects = changed(healthy(), "Pod", lambda object_: object_["metadata"]["labels"].pop(*ROLE), "hami-scheduler-0")
    report = ask(tmp_path, [*without(objects, "EndpointSlice"), endpoints()])
    assert codes(report) == ["scheduler-leader-mismatch", "webhook-unreachable"]
    assert cause(report).severity == "critical"


def test_a_label_on_a_replica_that_does_not_lead_is_found(tmp_path: Path) -> None:
    objects = healthy(statuses=(READY, READY), replicas=2)
    objects = changed(objects, "Lease", lambda object_: object_["spec"].update(holderIdentity="hami-scheduler-1_7"))
    report = ask(tmp_path, objects)
    assert codes(report) == ["scheduler-leader-mismatch"]
    assert "hami-scheduler-1_7" in quotes(report)


def test_endpoints_of_a_replica_that_does_not_lead_are_found(tmp_path: Path) -> None:
    objects = healthy(statuses=(READY, READY), replicas=2)
    report = ask(tmp_path, [*without(objects, "EndpointSlice"), endpoints("hami-scheduler-1")])
    assert codes(report) == ["scheduler-leader-mismatch"]
    assert "points to hami-scheduler-1" in report.verdict


def test_a_lease_that_a_stranger_renews_is_suspected(tmp_path: Path) -> None:
    objects = changed(healthy("2.8.1"), "Lease", lambda object_: object_["spec"].update(holderIdentity="somebody_1"))
    assert only(ask(tmp_path, objects), "scheduler-leader-mismatch").confidence == "suspected"


def test_a_rollout_that_does_not_finish_says_why(tmp_path: Path) -> None:
    pending = {"phase": "Pending", "conditions": [refused("0/1 nodes: didn't match pod anti-affinity rules", 3000)]}
    ended = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "timed out"}
    objects = changed(
        healthy(statuses=(READY, pending)), "Deployment", lambda object_: object_["status"].update(conditions=[ended])
    )
    report = ask(tmp_path, objects)
    assert cause(report).code == "rollout-stuck"
    assert "anti-affinity" in report.verdict


def test_what_the_api_server_refuses_the_scheduler_is_found_in_its_log(tmp_path: Path) -> None:
    report = ask(tmp_path, healthy(), logs=FORBIDDEN * 3)
    assert codes(report) == ["scheduler-forbidden"]
    assert "patch nodes" in report.verdict


def test_a_pod_that_a_quota_forbids_is_no_fault_of_the_roles(tmp_path: Path) -> None:
    line = 'E1121 04:59:00.000000       1 x.go:1] "Failed" err="pods \\"a\\" is forbidden: exceeded quota: cards"\n'
    assert codes(ask(tmp_path, healthy(), logs=line)) == ["healthy"]


# --------------------------------------------------------------------------------------------- configuration


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("schedulerName: hami-scheduler", "schedulerName: other", "no profile is called hami-scheduler"),
        ("filterVerb: filter", "filterVerb: predicates", "filterVerb is 'predicates'"),
        ("bindVerb: bind", "", "bindVerb is ''"),
        ("127.0.0.1:443", "127.0.0.1:8443", "calls https://127.0.0.1:8443"),
        ("https://127", "http://127", "calls http://127.0.0.1:443"),
        ("nodeCacheCapable: true", "nodeCacheCapable: false", "nodeCacheCapable is not true"),
        ("  bindVerb: bind", "  bindVerb: bind\n  ignorable: true", "ignorable"),
        ("httpTimeout: 30s", "httpTimeout: 10s", "httpTimeout 10s"),
        ("  httpTimeout: 30s\n", "", "httpTimeout 5s"),
        ("  - name: nvidia.com/gpumem\n    ignoredByScheduler: true\n", "", "nvidia.com/gpumem"),
        (CONFIG[CONFIG.index("extenders:") :], "", "does not name HAMi's extender"),
    ],
)
def test_a_configuration_that_keeps_hami_from_deciding_is_found(
    tmp_path: Path, before: str, after: str, said: str
) -> None:
    objects = configured(healthy(), CONFIG.replace(before, after))
    report = ask(tmp_path, objects)
    assert codes(report) == ["extender-misconfigured"]
    assert said in cause(report).claim


def test_the_table_shows_what_kube_scheduler_is_told_about_the_extender(tmp_path: Path) -> None:
    row = component(ask(tmp_path, healthy()), "kube-scheduler")
    assert row["object"] == "hami-system/hami-scheduler"
    assert row["details"] == "config.yaml, profile hami-scheduler, asks https://127.0.0.1:443, waits 30s"


def test_the_table_names_who_leads_by_the_lease_the_label_and_the_endpoints(tmp_path: Path) -> None:
    report = ask(tmp_path, healthy())
    assert "hami-scheduler-0_1" in component(report, "lease")["details"]
    assert component(report, "scheduler pod")["details"].endswith("holds the lease, hami.io/scheduler-role=leader")
    assert "answered by hami-scheduler-0," in component(report, "webhook")["details"]


def test_the_timeout_matters_only_where_binds_wait_for_locks(tmp_path: Path) -> None:
    text = CONFIG.replace("httpTimeout: 30s", "httpTimeout: 10s")
    older = configured(healthy("2.5.1"), text)
    assert codes(ask(tmp_path / "a", older)) == ["healthy"]
    never = healthy(flags=["--node-lock-retry-timeout=0"])
    newer = configured(never, text)
    assert codes(ask(tmp_path / "b", newer)) == ["healthy"]


def test_a_policy_of_old_kubernetes_is_read_too(tmp_path: Path) -> None:
    names = ("nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpucores", "nvidia.com/gpumem-percentage")
    extender = {
        "urlPrefix": "https://127.0.0.1:443",
        "filterVerb": "filter",
        "bindVerb": "bind",
        "nodeCacheCapable": True,
        "httpTimeout": 30_000_000_000,
        "managedResources": [{"name": name, "ignoredByScheduler": True} for name in names],
    }
    text = json.dumps({"kind": "Policy", "apiVersion": "v1", "extenders": [extender]})
    objects = configured(healthy(), text, "config.json")
    assert codes(ask(tmp_path, objects)) == ["healthy"]


def test_a_configuration_that_is_no_yaml_is_a_gap(tmp_path: Path) -> None:
    text = "kind: KubeSchedulerConfiguration\nextenders: [}"
    objects = configured(healthy(), text)
    report = ask(tmp_path, objects)
    assert codes(report) == ["healthy"]
    assert [gap.source for gap in report.gaps] == ["kube-scheduler config"]


# ------------------------------------------------------------------------------------- what the process tells


def process(tmp_path: Path, *extra: Object, **recorded: str) -> Report:
    return answer("status", record(tmp_path, [*healthy(), *extra], **recorded), {})


def test_a_pod_that_only_the_scheduler_counts_is_told_with_the_difference(tmp_path: Path) -> None:
    holder = running("holder", "gpu-1", ("GPU-gpu-1", 1024, 0))
    report = process(tmp_path, holder, metrics=scrape(counted("holder", GIB), counted("gone", 8 * GIB)))
    assert codes(report) == ["scheduler-ledger-stale"]
    assert (
        "takes 1 GPU of gpu-1 for used: it still counts 8,192 MiB for ml/gone, which no live pod holds"
        in report.verdict
    )
    assert table(report, "scheduler's count") == [
        {
            "node": "gpu-1",
            "GPUs": "1",
            "HAMi counts": "9216",
            "pods hold": "1024",
            "difference": "8192",
            "only counted": "ml/gone",
        }
    ]


def test_a_scheduler_that_counts_what_pods_hold_is_healthy(tmp_path: Path) -> None:
    holder = running("holder", "gpu-1", ("GPU-gpu-1", 1024, 0))
    report = process(tmp_path, holder, metrics=scrape(counted("holder", GIB)))
    assert (codes(report), report.gaps) == (["healthy"], ())


def test_a_pod_that_it_counts_on_a_node_that_is_gone_keeps_nobody_out(tmp_path: Path) -> None:
    line = counted("gone", GIB).replace('node="gpu-1"', 'node="gpu-9"')
    assert codes(process(tmp_path, metrics=scrape(line))) == ["healthy"]


def test_metrics_that_are_another_programs_are_a_gap(tmp_path: Path) -> None:
    report = process(tmp_path, metrics="go_goroutines 12")
    assert codes(report) == ["healthy"]
    assert [gap.source for gap in report.gaps] == ["scheduler metrics"]


def test_a_panic_while_it_answers_is_told_though_nothing_restarted(tmp_path: Path) -> None:
    line = "2026/11/21 04:59:40 http2: panic serving 127.0.0.1:49194: runtime error: index out of range [1]"
    report = process(tmp_path, logs=line)
    assert (codes(report)[0], report.severity) == ("scheduler-panic", "warning")
    assert "panicked 1 time in 10 min" in report.verdict


LINES = [f"line {number} about wl" for number in range(100)]
LOG = "\n".join(LINES) + "\n"


async def read(there: Cluster, limit_bytes: int = 1024 * 1024) -> ExtenderLines:
    seen = await gather_install(Sources(there))
    return await gather_extender_lines(there, seen.install, ["wl"], limit_bytes)


def test_a_log_that_is_read_whole_leaves_no_gap(tmp_path: Path) -> None:
    found = asyncio.run(read(RecordedCluster.open(record(tmp_path, cluster(), logs=LOG))))
    assert ([line for _, line in found.lines], found.gaps) == (LINES, ())


def test_a_recorded_log_that_is_too_long_is_read_at_its_end(tmp_path: Path) -> None:
    found = asyncio.run(read(RecordedCluster.open(record(tmp_path, cluster(), logs=LOG)), 100))
    assert found.lines[-1][1] == LINES[-1]
    assert [(gap.source, in_english(gap.text)) for gap in found.gaps] == [
        ("log of hami-system/hami-scheduler-0", "the log is too long to be read whole: older lines are missing")
    ]


async def test_panics_of_a_log_that_was_not_read_whole_leave_a_gap(tmp_path: Path) -> None:
    long = "http: panic serving 10.0.0.1:1: one of too many\n" * (MOST_LINES + 1)
    there = RecordedCluster.open(record(tmp_path, cluster(), logs=long))
    seen = await gather_install(Sources(there))
    assert [gap.source for gap in (await gather_panics(there, seen.install))[1]] == [
        "log of hami-system/hami-scheduler-0"
    ]


def test_of_many_replicas_the_one_that_decides_is_read_first(tmp_path: Path) -> None:
    objects = scheduler(replicas=5, statuses=[READY] * 5)
    lease = next(object_ for object_ in objects if object_["kind"] == "Lease")
    lease["spec"]["holderIdentity"] = lease["spec"]["holderIdentity"].replace("hami-scheduler-0", "hami-scheduler-4")
    found = asyncio.run(read(RecordedCluster.open(record(tmp_path, objects, logs=LOG))))
    assert found.lines[0][0].name == "hami-scheduler-4"


async def test_a_live_log_that_is_too_long_is_told_to_lack_its_newest_lines(tmp_path: Path) -> None:
    async with reached(ApiServer.from_recording(record(tmp_path, cluster(), logs=LOG)), tmp_path) as live:
        found = await read(live, 100)
    assert found.lines[0][1] == LINES[0]
    assert [in_english(gap.text) for gap in found.gaps] == [
        "the log is too long to be read whole: its newest lines are missing"
    ]
    assert "logs POD --since 10m" in in_english(found.gaps[0].advice)


@pytest.mark.parametrize("mounts", [True, False])
async def test_of_two_device_configs_the_one_that_the_scheduler_mounts_counts(tmp_path: Path, *, mounts: bool) -> None:
    objects = cluster(config="nvidia: {memoryFactor: 3}\n")
    used = next(item for item in objects if item["kind"] == "ConfigMap")
    left = {**used, "metadata": {**used["metadata"], "name": "a-left-over"}, "data": {"device-config.yaml": "{}"}}
    for item in objects:
        if mounts and item["kind"] == "Pod":
            item["spec"]["volumes"] = [{"name": "v", "configMap": {"name": used["metadata"]["name"]}}]
    seen = await gather_install(Sources(RecordedCluster.open(record(tmp_path, [left, *objects]))))
    told = [in_english(gap.text) for gap in seen.gaps if gap.source == "device config"]
    if mounts:
        assert (seen.config.gpus.memory_factor, told) == (3, [])
    else:
        (said,) = told
        assert "that of a-left-over is used" in said
