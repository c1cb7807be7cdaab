"""Scheduled digests: people add and end them in Slack; whichever replica first claims a due one posts it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Literal, NamedTuple

from bot.digest.figures import FigureRow, Figures, OwnerRow, memory_by_model, trends
from bot.digest.schedule import Schedule, due, is_zone, next_of, previous_of, read_words
from bot.errors import BotError, UsageError, bugs_as_errors
from bot.periodic_jobs import Clock
from bot.render.picture import picture
from bot.render.trend import trend_picture, trend_words
from bot.render.words import visible
from bot.report import NEWER_HAMI, Report, one_line
from bot.slack.message import File, Message
from bot.slack.people import People
from bot.slack.render.digest import DigestPost, render_added, render_digest, render_list
from bot.slack.render.prose import progress
from bot.store import StoreError
from bot.store.audit import AuditLine
from bot.store.digests import Digest, DigestKind, GivenDigest, PostedDigest
from bot.texts import Prose, Text
from handlers.changes.draft import Person, Refused, check_room
from handlers.deps import Deps
from handlers.oncall.words import CRON_EXAMPLE, DIGEST_EXAMPLE, REPORT_EXAMPLE, REPORT_OFF
from handlers.parsing.slack_grammar import COMMAND
from playbooks.own.discovery import find

TICK_S = 5.0
READING_S = 120.0
AT_ONCE = 4
"""How many digests are made at the same time: a cluster that hangs does not hold up the others' digests."""
MOST = 10
"""How many digests a channel may have."""
TREND = 14
"""How many digests the picture of the trend shows."""
_LATE_S = 600.0
_REASON = 200

log = logging.getLogger(__name__)


class AddDigest(NamedTuple):
    """A request to add a digest, as `digest daily 09:00 Asia/Shanghai`, or the weekly on-call report."""

    schedule: Schedule
    kind: DigestKind = "digest"


class Stop(NamedTuple):
    """A request to stop a digest: `digest stop ID`, or with no id `oncall report off`."""

    id: str = ""


MakeReport = Callable[[float, float, str], Awaitable[Message]]

DigestAsked = AddDigest | Stop | Literal["now", "list"]


def read_digest(words: Sequence[str], zone: str = "") -> DigestAsked:
    """Reads the request from the words after `digest`; `zone` is the person's. Raises UsageError with an example."""
    match words:
        case ["now"]:
            return "now"
        case [] | ["list"]:
            return "list"
        case ["stop", one] if one:
            return Stop(one)
        case ["stop", *_]:
            raise _wrong(Text("error-oncall.digest-stop-needs-id"), "digest stop 3fa29c")
        case [days, hour, half, *rest] if half.lower() in ("am", "pm"):
            return read_digest([days, f"{hour}{half}", *rest], zone)
        case _:
            typed = [part for word in words for part in word.split()]  # of a quoted cron expression
    unnamed, example = len(typed) in (2, 5), CRON_EXAMPLE if len(typed) > 4 else DIGEST_EXAMPLE
    schedule = read_words([*typed, zone or "UTC"] if unnamed else typed)
    if isinstance(schedule, Text):  # what else is wrong counts before a zone that is missing
        raise _wrong(schedule, example)
    if unnamed and not zone:
        raise _wrong(Text("error-oncall.digest-zone-missing"), example)
    return AddDigest(schedule)


class Digests:
    """The digests of all channels; `given` are those of the settings. `report` makes the on-call report between two
    moments (unix seconds), with the time it was due if that is past; None: there are no incidents.
    """

    def __init__(
        self, deps: Deps, *, report: MakeReport | None = None, given: Sequence[GivenDigest] | None = None
    ) -> None:
        self._deps = deps
        self._given = given
        self._report = report
        self._rows = deps.store.digests
        self._people = People(deps.gateway)
        self._failed: dict[str, str] = {}

    async def run(self, clock: Clock) -> None:
        """Looks for due digests every few seconds, until it is cancelled."""
        await clock.repeat(TICK_S, "digests", self.look)

    async def look(self) -> None:
        """Posts digests that are due; for those that were missed for good it posts a note that says so."""
        if self._given is not None:
            await self._rows.keep_given(self._given)
            self._given = None  # once for each process
        turns = asyncio.Semaphore(AT_ONCE)

        async def look_in_turn(digest: Digest) -> None:
            try:
                async with turns:
                    with bugs_as_errors():
                        await self._look_at(digest)
            except StoreError:
                raise
            except BotError as error:  # of one digest: tried again later
                self._failed[digest.id] = one_line(self._deps.say.words(error.message), _REASON)
                log.warning("the digest %s of %s: %s", digest.id, digest.channel, error)
                await self._rows.put_off(digest)

        looks = map(look_in_turn, await self._rows.wanted())
        for error in await asyncio.gather(*looks, return_exceptions=True):
            if error is not None:
                raise error

    async def _look_at(self, digest: Digest) -> None:
        now = self._deps.now()
        found = due(digest.schedule, digest.since, now)
        newest = found.post or (found.skipped[-1] if found.skipped else None)
        if newest is None or not await self._rows.claim(digest, newest):
            return
        key, say = f"digest:{digest.id}:{newest.wall}", self._deps.say
        if found.post is None:
            why = self._failed.pop(digest.id, "") or say("digest.away")
            missed = say("digest.missed", day=newest.wall, cluster=self._cluster(digest.cluster), why=why)
            if digest.kind == "oncall":
                missed = say("digest.report-missed", day=newest.wall, why=why)
            await self._deps.outbox.put(key, digest.channel, progress(missed))
        await self._rows.skip(digest, found.skipped)
        if found.post is None:
            return
        late = newest.wall if self._deps.now() - newest.at > _LATE_S else ""
        figures: Figures = {}
        if digest.kind == "digest":
            post, files = await self._told(digest.channel, digest.cluster, late)
            message, figures = render_digest(post, files).in_words(say), post.after
        elif self._report is None:
            raise BotError(Text("error-oncall.settings-lack-oncall"))
        else:
            before = previous_of(digest.schedule, newest.at)
            message = await self._report(before.at if before else 0.0, newest.at, late)
        await self._deps.outbox.put(key, digest.channel, message)
        await self._rows.mark_posted(digest, newest, figures)
        self._failed.pop(digest.id, None)

    # -------------------------------------------------------------------------------------------------- people

    async def zone_of(self, user: str) -> str:
        """The person's time zone as Slack has it; empty if Slack does not say."""
        person = await self._people.person(user)
        return person.zone if person and is_zone(person.zone) else ""

    async def do(self, key: str, who: Person, asked: DigestAsked, cluster: str) -> str | Message:
        """Carries out a person's request, once for each `key`; returns the text or message for them."""
        say = self._deps.say
        if asked == "now" or isinstance(asked, AddDigest):
            hint = Text("error-oncall.invite-me")
            await check_room(self._deps.gateway, who.channel, Text("error-oncall.i-may-not-post"), hint)
        match asked:
            case "now":
                post, files = await self._told(who.channel, cluster, "")
                await self._deps.outbox.put(f"digest:now:{key}", who.channel, render_digest(post, files).in_words(say))
                return say("digest.posted")
            case AddDigest():
                return await self._add(key, who, cluster, asked)
            case "list":
                return await self._listed(who.channel, cluster)
            case Stop(""):  # of the channel, which has one at most
                wanted = await self._rows.wanted(who.channel)
                found = next((digest.id for digest in wanted if digest.kind == "oncall"), "")
                if not await self._rows.stop(found, who.channel, _line(who, "digest-stop", found), key):
                    raise Refused(say("digest.no-report"), example=REPORT_EXAMPLE)
                return say("digest.report-stopped")
            case Stop(one):
                if not await self._rows.stop(one, who.channel, _line(who, "digest-stop", one), key):
                    raise Refused(say("digest.unknown", id=one[:20]), hint=Text("error-oncall.digest-list-shows"))
                return say("digest.stopped", id=one)

    async def _add(self, key: str, who: Person, cluster: str, asked: AddDigest) -> Message:
        schedule, kind = asked
        if not await self._rows.is_added(key):
            found = await self._rows.wanted(who.channel)
            if len(found) >= MOST:
                raise Refused(
                    Text("error-oncall.too-many-digests", most=MOST), hint=Text("error-oncall.digest-stop-id-ends-one")
                )
            if kind == "oncall" and (digest := next((digest for digest in found if digest.kind == kind), None)):
                raise Refused(self._deps.say("digest.report-there", schedule=str(digest.schedule)), hint=REPORT_OFF)

        def noted(added: Digest) -> AuditLine:
            return _line(who, "digest-add", f"{added.id} {schedule}")

        added = await self._rows.add(who.channel, cluster, schedule, who.user, kind=kind, noted=noted, once=key)
        return render_added(self._in_words("added", added))

    async def _listed(self, channel: str, cluster: str) -> Message:
        say = self._deps.say
        found = await self._rows.wanted(channel)
        lines = [self._in_words("line", digest) for digest in found]
        words = (DIGEST_EXAMPLE, CRON_EXAMPLE, "digest now", f"digest stop {found[0].id if found else 'ID'}")
        means = (say("digest.how-days"), say("digest.how-cron"), say("digest.how-now"), say("digest.how-stop"))
        ways = [(f"{COMMAND} {word}", does) for word, does in zip(words, means, strict=True)]
        return render_list(lines, ways, cluster).in_words(say)

    def _in_words(self, what: Literal["added", "line"], digest: Digest) -> str:
        say, occurrence = self._deps.say, next_of(digest.schedule, self._deps.now())
        coming = datetime.fromtimestamp(occurrence.at, UTC).strftime("%Y-%m-%d %H:%M UTC") if occurrence else "-"
        if digest.kind == "oncall":
            report = "digest.report-added" if what == "added" else "digest.report-line"
            return say(report, id=digest.id, schedule=str(digest.schedule), next=coming)
        about = self._cluster(digest.cluster)
        key = "digest.added" if what == "added" else "digest.line"
        return say(key, id=digest.id, schedule=str(digest.schedule), cluster=about, next=coming)

    def _cluster(self, name: str) -> str:
        return name or self._deps.say("digest.usual")

    # ------------------------------------------------------------------------------------------------- telling

    async def _told(self, channel: str, cluster: str, late: str) -> tuple[DigestPost, list[File]]:
        meant = self._deps.cluster_of(cluster)
        try:
            async with asyncio.timeout(READING_S), self._deps.open_sources(meant) as sources:
                playbook = find("digest")
                snapshot = await playbook.gather(playbook.request(), sources)
        except TimeoutError as error:
            raise BotError(Text("error-oncall.cluster-was-not-read", seconds=f"{READING_S:g}")) from error
        report: Report = await asyncio.to_thread(playbook.report, snapshot, self._deps.say)
        earlier = await self._rows.last(channel, cluster, TREND - 1)
        opened = [change.record for change in await self._deps.store.changes(meant).opened()]
        after = {f"{row.area}/{row.what}": row.value for row in report.typed(FigureRow)}
        after |= {f"changes/{record.target} {record.flag} {record.new}": "1" for record in opened}
        now = self._deps.now()
        files = await asyncio.to_thread(
            self._pictures, snapshot.scene.parts.get("gpus"), [*earlier, PostedDigest(now, after)]
        )
        before = earlier[-1].figures if earlier else None
        newer = next((gap.why for gap in report.gaps if gap.source == NEWER_HAMI), "")
        owners, room = report.typed(OwnerRow), memory_by_model(after, now)
        post = DigestPost(report, before, after, len(opened), late, owners=owners, rooms=room, newer=newer)
        return post, files

    def _pictures(self, gpus: object, runs: Sequence[PostedDigest]) -> list[File]:
        say, files = self._deps.say, list[File]()
        points = trends(runs)
        if trend := trend_picture(points, say):
            title = say("digest.trend", count=len(runs))
            went = (
                say("digest.trend-kind", type=kind, memory=had, largest=left) for kind, had, left in trend_words(points)
            )
            files.append(File("trend.png", trend, title, ". ".join([title, *went])))
        report = find("gpus").report(gpus, say) if gpus is not None else None
        if report is not None and (drawn := picture(report, say)):
            files.append(File("gpus.png", drawn, report.verdict, visible(report.verdict)))
        return files


def _line(who: Person, action: str, target: str) -> AuditLine:
    return AuditLine(who.user, action, target, "done", {"channel": who.channel})


def _wrong(message: Prose, example: str = DIGEST_EXAMPLE) -> UsageError:
    return UsageError(message, example=example)
