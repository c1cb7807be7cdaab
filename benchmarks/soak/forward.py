"""The bot as a process whose clocks move on when they are told to: `python -m benchmarks.soak.forward SETTINGS`.

Every line on stdin is a number of seconds by which its clocks jump: every timer that is due within them is due at once.
What the process holds is then one line of JSON on stdout. Time passes as usual in between.
"""

import asyncio
import json
import os
import sys
import time
import traceback
from collections import Counter
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any, Self

import apscheduler.executors.base
import apscheduler.schedulers.base
import apscheduler.triggers.interval

_MONOTONIC, _TIME = time.monotonic, time.time
_ahead_s = 0.0


class _Ahead(datetime):
    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        return cls.fromtimestamp(time.time(), tz)


def _move_clocks() -> None:
    """Before the bot is imported: what it imports by name is then of these clocks too."""
    time.monotonic = lambda: _MONOTONIC() + _ahead_s
    time.time = lambda: _TIME() + _ahead_s
    modules: tuple[Any, ...] = (apscheduler.executors.base, apscheduler.schedulers.base, apscheduler.triggers.interval)
    for module in modules:
        module.datetime = _Ahead


async def _run(settings: Path) -> None:
    from bot.main import serve  # noqa: PLC0415  # after the clocks
    from handlers.cluster_choice import ClusterChoice  # noqa: PLC0415

    obeying = asyncio.create_task(_obey())
    try:
        await serve(ClusterChoice(config=settings))
    except Exception:  # noqa: BLE001  # whatever it is, it is told
        traceback.print_exc()
        os._exit(1)  # the thread that reads the next line keeps this process as long as its parent lives
    obeying.cancel()


async def _obey() -> None:
    global _ahead_s  # noqa: PLW0603  # there is one clock
    while line := await asyncio.to_thread(sys.stdin.readline):
        _ahead_s += float(line)
        await asyncio.sleep(0)
        tasks = Counter(str(getattr(task.get_coro(), "__qualname__", "")) for task in asyncio.all_tasks())
        print(json.dumps({"ahead_s": _ahead_s, "tasks": tasks}), flush=True)


if __name__ == "__main__":
    _move_clocks()
    asyncio.run(_run(Path(sys.argv[1])))
