"""The real bot, in this process or one of its own, the sandbox's Slack before it, a recorded cluster behind it."""

import asyncio
import inspect
import json
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from pydantic import SecretStr

from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.main import Limits, running
from bot.settings.schema import HttpSettings, Settings, SlackSettings, StoreSettings
from playbooks.playbook import Sources
from sandbox.slack import SlackServer
from tests.stores import new_store

RECORDING = Path(__file__).parents[1] / "cases" / "hami-2.10" / "recording.tar.gz"
POD = "s03-card-insufficient-memory"
VERDICT: str = json.loads((RECORDING.parent / "answers.json").read_text())[f"why ml/{POD}"]["verdict"]

Mode = Literal["socket", "http"]
MODES = ["socket", "http"]

PATIENT = Limits(deed_s=60, ping_interval_s=60)
"""On a busy machine the store may take longer than a person waits, and a sign of life longer than Slack does."""


class Here(NamedTuple):
    """The workspace, and the address of the bot's own port."""

    slack: SlackServer
    address: str

    async def command(self, user: str, words: str, told: str, room: str = "gpu-oncall") -> dict[str, Any]:
        """What the person alone is shown for the command."""
        assert (await self.slack.command(user, room, words)).ok
        return await self.slack.wait_for(channel=room, containing=told, user=user)

    async def mention(self, user: str, words: str, told: str, room: str = "gpu-oncall") -> tuple[str, dict[str, Any]]:
        """The thread of the question, and what everybody is shown in it."""
        asked = await self.slack.mention(user, room, words)
        return asked.ts, await self.slack.wait_for(channel=room, containing=told, thread_ts=asked.ts)


AUDIT_KEY = "what-signs-the-audit-log-of-this-bot"


def settings(slack: SlackServer, folder: Path, mode: Mode = "socket", **over: str) -> Settings:
    """The bot's settings for that workspace; `over` replaces values of its Slack part."""
    words = {
        "mode": mode,
        "bot_token": slack.bot_token,
        "app_token": slack.app_token if mode == "socket" else "",
        "signing_secret": slack.signing_secret if mode == "http" else "",
        "api_url": slack.api_url,
    }
    return Settings(
        slack=SlackSettings(**{**words, **over}),
        http=HttpSettings(bind="127.0.0.1:0"),
        store=StoreSettings(url=SecretStr(_store(folder / "bot.db")), audit_key=SecretStr(AUDIT_KEY)),
    )


def _store(path: Path) -> str:
    """The store there; a second bot in the same folder has the first one's."""
    return f"sqlite:///{path}" if path.exists() else new_store(path)


@asynccontextmanager
async def recorded(cluster: str) -> AsyncGenerator[Sources]:
    """The recorded cluster, whatever name is asked for."""
    del cluster
    yield Sources(RecordedCluster.open(RECORDING))


class Gated:
    """The recorded cluster, of which nothing can be read until `gate` is set; `asked` is set when something is tried.

    With `error` that is raised instead of an answer.
    """

    def __init__(self, error: Exception | None = None) -> None:
        self.gate = asyncio.Event()
        self.asked = asyncio.Event()
        self._error = error
        self._cluster = RecordedCluster.open(RECORDING)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    async def get(self, *args: Any, **kwargs: Any) -> Any:
        await self._wait()
        return await self._cluster.get(*args, **kwargs)

    async def list(self, *args: Any, **kwargs: Any) -> Any:
        await self._wait()
        return await self._cluster.list(*args, **kwargs)

    async def log(self, *args: Any, **kwargs: Any) -> Any:
        await self._wait()
        return await self._cluster.log(*args, **kwargs)

    async def _wait(self) -> None:
        self.asked.set()
        await self.gate.wait()
        if self._error:
            raise self._error

    @asynccontextmanager
    async def opener(self, cluster: str) -> AsyncGenerator[Sources]:
        del cluster
        yield Sources(self)


@asynccontextmanager
async def a_bot(
    folder: Path,
    mode: Mode = "socket",
    *,
    opener=recorded,
    slack: SlackServer | None = None,
    limits: Limits = PATIENT,
):
    """A bot that is connected to a workspace, both gone at the end."""
    async with (
        slack or SlackServer(deadline_s=60) as server,
        connected(server, folder, mode, opener, limits) as address,
    ):
        yield Here(server, address)


@asynccontextmanager
async def connected(server: SlackServer, folder: Path, mode: Mode = "socket", opener=recorded, limits=PATIENT):
    """A bot that is connected to this workspace; its own address."""
    wanted = settings(server, folder, mode)
    async with running(wanted, wanted.slack, opener, limits) as address:
        if mode == "http":
            server.delivery = "http"
            server.request_url = f"{address}/slack/events"
        yield address


def environment(folder: Path, slack: SlackServer | None = None, **over: str) -> dict[str, str]:
    """What `hami-bot serve` is told: the settings for that workspace, and `over` (lower-case, after HAMI_BOT_)."""
    words = {"store__url": f"sqlite:///{folder / 'state' / 'bot.db'}", "http__bind": "127.0.0.1:0"}
    if slack:
        words |= {"slack__bot_token": slack.bot_token, "slack__app_token": slack.app_token}
        words |= {"slack__api_url": slack.api_url}
    words |= over
    given = os.environ  # noqa: TID251  # a process of its own is told less
    kept = {name: value for name, value in given.items() if not name.startswith("HAMI_BOT_")}
    return kept | {f"HAMI_BOT_{name.upper()}": value for name, value in words.items()}


@asynccontextmanager
async def a_process(told: dict[str, str]) -> AsyncGenerator[asyncio.subprocess.Process]:
    """`hami-bot serve` with that environment; killed at the end, if it still runs. Its output waits to be read."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bot", "serve", "--recording", str(RECORDING)),
        env=told,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


def staged(stage: Callable[..., AbstractAsyncContextManager[Any]]) -> Callable[..., Callable[..., Any]]:
    """Makes a decorator of a context manager: `@played(mode="http")` stands above `async def test_…(here, *, case)`.

    The test gets what the context manager gives, and by keyword what pytest gives. So does the context manager, for its
    parameters that have no default or that the test has too.
    """
    wanted = inspect.signature(stage).parameters

    def chosen(**options: Any) -> Callable[[Callable[..., Awaitable[None]]], Callable[..., None]]:
        def of_test(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
            own = [each for each in inspect.signature(test).parameters.values() if each.kind is each.KEYWORD_ONLY]
            needed = [
                each for each in wanted.values() if each.default is each.empty and each.kind is not each.VAR_KEYWORD
            ]

            def played(**given: Any) -> None:
                async def play() -> None:
                    shared = {name: value for name, value in given.items() if name in wanted}
                    async with stage(**{**shared, **options}) as found:
                        parts = found if type(found) is tuple else (found,)
                        await test(*parts, **{each.name: given[each.name] for each in own})

                asyncio.run(play())

            played.__name__, played.__doc__, played.__module__ = test.__name__, test.__doc__, test.__module__
            given = {each.name: each.replace(kind=each.KEYWORD_ONLY) for each in (*needed, *own)}
            cast("Any", played).__signature__ = inspect.Signature(list(given.values()))
            return played

        return of_test

    return chosen


@asynccontextmanager
async def a_recorded_bot(
    tmp_path: Path,
    mode: Mode = "socket",
    opener=recorded,
    limits: Limits = PATIENT,
    slack: Callable[[], SlackServer] = SlackServer,
) -> AsyncGenerator[Here]:
    """A bot that is asked over one of the ways to Slack."""
    async with asyncio.timeout(180), a_bot(tmp_path, mode, opener=opener, limits=limits, slack=slack()) as here:
        yield here
        assert here.slack.unknown_methods == []


played = staged(a_recorded_bot)


@staged
@asynccontextmanager
async def held(tmp_path: Path, mode: Mode = "socket", limits: Limits = PATIENT) -> AsyncGenerator[tuple[Here, Gated]]:
    """The same before a cluster of which nothing can be read until the test lets it."""
    cluster = Gated()
    async with a_recorded_bot(tmp_path, mode, cluster.opener, limits) as here:
        yield here, cluster
