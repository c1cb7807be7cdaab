"""Answers to questions from Slack, announced if they take long: to one person (`Responder`) or all (`ChannelReply`)."""

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from html import unescape
from typing import ClassVar

import msgspec

from bot.slack.failures import Problem, SlackFailure
from bot.slack.gateway import Gateway
from bot.slack.message import Message
from bot.slack.outbox import Outbox
from bot.slack.render import blocks
from bot.store import StoreError
from bot.store.facts import Fact
from bot.texts import Text, Texts, in_english

USES = 5
LIFE = 30 * 60.0
"""Slack takes `USES` answers at a response_url, for `LIFE` seconds."""
PATIENCE_S = 1.0
"""Seconds after which an answer that takes longer announces itself."""
_PATIENCE_IF_IT_STAYS_S = 3.0
"""Seconds until the announcement where that stays above the answer: few answers should need it."""
_MARGIN = 30.0
_PROGRESS_TIMEOUT = 3.0

log = logging.getLogger(__name__)


def without_files(message: Message, note: str) -> Message:
    """The message for a place that takes no files, with a line of escaped mrkdwn about them."""
    if not message.blocks:
        return Message(f"{message.text}\n{note}")
    context = {"type": "context", "elements": [{"type": "mrkdwn", "text": note}]}
    return Message(message.text, (*message.blocks, context))


@contextlib.asynccontextmanager
async def announced(show: Callable[[], Awaitable[None]], after_s: float, again_s: float = 0.0) -> AsyncGenerator[None]:
    """Calls `show` when the block takes longer than `after_s` seconds, and from then on every `again_s`."""
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def announce() -> None:
        wait_s = after_s
        while wait_s and not (await asyncio.wait({ended}, timeout=wait_s))[0]:
            await show()
            wait_s = again_s

    announcing = asyncio.create_task(announce())
    try:
        yield
    finally:
        ended.set_result(None)
        await announcing


class Responder:
    """The answer to one command, click or shortcut, seen only by the person who asked: by its response_url while that
    serves, else by another way. An answer whose outcome is unknown is given again: seen twice by one person, it does
    less harm than unseen. Neither `progress` nor `answer` raises for anything that Slack or the store does.

    `now` is a clock in seconds. `key` is the question's: the direct messages of an answer by another process take the
    place of this one's. Nobody has used `url` yet, as far as is known, and it serves for `LIFE` from now on. `words`
    gives the question's, escaped mrkdwn: they stand above the files, which the answer itself cannot carry. `replaces`:
    the answer takes the place of the message whose button was clicked. Else each use of the url is a new message and
    stays: by the url of a command Slack replaces nothing (slackapi/bolt-js#2287 and bolt-python#1268).
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
        words: Callable[[], str] = str,
        say: Texts,
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
        self._say = say
        self._expires_at = now() + LIFE - _MARGIN
        self._left = USES if url else 0
        self._answers = 0
        self._name = hashlib.sha256((url or key).encode()).hexdigest()[:24]
        self._one_at_a_time = asyncio.Lock()

    def expecting(self, words: Callable[[], str]) -> contextlib.AbstractAsyncContextManager[None]:
        """Shows the words as progress when the block takes long."""
        return announced(lambda: self.progress(words()), PATIENCE_S if self.replaces else _PATIENCE_IF_IT_STAYS_S)

    async def progress(self, text: str) -> None:
        """Shows progress, if there was no answer yet and the url has a use left for it. `text` is escaped mrkdwn."""
        async with self._one_at_a_time:  # or it might arrive after the answer
            if self._answers or self._left < 2 or self._now() >= self._expires_at:
                return
            card = blocks.task_card(f"question-{self._name}", unescape(text))

            async def tell(form: Message) -> None:
                self._left -= 1
                await self._gateway.respond(self._url, form, replace=self.replaces, timeout=_PROGRESS_TIMEOUT)

            try:
                await self._gateway.fit(Message(text, newer=(card,)), tell)
            except SlackFailure as failure:
                log.info("no progress was shown: %s", in_english(failure.message))

    async def answer(self, message: Message, *, mark: str = "") -> None:
        """Shows the message to the person who asked, at worst as a direct message. Files go into the person's direct
        messages with the bot, and the message says so. No message of theirs exists to `mark`. What neither Slack nor
        the store takes is lost, and the log says so.
        """
        del mark
        async with self._one_at_a_time:
            self._answers += 1
            for way, send in (("response_url", self._respond), ("an ephemeral message", self._ephemeral)):
                try:
                    await self._gateway.fit(message, send)
                except SlackFailure as failure:
                    log.info("no answer by %s: %s", way, in_english(failure.message))
                else:
                    return
            await self._direct(message, "an answer")

    async def _respond(self, form: Message) -> None:
        shown = await self._with_files_elsewhere(form)
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
        words = self._words()
        above = self._say("desk.files-of", words=words) if words else self._say("desk.files")
        told = await self._direct(Message(above, files=form.files), "the files of an answer")
        return without_files(form, self._say("desk.files-elsewhere")) if told else form._replace(files=())

    async def _direct(self, message: Message, what: str) -> bool:
        """Puts the message into the outbox, under one key per answer, so that the answer replaces its files' line."""
        try:
            await self._outbox.put(f"answer:{self._name}:{self._answers}", self._user, message, severity="warning")
        except StoreError as error:
            log.error("%s to %s is lost: %s", what, self._user, in_english(error.message))  # noqa: TRY400  # it is foreseen
            return False
        return True


class ChannelReply(msgspec.Struct):
    """An answer in the channel or thread, kept until Slack has it. `key` is its key in the outbox, `answered` that of
    the fact that the question is answered; `asker` is the person's id, `asked_ts` the message that asked, if one did.
    `url` is the response_url of the click that asked, if one did; `clears`: the message that only the asker saw is
    removed.
    """

    gateway: Gateway
    outbox: Outbox
    key: str
    channel: str
    answered: str
    asker: str
    thread_ts: str
    asked_ts: str
    url: str
    clears: bool
    say: Texts
    seen: asyncio.Task[None] | None = None
    replaces: ClassVar[bool] = True
    """The answer replaces its announcement."""

    @contextlib.asynccontextmanager
    async def expecting(self, words: Callable[[], str]) -> AsyncGenerator[None]:
        """Marks the question as seen; posts the words when the block takes long, which the answer then replaces."""
        self.seen = asyncio.create_task(self._mark("eyes"))  # nothing waits for a receipt
        try:
            async with announced(lambda: self.progress(Message(words())), PATIENCE_S):
                yield
        except asyncio.CancelledError:
            self.seen.cancel()
            raise

    async def answer(self, message: Message, *, mark: str) -> None:
        """Sends the answer; returns when it is safe in the outbox, or posted by the url where the bot is no member.
        Without a store it is posted at once: that may fail, but silence would be certain.
        """
        if await self._may_post():
            try:
                await self._put(message, Fact(self.answered, mark))
            except StoreError as error:
                log.warning("an answer goes round the outbox: %s", error)
                await self.gateway.post(self.channel, message, thread_ts=self.thread_ts, key=self.key)
        else:
            await self.gateway.fit(message, self._respond)
        await self.marked(mark)
        if self.url and self.clears:
            with _failures_logged("removing what is posted now"):
                await self.gateway.respond(self.url, message, delete=True)

    async def marked(self, mark: str) -> None:
        """Marks the question as answered, with the reaction `mark` in place of the eyes."""
        if self.seen:
            await self.seen
        await self._mark(mark)
        await self._mark("eyes", remove=True)

    async def _may_post(self) -> bool:
        """Whether the bot may post here: a command and its answer's buttons work also where it is no member."""
        if not self.url:
            return True
        try:
            await self.gateway.look_into(self.channel)
        except SlackFailure as failure:
            return failure.problem not in {Problem.FORBIDDEN, Problem.GONE}
        return True

    async def _respond(self, message: Message) -> None:
        shown = without_files(message, self.say("desk.files-need-me")) if message.files else message
        await self.gateway.respond(self.url, shown, in_channel=True, thread_ts=self.thread_ts)

    async def progress(self, message: Message) -> None:
        """Shows a message that the answer will replace, where the bot may post."""
        if await self._may_post():
            with _failures_logged("progress"):
                await self._put(message)

    async def _put(self, message: Message, fact: Fact | None = None) -> None:
        """Keeps the message under one key, so that the answer replaces the progress, also from another process."""
        await self.outbox.put(self.key, self.channel, message, thread_ts=self.thread_ts, fact=fact, asker=self.asker)

    async def _mark(self, name: str, *, remove: bool = False) -> None:
        if not self.asked_ts:
            return
        with _failures_logged(f"reaction {name}"):
            await self.gateway.react(self.channel, self.asked_ts, name, remove=remove)


Reply = Responder | ChannelReply


@contextlib.contextmanager
def _failures_logged(what: str):  # noqa: ANN202
    """Logs failures inside: a receipt that fails does not stop the answer."""
    try:
        yield
    except (SlackFailure, StoreError) as failure:
        log.warning("%s: %s", what, failure)
