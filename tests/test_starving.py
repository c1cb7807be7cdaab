"""Somebody without a login tries to starve the bot: what they open is closed, and the probes answer throughout."""

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
from slack_bolt.app.async_app import AsyncApp

from bot.endpoint import ALERTS_PATH, Handler, alerts_route
from bot.http import SLACK_PATH, Clients, ConnectionLimits, Slack, serve_http
from bot.triage.webhook import Alert
from sandbox.slack import SlackServer
from tests.slack.bot import a_process, environment

SLOW = b"GET /livez HTTP/1.1\r\nHost: x\r\nX-Slow: "


def signed() -> bytes:
    """Headers as fresh as Slack's, with a signature that is wrong."""
    return b"X-Slack-Request-Timestamp: %d\r\nX-Slack-Signature: v0=%s\r\n" % (time.time(), b"0" * 64)


HALF = b"POST %s HTTP/1.1\r\nHost: x\r\n%sContent-Length: 1048576\r\n\r\n"
LONG = 3600.0
LIMITS = ConnectionLimits(LONG, LONG, LONG, of_one=8, of_all=16, most_bytes=1 << 20)
MOST_GROWTH = 80 * 1024 * 1024

Guest = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Guests:
    """Connections to one port, all closed at the end."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._writers: list[asyncio.StreamWriter] = []

    async def come(self, sent: bytes = b"", address: str = "127.0.0.1") -> Guest:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, local_addr=(address, 0))
        self._writers.append(writer)
        writer.write(sent)
        return reader, writer

    async def asks(self, path: str, address: str = "127.0.0.1") -> str:
        """The status line that a probe is answered."""
        reader, _ = await self.come(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode(), address)
        return (await reader.read()).split(b"\r\n")[0].decode()

    def leave(self) -> None:
        for writer in self._writers:
            writer.transport.abort()


async def is_closed(guest: Guest) -> None:
    """Waits until the bot has closed the connection, whatever it says first."""
    try:
        while await guest[0].read(65536):
            pass
    except ConnectionError:
        return


@asynccontextmanager
async def guests(port: int) -> AsyncGenerator[Guests]:
    those = Guests(port)
    try:
        yield those
    finally:
        those.leave()


@asynccontextmanager
async def port_of(limits: ConnectionLimits = LIMITS, posts: Mapping[str, Handler] = {}) -> AsyncGenerator[Guests]:
    """Guests of a port with these limits, where Slack may post."""
    slack = Slack(lambda: cast("AsyncApp", "nothing gets so far"), "secret", lambda: False)
    async with (
        asyncio.timeout(180),
        serve_http("127.0.0.1:0", str, slack, posts, limits=limits) as address,
        guests(int(address.rpartition(":")[2])) as those,
    ):
        yield those


def memory_of(pid: int, what: str) -> int:
    """Bytes: VmRSS is what the process has in memory, VmHWM the most that it ever had."""
    found = re.search(rf"{what}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1]) * 1024


# ------------------------------------------------------------------------------------------------- the running bot


@pytest.mark.process
async def test_the_probes_answer_while_300_connections_are_slow_and_100_bodies_half_sent(tmp_path: Path) -> None:
    async with asyncio.timeout(180), SlackServer(deadline_s=60) as slack:
        told = environment(tmp_path, slack, slack__mode="http", slack__signing_secret=slack.signing_secret)
        del told["HAMI_BOT_SLACK__APP_TOKEN"]
        async with a_process(told) as process:
            assert process.stderr
            while b"ready at" not in (line := await process.stderr.readline()):
                assert line
            port = int(line.rpartition(b":")[2])
            async with guests(port) as those:
                assert await those.asks("/livez") == "HTTP/1.1 200 OK"
                before = memory_of(process.pid, "VmRSS")
                slow = [await those.come(SLOW) for _ in range(300)]
                head = HALF % (SLACK_PATH.encode(), signed())
                half = [await those.come(head + b"x" * 1_000_000) for _ in range(100)]
                for path in ("/livez", "/readyz"):
                    assert await those.asks(path) == "HTTP/1.1 200 OK"
                await is_closed(slow[0])  # it has waited for longest, and the port has no room for all
                await asyncio.gather(*map(is_closed, half))
                for path in ("/livez", "/readyz"):
                    assert await those.asks(path) == "HTTP/1.1 200 OK"
                grown = memory_of(process.pid, "VmHWM") - before
                assert grown < MOST_GROWTH


# ------------------------------------------------------------------------------------------------------- too slow


@pytest.mark.parametrize("sent", [b"", SLOW], ids=["nothing", "half a header"])
async def test_who_sends_no_whole_header_in_time_is_closed(sent: bytes) -> None:
    async with port_of(LIMITS._replace(header_s=0.01)) as those:
        await is_closed(await those.come(sent))


async def test_the_time_for_a_header_does_not_begin_again_with_each_byte() -> None:
    async with port_of(LIMITS._replace(header_s=0.05)) as those:
        guest = await those.come(SLOW)
        closed = asyncio.create_task(is_closed(guest))
        while not closed.done():
            guest[1].write(b"x")
            await asyncio.sleep(0)


async def test_a_connection_that_asks_no_more_is_closed_after_a_while() -> None:
    async with port_of(LIMITS._replace(idle_s=0.01)) as those:
        guest = await those.come(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await guest[0].readline() == b"HTTP/1.1 200 OK\r\n"
        await is_closed(guest)


async def test_a_slow_header_after_a_request_has_no_more_time_than_a_first_one() -> None:
    async with port_of(LIMITS._replace(header_s=0.05)) as those:
        guest = await those.come(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n" + SLOW)
        assert await guest[0].readline() == b"HTTP/1.1 200 OK\r\n"
        guest[1].write(b"x")
        await is_closed(guest)


async def test_a_body_that_does_not_come_in_time_is_refused() -> None:
    async with port_of(LIMITS._replace(body_s=0.01)) as those:
        reader, _ = await those.come(HALF % (SLACK_PATH.encode(), signed()) + b"x")
        assert await reader.readline() == b"HTTP/1.1 408 Request Timeout\r\n"


# ------------------------------------------------------------------------------------------------------- too many


async def test_of_too_many_from_one_address_the_one_that_has_waited_longest_goes() -> None:
    async with port_of() as those:
        first, *others = [await those.come(SLOW) for _ in range(LIMITS.of_one)]
        assert await those.asks("/livez") == "HTTP/1.1 200 OK"
        await is_closed(first)
        others[-1][1].write(b"\r\n\r\n")
        assert await others[-1][0].readline() == b"HTTP/1.1 200 OK\r\n"


async def test_an_address_with_too_many_costs_no_other_a_connection() -> None:
    async with port_of() as those:
        reader, writer = await those.come(SLOW, "127.0.0.2")
        many = [await those.come(SLOW) for _ in range(5 * LIMITS.of_one)]
        await asyncio.gather(*map(is_closed, many[: -LIMITS.of_one]))
        writer.write(b"\r\n\r\n")
        assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"


async def test_of_too_many_from_many_addresses_the_one_that_has_waited_longest_goes() -> None:
    async with port_of() as those:
        first, *_ = [await those.come(SLOW, f"127.0.0.{2 + number}") for number in range(LIMITS.of_all)]
        assert await those.asks("/livez") == "HTTP/1.1 200 OK"
        await is_closed(first)


async def test_a_request_that_is_being_worked_on_makes_room_for_nobody() -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def take(_: list[Alert]) -> None:
        asked.set()
        await go_on.wait()

    async with port_of(posts={ALERTS_PATH: alerts_route(take, lambda: False, token="t")}) as those:
        body = b'{"version":"4","alerts":[]}'
        head = b"POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer t\r\nContent-Length: %d\r\n\r\n"
        reader, _ = await those.come(head % (ALERTS_PATH.encode(), len(body)) + body)
        await asked.wait()
        many = [await those.come(SLOW) for _ in range(3 * LIMITS.of_one)]
        await asyncio.gather(*map(is_closed, many[: -LIMITS.of_one]))
        go_on.set()
        assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"


async def test_of_half_sent_bodies_that_are_too_much_together_the_one_that_has_waited_longest_goes() -> None:
    async with port_of() as those:
        head = HALF % (SLACK_PATH.encode(), signed())
        first, *_ = [await those.come(head + b"x" * 600_000, f"127.0.0.{2 + number}") for number in range(2)]
        await is_closed(first)


# ------------------------------------------------------------------------------------------------------ not signed


async def test_of_what_bears_no_signature_no_large_body_is_read() -> None:
    async with port_of() as those:
        reader, _ = await those.come(HALF % (SLACK_PATH.encode(), b"") + b"x" * 100)
        assert await reader.readline() == b"HTTP/1.1 401 Unauthorized\r\n"


def test_as_many_connections_as_the_process_may_have_files_are_not_taken() -> None:
    assert ConnectionLimits.of_this_process(files=1024).of_all == 256
    assert ConnectionLimits.of_this_process(files=256).of_all == 64
    assert Clients(ConnectionLimits.of_this_process(files=256)).limits.of_one == 32


async def test_a_request_that_is_no_http_leaves_nothing_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Anybody may send one, and a traceback for each would fill the log."""
    async with serve_http("127.0.0.1:0", str, None) as address:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(address.rpartition(":")[2]))
        writer.write(b"GET /livez HTTP/1.1\r\nHo\x00st: x\r\n\r\n")
        answer = await reader.read()
        writer.close()
        assert answer.startswith(b"HTTP/1.0 400")
    assert [record.getMessage() for record in caplog.records if record.name.startswith("aiohttp")] == []
