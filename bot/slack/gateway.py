"""The only module that calls Slack: paced, every failure a `SlackFailure`, nothing said twice by a retry.

A post is repeated only when it was certainly not made, because Slack has no idempotency keys: see `Gateway.find`.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

import aiohttp
import msgspec
from slack_sdk.web.async_client import AsyncWebClient

from bot.slack.calls import INTERACTIVE, TIMEOUT, UPLOAD_TIMEOUT, Calls, Json
from bot.slack.failures import Problem, SlackFailure, answered
from bot.slack.message import File, Message, said_in
from bot.slack.render.degrade import degraded
from bot.texts import Text, in_english, spaced

T = TypeVar("T")

LOOKING = 60.0
"""Seconds that a look through a channel's history may wait for its turns."""
EVENT_TYPE = "hami_bot"
_PAGE = 999  # the most that conversations.history and .replies give at once
PAGES = 20
"""How many pages of a channel's history are looked through: older messages are not found."""
_UNKNOWN_KIND = frozenset({"invalid_blocks", "unsupported_block"})
"""Slack's words for a kind of block that the workspace does not have."""
_TOO_MUCH = _UNKNOWN_KIND | {"invalid_blocks_format", "invalid_attachments", "only_one_table_allowed"}
"""Slack's words for blocks that it does not take for what they are."""


class Identity(msgspec.Struct, frozen=True):
    """Who the bot is in which workspace, and which scopes it has there. `enterprise_id` is the workspace's Grid, or
    empty; `is_org_wide`: the app is installed for the whole Grid.
    """

    team_id: str
    team: str
    user_id: str
    bot_id: str
    url: str
    scopes: frozenset[str]
    enterprise_id: str = ""
    is_org_wide: bool = False


class SlackUser(NamedTuple):
    """A user of Slack: `teams` are ids of workspaces and the Grid, `app_id` a bot's app, `name` the login name."""

    teams: frozenset[str]
    is_guest: bool = False
    app_id: str = ""
    name: str = ""
    zone: str = ""


class Keyed(NamedTuple):
    """A message of the bot as Slack has it, with the key under which it was posted."""

    key: str
    ts: str
    text: str
    blocks: list[Json]


class Posted(NamedTuple):
    """Where a posted message is. `channel` is the conversation's own id, also when it was posted to a user."""

    channel: str
    ts: str


class Gateway:
    """Everything that the bot does in Slack. Every method raises only SlackFailure. `client` is built with
    `retry_handlers=[]`. `newer`: newer kinds of blocks are tried until Slack refuses one; then this process sends no
    more of them.
    """

    def __init__(
        self,
        client: AsyncWebClient,
        session: aiohttp.ClientSession,
        *,
        newer: bool = True,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._calls = Calls(client, session, clock, sleep)
        self._conversations: dict[str, str] = {}
        self._bot_id = ""
        self._takes_newer = newer

    async def identity(self) -> Identity:
        """Who the token belongs to, and its scopes. After it, `find` takes no other app's message for the bot's."""
        answer, headers = await self._calls.call("auth.test")
        scopes = frozenset(scope.strip() for scope in headers.get("x-oauth-scopes", "").split(",") if scope.strip())
        names = ("team_id", "team", "user_id", "bot_id", "url")
        found = Identity(
            *(str(answer.get(name, "")) for name in names),
            scopes=scopes,
            enterprise_id=str(answer.get("enterprise_id") or ""),
            is_org_wide=answer.get("is_enterprise_install") is True,
        )
        self._bot_id = found.bot_id
        return found

    async def open_socket(self, app_token: str) -> str:
        """The address of one Socket Mode connection, which Slack accepts once, within 30 s."""
        answer, _ = await self._calls.call("apps.connections.open", {"token": app_token})
        return str(answer.get("url") or "")

    async def post(self, channel: str, message: Message, *, thread_ts: str = "", key: str = "") -> Posted:
        """Posts the message, in a simpler form if Slack takes no other, and its files into its thread. `channel` may be
        a user's id. Files that cannot be shared are named in the thread and raise nothing.
        """
        posted, form = await self.say(channel, message, thread_ts=thread_ts, key=key)
        try:
            await self.upload(posted.channel, form.files, thread_ts=thread_ts or posted.ts)
        except SlackFailure as failure:
            with contextlib.suppress(SlackFailure):
                names = ", ".join(f"`{file.name}`" for file in form.files)
                note = Message(
                    f"{names} could not be attached: {in_english(failure.message)}. {in_english(failure.hint)}"
                )
                await self.say(posted.channel, note, thread_ts=thread_ts or posted.ts)
        return posted

    async def say(
        self, channel: str, message: Message, *, thread_ts: str = "", key: str = "", patience: float = INTERACTIVE
    ) -> tuple[Posted, Message]:
        """Posts the message without its files, in the channel where the thread takes no reply. Gives its place and the
        form that Slack took, whose files are to be shared.
        """

        async def send(thread: str, form: Message) -> Posted:
            body: Json = {**_content(form), "channel": channel, "unfurl_links": False, "unfurl_media": False}
            if thread:
                body["thread_ts"] = thread
                body |= {"reply_broadcast": True} if message.broadcast else {}
            if key:
                body["metadata"] = {"event_type": EVENT_TYPE, "event_payload": {"key": key}}
            answer, _ = await self._calls.call("chat.postMessage", body=body, channel=channel, patience=patience)
            if not answer.get("ts"):
                raise answered("chat.postMessage", 200, {}, None)
            posted = Posted(str(answer.get("channel") or channel), str(answer["ts"]))
            if posted.channel != channel:
                self._conversations[channel] = posted.channel
            return posted

        return await _or_in_channel(lambda thread: self.fit(message, partial(send, thread)), thread_ts)

    async def update(self, channel: str, ts: str, message: Message, *, patience: float = INTERACTIVE) -> None:
        """Replaces the text and blocks of a message of the bot. Files are not touched."""

        async def send(form: Message) -> None:
            body: Json = {"blocks": [], **_content(form), "channel": channel, "ts": ts}
            await self._calls.call("chat.update", body=body, channel=channel, patience=patience)

        channel = await self._conversation(channel)
        await self.fit(message, send)

    async def ephemeral(self, channel: str, user: str, message: Message, *, thread_ts: str = "") -> None:
        """Shows the message to one user, without files; in the channel where the thread takes no reply."""

        async def send(thread: str, form: Message) -> None:
            body: Json = {**_content(form), "channel": channel, "user": user}
            if thread:
                body["thread_ts"] = thread
            await self._calls.call("chat.postEphemeral", body=body, channel=channel)

        await _or_in_channel(lambda thread: self.fit(message, partial(send, thread)), thread_ts)

    async def fit(self, message: Message, send: Callable[[Message], Awaitable[T]]) -> tuple[T, Message]:
        """Sends the message, or the first simpler form of it that Slack takes; gives that form as well."""
        forms = self._forms(message)
        form, is_refused = next(forms), False
        while True:
            try:
                sent = await send(form)
            except SlackFailure as failure:
                is_too_much = failure.problem is Problem.TOO_LONG or failure.error in _TOO_MUCH
                simpler = next(forms, None) if is_too_much else None
                if simpler is None:
                    raise
                # What is refused in the next form, too, is not, or not alone, for its kinds of blocks.
                is_newer = bool(message.newer) and form.blocks == message.newer
                form, is_refused = simpler, is_newer and failure.error in _UNKNOWN_KIND
            else:
                self._takes_newer = self._takes_newer and not is_refused
                return sent, form

    def _forms(self, message: Message) -> Iterator[Message]:
        """The message with its newer blocks, where the workspace takes these, without them, and ever simpler."""
        if message.newer and self._takes_newer:
            yield message._replace(blocks=message.newer, newer=())
        plain = message._replace(newer=())
        yield plain
        yield from degraded(plain)

    async def upload(self, channel: str, files: Sequence[File], *, thread_ts: str = "") -> None:
        """Shares the files, if there are any, in the channel or thread as one message."""
        staged = [(await self.stage(file), file.title) for file in files]
        if staged:
            await self.share(await self._conversation(channel), staged, thread_ts=thread_ts)

    async def stage(self, file: File) -> str:
        """Uploads the file's bytes to Slack, where nobody sees them until they are shared; gives the file's id."""
        method = "files.getUploadURLExternal"
        args: Json = {"filename": file.name, "length": len(file.content)}
        if file.alt_text:
            args["alt_txt"] = file.alt_text
        answer, _ = await self._calls.call(method, args)
        url = str(answer.get("upload_url") or "")
        # Staging again does no harm, so whatever happens to the bytes is a transient failure.
        status, headers, body = await self._calls.send(
            url, file.content, "application/octet-stream", "the upload", UPLOAD_TIMEOUT, repeatable=True
        )
        if status != 200 or isinstance(body, dict) or str(body).startswith("<"):  # Slack says "OK - 1234"
            raise answered("the upload", status, headers, body, repeatable=True)
        return str(answer.get("file_id") or "")

    async def share(self, channel: str, files: Sequence[tuple[str, str]], *, thread_ts: str = "") -> None:
        """Makes staged files, as (id, title), one message, in the channel where the thread takes no reply. Not to be
        repeated without a look (`shared`).
        """
        listed = [{"id": file_id, "title": title} for file_id, title in files]

        async def complete(thread: str) -> None:
            args = {"files": json.dumps(listed), "channel_id": channel} | ({"thread_ts": thread} if thread else {})
            await self._calls.call("files.completeUploadExternal", args)

        await _or_in_channel(complete, thread_ts)

    async def shared(self, channel: str, file_ids: Collection[str], *, thread_ts: str, oldest: float = 0.0) -> set[str]:
        """Which of the files stand in the thread, or were shared in the channel since `oldest` (seconds since 1970)."""
        conversation, wanted = await self._conversation(channel), set(file_ids)
        found: set[str] = set()
        for place, since in ((thread_ts, 0.0), ("", oldest)):
            async for message in self._messages(conversation, thread_ts=place, oldest=since):
                found |= {str(file.get("id")) for file in cast("list[Json]", message.get("files") or [])}
            if wanted <= found:
                break
        return found & wanted

    async def find(self, channel: str, key: str, *, oldest: float, thread_ts: str = "") -> Posted | None:
        """The bot's message with that key since `oldest` (seconds since 1970), None without one in `PAGES` pages."""
        conversation = await self._conversation(channel)
        async for message in self._keyed(conversation, thread_ts=thread_ts, oldest=oldest):
            if message.key == key:
                return Posted(conversation, message.ts)
        return None

    async def look_into(self, channel: str) -> None:
        """Raises SlackFailure where the bot may not post, as far as the bot's scopes show that."""
        try:
            await self.find(channel, "", oldest=time.time())
        except SlackFailure as failure:
            if failure.error != "missing_scope":
                raise

    async def keyed(self, channel: str, prefix: str, *, oldest: float) -> list[Keyed]:
        """The bot's messages in the channel since `oldest`, outside threads, whose keys begin with the prefix."""
        conversation = await self._conversation(channel)
        return [message async for message in self._keyed(conversation, oldest=oldest) if message.key.startswith(prefix)]

    async def head(self, channel: str, thread_ts: str) -> str:
        """All text of a thread's first message (see `said_in`); empty if the message does not exist."""
        args: Json = {"channel": channel, "ts": thread_ts, "limit": 1}
        answer, _ = await self._calls.call("conversations.replies", args, verb="GET")
        found = cast("list[Json]", answer.get("messages") or [])
        return next((said_in(message) for message in found if message.get("ts") == thread_ts), "")

    async def join(self, channel: str) -> None:
        """Makes the bot a member of a public channel, if the scope channels:join was granted."""
        await self._calls.call("conversations.join", {"channel": channel})

    async def members(self, group: str) -> frozenset[str]:
        """The user ids of a user group's members."""
        answer, _ = await self._calls.call("usergroups.users.list", {"usergroup": group}, verb="GET")
        return frozenset(map(str, cast("list[Any]", answer.get("users") or [])))

    async def person(self, user: str) -> SlackUser:
        """The user with this id, also of another organisation; needs the scope users:read."""
        answer, _ = await self._calls.call("users.info", {"user": user}, verb="GET")
        found: Json = answer.get("user") or {}
        grid: Json = found.get("enterprise_user") or {}
        profile: Json = found.get("profile") or {}
        teams = (found.get("team_id"), grid.get("enterprise_id"), *cast("list[Any]", grid.get("teams") or []))
        is_guest = bool(found.get("is_restricted") or found.get("is_ultra_restricted"))
        own = frozenset(str(team) for team in teams if team)
        app = str(profile.get("api_app_id") or "")
        return SlackUser(own, is_guest, app, str(found.get("name") or ""), str(found.get("tz") or ""))

    async def react(self, channel: str, ts: str, name: str, *, remove: bool = False) -> None:
        """Adds the bot's reaction, which may be there already; with `remove` removes it, if it is there."""
        method, fine = ("reactions.remove", "no_reaction") if remove else ("reactions.add", "already_reacted")
        try:
            await self._calls.call(method, {"channel": channel, "timestamp": ts, "name": name})
        except SlackFailure as failure:
            if failure.error != fine:
                raise

    async def open_view(self, trigger_id: str, view: Json) -> str:
        """Opens a modal; gives its id. A trigger serves once, for about 3 s: open something at once, update later."""
        answer, _ = await self._calls.call("views.open", body={"trigger_id": trigger_id, "view": view})
        return str(cast("Json", answer.get("view") or {}).get("id", ""))

    async def update_view(self, view_id: str, view: Json) -> None:
        await self._calls.call("views.update", body={"view_id": view_id, "view": view})

    async def publish_home(self, user: str, view: Json) -> None:
        await self._calls.call("views.publish", body={"user_id": user, "view": view})

    async def respond(
        self,
        url: str,
        message: Message,
        *,
        replace: bool = False,
        in_channel: bool = False,
        delete: bool = False,
        thread_ts: str = "",
        timeout: float = TIMEOUT.total or 15.0,  # noqa: ASYNC109  # it is aiohttp's, which closes the connection
    ) -> None:
        """Uses a response_url once (of 5 times in 30 minutes): one request, no second try and no simpler form."""
        body: Json = {**_content(message), "response_type": "in_channel" if in_channel else "ephemeral"}
        body |= {"replace_original": replace, "unfurl_links": False, "unfurl_media": False}
        if thread_ts:
            body["thread_ts"] = thread_ts
        if delete:
            body = {"delete_original": True}
        limits = aiohttp.ClientTimeout(total=timeout, sock_connect=TIMEOUT.sock_connect)
        status, headers, answer = await self._calls.send(
            url, json.dumps(body).encode(), "application/json; charset=utf-8", "response_url", limits
        )
        done = cast("Json", answer).get("ok") if isinstance(answer, dict) else answer in ("ok", "")
        if status == 200 and done:
            return
        # A refusal is a bare word or JSON; 404 and 410 mean used up or expired, whatever they say.
        word = answer if isinstance(answer, str) and answer.replace("_", "").isalnum() and len(answer) < 60 else ""
        if status in {404, 410}:
            told = spaced(Text("error-slack.response-url-http", status=status), word)
            raise SlackFailure(told, Problem.GONE, error=word or "expired_url")
        raise answered("response_url", status, headers, {"error": word} if word else answer)

    async def _conversation(self, channel: str) -> str:
        """The id under which a channel can be read: a user's is that of the bot's direct messages with them."""
        if channel.startswith(("U", "W")) and channel not in self._conversations:
            answer, _ = await self._calls.call("conversations.open", {"users": channel})
            self._conversations[channel] = str(cast("Json", answer.get("channel") or {}).get("id", ""))
        return self._conversations.get(channel, channel)

    async def _keyed(self, channel: str, *, thread_ts: str = "", oldest: float = 0.0) -> AsyncIterator[Keyed]:
        async for message in self._messages(channel, thread_ts=thread_ts, oldest=oldest):
            if self._bot_id and message.get("bot_id") != self._bot_id:
                continue
            metadata: Json = message.get("metadata") or {}
            payload: Json = metadata.get("event_payload") or {}
            if metadata.get("event_type") == EVENT_TYPE and payload.get("key"):
                blocks: list[Json] = message.get("blocks") or []
                yield Keyed(str(payload["key"]), str(message.get("ts", "")), str(message.get("text", "")), blocks)

    async def _messages(self, channel: str, *, thread_ts: str = "", oldest: float = 0.0) -> AsyncIterator[Json]:
        method = "conversations.replies" if thread_ts else "conversations.history"
        args: Json = {"channel": channel, "limit": _PAGE, "include_all_metadata": True, "oldest": f"{oldest:.6f}"}
        if thread_ts:
            args["ts"] = thread_ts
        for _ in range(PAGES):
            page, _ = await self._calls.call(method, args, verb="GET", patience=LOOKING)
            for message in cast("list[Json]", page.get("messages") or []):
                yield message
            cursor = str(cast("Json", page.get("response_metadata") or {}).get("next_cursor") or "")
            if not cursor:
                return
            args["cursor"] = cursor


async def _or_in_channel(send: Callable[[str], Awaitable[T]], thread_ts: str) -> T:
    """What is sent into the thread, or into the channel itself if the thread takes no reply."""
    try:
        return await send(thread_ts)
    except SlackFailure as failure:
        if failure.problem is not Problem.NO_REPLY or not thread_ts:
            raise
    return await send("")


def _content(message: Message) -> Json:
    return {"text": message.text, "blocks": list(message.blocks)} if message.blocks else {"text": message.text}
