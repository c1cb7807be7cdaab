"""Checks every minute whether the bot can still receive and send, and tells whoever can be reached if it cannot.

Less often the bot tests itself: by a question whose answer is known, and by what it has to read of each cluster. The
store keeps failures, so that every replica tells the same about them in `bot.health`, /metrics and `doctor`.
"""

import asyncio
import json
import logging
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

from msgspec.structs import replace

from bot.endpoint import Take
from bot.health import HealthFacts, SteadyAge, Trouble, judge
from bot.periodic_jobs import Clock
from bot.settings.schema import Settings, channels_of
from bot.slack.failures import SlackFailure
from bot.slack.message import Message
from bot.slack.render.text import escape
from bot.store import StoreError
from bot.store.facts import MarkRows
from bot.texts import Prose, in_english, stored_text
from bot.triage.webhook import Alert
from handlers.deps import Deps, TaskLease
from handlers.doctor.checks import BLIND, HEARD, Kept, at_cluster, blind_marks, find_links
from handlers.doctor.links import Workspace, is_of_token, wrong_with

WATCHDOG = "Watchdog"
"""The alert of kube-prometheus-stack that always fires."""
PACE_S = 60.0
_ALL_EVERY = 10
"""Every so many looks the monitor asks about every channel; the other looks ask about channels with a problem."""
_MOST_PEOPLE = 5
_TOLD_S = 900.0
"""Seconds in which a message about the store, from any replica or before a restart, is not repeated."""
READ_S = 20.0
"""Seconds after which a cluster that has not answered counts as one that could not be read."""
_LEASE, _OPEN = "troubles", "trouble:"

log = logging.getLogger(__name__)


class Watched(NamedTuple):
    """Whom the health monitor tells. It tells the first open one of `channels`; if none is open, `people` get direct
    messages. `watchdog_s` is the longest time between two Watchdog alerts, in seconds; 0: no limit.
    """

    channels: tuple[str, ...] = ()
    people: tuple[str, ...] = ()
    watchdog_s: float = 0.0


def watched(settings: Settings) -> Watched:
    """The channels and people of the settings that the health monitor tells. User groups get no direct messages."""
    oncall, access = settings.oncall, settings.access
    rota = [person for person in (oncall.rota if oncall else ()) if person.startswith(("U", "W"))]
    people = rota or [operator for operator in access.operators if operator.startswith(("U", "W"))]
    minutes = oncall.watchdog_minutes if oncall else 0
    return Watched(channels_of(settings), tuple(people[:_MOST_PEOPLE]), minutes * 60.0)


def noting_watchdog(take: Take, marks: MarkRows) -> Take:
    """Wraps `take`: notes the Watchdog alert as a sign of life in the store and hands on all other alerts."""

    async def taken(alerts: list[Alert]) -> None:
        others = [alert for alert in alerts if alert.name != WATCHDOG]
        if any(alert.name == WATCHDOG and alert.status == "firing" for alert in alerts):
            await marks.set(HEARD)
        if others or not alerts:
            await take(others)

    return taken


class HealthMonitor:
    """Finds out what is wrong with the bot, and tells it.

    `live` gives facts that need no look; `owner` is a name that only this process has; `clock` is monotonic, in
    seconds. A cluster that has not answered after `patience_s` seconds counts as one that could not be read.
    """

    def __init__(
        self,
        deps: Deps,
        watched: Watched,
        live: Callable[[], HealthFacts],
        owner: str,
        pace_s: float = PACE_S,
        *,
        clock: Callable[[], float] = time.monotonic,
        patience_s: float = READ_S,
    ) -> None:
        self._deps = deps
        self._watched = watched
        self._live = live
        self._owner = owner
        self._pace_s = pace_s
        self._clock = clock
        self._patience_s = patience_s
        self._began = deps.now()
        self._waiting, self._unheard = SteadyAge(), SteadyAge()
        self._unread: dict[str, tuple[Prose, float]] | None = None
        """Why a cluster could not be read at the last look, and since when; None before the first look at clusters."""
        self._looks = self._looked = 0
        self._seen = HealthFacts(watchdog_s=watched.watchdog_s)
        self._store_fails = False
        self._told_directly: tuple[str, ...] = ()

    def troubles(self) -> list[Trouble]:
        """What is wrong now, by the last look and `live`."""
        live = self._live()
        unread = {name: (why, self._clock() - since) for name, (why, since) in (self._unread or {}).items()}
        token = live.token or self._seen.token
        return judge(replace(self._seen, stopped=live.stopped, token=token, deaf_s=live.deaf_s, unread=unread))

    def why_not_ready(self) -> str:
        """Why this process should get no traffic, one reason per line; empty if it is ready."""
        return "\n".join(in_english(trouble.text) for trouble in self.troubles() if trouble.is_unready)

    def notes(self) -> str:
        """Troubles that do not make the process unready, one per line."""
        return "".join(f"{in_english(trouble.text)}\n" for trouble in self.troubles() if not trouble.is_unready)

    async def run(self, clock: Clock) -> None:
        """Looks every `pace_s` seconds until it is cancelled."""
        await clock.repeat(self._pace_s, "looking for problems", self.look)

    async def look(self) -> None:
        """Asks the store, Slack and the clusters, and tells troubles that are new or over. The first look leaves
        clusters out, because the bot is starting and has yet to open them.
        """
        await self._ask_store()
        await self._ask_slack()
        if self._looks:
            names, known = self._deps.clusters or ("",), self._unread or {}
            opened, within_s = self._deps.open_sources, self._patience_s
            asking = (at_cluster("monitor", opened(name), name, within_s=within_s) for name in names)
            whys = zip(names, map(wrong_with, await asyncio.gather(*asking)), strict=True)
            now = self._clock()
            self._unread = {name: (why, known[name][1] if name in known else now) for name, why in whys if why}
        self._looks += 1
        found = self.troubles()
        await self._tell_of_store(next((trouble for trouble in found if trouble.kind == "store"), None))
        if not self._seen.store:
            await self._tell([trouble for trouble in found if not trouble.is_unready])

    # ------------------------------------------------------------------------------------------------------ asking

    async def _ask_store(self) -> None:
        store, now, at = self._deps.store, self._deps.now(), self._clock()
        if why := wrong_with(await find_links("monitor", Kept(store.marks))):
            self._seen = replace(self._seen, store=why)
            return
        try:
            oldest = await store.outbox.oldest()
            heard = await store.marks.all(HEARD)
            blind = {cluster: mark.text for cluster, mark in (await blind_marks(store.marks)).items()}
        except StoreError as error:
            self._seen = replace(self._seen, store=error.message)
            return
        channel, queued_at = oldest or ("", now)
        last = max([self._began, *(mark.at for mark in heard)])
        oldest_s, unheard_s = self._waiting.of(now - queued_at, at), self._unheard.of(now - last, at)
        self._seen = replace(
            self._seen, store="", oldest_s=oldest_s, oldest_for=channel, unheard_s=unheard_s, blind=blind
        )

    async def _ask_slack(self) -> None:
        """Whether the token is good, and whether the bot may post to its channels. A public channel is joined."""
        closed = dict(self._seen.closed)
        channels = await self._channels()
        some = channels if self._looked % _ALL_EVERY == 0 else {*closed, *self._deps.outbox.refused()} & {*channels}
        links = await find_links("monitor", Workspace(self._deps.gateway, channels=tuple(some), joins=True))
        refused = any(map(is_of_token, links))
        if refused or links[0].state != "ok":  # what else may be wrong says nothing of the token
            self._seen = replace(self._seen, token=self._seen.token or refused)
            return
        asked = {link.about: link for link in links if link.name == "slack-channel" and link.state != "degraded"}
        closed |= {channel: link.seen if link.state == "failed" else "" for channel, link in asked.items()}
        shut = {channel: why for channel, why in closed.items() if why and channel in channels}
        self._seen = replace(self._seen, token=False, closed=shut)
        self._looked += len(asked) == len(some)

    async def _channels(self) -> tuple[str, ...]:
        try:
            channels = [digest.channel for digest in await self._deps.store.digests.wanted()]
        except StoreError:
            channels = []
        rooms = [channel for channel in channels if channel.startswith(("C", "G"))]
        return tuple(dict.fromkeys((*self._watched.channels, *rooms)))

    # ----------------------------------------------------------------------------------------------------- telling

    def _places(self, trouble: Trouble) -> tuple[str, ...]:
        """The first channel that is open and not what the trouble is about, else every one of the people."""
        shut = {*self._seen.closed, trouble.channel}
        rooms = [channel for channel in self._watched.channels if channel not in shut]
        return tuple(rooms[:1]) or self._watched.people

    async def _tell_of_store(self, trouble: Trouble | None) -> None:
        """Posts straight to Slack, as nothing can be kept; once, by what this process or Slack's messages show."""
        if trouble and not self._store_fails:
            log.error("%s", in_english(trouble.text))
        elif self._store_fails and not trouble:
            log.warning("the store takes writes again")
        self._store_fails = bool(trouble)
        if trouble and not self._told_directly:
            reached = [place for place in self._places(trouble) if await self._say(place, self._message(trouble))]
            self._told_directly = tuple(reached)
        elif not trouble and self._told_directly:
            over = Message(self._deps.say("trouble.store-over"))
            for place in self._told_directly:
                await self._deps.outbox.put(f"{_OPEN}store:{self._deps.now()}", place, over, severity="warning")
            self._told_directly = ()

    async def _say(self, place: str, message: Message) -> bool:
        gateway, key = self._deps.gateway, f"{_OPEN}store"
        try:
            if await gateway.find(place, key, oldest=self._deps.now() - _TOLD_S) is None:
                await gateway.say(place, message, key=key)
        except SlackFailure as failure:
            log.warning("nobody was told in %s: %s", place, in_english(failure.message))
            return False
        return True

    async def _tell(self, found: Sequence[Trouble]) -> None:
        """Tells each trouble once, and its end, by one replica: the store keeps what was told until it is over."""
        marks = self._deps.store.marks
        if not await self._deps.store.task_leases.hold(_LEASE, self._owner, 3 * self._pace_s):
            return
        open_ = {mark.name: mark for mark in await marks.all(_OPEN)}
        for trouble in found:
            if (name := f"{_OPEN}{trouble.key}") not in open_ and not trouble.may_pass:
                log.warning("%s", in_english(trouble.text))
                kept = [self._places(trouble), self._message(trouble).text, self._deps.say.words(trouble.text)]
                await marks.set(name, json.dumps(kept))
        still = {f"{_OPEN}{trouble.key}" for trouble in found}
        for mark in await marks.all(_OPEN):
            is_unknown = self._unread is None and mark.name.startswith(f"{_OPEN}blind:")
            is_over = mark.name not in still and not is_unknown
            places, text, what = json.loads(mark.text)
            key, message, severity = f"{mark.name}:{mark.at:.3f}", Message(text), "critical"
            if is_over:
                over = self._deps.say("trouble.over", what=escape(str(what)))
                key, message, severity = f"{key}:over", Message(over), "warning"
            for place in places:  # again at every look: what a process that died had not put is put now
                await self._deps.outbox.put(key, place, message, severity=severity)
            if is_over:
                await marks.drop(mark.name)

    def _message(self, trouble: Trouble) -> Message:
        say = self._deps.say
        link = f"<#{trouble.channel}>" if trouble.channel.startswith(("C", "G")) else ""
        values = {
            name: link if link and value == trouble.channel else escape(say.words(cast("Prose", value)))
            for name, value in trouble.text.values.items()
        }
        what = say.words(stored_text(trouble.text.key, values))
        return Message(say("trouble.message", what=what, cure=trouble.cure))


EVERY_S = 3600.0
TEST_PACE_S = 300.0
"""Seconds between two self-tests while something is wrong, and between two looks whether one is due."""
_TESTED = "self-test"
"""The mark in the store of the time of the last test."""
_TEST_WITHIN_S = 120.0


class SelfTest:
    """Tests the bot, in one replica at a time. A cluster that two tests in a row could not read is reported."""

    def __init__(self, deps: Deps, owner: str, pace_s: float = TEST_PACE_S) -> None:
        self._deps = deps
        self._lease = TaskLease(deps, _TESTED, owner, 2.5 * pace_s)
        self._pace_s = pace_s
        self._failed: set[str] = set()

    async def run(self, clock: Clock) -> None:
        """Tests every hour until it is cancelled; the first time after `pace_s` seconds."""
        await clock.repeat(self._pace_s, "the self-test ended early", self._look, at_once=False)

    async def _look(self) -> None:
        if not await self._lease.is_mine():
            return
        marks = self._deps.store.marks
        is_wrong = bool(self._failed or await marks.all(BLIND))
        if is_wrong or all(self._deps.now() - mark.at >= EVERY_S for mark in await marks.all(_TESTED)):
            await self.test()

    async def test(self) -> None:
        """Makes one test of everything, and writes the result to the store."""
        marks, known = self._deps.store.marks, set(await blind_marks(self._deps.store.marks))
        wrong = wrong_with(await find_links("self-test", None))
        failed: dict[str, str] = {}
        for name in self._deps.clusters or ("",):
            opened = self._deps.open_sources(name)
            links = [] if wrong else await at_cluster("self-test", opened, name, within_s=_TEST_WITHIN_S)
            if why := wrong or wrong_with(links):
                failed[name] = self._deps.say.words(why)
        for name, why in failed.items():
            log.warning("the self-test of the cluster %s failed: %s", name or "(default)", why)
            if name in self._failed and name not in known:
                await marks.set(f"{BLIND}{name}", why)
        for name in known - failed.keys():
            await marks.drop(f"{BLIND}{name}")
        self._failed = set(failed)
        await marks.set(_TESTED)
