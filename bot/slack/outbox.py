"""The outbox: messages that must reach Slack, kept in the store first and sent by one sender for each channel.

Nothing is posted twice: a row is noted as being sent before Slack is called, and if no answer came, or the process
died, its key is looked up in the channel's history before any second try.
"""

import asyncio
import contextlib
import logging
import random
import time
import uuid
from collections import defaultdict
from collections.abc import Awaitable, Callable, Generator, Sequence

import msgspec

from bot.errors import Bug, bugs_as_errors
from bot.report import Severity
from bot.slack.calls import is_set_within
from bot.slack.failures import PASSING, Problem, SlackFailure
from bot.slack.gateway import Gateway, Posted
from bot.slack.message import File, Message
from bot.slack.render.text import escape
from bot.store import Store, StoreError
from bot.store.base import BEAT_S, HOLDS_S
from bot.store.facts import Fact
from bot.store.outbox_rows import SPACING, QueuedMessage, StoredFile, stored_file
from bot.texts import in_english

_TURN: dict[Severity, int] = {"critical": 0, "warning": 1, "info": 2}

LEASE = HOLDS_S
"""Seconds that a row is its sender's without a sign of life (`Outbox.run`): a post and an upload may take longer."""
CLOCK_SKEW = 600.0
"""Seconds that Slack's clock may be behind ours: messages that much older are looked at as well."""
SETTLING = 3.0
"""Seconds to wait before looking for a message whose outcome is unknown: Slack may still be posting it."""
LATE_FILES = 30.0
"""Seconds in which files whose sharing got no answer may still appear; after that they are shared again."""
FILES_TRIED = 6 * 3600.0
"""Seconds in which a message's files are tried again; then its thread says that they could not be attached."""
FIRST_WAIT, LONGEST_WAIT = 2.0, 60.0
REFUSED_WAIT = 60.0
"""Seconds between tries while Slack refuses the token: the app may be installed again at any time."""
LOOK_AGAIN = 10.0
"""Seconds that a sender waits at most before it checks again whether it is its turn."""
_SOON = 0.05
MOST_TRIES = 6
"""How often a message is tried that may itself be the reason of Slack's failures: about a minute with the waits."""
_ITS_OWN = frozenset({"update_failed", "file_update_failed", "streaming_state_conflict"})
_OF_THE_CHANNEL = frozenset({Problem.FORBIDDEN, Problem.GONE})
_NO_LOOKING = frozenset({*_OF_THE_CHANNEL, Problem.BAD_REQUEST, Problem.TOO_LONG, Problem.NO_FILE, Problem.NO_REPLY})

log = logging.getLogger(__name__)


class _Lane(msgspec.Struct):
    """One channel's sender, which sends nothing before `ready_at` (on the outbox's clock)."""

    ready_at: float = 0.0
    failures: int = 0
    broken: bool = False


class Outbox:
    """Sends messages to Slack that must not be lost. `ready` is False while Slack refuses the bot's token. `now` gives
    seconds since 1970 (leases, ages), else the store does; `clock` and `sleep` are for waiting, in seconds. `owner` is
    the name of this process only; a process that keeps it over a restart goes on at once with what it was sending, and
    not when the lease has lapsed.
    """

    def __init__(
        self,
        store: Store,
        gateway: Gateway,
        *,
        now: Callable[[], float] | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
        owner: str = "",
    ) -> None:
        self._rows = store.outbox
        self._gateway = gateway
        self._now = now or store.now
        self._clock = clock
        self._sleep = sleep
        self._jitter = jitter
        self._owner = owner or uuid.uuid4().hex
        self._lanes: defaultdict[str, _Lane] = defaultdict(_Lane)
        self._refused_until = 0.0
        self._storeless = set[str]()
        self.ready = True
        self._waiting = 0
        self._wake = asyncio.Event()
        self._empty = asyncio.Event()

    async def put(
        self,
        key: str,
        channel: str,
        message: Message,
        *,
        thread_ts: str = "",
        severity: Severity = "info",
        update_ts: str = "",
        sought_since: float = 0.0,
        fact: Fact | None = None,
        asker: str = "",
    ) -> None:
        """Keeps the message, durable when this returns; raises StoreError if it could not be kept. `channel` may be a
        user's id. `key` names one message of the channel: put again, it replaces what is waiting, or edits what was
        posted; the same content again does nothing. With `update_ts` it edits that message. A key that is new to this
        store is looked for in the channel from `sought_since` (seconds since 1970) on, and edited if found: a bot with
        another store may have posted it. `fact` is kept in the same transaction. `asker` is the id of the person whom
        it answers: in a channel turns go round by person.
        """
        parts = message._replace(files=())._asdict()
        content = {name: part for name, part in parts.items() if part or name in ("text", "blocks")}
        await self._rows.put(
            channel,
            key,
            content,
            list(map(_stored, message.files)),
            thread_ts=thread_ts,
            severity=_TURN[severity],
            update_ts=update_ts,
            now=self._now(),
            sought_since=sought_since,
            fact=fact,
            asker=asker,
        )
        self._empty.clear()
        self._wake.set()
        with contextlib.suppress(StoreError):  # the message is kept, whatever becomes of the figure
            await self._count()

    def refused(self) -> set[str]:
        """The channels that refused the last message because of the channel: it is gone, or the bot may not post."""
        return {channel for channel, lane in self._lanes.items() if lane.broken}

    def waiting(self) -> int:
        """How many rows were not settled when this process last looked: at every `put` and every step of a sender."""
        return self._waiting

    async def settled(self) -> None:
        """Returns once nothing waits to be sent. While `run` is not running that may be never."""
        await self._count()
        await self._empty.wait()

    async def run(self) -> None:
        """Sends until it is cancelled, and shows that this process lives, so that the rows it sends stay its own."""
        senders: dict[str, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as group:
            while True:
                self._wake.clear()
                try:
                    await self._rows.hold(self._owner, self._now(), LEASE)
                    channels = await self._rows.channels()
                except StoreError as error:
                    self._store_fails("", error)
                    channels = []
                else:
                    self._store_works("")
                senders = {channel: sender for channel, sender in senders.items() if not sender.done()}
                for channel in channels:
                    if channel not in senders:
                        senders[channel] = group.create_task(self._drain(channel))
                await is_set_within(self._wake, BEAT_S)

    async def _drain(self, channel: str) -> None:
        wait: float | None = 0.0
        while wait is not None:
            if wait:
                await self._sleep(wait)
            try:
                with bugs_as_errors():  # in one channel's sender, it stops no other
                    wait = await self.step(channel)
            except StoreError as error:
                self._store_fails(channel, error)
                wait = self._backoff(self._lanes[channel])
            except Bug:
                log.exception("the outbox cannot be used")
                wait = self._backoff(self._lanes[channel])
            else:
                self._store_works(channel)
        self._wake.set()  # a row that was put just now saw this sender still at work

    def _store_fails(self, whose: str, error: StoreError) -> None:
        """One line in the log for as long as the store is away, however many look: a channel's sender, or `run`."""
        if not self._storeless:
            log.error("nothing is sent to Slack until the store can be used again: %s", error)
        self._storeless.add(whose)

    def _store_works(self, whose: str) -> None:
        if whose in self._storeless:
            self._storeless.remove(whose)
            if not self._storeless:
                log.warning("the store can be used again, and messages are sent to Slack")

    async def step(self, channel: str) -> float | None:
        """Sends one message, or its files; gives the seconds until there is more to do, None if nothing waits."""
        lane = self._lanes[channel]
        if wait := self._wait(lane):
            return wait
        row = await self._rows.unsettled(channel, self._owner, self._now(), LEASE)
        in_doubt = row is not None and row.sent_version < row.tried_version
        row = row or await self._rows.claim(channel, self._owner, self._now(), LEASE)
        if row is None:
            turn = await self._rows.next_turn(channel, self._owner, self._now())
            if turn is None and not lane.broken:
                del self._lanes[channel]
            return None if turn is None else min(max(turn, _SOON), LOOK_AGAIN)
        try:
            with bugs_as_errors():
                if row.sent_version < row.version:
                    await self._message(lane, row, in_doubt=in_doubt)
                else:
                    await self._files(lane, row)
        except Bug as bug:  # the next try would end like this one
            log.exception("%s for %s is given up", row.key, row.channel)
            lane.ready_at = self._clock() + SPACING
            await self._rows.fail(row, in_english(bug.message))
        await self._count()
        return self._wait(lane)

    def _wait(self, lane: _Lane) -> float:
        return max(lane.ready_at - self._clock(), self._refused_until - self._clock(), 0.0)

    async def _message(self, lane: _Lane, row: QueuedMessage, *, in_doubt: bool) -> None:
        target = row.update_ts or row.posted_ts
        if in_doubt and not target:
            try:
                found = await self._find(row)
            except SlackFailure as failure:
                self._held_up(lane, failure)  # and it stays in doubt
                return
            if found:
                await self._sent(lane, row, found)
                return
        trying = await self._rows.trying(row, self._now(), LEASE)
        if trying is None:
            return
        files = tuple(map(_read, await self._rows.open_files(trying)))
        content = trying.content
        parts = {name: tuple(content.get(name, ())) for name in ("blocks", "newer")}
        message = Message(content["text"], files=files, broadcast=content.get("broadcast", False), **parts)
        try:
            if target:
                posted, form = Posted(row.posted_channel or row.channel, target), message
                await self._gateway.update(posted.channel, posted.ts, message, patience=0)
            else:
                posted, form = await self._gateway.say(
                    row.channel, message, thread_ts=row.thread_ts, key=row.key, patience=0
                )
        except SlackFailure as failure:
            await self._not_sent(lane, trying, failure)
        else:
            await self._sent(lane, trying, posted, form.files)

    async def _find(self, row: QueuedMessage) -> Posted | None:
        """The row's message, if an earlier try brought it to Slack; a reply may stand in the channel instead. If the
        history may not be read, it is sent again: a message twice is the lesser harm than one that is lost.
        """
        since = row.claimed_at - CLOCK_SKEW
        with _looking(f"{row.key} may be posted to {row.channel} a second time"):
            found = await self._gateway.find(row.channel, row.key, oldest=since, thread_ts=row.thread_ts)
            if found or not row.thread_ts:
                return found
            return await self._gateway.find(row.channel, row.key, oldest=since)
        return None

    async def _sent(self, lane: _Lane, row: QueuedMessage, posted: Posted, files: tuple[File, ...] = ()) -> None:
        """Notes a message as sent, with the `files` of the form that Slack took, which may hold the whole answer."""
        self._went_well(lane)
        noted = await self._rows.sent(row, posted.channel, posted.ts, list(map(_stored, files)))
        if noted and not await self._rows.open_files(noted):
            await self._rows.settle(noted)

    def _went_well(self, lane: _Lane) -> None:
        lane.failures, lane.broken, self.ready = 0, False, True
        lane.ready_at = self._clock() + SPACING

    async def _not_sent(self, lane: _Lane, row: QueuedMessage, failure: SlackFailure) -> None:
        if self._held_up(lane, failure):
            if failure.problem is not Problem.UNKNOWN_OUTCOME:
                await self._rows.release(row)
            return
        lane.ready_at = self._clock() + SPACING
        await self._rows.fail(row, in_english(failure.message))
        concerns_channel = failure.problem in _OF_THE_CHANNEL
        if not concerns_channel or not lane.broken:
            log.error("%s cannot be posted to %s and is given up: %s", row.key, row.channel, failure)
        lane.broken = lane.broken or concerns_channel

    def _held_up(self, lane: _Lane, failure: SlackFailure) -> bool:
        """Whether the row is to be tried again; sets from when on."""
        if failure.error in _ITS_OWN and lane.failures >= MOST_TRIES:
            lane.failures = 0
            return False
        match failure.problem:
            case Problem.AUTH:
                if self.ready:
                    log.error("nothing is sent to Slack until the bot's token is valid again: %s", failure)
                self.ready = False
                self._refused_until = self._clock() + REFUSED_WAIT
            case Problem.RATE_LIMITED:
                lane.ready_at = self._clock() + failure.retry_after
            case Problem.TRANSIENT:
                lane.ready_at = self._clock() + self._backoff(lane)
            case Problem.UNKNOWN_OUTCOME:
                lane.ready_at = self._clock() + max(self._backoff(lane), SETTLING)
            case _:
                return False
        return True

    def _backoff(self, lane: _Lane) -> float:
        """The seconds to wait, doubled up to `LONGEST_WAIT`; half is random, so that channels do not come at once."""
        wait = min(FIRST_WAIT * 2.0 ** min(lane.failures, 10), LONGEST_WAIT)
        lane.failures += 1
        return wait * (0.5 + 0.5 * self._jitter())

    async def _files(self, lane: _Lane, row: QueuedMessage) -> None:
        files = await self._rows.open_files(row)
        thread = row.thread_ts or row.posted_ts or row.update_ts
        since, tried = row.claimed_at - CLOCK_SKEW, [file.file_id for file in files if file.state != "new"]
        there = set[str]()  # what an earlier try brought to Slack; where that cannot be read, as in `_find`
        try:
            with _looking(f"files of {row.key} may be shared in {row.channel} a second time"):
                if tried:
                    there = await self._gateway.shared(row.posted_channel, tried, thread_ts=thread, oldest=since)
        except SlackFailure as failure:
            await self._not_shared(lane, row, files, failure)
            return
        left = [file for file in files if file.file_id not in there]
        if any(file.state == "sharing" for file in left) and self._now() < row.sent_at + LATE_FILES:
            await self._rows.files_later(row, self._now() + SETTLING)
            return
        ready: list[StoredFile] = []
        for file in left:
            try:
                ready.append(await self._stage(row, file) if file.state == "new" else file)
            except SlackFailure as failure:
                await self._not_shared(lane, row, [file], failure)
                return
        if ready:
            await self._note(row, ready, "sharing")
            titles = [(file.file_id, file.about["title"]) for file in ready]
            try:
                await self._gateway.share(row.posted_channel, titles, thread_ts=thread)
            except SlackFailure as failure:
                if failure.problem is not Problem.UNKNOWN_OUTCOME:
                    await self._note(row, ready, "staged")
                await self._not_shared(lane, row, ready, failure)
                return
        if ready or there:
            self._went_well(lane)
        await self._note(row, [*(file for file in files if file.file_id in there), *ready], "done")
        await self._rows.settle(row)

    async def _stage(self, row: QueuedMessage, stored: StoredFile) -> StoredFile:
        """The file with its bytes at Slack. Its id is kept before anybody can see it, to look for it after a crash."""
        await self._note(row, [stored], "new")  # an upload may take longer than the lease has left
        staged = stored._replace(state="staged", file_id=await self._gateway.stage(_read(stored)))
        await self._note(row, [staged], "staged")
        return staged

    async def _not_shared(
        self, lane: _Lane, row: QueuedMessage, files: list[StoredFile], failure: SlackFailure
    ) -> None:
        tried = self._now() - row.claimed_at
        if failure.problem is Problem.AUTH:
            self._held_up(lane, failure)
        if failure.problem is Problem.AUTH or (failure.problem in PASSING and tried <= FILES_TRIED):
            # Again as long after as they were tried so far. They hold up no other message.
            wait = failure.retry_after or min(max(tried, SETTLING), LONGEST_WAIT)
            await self._rows.files_later(row, self._now() + wait)
            return
        lane.ready_at = self._clock() + SPACING
        if failure.error == "file_not_found" and any(file.state != "new" for file in files):
            await self._note(row, files, "new")  # Slack forgets what is staged and not shared
            return
        names = ", ".join(file.about["name"] for file in files)
        log.error("%s of %s cannot be shared in %s and is given up: %s", names, row.key, row.channel, failure)
        why, hint = in_english(failure.message), in_english(failure.hint)
        note = Message(f"`{escape(names)}` could not be attached: {escape(why)}. {escape(hint)}")
        thread = row.thread_ts or row.posted_ts or row.update_ts
        await self.put(f"{row.key}/{files[0].digest[:12]}", row.channel, note, thread_ts=thread)
        await self._note(row, files, "failed", in_english(failure.message))

    async def _note(self, row: QueuedMessage, files: Sequence[StoredFile], state: str, reason: str = "") -> None:
        for file in files:
            file_id, now = "" if state == "new" else file.file_id, self._now()
            await self._rows.note_file(row, file, state, file_id=file_id, reason=reason, now=now, lease=LEASE)

    async def _count(self) -> None:
        self._waiting = await self._rows.waiting()
        self._empty.clear()
        if not self._waiting:
            self._empty.set()


@contextlib.contextmanager
def _looking(twice: str) -> Generator[None]:
    """Wraps a search of Slack: where it is refused, nothing was found, and the log says what may happen `twice`."""
    try:
        yield
    except SlackFailure as failure:
        if failure.problem not in _NO_LOOKING:
            raise
        log.warning("%s: %s", twice, in_english(failure.message))


def _stored(file: File) -> StoredFile:
    return stored_file({"name": file.name, "title": file.title, "alt_text": file.alt_text}, file.content)


def _read(stored: StoredFile) -> File:
    return File(content=stored.content, **stored.about)
