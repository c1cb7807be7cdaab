"""Digests: posted when they are due, by whichever replica claims the date first; asked for and ended in Slack."""

import asyncio
import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from bot.bugs import bugs_as_errors
from bot.digest.figures import Figures
from bot.digest.schedule import Schedule, Slot, due, next_of, read_schedule
from bot.errors import BotError, UsageError
from bot.render.picture import alt_text, picture
from bot.report import Report, one_line
from bot.slack.failures import Problem, SlackFailure
from bot.slack.message import File, Message
from bot.slack.render.digest import Told, render_digest
from bot.slack.render.prose import progress, render_help
from bot.store import StoreError
from bot.store.digests import Digest
from handlers.changes.terms import Person, Refused
from handlers.lent import Lent
from playbooks._playbook import find

TICK_S = 20.0
READING_S = 120.0
"""Less than a claim lasts (`bot.store.digests.CLAIM_S`)."""
MOST = 10
"""Digests in one channel."""
_LATE_S = 600.0
_REASON = 200

log = logging.getLogger(__name__)


class Post(NamedTuple):
    """`digest now`."""


class Add(NamedTuple):
    """`digest daily 09:00 Asia/Shanghai`."""

    schedule: Schedule


class ListAll(NamedTuple):
    """`digest list`."""


class Stop(NamedTuple):
    """`digest stop ID`."""

    id: str


def read_digest(words: Sequence[str]) -> Post | Add | ListAll | Stop:
    """What the words after `digest` ask for. Raises UsageError with an example."""
    match words:
        case ["now"]:
            return Post()
        case ["list"]:
            return ListAll()
        case ["stop", one]:
            return Stop(one)
        case [days, at, zone]:
            schedule = read_schedule(days, at, zone)
            if isinstance(schedule, Schedule):
                return Add(schedule)
            raise _wrong(schedule)
        case ["stop", *_]:
            raise _wrong("stop needs the id of one digest: digest list shows them", "digest stop 3fa29c")
        case _:
            raise _wrong("a digest needs its days, its time and its time zone")


class Digests:
    """The digests of all channels."""

    def __init__(self, lent: Lent, *, tick_s: float = TICK_S) -> None:
        self._lent = lent
        self._rows = lent.store.digests
        self._tick_s = tick_s
        self._failed: dict[str, str] = {}

    async def run(self) -> None:
        """Looks again and again, until it is cancelled."""
        while True:
            try:
                with bugs_as_errors():
                    await self.look()
            except BotError as error:
                log.warning("digests: %s", error)
            await asyncio.sleep(self._tick_s)

    async def look(self) -> None:
        """Posts what is due; marks what was missed for good."""
        for digest in await self._rows.wanted():
            try:
                with bugs_as_errors():
                    await self._look_at(digest)
            except StoreError:
                raise
            except BotError as error:  # of one digest: tried again once its claim has lapsed
                self._failed[digest.id] = one_line(error.message, _REASON)
                log.warning("the digest %s of %s: %s", digest.id, digest.channel, error)

    async def _look_at(self, digest: Digest) -> None:
        now = self._lent.now()
        found = due(digest.schedule, digest.since, now)
        newest = found.post or (found.skipped[-1] if found.skipped else None)
        if newest is None or not await self._rows.claim(digest, newest):
            return
        key = f"digest:{digest.id}:{newest.day}"
        if found.post is None:
            await self._lent.outbox.put(key, digest.channel, progress(self._missed(digest, newest)))
        await self._rows.skip(digest, found.skipped)
        if found.post is None:
            return
        late = newest.day if now - newest.at > _LATE_S else ""
        told, files = await self._told(digest.channel, digest.cluster, late)
        await self._put(key, digest.channel, told, files)
        await self._rows.posted(digest, newest, told.after)
        self._failed.pop(digest.id, None)

    def _missed(self, digest: Digest, slot: Slot) -> str:
        """What the channel is told in the place of a digest; why, if it was tried here."""
        why = self._failed.pop(digest.id, "") or self._lent.say("digest.away")
        return self._lent.say("digest.missed", day=slot.day, cluster=self._cluster(digest.cluster), why=why)

    # -------------------------------------------------------------------------------------------------- people

    async def do(self, key: str, who: Person, asked: Post | Add | ListAll | Stop, cluster: str) -> str | Message:
        """What a person asked for, once for each `key`; what they are told."""
        say = self._lent.say
        if isinstance(asked, Post | Add):
            await self._check_room(who.channel)
        match asked:
            case Post():
                told, files = await self._told(who.channel, cluster, "")
                await self._put(f"digest:now:{key}", who.channel, told, files)
                return say("digest.posted")
            case Add(schedule):
                return await self._add(who, cluster, schedule)
            case ListAll():
                return await self._listed(who.channel)
            case Stop(one):
                if not await self._rows.stop(one, who.channel):
                    raise Refused(say("digest.unknown", id=one[:20]), hint="digest list shows those of this channel")
                await self._audit(who, "digest-stop", one)
                return say("digest.stopped", id=one)

    async def _check_room(self, channel: str) -> None:
        """Raises Refused where the bot may not post: a digest would be given up there, and nobody told."""
        try:
            await self._lent.gateway.find(channel, "digest", oldest=self._lent.now())
        except SlackFailure as failure:
            if failure.problem in {Problem.FORBIDDEN, Problem.GONE}:
                hint = "/invite me to this channel, or ask where I am a member"
                raise Refused("I may not post here", hint=hint) from failure

    async def _add(self, who: Person, cluster: str, schedule: Schedule) -> str:
        if len(await self._rows.wanted(who.channel)) >= MOST:
            raise Refused(f"there are {MOST} digests in this channel already", hint="digest stop ID ends one")
        added = await self._rows.add(who.channel, cluster, schedule, who.user)
        await self._audit(who, "digest-add", f"{added.id} {schedule}")
        coming = next_of(schedule, self._lent.now())
        return self._lent.say(
            "digest.added", id=added.id, schedule=str(schedule), cluster=self._cluster(cluster), next=_moment(coming)
        )

    async def _listed(self, channel: str) -> Message:
        say = self._lent.say
        found = await self._rows.wanted(channel)
        if not found:
            return progress(say("digest.none"))
        told = (
            say("digest.line", id=one.id, schedule=str(one.schedule), cluster=self._cluster(one.cluster), by=one.by)
            for one in found
        )
        return render_help("\n".join(told))

    def _cluster(self, name: str) -> str:
        return name or self._lent.say("digest.usual")

    async def _audit(self, who: Person, action: str, target: str) -> None:
        append = self._lent.store.audit.append
        await append(actor=who.user, action=action, target=target, outcome="done", detail={"channel": who.channel})

    # ------------------------------------------------------------------------------------------------- telling

    async def _told(self, channel: str, cluster: str, late: str) -> tuple[Told, list[File]]:
        """Raises BotError when the cluster cannot be read."""
        meant = self._lent.cluster_of(cluster)
        try:
            async with asyncio.timeout(READING_S), self._lent.open_sources(meant) as sources:
                playbook = find("digest")
                snapshot = await playbook.gather(playbook.request(), sources)
        except TimeoutError as error:
            raise BotError(f"the cluster was not read within {READING_S:g} s") from error
        report: Report = await asyncio.to_thread(playbook.diagnose, snapshot, self._lent.say)
        gpus = snapshot.parts.get("gpus")
        files = await asyncio.to_thread(self._picture, gpus) if gpus is not None else []
        before = await self._rows.before(channel, cluster)
        opened = len(await self._lent.store.changes(meant).opened())
        return Told(report, before, _figures(report), opened, late), files

    def _picture(self, gpus: object) -> list[File]:
        report = find("gpus").diagnose(gpus, self._lent.say)
        drawn = picture(report)
        return [File("gpus.png", drawn, report.verdict, alt_text(report))] if drawn else []

    async def _put(self, key: str, channel: str, told: Told, files: Sequence[File]) -> None:
        await self._lent.outbox.put(key, channel, render_digest(told, self._lent.say, files))


def _figures(report: Report) -> Figures:
    table = next(one for one in report.tables if one.title == "figures")
    return {f"{area}/{what}": value for area, what, value in table.rows}


def _moment(slot: Slot | None) -> str:
    return datetime.fromtimestamp(slot.at, UTC).strftime("%Y-%m-%d %H:%M UTC") if slot else "-"


def _wrong(message: str, example: str = "digest daily 09:00 Asia/Shanghai") -> UsageError:
    return UsageError(message, hint=f"For example: {example}")
