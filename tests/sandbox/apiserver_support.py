"""Talking to the sandbox's API server over its socket, with a clock that stands still."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import aiohttp

from sandbox.apiserver import ApiServer

PATIENCE_S = 120


class Clock:
    """A clock that is moved by hand."""

    def __init__(self, *start: int) -> None:
        self.now = datetime(*(start or (2026, 11, 21, 6, 0, 0)), tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


class Answer(NamedTuple):
    status: int
    headers: Any
    content: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.content)

    @property
    def names(self) -> list[str]:
        """Of the items of a list."""
        return [item["metadata"]["name"] for item in self.body["items"]]

    @property
    def version(self) -> str:
        return self.body["metadata"]["resourceVersion"]


class Client:
    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session = session

    async def send(
        self, method: str, path: str, body: Any = None, kind: str = "application/json", **query: Any
    ) -> Answer:
        data = body if body is None or isinstance(body, str | bytes) else json.dumps(body)
        params = {name: str(value) for name, value in query.items()}
        headers = {"Content-Type": kind} if data is not None else {}
        async with self.session.request(method, path, data=data, params=params, headers=headers) as response:
            return Answer(response.status, response.headers, await response.read())

    async def get(self, path: str, **query: Any) -> Answer:
        return await self.send("GET", path, **query)

    async def post(self, path: str, body: Any, **query: Any) -> Answer:
        return await self.send("POST", path, body, **query)

    async def put(self, path: str, body: Any, **query: Any) -> Answer:
        return await self.send("PUT", path, body, **query)

    async def json_patch(self, path: str, *operations: Any, **query: Any) -> Answer:
        return await self.send("PATCH", path, list(operations), "application/json-patch+json", **query)

    async def merge_patch(self, path: str, patch: Any, **query: Any) -> Answer:
        return await self.send("PATCH", path, patch, "application/merge-patch+json", **query)

    async def strategic_patch(self, path: str, patch: Any, **query: Any) -> Answer:
        return await self.send("PATCH", path, patch, "application/strategic-merge-patch+json", **query)

    async def delete(self, path: str, body: Any = None, **query: Any) -> Answer:
        return await self.send("DELETE", path, body, **query)

    @asynccontextmanager
    async def watch(self, path: str, accept: str = "application/json", **query: Any) -> AsyncIterator["Events"]:
        params = {"watch": "1", **{name: str(value) for name, value in query.items()}}
        async with self.session.get(path, params=params, headers={"Accept": accept}) as response:
            yield Events(response)


class Events:
    """The events of one watch, as they come."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response

    async def next(self) -> Any:
        """The next event; None at the end of the stream."""
        line = await self.response.content.readline()
        return json.loads(line) if line else None

    async def take(self, count: int) -> list[tuple[str, str]]:
        """Type and name of the next events."""
        events = [await self.next() for _ in range(count)]
        return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]

    async def rest(self) -> list[tuple[str, str]]:
        """Type and name, or message, of all events to the end."""
        shown = []
        while event := await self.next():
            item = event["object"]
            shown.append((event["type"], item.get("message") or item["metadata"].get("name", "")))
        return shown


Talk = Callable[[ApiServer, Client], Awaitable[Any]]


def talk(conversation: Talk, objects: Any, **options: Any) -> Any:
    """What `conversation` returns; it gets a running server and a client of it."""

    async def run() -> Any:
        async with ApiServer(objects, **options) as server, aiohttp.ClientSession(server.url) as session:
            return await asyncio.wait_for(conversation(server, Client(session)), PATIENCE_S)

    return asyncio.run(run())
