"""The server: one port on 127.0.0.1 for the app, the page and the tests."""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from aiohttp import web

from sandbox.serving import Served
from sandbox.slack.clock import Clock, RealClock
from sandbox.slack.content import strings_of
from sandbox.slack.control import Control
from sandbox.slack.delivery import Ack
from sandbox.slack.endpoints import Endpoints
from sandbox.slack.faults import FaultPlan
from sandbox.slack.guard import guard
from sandbox.slack.journal import Journal
from sandbox.slack.people import People
from sandbox.slack.seed import Seed
from sandbox.slack.ui import Ui
from sandbox.slack.webapi import WebApi
from sandbox.slack.workspace import Record, Workspace
from sandbox.slack.world import World

T = TypeVar("T")
_BODY_MOST = 256 * 1024 * 1024  # bytes; uploads are large


class SlackServer:
    """A Slack workspace on 127.0.0.1 with one app installed. Used as a context manager; the URLs are set inside.

    `deadline_s` is the time for an ack and for a trigger id: three seconds in Slack, longer where a busy machine must
    not matter. `strict` (the default): scopes, rate limits and block rules are enforced. All deadlines run on `clock`.
    What people do (`say`, `mention`, `edit`, `command`, `click`, `shortcut`, `submit`, `close_view`, `open_home`,
    `react`) is what the page does, and comes back with the app's Ack. Users and channels are given by id or by name.
    """

    def __init__(
        self,
        port: int = 0,
        *,
        strict: bool = True,
        clock: Clock | None = None,
        seed: Seed | None = None,
        delivery: Literal["socket", "http"] = "socket",
        deadline_s: float = 3,
    ) -> None:
        self._world = World(seed or Seed(), clock or RealClock(), strict=strict, deadline_s=deadline_s)
        self._world.delivery.mode = delivery
        self._people = People(self._world)
        self._port = port
        self._closing = asyncio.Event()
        self.url = ""
        self.api_url = ""

    async def __aenter__(self) -> Self:
        world = self._world
        endpoints = Endpoints(world, self._closing)
        app = web.Application(middlewares=[guard, endpoints.spoiled], client_max_size=_BODY_MOST)
        app.add_routes([web.route("*", "/api/{method}", WebApi(world).handle)])
        app.add_routes([web.get("/link", world.sockets.handle), web.get("/link/", world.sockets.handle)])
        app.add_routes(endpoints.routes())
        app.add_routes(Ui(world, self._people, self._closing).routes())
        app.add_routes(Control(world, self._people).routes())
        self._served = Served(app, self._port)
        await self._served.start()
        self.url = self._served.url
        self.api_url = f"{self.url}/api/"
        world.url = world.files.base_url = self.url
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._world.changes.end()
        await self._world.sockets.close()
        await self._world.delivery.close()
        await self._served.stop()
        self._world.close()

    # what a test reads

    @property
    def bot_token(self) -> str:
        return self._world.credentials.bot_token

    @property
    def app_token(self) -> str:
        return self._world.credentials.app_token

    @property
    def signing_secret(self) -> str:
        return self._world.credentials.signing_secret

    @property
    def workspace(self) -> Workspace:
        return self._world.workspace

    @property
    def journal(self) -> Journal:
        return self._world.journal

    @property
    def faults(self) -> FaultPlan:
        return self._world.faults

    @property
    def clock(self) -> Any:
        """The clock that was given; a VirtualClock has `advance`."""
        return self._world.clock

    @property
    def connections(self) -> int:
        """How many websockets the app has."""
        return len(self._world.sockets)

    @property
    def connected(self) -> bool:
        return self._world.connected

    @property
    def unknown_methods(self) -> list[str]:
        """Methods that were called and that Slack, as far as this server knows, does not have."""
        return self._world.unknown_methods

    @property
    def unknown_blocks(self) -> set[str]:
        """Kinds of blocks that this workspace refuses, as one that does not have them yet; to be added to."""
        return self._world.unknown_blocks

    def messages(self, channel: str, user: str = "", thread_ts: str = "") -> list[Record]:
        """What a user sees in a channel or a thread, oldest first; the first member's view unless `user` is given."""
        workspace = self._world.workspace
        channel_id = workspace.channel_id(channel)
        viewer = workspace.user_id(user) if user else workspace.channels[channel_id].members[0]
        return workspace.seen_by(viewer, channel_id, thread_ts)

    @property
    def statuses(self) -> dict[tuple[str, str], str]:
        """What the app says it is doing, by channel and thread ts."""
        return self._world.statuses

    def held(self) -> dict[str, int]:
        """How many of the things that come and go are kept; each has a ceiling."""
        world = self._world
        return {
            "response_urls": len(world.responses),
            "trigger_ids": len(world.triggers),
            "journal": len(world.journal.entries),
        }

    def dm(self, user: str) -> str:
        """The id of the conversation of a user with the bot."""
        return self._world.workspace.open_dm(self._world.workspace.user_id(user)).id

    def group(self, *users: str) -> str:
        """The id of the group direct message of these users and the bot."""
        workspace = self._world.workspace
        return workspace.open_group([workspace.user_id(user) for user in users]).id

    def views(self, user: str) -> list[Record]:
        """The modals that a user has open, the one on top last."""
        return self._world.views.stack(self._world.workspace.user_id(user))

    def home(self, user: str) -> Record | None:
        return self._world.views.home(self._world.workspace.user_id(user))

    async def wait_for(
        self,
        look: Callable[[], T | None] | None = None,
        *,
        channel: str = "",
        containing: str = "",
        user: str = "",
        thread_ts: str = "",
        seconds: float = 180,
    ) -> Any:
        """The first true value of `look`, asked again at every change of anything in the workspace or the journal.

        Without it: the newest message in `channel` that has `containing` in its text or blocks, that `user` (anybody,
        unless given) sees, in that thread. Raises TimeoutError, saying what there was, after `seconds` of real time.
        """
        try:
            return await self._world.changes.wait(
                look or (lambda: self._find(channel, containing, user, thread_ts)), seconds
            )
        except TimeoutError as error:
            raise TimeoutError(self._what_there_is(channel, containing)) from error

    def _find(self, channel: str, containing: str, user: str, thread_ts: str) -> Record | None:
        workspace = self._world.workspace
        room = workspace.channels[workspace.channel_id(channel)]
        viewer = workspace.user_id(user) if user else ""
        newest_first = sorted(workspace.everything(room.id), key=lambda found: -float(found[1]["ts"]))
        for only_for, message in newest_first:
            hidden = viewer and only_for not in {"", viewer}
            elsewhere = thread_ts and message.get("thread_ts") != thread_ts
            if not hidden and not elsewhere and containing in "\n".join(strings_of(message)):
                return workspace.dressed(room, message) | ({"ephemeral": True} if only_for else {})
        return None

    def _what_there_is(self, channel: str, containing: str) -> str:
        last = [f"{entry.kind} {entry.title} {entry.error}".strip() for entry in self.journal.entries][-8:]
        texts = []
        if channel:
            room = self._world.workspace.channel_id(channel)
            texts = [message["text"] for _, message in self._world.workspace.everything(room)][-5:]
        return f"waited for {containing!r} in {channel!r}; the last messages there: {texts}; in the journal: {last}"

    # what people do

    async def say(self, user: str, channel: str, text: str, *, thread_ts: str = "", broadcast: bool = False) -> Ack:
        """Posts a message; `broadcast`: a reply that is also sent to the channel."""
        return await self._people.say(user, channel, text, thread_ts=thread_ts, broadcast=broadcast)

    async def edit(self, user: str, channel: str, ts: str, text: str) -> Ack:
        """Changes what a person wrote; a mention of the bot is "@hami-bot" in the text, as in `say`."""
        return await self._people.edit(user, channel, ts, text)

    async def alert(self, channel: str, message: Record, *, thread_ts: str = "") -> str:
        """Posts as another app does by its incoming webhook (see sandbox.slack.strangers); returns the ts."""
        return await self._people.alert(channel, message, thread_ts=thread_ts)

    async def mention(self, user: str, channel: str, text: str, *, thread_ts: str = "") -> Ack:
        """Says the text to the bot: "@hami-bot <text>"."""
        return await self._people.say(user, channel, f"@{self._world.seed.app.name} {text}", thread_ts=thread_ts)

    async def command(self, user: str, channel: str, text: str = "", *, command: str = "") -> Ack:
        """Sends the app's first command, unless another is given, with a text."""
        return await self._people.command(user, channel, command or self._world.seed.app.commands[0].command, text)

    async def click(
        self, user: str, action_id: str, *, channel: str = "", message_ts: str = "", view_id: str = "", **chosen: Any
    ) -> Ack:
        """Uses the element with this action id; a button sends its own value, `chosen` is what a person picked."""
        where = {"channel": channel, "message_ts": message_ts, "view_id": view_id}
        return await self._people.act(user, self._people.element(user, action_id, **where) | chosen, **where)

    async def suggest(
        self, user: str, action_id: str, typed: str, *, channel: str = "", message_ts: str = "", view_id: str = ""
    ) -> Ack:
        """Types into an external select; the Ack's payload has the app's options."""
        where = {"channel": channel, "message_ts": message_ts, "view_id": view_id}
        block_id = self._people.element(user, action_id, **where)["block_id"]
        return await self._people.suggest(user, action_id, block_id, typed, **where)

    async def shortcut(self, user: str, callback_id: str, *, channel: str = "", message_ts: str = "") -> Ack:
        return await self._people.shortcut(user, callback_id, channel=channel, message_ts=message_ts)

    async def submit(self, user: str, values: dict[str, Any], *, view_id: str = "") -> Ack:
        """Submits the modal on top, or the one that is named, with Slack's `state.values`."""
        return await self._people.submit(user, view_id or self.views(user)[-1]["id"], values)

    async def close_view(self, user: str, *, view_id: str = "") -> Ack:
        return await self._people.close(user, view_id or self.views(user)[-1]["id"])

    async def open_home(self, user: str) -> Ack:
        return await self._people.open_home(user)

    async def react(self, user: str, channel: str, ts: str, name: str, *, remove: bool = False) -> Ack:
        return await self._people.react(user, channel, ts, name, remove=remove)

    # what Slack does

    @property
    def delivery(self) -> Literal["socket", "http"]:
        return self._world.delivery.mode

    @delivery.setter
    def delivery(self, mode: Literal["socket", "http"]) -> None:
        self._world.delivery.mode = mode
        self._world.tell_connected()

    @property
    def request_url(self) -> str:
        return self._world.delivery.request_url

    @request_url.setter
    def request_url(self, url: str) -> None:
        self._world.delivery.request_url = url
        self._world.tell_connected()

    async def verify_request_url(self) -> bool:
        """Sends the url_verification challenge; returns whether the app answered it."""
        return await self._world.delivery.verify_request_url()

    async def disconnect(self, reason: str = "refresh_requested", *, oldest_only: bool = False) -> None:
        """Asks the app's sockets to go, or one as Slack does when it recycles them; see Sockets.disconnect."""
        await self._world.sockets.disconnect(reason, oldest_only=oldest_only)

    def cut(self) -> None:
        """Loses every websocket at once, without a word."""
        self._world.sockets.cut()
