"""A bot with an outbox in a process of its own, killed for good (SIGKILL) at the moment that it is told.

Each line of standard input is one life, as JSON: {"api_url", "control_url", "token", "store", "now", "die_at"}. The
moments are counted: before every commit and before every request to Slack, so that the next moment is the one after
whatever the last one did. The life ends with the moment `die_at`, or when everything is said; the answer is "killed" or
"finished", on a line. Lives are forked from here, so that none has to import anything again.
"""

import asyncio
import itertools
import json
import os
import signal
import sys
from typing import Any

import aiohttp
from sqlalchemy import event

from bot.slack.calls import open_client
from bot.slack.gateway import Gateway
from bot.slack.message import File, Message
from bot.slack.outbox import Outbox
from bot.store import open_store

CHANNEL = "C0GPUONC01"
FILES = (File("use.csv", b"gpu-1,100", "Use"),)


async def puts(outbox: Outbox) -> None:
    """What the bot has to say; a bot that is started again says it again."""
    await outbox.put("first", CHANNEL, Message("first", files=FILES), severity="critical")
    await outbox.put("second", CHANNEL, Message("second"), severity="warning")


async def live(life: dict[str, Any]) -> None:
    moments = itertools.count(1)
    now = float(life["now"])

    def moment(*_: object) -> None:
        if next(moments) == life["die_at"]:
            os.kill(os.getpid(), signal.SIGKILL)

    async def told(*_: object) -> None:
        moment()

    async with (
        open_client(life["api_url"], life["token"]) as (client, session),
        aiohttp.ClientSession(headers={"X-Sandbox": "1"}) as control,
        open_store(life["store"], now=lambda: now) as store,
    ):

        async def sleep(seconds: float) -> None:
            nonlocal now
            async with control.post(f"{life['control_url']}/control/advance", json={"seconds": seconds}) as response:
                now = (await response.json())["now"]

        event.listen(store._engine.sync_engine, "commit", moment)
        traces = aiohttp.TraceConfig()
        traces.on_request_start.append(told)
        traces.freeze()
        session.trace_configs.append(traces)
        gateway = Gateway(client, session, clock=lambda: now, sleep=sleep)
        outbox = Outbox(store, gateway, now=lambda: now, clock=lambda: now, jitter=lambda: 1.0)
        await puts(outbox)
        while (wait := await outbox.step(CHANNEL)) is not None:
            await sleep(wait)


def main() -> None:
    for line in sys.stdin:
        life = json.loads(line)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                asyncio.run(live(life))
                status = 0
            finally:
                sys.stderr.flush()
                os._exit(status)
        _, status = os.waitpid(child, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        finished = os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0
        print("killed" if killed else "finished" if finished else "failed", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
