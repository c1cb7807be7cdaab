"""The real cluster of HAMI_BOT_TEST_KUBECONFIG, where one is named, and a namespace of a test's own in it."""

import os
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from bot.kube.client.requests import ApiRequest
from bot.kube.client.writer import Writer

REAL = os.environ.get("HAMI_BOT_TEST_KUBECONFIG", "")  # noqa: TID251  # a test's own


@asynccontextmanager
async def namespace_of_our_own(writer: Writer) -> AsyncGenerator[str]:
    """Made for the test, and removed with all that is in it."""
    name = f"hami-bot-test-{uuid.uuid4().hex[:8]}"
    meta = {"metadata": {"name": name}}
    await send_as_it_is(writer, "POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", **meta})
    try:
        yield name
    finally:
        await send_as_it_is(writer, "DELETE", f"/api/v1/namespaces/{name}")


async def send_as_it_is(writer: Writer, method: str, path: str, content: dict[str, Any] | None = None) -> None:
    """By the bot's own credentials; the bot itself can neither create nor delete anything."""
    request = ApiRequest(method.lower(), "", path, method=method, content=content)
    link = writer._link  # no other way in
    async with await link.send(request, aiohttp.ClientTimeout(total=30)) as answer:
        assert answer.status < 300, await answer.text()
