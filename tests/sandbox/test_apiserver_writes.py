"""Objects are created, replaced and deleted by the API server's rules; two writers cannot both win; rights are kept."""

import asyncio
from typing import Any

from sandbox.apiserver import Rule
from tests.sandbox.apiserver_support import Clock, talk

LEASES = "/apis/coordination.k8s.io/v1/namespaces/hami-system/leases"
DEPLOYMENTS = "/apis/apps/v1/namespaces/hami-system/deployments"
PODS = "/api/v1/namespaces/ml/pods"

LEASE = {"metadata": {"name": "hami-bot"}, "spec": {"holderIdentity": "bot-0", "leaseDurationSeconds": 15}}
DEPLOYMENT = {
    "kind": "Deployment",
    "apiVersion": "apps/v1",
    "metadata": {"name": "web", "namespace": "hami-system", "uid": "u-1", "resourceVersion": "5", "generation": 2},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "main", "image": "x"}]},
        },
    },
    "status": {"replicas": 1},
}
POD = {"metadata": {"name": "p", "namespace": "ml"}, "spec": {"containers": [{"name": "main", "image": "x"}]}}
NAMESPACES = [{"kind": "Namespace", "metadata": {"name": name}} for name in ("hami-system", "ml")]
OBJECTS: Any = {"deployments.apps": [DEPLOYMENT], "namespaces": NAMESPACES, "pods": [POD | {"kind": "Pod"}]}


def test_a_created_object_is_given_what_the_server_gives():
    async def conversation(_, client):
        answer = await client.post(LEASES, LEASE)
        return answer, await client.get(f"{LEASES}/hami-bot")

    created, stored = talk(conversation, OBJECTS, clock=Clock())
    assert (created.status, created.body) == (201, stored.body)
    metadata = created.body["metadata"]
    assert (created.body["kind"], created.body["apiVersion"]) == ("Lease", "coordination.k8s.io/v1")
    assert (metadata["namespace"], metadata["creationTimestamp"]) == ("hami-system", "2026-11-21T06:00:00Z")
    assert len(metadata["uid"]) == 36
    assert metadata["resourceVersion"] == "6"


def test_the_generation_counts_changes_of_the_spec_and_a_deployments_annotations_only():
    async def conversation(_, client):
        path = f"{DEPLOYMENTS}/web"
        patches = [
            {"metadata": {"labels": {"a": "b"}}},
            {"metadata": {"annotations": {"a": "b"}}},
            {"spec": {"paused": True}},
            {"status": {"replicas": 7}},
        ]
        return [(await client.merge_patch(path, patch)).body["metadata"]["generation"] for patch in patches]

    assert talk(conversation, OBJECTS) == [2, 3, 4, 4]


def test_an_object_that_was_replaced_by_another_of_its_name_is_a_conflict():
    async def conversation(_, client):
        return await client.merge_patch(f"{DEPLOYMENTS}/web", {"metadata": {"uid": "u-2"}})

    answer = talk(conversation, OBJECTS)
    problem = "Precondition failed: UID in precondition: u-2, UID in object meta: u-1"
    assert answer.status == 409
    assert answer.body["message"] == f'Operation cannot be fulfilled on deployments.apps "web": {problem}'


# ------------------------------------------------------------------------------------------------ leadership


def test_of_many_who_take_over_a_lease_exactly_one_holds_it():
    async def conversation(_, client):
        seen = (await client.post(LEASES, LEASE)).body

        async def take(name: str) -> tuple[str, int]:
            wanted = seen | {"spec": seen["spec"] | {"holderIdentity": name, "leaseTransitions": 1}}
            return name, (await client.put(f"{LEASES}/hami-bot", wanted)).status

        tries = await asyncio.gather(*(take(f"bot-{number}") for number in range(1, 9)))
        return dict(tries), (await client.get(f"{LEASES}/hami-bot")).body["spec"]["holderIdentity"]

    tries, holder = talk(conversation, OBJECTS)
    assert [name for name, status in tries.items() if status == 200] == [holder]
    assert sorted(tries.values()) == [200] + [409] * 7


def test_granted_rights_are_those_of_the_names_and_the_namespace_alone():
    granted = [
        Rule(["get", "list", "watch"], ["pods"], [""]),
        Rule(["get", "patch"], ["deployments"], ["apps"], "hami-system", ["web"]),
    ]

    async def conversation(_, client):
        asked = [
            await client.get("/api/v1/pods"),
            await client.get(f"{PODS}/p/log"),
            await client.get(f"{DEPLOYMENTS}/web"),
            await client.get(f"{DEPLOYMENTS}/other"),
            await client.get(DEPLOYMENTS),
            await client.get("/apis/apps/v1/namespaces/ml/deployments/web"),
            await client.get("/version"),
            await client.get("/apis/apps/v1"),
        ]
        return [answer.status for answer in asked]

    assert talk(conversation, OBJECTS, granted=granted) == [200, 403, 200, 403, 403, 403, 200, 200]


def test_a_review_tells_what_a_request_would_meet():
    async def conversation(server, client):
        server.access.refused.append(Rule(["patch"], ["deployments"], ["apps"], "hami-system"))
        allowed = []
        for namespace in ("hami-system", "ml"):
            attributes = {"verb": "patch", "group": "apps", "resource": "deployments", "namespace": namespace}
            review = {"kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": attributes}}
            answer = await client.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
            allowed.append(answer.body["status"]["allowed"])
        return allowed

    assert talk(conversation, OBJECTS) == [False, True]
