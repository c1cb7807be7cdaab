"""The two ways a question from Slack is answered: to the person alone, or for everyone in its thread."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from bot.slack.gateway import Gateway, SlackFailure
from bot.slack.message import Message
from bot.slack.outbox import Outbox
from bot.slack.responder import Responder

PATIENCE_S = 1.0
"""An answer that takes longer announces itself."""

log = logging.getLogger(__name__)


class Privately:
    """Ephemeral, through the question's response_url."""

    def __init__(self, responder: Responder) -> None:
        self._responder = responder

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
        if not await _within(ended, PATIENCE_S):
            await self._responder.progress(text)


class Publicly:
    """A message in the channel or thread, kept until Slack has it.

    `asked_ts` is the message that asked, `shown_url` the response_url of an answer that one person was shown and that
    this one replaces; both may be empty.
    """

    def __init__(
        self,
        gateway: Gateway,
        outbox: Outbox,
        key: str,
        channel: str,
        *,
        thread_ts: str,
        asked_ts: str,
        shown_url: str,
    ) -> None:
        self._gateway = gateway
        self._outbox = outbox
        self._key = key
        self._channel = channel
        self._thread_ts = thread_ts
        self._asked_ts = asked_ts
        self._shown_url = shown_url
        self._announced_ts = ""

    @asynccontextmanager
    async def expecting(self, text: str) -> AsyncGenerator[None]:
        """Marks the question as seen; posts `text`, which the answer replaces, when what happens inside takes long."""
        await self._mark("eyes")
        ended = asyncio.Event()
        announcing = asyncio.create_task(self._announce(ended, text))
        try:
            yield
        finally:
            ended.set()
            await announcing

    async def answer(self, message: Message, *, mark: str) -> None:
        """Returns when the answer is safe in the outbox."""
        await self._outbox.put(
            self._key, self._channel, message, thread_ts=self._thread_ts, update_ts=self._announced_ts
        )
        await self._mark(mark)
        await self._mark("eyes", remove=True)
        if self._shown_url:
            with _said_or_logged("removing what is posted now"):
                await self._gateway.respond(self._shown_url, message, delete=True)

    async def _announce(self, ended: asyncio.Event, text: str) -> None:
        if await _within(ended, PATIENCE_S):
            return
        with _said_or_logged("progress"):
            posted = await self._gateway.post(
                self._channel, Message(text), thread_ts=self._thread_ts, key=f"{self._key}:progress"
            )
            self._announced_ts = posted.ts

    async def _mark(self, name: str, *, remove: bool = False) -> None:
        if not self._asked_ts:
            return
        with _said_or_logged(f"reaction {name}"):
            act = self._gateway.unreact if remove else self._gateway.react
            await act(self._channel, self._asked_ts, name)


Reply = Privately | Publicly


async def _within(event: asyncio.Event, seconds: float) -> bool:
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
    except SlackFailure as failure:
        log.warning("%s: %s", what, failure)
