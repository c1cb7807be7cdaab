"""Whatever happens beside a pass, what is due is undone."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from bot.kube.writer import Writer
from bot.store import StoreError
from handlers.changes.lead import Pace, Watch, lead
from handlers.changes.sites import Site, Sites
from tests.changes.rig import Rig, rig

QUICK = Pace(pass_s=0.05, again_s=0.05, beside_s=0.05)


class Beside:
    """Hangs, or breaks the first time; `happened` is set when it did."""

    def __init__(self, error: Exception | None) -> None:
        self.happened = asyncio.Event()
        self._error = error

    async def __call__(self) -> None:
        first, _ = not self.happened.is_set(), self.happened.set()
        if self._error is None:
            await asyncio.Event().wait()
        elif first:
            raise self._error


def watched(here: Rig, beside: Callable[[], Awaitable[None]]) -> Watch:
    """What leads the rig's cluster; a Lease of its own beside the Deployment."""

    @asynccontextmanager
    async def opened(_: str) -> AsyncIterator[Writer]:
        yield cast(Writer, here.writer)

    def site(cluster: str, writer: Writer) -> Site:
        unused: Any = None  # a pass tells through its changer's own journal
        return Site(cluster, writer, here.bot(), unused, asyncio.Lock())

    async def namespace(_: Site) -> str:
        return "kube-system"

    return Watch("lab", Sites(opened, site), namespace, beside, "me", QUICK)


@pytest.mark.parametrize("error", [None, StoreError("locked")], ids=["a database that hangs", "one that fails"])
def test_what_is_due_is_undone_whatever_happens_beside(error: Exception | None, tmp_path: Path) -> None:
    async def run() -> None:
        beside = Beside(error)
        async with rig(tmp_path) as here:
            await here.raise_(here.bot())
            leading = asyncio.create_task(lead(watched(here, beside)))
            await asyncio.wait_for(beside.happened.wait(), 10)
            here.now += 3600
            async with asyncio.timeout(60):
                while "-v=4" not in await here.words():  # noqa: ASYNC110  # only the cluster can tell
                    await asyncio.sleep(0.02)
            leading.cancel()
            await asyncio.gather(leading, return_exceptions=True)

    asyncio.run(run())
