"""A changed Deployment rolls out as a cluster was recorded doing it: ReplicaSets, pods, status, revision, leader."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.apiserver import Timing
from sandbox.apiserver.rollouts import Pods, bounds, plan
from tests.sandbox.apiserver_support import Clock, talk

DATA = Path(__file__).parent / "data"
HAMI = "/apis/apps/v1/namespaces/hami-system"
PATH = f"{HAMI}/deployments/hami-scheduler"
PODS = "/api/v1/namespaces/hami-system/pods"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/hami-system/leases/hami-scheduler"
OLD_POD = "hami-scheduler-77cf4dd557-rfsxf"


def cluster() -> dict[str, Any]:
    """The recorded Deployment with the ReplicaSet and the pod that it had, and the Lease that the pod held."""
    deployment = json.loads((DATA / "api" / "get-deployment.json").read_text())["response"]["body"]
    template = json.loads(json.dumps(deployment["spec"]["template"]))
    template["metadata"]["labels"]["pod-template-hash"] = "77cf4dd557"
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "hami-scheduler", "controller": True}
    replica_set = {
        "kind": "ReplicaSet",
        "metadata": {
            "name": "hami-scheduler-77cf4dd557",
            "namespace": "hami-system",
            "uid": "rs-3",
            "generation": 1,
            "creationTimestamp": "2026-11-21T06:17:54Z",
            "annotations": {"deployment.kubernetes.io/revision": "3"},
            "ownerReferences": [owner | {"uid": deployment["metadata"]["uid"]}],
        },
        "spec": {"replicas": 1, "selector": deployment["spec"]["selector"], "template": template},
        "status": {"replicas": 1, "readyReplicas": 1},
    }
    token = {"name": "kube-api-access-25zww", "projected": {}}
    pod = {
        "kind": "Pod",
        "metadata": {
            "name": OLD_POD,
            "namespace": "hami-system",
            "uid": "pod-3",
            "labels": {**template["metadata"]["labels"], "hami.io/scheduler-role": "leader"},
            "ownerReferences": [
                {"kind": "ReplicaSet", "name": "hami-scheduler-77cf4dd557", "uid": "rs-3", "controller": True}
            ],
        },
        "spec": template["spec"] | {"nodeName": "cp-node-01", "priority": 7, "volumes": [token]},
        "status": {"phase": "Running", "hostIP": "127.0.1.1", "conditions": [{"type": "Ready", "status": "True"}]},
    }
    lease = {
        "kind": "Lease",
        "metadata": {"name": "hami-scheduler", "namespace": "hami-system"},
        "spec": {"holderIdentity": f"{OLD_POD}_some-uuid", "leaseTransitions": 1, "leaseDurationSeconds": 15},
    }
    return {
        "deployments.apps": [deployment],
        "replicasets.apps": [replica_set],
        "pods": [pod],
        "leases.coordination.k8s.io": [lease],
    }


RAISE = [
    {"op": "test", "path": "/spec/template/spec/containers/1/command/14", "value": "-v=4"},
    {"op": "replace", "path": "/spec/template/spec/containers/1/command/14", "value": "-v=5"},
]


def stepped(conversation: Any, **options: Any) -> Any:
    """The conversation gets a server whose controllers and clock move by hand only."""
    clock = Clock(2026, 11, 21, 7)

    async def talking(server: Any, client: Any) -> Any:
        def later(seconds: float) -> None:
            clock.advance(seconds)
            server.controllers.settle()

        return await conversation(server, client, later)

    return talk(talking, cluster(), clock=clock, **options)


def test_every_status_that_was_recorded_is_seen_and_in_that_order():
    async def conversation(server, client, later):
        start = (await client.get(PODS)).version
        await client.json_patch(PATH, *RAISE)
        for seconds in (0, 2, 1):
            later(seconds)
        async with client.watch(f"{HAMI}/deployments", resourceVersion=start, timeoutSeconds=1) as events:
            seen = []
            while event := await events.next():
                seen.append(event["object"])
        return seen

    seen = stepped(conversation)
    shown = [
        {
            "revision": int(item["metadata"]["annotations"]["deployment.kubernetes.io/revision"]),
            "generation": item["metadata"]["generation"],
            "counts": {key: value for key, value in item["status"].items() if key != "conditions"},
            "conditions": sorted(
                [condition["type"], condition["status"], condition["reason"]]
                for condition in item["status"]["conditions"]
            ),
        }
        for item in seen
    ]
    recorded = json.loads((DATA / "rollout.json").read_text())
    for row in recorded:  # it was the second rollout of that cluster, ours is the third
        row["revision"] = int(row["revision"]) + 1
        row["generation"] += 1
        row["counts"]["observedGeneration"] += 1
        row["conditions"] = sorted(row["conditions"])
    ours = iter(shown)
    assert [row for row in recorded[1:] if row not in ours] == []  # each is looked for behind the one before it


def test_the_lease_moves_to_the_new_pod_and_so_does_its_role():
    async def conversation(server, client, later):
        await client.json_patch(PATH, *RAISE)
        holders = []
        for seconds in (0, 2, 1, 2):
            later(seconds)
            holders.append((await client.get(LEASE)).body["spec"])
        [pod] = (await client.get(PODS)).body["items"]
        return holders, pod["metadata"]

    holders, pod = stepped(conversation)
    assert [spec["holderIdentity"].partition("_")[0] for spec in holders] == [OLD_POD] * 3 + [pod["name"]]
    assert holders[-1]["leaseTransitions"] == 2
    assert holders[-1]["acquireTime"] == holders[-1]["renewTime"] == "2026-11-21T07:00:05.000000Z"
    assert pod["labels"]["hami.io/scheduler-role"] == "leader"


def profiles_after(rollouts: list[list[str]], recorded_with: list[str]) -> list[tuple[bytes, int]]:
    """The metrics, and the status of a profile, after rollouts to these flags; the recorded pod had others."""

    async def conversation(server, client, later):
        pod = server.object("pods", "hami-system", OLD_POD)
        pod["spec"]["containers"][1] |= {"command": ["scheduler"], "args": recorded_with}
        server.write("pods", pod)
        shown = []
        for flags in rollouts:
            container = {"name": "vgpu-scheduler-extender", "args": flags, "command": ["scheduler"]}
            await client.strategic_patch(PATH, {"spec": {"template": {"spec": {"containers": [container]}}}})
            for seconds in (0, 2, 1):
                later(seconds)
            [pod] = (await client.get(PODS)).body["items"]
            proxy = f"{PODS}/{pod['metadata']['name']}:9395/proxy"
            profile = await client.get(f"{proxy}/debug/pprof/heap")
            shown.append(((await client.get(f"{proxy}/metrics")).content, profile.status))
        return shown

    recorded = {
        "metrics": {("hami-system", OLD_POD, "9395"): b"hami_up 1\n"},
        "profiles": {("hami-system", OLD_POD, "heap"): b"profile"},
    }
    return stepped(conversation, **recorded)


@pytest.mark.parametrize(
    ("recorded_with", "statuses"),
    [([], [200, 200, 200]), (["--profiling"], [404, 200, 404])],
    ids=["profiles without the flag", "profiles by the flag"],
)
def test_a_new_pod_shows_the_metrics_of_the_old_one_and_profiles_where_its_flags_allow(recorded_with, statuses):
    rollouts = [["-v=5"], ["-v=5", "--profiling=true"], ["-v=4"]]
    assert profiles_after(rollouts, recorded_with) == [(b"hami_up 1\n", status) for status in statuses]


def test_a_change_taken_back_brings_the_old_replicaset_back_at_a_new_revision():
    async def conversation(server, client, later):
        await client.json_patch(PATH, *RAISE)
        for seconds in (0, 2, 1):
            later(seconds)
        back = {"op": "replace", "path": "/spec/template/spec/containers/1/command/14", "value": "-v=4"}
        await client.json_patch(PATH, back)
        for seconds in (0, 2, 1):
            later(seconds)
        sets = (await client.get(f"{HAMI}/replicasets")).body["items"]
        deployment = (await client.get(PATH)).body["metadata"]["annotations"]
        return {set_["metadata"]["name"]: set_["spec"]["replicas"] for set_ in sets}, deployment

    sets, annotations = stepped(conversation)
    assert (len(sets), sets["hami-scheduler-77cf4dd557"]) == (2, 1)
    assert annotations["deployment.kubernetes.io/revision"] == "5"


@pytest.mark.parametrize("patch", [{"metadata": {"annotations": {"a": "b"}}}, {"spec": {"paused": True}}])
def test_what_is_not_in_the_template_rolls_nothing_out(patch):
    async def conversation(server, client, later):
        await client.merge_patch(PATH, patch)
        later(9)
        pods = (await client.get(PODS)).body["items"]
        deployment = (await client.get(PATH)).body
        return [pod["metadata"]["name"] for pod in pods], deployment

    names, deployment = stepped(conversation)
    assert names == [OLD_POD]
    assert deployment["status"]["observedGeneration"] == deployment["metadata"]["generation"] == 4


def test_a_deleted_pod_ends_and_is_replaced():
    async def conversation(server, client, later):
        answer = await client.delete(f"{PODS}/{OLD_POD}")
        for seconds in (0, 1, 1):
            later(seconds)
        return answer, (await client.get(PODS)).body["items"]

    answer, pods = stepped(conversation, timing=Timing(ready_s=900, gone_s=1))
    assert "deletionTimestamp" in answer.body["metadata"]
    assert [pod["status"]["phase"] for pod in pods] == ["Pending"]


def test_the_holder_renews_its_lease():
    async def conversation(server, client):
        path = LEASE.rpartition("/")[0]
        async with client.watch(path, resourceVersion=(await client.get(path)).version) as events:
            return (await events.next())["object"]["spec"]

    spec = talk(conversation, cluster(), timing=Timing(renew_s=0.05))
    assert spec["holderIdentity"] == f"{OLD_POD}_some-uuid"
    assert spec["renewTime"].endswith("Z")


def spec(replicas: int, surge: Any = "25%", unavailable: Any = "25%", kind: str = "RollingUpdate") -> dict[str, Any]:
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    return {"replicas": replicas, "strategy": {"type": kind, "rollingUpdate": rolling}}


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "expected"),
    [(1, "25%", "25%", (1, 0)), (10, "25%", "25%", (3, 2)), (4, 0, 0, (0, 1)), (3, 1, "0%", (1, 0))],
)
def test_percentages_are_rounded_up_for_surge_and_down_for_unavailable(replicas, surge, unavailable, expected):
    assert bounds(spec(replicas, surge, unavailable)) == expected


@given(st.integers(0, 9), st.integers(0, 3), st.integers(0, 3), st.integers(0, 9))
def test_a_rollout_ends_within_its_bounds(replicas, surge, unavailable, before):
    """Every pod that is asked for becomes ready at the next step; the old ReplicaSet may be of any size."""
    wanted = spec(replicas, surge, unavailable)
    most, least = (replicas + bounds(wanted)[0], replicas - bounds(wanted)[1])
    new, old = Pods(0, 0, 0), Pods(before, before, before)
    for _ in range(60):
        step = plan(wanted, new, [old])
        grown = max(step.new - new.wanted, 0)
        assert not grown or step.new + old.wanted <= most
        assert step.old[0] == old.wanted or new.ready + step.old[0] >= min(least, new.ready + old.ready)
        new = Pods(step.new, step.new, min(new.wanted, step.new))
        old = Pods(step.old[0], step.old[0], step.old[0])
    assert (new, old.wanted) == (Pods(replicas, replicas, replicas), 0)
