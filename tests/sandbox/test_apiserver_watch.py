"""A watch tells of every change once, in order, from where its reader stood, or says that it cannot."""

import asyncio
from typing import Any

import aiohttp
import pytest

from sandbox.apiserver import ApiServer, Fault
from tests.sandbox.apiserver_support import PATIENCE_S, Client, talk

PODS = "/api/v1/pods"


def pod(name: str, namespace: str = "ml", phase: str = "Pending", **labels: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": metadata,
        "spec": {"containers": []},
        "status": {"phase": phase},
    }


OBJECTS = {"pods": [pod("a"), pod("b", "other")], "nodes": [{"kind": "Node", "metadata": {"name": "n"}}]}


async def newest(client: Client) -> str:
    return (await client.get(PODS)).version


def test_a_namespace_and_selectors_bound_what_is_told():
    async def conversation(server, client):
        start = await newest(client)
        path = "/api/v1/namespaces/ml/pods"
        async with client.watch(path, resourceVersion=start, fieldSelector="status.phase=Pending") as events:
            server.write("pods", pod("c", "other"))
            server.write("pods", pod("d"))
            server.write("pods", pod("d", phase="Running"))
            server.write("pods", pod("d", phase="Failed"))
            server.write("pods", pod("a", tier="x"))
            return await events.take(3)

    assert talk(conversation, OBJECTS) == [("ADDED", "d"), ("DELETED", "d"), ("MODIFIED", "a")]


def test_an_object_that_enters_a_label_selector_is_added_and_one_that_leaves_it_deleted():
    async def conversation(server, client):
        async with client.watch(PODS, resourceVersion=await newest(client), labelSelector="tier=x") as events:
            server.write("pods", pod("a", tier="x"))
            server.write("pods", pod("a", tier="y"))
            added, deleted = await events.next(), await events.next()
            return added, deleted

    added, deleted = talk(conversation, OBJECTS)
    assert (added["type"], deleted["type"]) == ("ADDED", "DELETED")
    assert deleted["object"]["metadata"]["labels"] == {"tier": "x"}
    assert int(deleted["object"]["metadata"]["resourceVersion"]) > int(added["object"]["metadata"]["resourceVersion"])


def test_bookmarks_move_a_quiet_watch_forward():
    async def conversation(server, client):
        query = {"resourceVersion": await newest(client), "allowWatchBookmarks": "true"}
        async with client.watch(PODS, **query) as events:
            node = server.write("nodes", {"kind": "Node", "metadata": {"name": "m"}})
            while (event := await events.next())["object"]["metadata"]["resourceVersion"] != node["metadata"][
                "resourceVersion"
            ]:
                assert event["type"] == "BOOKMARK"
            return event["type"]

    assert talk(conversation, OBJECTS, bookmark_every_s=0.05) == "BOOKMARK"


def test_a_watch_ends_when_its_time_is_over_with_a_last_bookmark():
    async def conversation(_, client):
        query = {"resourceVersion": await newest(client), "allowWatchBookmarks": "true", "timeoutSeconds": 1}
        async with client.watch(PODS, **query) as events:
            return await events.rest()

    assert talk(conversation, OBJECTS) == [("BOOKMARK", "")]


def test_watches_and_followers_end_when_the_server_closes():
    async def run() -> list[Any]:
        async with aiohttp.ClientSession() as session:
            async with ApiServer(OBJECTS) as server:
                url = server.url
                answer = await session.get(f"{url}{PODS}", params={"watch": "1", "resourceVersion": "1"})
                quiet = await session.get(f"{url}/api/v1/nodes", params={"watch": "1", "resourceVersion": "1"})
            return [await answer.read(), await quiet.read()]

    assert asyncio.run(asyncio.wait_for(run(), PATIENCE_S)) == [b"", b""]


def test_a_watch_that_has_seen_everything_outlives_the_past():
    async def conversation(server, client):
        async with client.watch(PODS, resourceVersion=await newest(client)) as events:
            server.write("pods", pod("c"))
            first = await events.take(1)
            server.write("nodes", {"kind": "Node", "metadata": {"name": "m"}})
            server.forget()
            server.write("pods", pod("d"))
            return first + await events.take(1)

    assert talk(conversation, OBJECTS) == [("ADDED", "c"), ("ADDED", "d")]


def test_pages_are_of_one_moment_and_expire_with_the_past():
    async def conversation(server, client):
        first = await client.get(PODS, limit=1)
        token = first.body["metadata"]["continue"]
        server.write("pods", pod("aa"))
        server.remove("pods", "other", "b")
        second = await client.get(PODS, **{"limit": 1, "continue": token})
        server.forget()
        third = await client.get(PODS, **{"limit": 1, "continue": token})
        return (
            [item["metadata"]["name"] for item in second.body["items"]],
            second.version == first.version,
            third.status,
        )

    assert talk(conversation, OBJECTS) == (["b"], True, 410)


def test_an_outage_cuts_what_is_open_and_refuses_what_comes():
    async def conversation(server, client):
        async with client.watch(PODS) as events:
            first = await events.take(2)
            server.faults.append(Fault(".", "refuse"))
            server.cut_connections()
            with pytest.raises(aiohttp.ClientPayloadError):
                await events.rest()
        with pytest.raises(aiohttp.ServerDisconnectedError):
            await client.get(PODS, watch=1)
        server.faults.clear()
        return first, (await client.get(PODS)).status

    assert talk(conversation, OBJECTS) == ([("ADDED", "a"), ("ADDED", "b")], 200)
