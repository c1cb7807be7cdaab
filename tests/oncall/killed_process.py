"""The whole bot in a process of its own, to be killed for good (SIGKILL) by whoever reads its pid.

Each line of standard input is one life, as JSON: {"api_url", "bot_token", "app_token", "store", "recording",
"starts_at", "speed"}; "slack" and "oncall" replace settings. A life is forked from here, so that none imports anything
again; once it takes alerts it tells {"pid", "url"} on a line. Told to stop (SIGTERM), it ends as the bot does; how each
life ended is a line as well.

A life starts at the time of day `starts_at` (seconds since 1970) and its time passes `speed` times as fast: nobody
waits for what is edited every 45 s. Without them it goes by the store's time.
"""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.main import Limits, running
from bot.settings.schema import HttpSettings, Settings, SlackSettings, StoreSettings
from playbooks.playbook import Sources
from tests.oncall.bot import GIVEN

WATCHING_NOTHING = GIVEN.model_copy(update={"pending_minutes": 0})


async def live(life: dict[str, Any]) -> None:
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    recording = Path(life["recording"])

    @asynccontextmanager
    async def recorded(cluster: str) -> AsyncGenerator[Sources]:
        del cluster
        yield Sources(RecordedCluster.open(recording))

    tokens = {name: life[name] for name in ("api_url", "bot_token", "app_token")}
    slack = SlackSettings(**tokens | life.get("slack", {}))
    wanted = Settings(
        slack=slack,
        http=HttpSettings(bind="127.0.0.1:0"),
        store=StoreSettings(url=SecretStr(life["store"])),
        oncall=WATCHING_NOTHING.model_copy(update=life.get("oncall", {})),
    )

    began = time.time()

    def now() -> float:
        return life["starts_at"] + life["speed"] * (time.time() - began)

    limits = Limits(oncall=0.3, deed_s=60, now=now if "speed" in life else None)
    async with running(wanted, slack, recorded, limits) as url:
        print(json.dumps({"pid": os.getpid(), "url": url}), flush=True)  # noqa: T201
        await stopped.wait()


def main() -> None:
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                asyncio.run(live(json.loads(line)))
                status = 0
            finally:
                sys.stderr.flush()
                os._exit(status)
        _, status = os.waitpid(child, 0)
        print(json.dumps(os.waitstatus_to_exitcode(status)), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
