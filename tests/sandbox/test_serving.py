"""A web application on a loopback port: it ends with every connection closed."""

import asyncio
import gc
import socket

import pytest
from aiohttp import web
from yarl import URL

from sandbox.serving import Served


@pytest.mark.parametrize("turns", range(8))
async def test_a_connection_made_in_the_last_moment_is_closed_too(turns: int) -> None:
    """However far the event loop has come with it; what is left open fails the test as a warning."""
    async with Served(web.Application()) as served:
        address = ("127.0.0.1", URL(served.url).port)
        with socket.create_connection(address), socket.create_connection(address):
            for _ in range(turns):
                await asyncio.sleep(0)
    gc.collect()


async def test_a_port_that_is_taken_is_told_and_nothing_stays_open() -> None:
    async with Served(web.Application()) as first:
        with pytest.raises(OSError, match="in use"):
            await Served(web.Application(), URL(first.url).port or 0).start()
