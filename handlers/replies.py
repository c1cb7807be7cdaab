"""The two ways a question from Slack is answered: to the person alone, or for everyone in its thread."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from bot.slack.failures import Problem, SlackFailure
from bot.slack.gateway import Gateway
from bot.slack.message import Message
from bot.slack.outbox import Outbox
from bot.slack.responder import Responder, without_files
from bot.store import StoreError
from bot.store.facts import Fact

PATIENCE_S = 1.0
"""An answer that takes longer announces itself."""
_PATIENCE_IF_IT_STAYS_S = 3.0
"""The same where the announcement stays above the answer: few answers should need it."""
_INVITE = "Files can be attached only where I am a member: `/invite` me to this channel and ask again."

log = logging.getLogger(__name__)


class EphemeralReply:
    """Ephemeral, through the question's response_url."""

    def __init__(self, responder: Responder) -> None:
        self._responder = responder
        self.replaces = responder.replaces
        """Whether the answer replaces what was announced."""

    @asynccontextmanager
    async def expecting(self, text: str) -> AsyncGenerator[None]:
        """Says `text` when what happens inside takes long."""
        ended = asyncio.Event()
        announcing = asyncio.create_task(self._announce(ended, text))
        try:
            yield
        finally:
            ended.set()
            await announcing

    async def answer(self, message: Message, *, mark: str) -> None:
        del mark  # there is no message of the person's to mark
        await self._responder.answer(message)

    async def _announce(self, ended: asyncio.Event, text: str) -> None:
        if not await within(ended, PATIENCE_S if self.replaces else _PATIENCE_IF_IT_STAYS_S):
            await self._responder.progress(text)


class ChannelReply:
    """A message in the channel or thread, kept until Slack has it; `key` is its key in the outbox, `answered` that of
    the fact that it is the answer; `asker` is the person's id.

    `asked_ts` is the message that asked, if one did. `url` is the response_url of the click that asked, if one did;
    `clears`: what that person was shown is taken away.
    """

    replaces = True
    """The answer replaces what was announced."""

    def __init__(
        self,
        gateway: Gateway,
        outbox: Outbox,
        key: str,
        channel: str,
        *,
        answered: str,
        asker: str,
        thread_ts: str,
        asked_ts: str,
        url: str,
        clears: bool,
    ) -> None:
        self._gateway = gateway
        self._outbox = outbox
        self._key = key
        self._channel = channel
        self._answered = answered
        self._asker = asker
        self._thread_ts = thread_ts
        self._asked_ts = asked_ts
        self._url = url
        self._clears = clears
        self._seen: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def expecting(self, text: str) -> AsyncGenerator[None]:
        """Marks the question as seen; posts `text`, which the answer replaces, when what happens inside takes long."""
        ended = asyncio.Event()
        self._seen = asyncio.create_task(self._mark("eyes"))  # nothing waits for a receipt
        announcing = asyncio.create_task(self._announce(ended, text))
        try:
            yield
        except asyncio.CancelledError:
            self._seen.cancel()
            raise
        finally:
            ended.set()
            await announcing

    async def answer(self, message: Message, *, mark: str) -> None:
        """Returns when the answer is safe in the outbox, or said where the bot is no member.

        Without a store it is said at once: that may fail, but silence would be certain.
        """
        if await self._may_post():
            try:
                await self._put(message, Fact(self._answered, mark))
            except StoreError as error:
                log.warning("an answer goes round the outbox: %s", error)
                await self._gateway.post(self._channel, message, thread_ts=self._thread_ts, key=self._key)
        else:
            await self._gateway.fit(message, self._respond)
        await self.marked(mark)
        if self._url and self._clears:
            with _said_or_logged("removing what is posted now"):
                await self._gateway.respond(self._url, message, delete=True)

    async def marked(self, mark: str) -> None:
        """Marks the question as answered."""
        if self._seen:
            await self._seen
        await self._mark(mark)
        await self._mark("eyes", remove=True)

    async def _may_post(self) -> bool:
        """A command, and the buttons of its answer, work also where the bot is no member and may not post."""
        if not self._url:
            return True
        try:
            await self._gateway.look_into(self._channel)
        except SlackFailure as failure:
            return failure.problem not in {Problem.FORBIDDEN, Problem.GONE}
        return True

    async def _respond(self, message: Message) -> None:
        shown = without_files(message, _INVITE) if message.files else message
        await self._gateway.respond(self._url, shown, in_channel=True, thread_ts=self._thread_ts)

    async def _announce(self, ended: asyncio.Event, text: str) -> None:
        if not await within(ended, PATIENCE_S):
            await self.progress(Message(text))

    async def progress(self, message: Message) -> None:
        """Shows what the answer will replace, where the bot may post."""
        if await self._may_post():
            with _said_or_logged("progress"):
                await self._put(message)

    async def _put(self, message: Message, fact: Fact | None = None) -> None:
        """Under one key, so that the answer replaces the progress, also when another process gives it."""
        await self._outbox.put(
            self._key, self._channel, message, thread_ts=self._thread_ts, fact=fact, asker=self._asker
        )

    async def _mark(self, name: str, *, remove: bool = False) -> None:
        if not self._asked_ts:
            return
        with _said_or_logged(f"reaction {name}"):
            act = self._gateway.unreact if remove else self._gateway.react
            await act(self._channel, self._asked_ts, name)


Reply = EphemeralReply | ChannelReply


async def within(event: asyncio.Event, seconds: float) -> bool:
    """Whether it happened in that time."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True


@contextlib.contextmanager
def _said_or_logged(what: str):  # noqa: ANN202
    """A receipt that fails does not stop the answer."""
    try:
        yield
    except (SlackFailure, StoreError) as failure:
        log.warning("%s: %s", what, failure)
