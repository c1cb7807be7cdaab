"""Checks now and then whether the bot can still hear and tell, and tells whoever is left when it cannot."""

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

from bot.endpoint import Take
from bot.errors import BotError, bugs_as_errors
from bot.health import HealthFacts, SteadyAge, Trouble, judge
from bot.kube.models import NODES, PODS
from bot.periodic_jobs import Clock
from bot.settings.schema import Settings, channels_of
from bot.slack.failures import Problem, SlackFailure
from bot.slack.message import Message
from bot.slack.render.text import escape
from bot.store import StoreError
from bot.store.facts import Mark, MarkRows
from bot.texts import Prose, Text, in_english
from bot.triage.webhook import Alert
from handlers.deps import Deps
from handlers.doctor.selftest import BLIND

WATCHDOG = "Watchdog"
"""The alert of kube-prometheus-stack that always fires."""
PACE_S = 60.0
_ALL_EVERY = 10
"""Looks, of which one asks about every channel; the others about those where something is wrong."""
_MOST_PEOPLE = 5
_ENDING_S = 3.0
_TOLD_S = 900.0
"""What another replica, or this one before it was started again, told of the store so long ago is not told again."""
READ_S = 20.0
"""A cluster that was not read within so many seconds could not be read."""
_LEASE, HEARD, _PROBE, _OPEN = "troubles", "watchdog", "probe", "trouble:"

log = logging.getLogger(__name__)


class Watched(NamedTuple):
    """`channels` are those of the settings, the first told first; `people` get direct messages where none is left.

    `watchdog_s` may pass between two Watchdog alerts, 0: any time. `may_join`: public channels, by the bot's scopes.
    """

    channels: tuple[str, ...] = ()
    people: tuple[str, ...] = ()
    watchdog_s: float = 0.0
    may_join: bool = False


def watched(settings: Settings, scopes: Iterable[str]) -> Watched:
    """What the settings name. User groups get no direct messages."""
    oncall, access = settings.oncall, settings.access
    rota = [person for person in (oncall.rota if oncall else ()) if person.startswith(("U", "W"))]
    people = rota or [operator for operator in access.operators if operator.startswith(("U", "W"))]
    minutes = oncall.watchdog_minutes if oncall else 0
    return Watched(channels_of(settings), tuple(people[:_MOST_PEOPLE]), minutes * 60.0, "channels:join" in scopes)


def hearing(take: Take, marks: MarkRows) -> Take:
    """Takes alerts; Watchdog is a sign of life and no incident."""

    async def taken(alerts: list[Alert]) -> None:
        others = [alert for alert in alerts if alert.name != WATCHDOG]
        if any(alert.name == WATCHDOG and alert.status == "firing" for alert in alerts):
            await marks.set(HEARD)
        if others or not alerts:
            await take(others)

    return taken


class HealthMonitor:
    """What is wrong, as of the last look. `live` is what needs no look. `owner` is this process's name alone.

    `clock` is one that does not jump, in seconds. A cluster that is not read within `patience_s` could not be read.
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
        """Why a cluster could not be read at the last look, and since when; None before the first look at them."""
        self._looks = self._looked = 0
        self._seen = HealthFacts(watchdog_s=watched.watchdog_s)
        self._store_fails = False
        self._told_directly: tuple[str, ...] = ()

    def troubles(self) -> list[Trouble]:
        """What is wrong now."""
        live = self._live()
        unread = {name: (why, self._clock() - since) for name, (why, since) in (self._unread or {}).items()}
        token = live.token or self._seen.token
        return judge(self._seen._replace(stopped=live.stopped, token=token, deaf_s=live.deaf_s, unread=unread))

    def why_not_ready(self) -> str:
        """Why nothing should be sent to this process, a line each; empty when it is ready."""
        return "\n".join(in_english(trouble.text) for trouble in self.troubles() if trouble.is_unready)

    def notes(self) -> str:
        """What else is wrong, a line each."""
        return "".join(f"{in_english(trouble.text)}\n" for trouble in self.troubles() if not trouble.is_unready)

    @asynccontextmanager
    async def looking(self, clock: Clock) -> AsyncGenerator[None]:
        """Looks while the context lasts. A look that has begun is let end: it may be writing to the store."""
        idle = asyncio.Lock()

        async def look() -> None:
            async with idle:
                await self.look()

        task = asyncio.create_task(clock.repeat(self._pace_s, "looking for problems", look))
        try:
            yield
        finally:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_ENDING_S):
                    await idle.acquire()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def look(self) -> None:
        """Asks the store, Slack and the clusters, and tells what is new or over.

        Clusters are not asked by the first look: then the bot starts, and has them to open.
        """
        await self._ask_store()
        await self._ask_slack()
        if self._looks:
            await self._ask_clusters()
        self._looks += 1
        found = self.troubles()
        await self._tell_of_store(next((trouble for trouble in found if trouble.kind == "store"), None))
        if not self._seen.store:
            await self._tell(
                [trouble for trouble in found if trouble.kind in {"channel", "outbox", "watchdog", "blind"}]
            )

    # ------------------------------------------------------------------------------------------------------ asking

    async def _ask_store(self) -> None:
        store, now, at = self._deps.store, self._deps.now(), self._clock()
        try:
            await store.marks.set(_PROBE)
            oldest = await store.outbox.oldest()
            heard = await store.marks.all(HEARD)
            blind = {mark.name.removeprefix(BLIND): mark.text for mark in await store.marks.all(BLIND)}
        except StoreError as error:
            self._seen = self._seen._replace(store=error.message)
            return
        channel, queued_at = oldest or ("", now)
        last = max([self._began, *(mark.at for mark in heard)])
        oldest_s, unheard_s = self._waiting.of(now - queued_at, at), self._unheard.of(now - last, at)
        self._seen = self._seen._replace(
            store="", oldest_s=oldest_s, oldest_for=channel, unheard_s=unheard_s, blind=blind
        )

    async def _ask_slack(self) -> None:
        """Whether the token is good, which was proven at the start, and whether the bot may post to its channels."""
        closed = dict(self._seen.closed)
        channels = await self._channels()
        some = channels if self._looked % _ALL_EVERY == 0 else {*closed, *self._deps.outbox.refused()} & {*channels}
        try:
            if self._looked:
                await self._deps.gateway.identity()
            for channel in some:
                closed |= {channel: await self._why_closed(channel)}
        except SlackFailure as failure:
            refused = self._seen.token or failure.problem is Problem.AUTH  # what else it may be says nothing of it
            self._seen = self._seen._replace(token=refused)
            return
        shut = {channel: why for channel, why in closed.items() if why and channel in channels}
        self._seen = self._seen._replace(token=False, closed=shut)
        self._looked += 1

    async def _ask_clusters(self) -> None:
        names, known = self._deps.clusters or ("",), self._unread or {}
        found = zip(names, await asyncio.gather(*map(self._why_unread, names)), strict=True)
        self._unread = {name: (why, known[name][1] if name in known else self._clock()) for name, why in found if why}

    async def _why_unread(self, cluster: str) -> Prose:
        """Why the cluster cannot be read, empty if it can.

        A pod is always asked for. Nodes come from memory as long as their watch tells something, and are read anew
        where it is silent.
        """
        try:
            async with asyncio.timeout(self._patience_s), self._deps.open_sources(cluster) as sources:
                with bugs_as_errors():
                    await sources.cluster.list(PODS, metadata_only=True, most=1)
                    await sources.cluster.list(NODES)
        except TimeoutError:
            return Text("doctor.no-answer", seconds=f"{self._patience_s:.0f}")
        except BotError as error:
            return error.message
        return ""

    async def _channels(self) -> tuple[str, ...]:
        """Those of the settings, and of digests."""
        try:
            channels = [digest.channel for digest in await self._deps.store.digests.wanted()]
        except StoreError:
            channels = []
        rooms = [channel for channel in channels if channel.startswith(("C", "G"))]
        return tuple(dict.fromkeys((*self._watched.channels, *rooms)))

    async def _why_closed(self, channel: str) -> Prose:
        """Why the bot cannot post there, empty if it can. A public channel is joined. Raises SlackFailure."""
        gateway = self._deps.gateway
        try:
            await gateway.find(channel, _PROBE, oldest=self._deps.now())
        except SlackFailure as failure:
            if failure.problem not in {Problem.FORBIDDEN, Problem.GONE}:
                raise
            if failure.error != "not_in_channel" or not self._watched.may_join:
                return failure.error or failure.message
        else:
            return ""
        try:
            await gateway.join(channel)
        except SlackFailure as failure:
            if failure.problem is Problem.AUTH:
                raise
            return failure.error or failure.message
        return ""

    # ----------------------------------------------------------------------------------------------------- telling

    def _places(self, trouble: Trouble) -> tuple[str, ...]:
        """Where it is told: the first channel that is open and not what it is about, else every one of the people."""
        shut = {*self._seen.closed, trouble.channel}
        rooms = [channel for channel in self._watched.channels if channel not in shut]
        return tuple(rooms[:1]) or self._watched.people

    async def _tell_of_store(self, trouble: Trouble | None) -> None:
        """Straight to Slack: nothing can be kept. Once, as far as this process remembers, or Slack not long ago."""
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
        """Each is told once, and its end, by one replica: what was told stands in the store until it is over."""
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
            await self._put(mark, is_over=is_over)
            if is_over:
                await marks.drop(mark.name)

    async def _put(self, mark: Mark, *, is_over: bool) -> None:
        """Again at every look: the same again does nothing, and what a process that died had not put is put now."""
        places, text, what = json.loads(mark.text)
        over = self._deps.say("trouble.over", what=escape(str(what)))
        for place in places:
            key = f"{mark.name}:{mark.at:.3f}"
            if is_over:
                await self._deps.outbox.put(f"{key}:over", place, Message(over), severity="warning")
            else:
                await self._deps.outbox.put(key, place, Message(text), severity="critical")

    def _message(self, trouble: Trouble) -> Message:
        say = self._deps.say
        what = escape(say.words(trouble.text))
        if trouble.channel.startswith(("C", "G")):
            what = what.replace(trouble.channel, f"<#{trouble.channel}>")
        return Message(say("trouble.message", what=what, cure=trouble.cure))
