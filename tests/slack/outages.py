"""A port that is free, and what the bot says of its readiness on it."""

import asyncio
import contextlib
import random
import socket

import aiohttp


def free_port() -> str:
    """Below the ports that the kernel gives to whoever takes any, so that no other test gets it meanwhile."""
    while True:
        port = random.randrange(10_000, 32_000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return f"127.0.0.1:{port}"


async def readiness(bind: str) -> str:
    """What /readyz says once it answers that the bot is not ready."""
    async with aiohttp.ClientSession() as session:
        while True:
            try:
                async with session.get(f"http://{bind}/readyz") as answer:
                    if answer.status == 503:
                        return await answer.text()
            except aiohttp.ClientConnectionError:
                await asyncio.sleep(0.02)
