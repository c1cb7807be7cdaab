"""The answer to one command, click or shortcut: by its response_url while that serves, else by another way.

Only the person who asked sees it, whichever way it takes. Should an answer's fate be unknown it is given again: seen
twice by one person, it does less harm than unseen.
"""

import asyncio
import hashlib
import logging
from collections.abc import Callable
from enum import StrEnum
from html import unescape
from typing import NamedTuple

from bot.slack.failures import Problem, SlackFailure
from bot.slack.gateway import Gateway
from bot.slack.message import Message
from bot.slack.outbox import Outbox
from bot.slack.render import blocks
from bot.store import StoreError
from bot.texts import Text, in_english

USES = 5
LIFE = 30 * 60.0
"""How often, and for how many seconds, Slack takes answers at a response_url."""
_MARGIN = 30.0
_PROGRESS_TIMEOUT = 3.0

log = logging.getLogger(__name__)


class Delivery(StrEnum):
    """Which way an answer took."""

    RESPONSE_URL = "response-url"
    EPHEMERAL = "ephemeral"
    DIRECT = "direct"
    """It is in the outbox, and will be a direct message."""
    LOST = "lost"
    """Neither Slack nor the store took it; it is in the log that it was so."""


class FileNotices(NamedTuple):
    """What is said about files, which an answer that one person sees cannot carry. Escaped mrkdwn."""

    where: str = "The files of this answer are in your direct messages with me."
    line: str = "Here are the files of the answer that you asked for."


def without_files(message: Message, note: str) -> Message:
    """The message where files cannot be, with a line of escaped mrkdwn about them."""
    if not message.blocks:
        return Message(f"{message.text}\n{note}")
    context = {"type": "context", "elements": [{"type": "mrkdwn", "text": note}]}
    return Message(message.text, (*message.blocks, context))


class Responder:
    """One interaction. `now` is a clock in seconds, `key` the question's: another process gives the same answer.

    Of `url` it is assumed that nobody used it, and that it serves for `LIFE` from now on. Slack says when it does not,
    as after a restart, and then another way is taken.

    `replaces`: what is said takes the place of the message whose button was clicked. Else each use of the url is a new
    message and stays: by the url of a command Slack replaces nothing (slackapi/bolt-js#2287 and bolt-python#1268).
    Neither method raises for anything that Slack or the store does.
    """

    def __init__(
        self,
        gateway: Gateway,
        outbox: Outbox,
        url: str,
        channel: str,
        user: str,
        *,
        key: str,
        thread_ts: str = "",
        replaces: bool = False,
        now: Callable[[], float],
        words: FileNotices = FileNotices(),  # noqa: B008  # it is a constant
    ) -> None:
        self._gateway = gateway
        self._outbox = outbox
        self._url = url
        self._channel = channel
        self._user = user
        self._thread_ts = thread_ts
        self.replaces = replaces
        self._now = now
        self._words = words
        self._expires_at = now() + LIFE - _MARGIN
        self._left = USES if url else 0
        self._answers = 0
        self._name = hashlib.sha256((url or key).encode()).hexdigest()[:24]
        self._one_at_a_time = asyncio.Lock()

    async def progress(self, text: str) -> None:
        """Shown if there was no answer yet and a use is left for it. `text` is escaped mrkdwn."""
        async with self._one_at_a_time:  # or it might arrive after the answer
            if self._answers or self._left < 2 or self._now() >= self._expires_at:
                return
            card = blocks.task_card(f"question-{self._name}", unescape(text))
            try:
                await self._gateway.fit(Message(text, newer=(card,)), self._tell_progress)
            except SlackFailure as failure:
                log.info("no progress was shown: %s", in_english(failure.message))

    async def _tell_progress(self, form: Message) -> None:
        self._left -= 1
        await self._gateway.respond(self._url, form, replace=self.replaces, timeout=_PROGRESS_TIMEOUT)

    async def answer(self, message: Message) -> Delivery:
        """Shows the message to the person who asked; says how.

        Files go into the person's direct messages with the bot, and the message says so.
        """
        async with self._one_at_a_time:
            self._answers += 1
            try:
                return await self._first_way_open(message)
            except StoreError as error:
                log.error("an answer to %s is lost: %s", self._user, in_english(error.message))  # noqa: TRY400  # it is foreseen
                return Delivery.LOST

    async def _first_way_open(self, message: Message) -> Delivery:
        async def respond(form: Message) -> None:
            await self._respond(await self._with_files_elsewhere(form))

        for way, send in ((Delivery.RESPONSE_URL, respond), (Delivery.EPHEMERAL, self._ephemeral)):
            try:
                await self._gateway.fit(message, send)
            except SlackFailure as failure:
                log.info("no answer by %s: %s", way, in_english(failure.message))
            else:
                return way
        await self._direct(message)
        return Delivery.DIRECT

    async def _respond(self, shown: Message) -> None:
        try:
            await self._use(shown)
        except SlackFailure as failure:
            if failure.problem not in {Problem.TRANSIENT, Problem.UNKNOWN_OUTCOME}:
                raise
            await self._use(shown)

    async def _use(self, shown: Message) -> None:
        if self._left < 1 or self._now() >= self._expires_at:
            raise SlackFailure(Text("error-slack.response-url-is-used-up"), Problem.GONE, error="expired_url")
        self._left -= 1
        try:
            await self._gateway.respond(self._url, shown, replace=self.replaces, thread_ts=self._thread_ts)
        except SlackFailure as failure:
            if failure.problem is Problem.GONE:
                self._left = 0
            raise

    async def _ephemeral(self, form: Message) -> None:
        shown = await self._with_files_elsewhere(form)
        await self._gateway.ephemeral(self._channel, self._user, shown, thread_ts=self._thread_ts)

    async def _with_files_elsewhere(self, form: Message) -> Message:
        if not form.files:
            return form
        try:
            await self._direct(Message(self._words.line, files=form.files))
        except StoreError as error:
            log.error("the files of an answer to %s are lost: %s", self._user, in_english(error.message))  # noqa: TRY400  # the same
            return form._replace(files=())
        return without_files(form, self._words.where)

    async def _direct(self, message: Message) -> None:
        """By the outbox. One key for each answer, so that the whole of it takes the place of its files' line."""
        await self._outbox.put(f"answer:{self._name}:{self._answers}", self._user, message, severity="warning")
