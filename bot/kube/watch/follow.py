"""Followers, which keep a mirror of one list: they list, watch, and list again when the watch cannot go on."""

import asyncio
import logging
import random
from contextvars import Context
from typing import Any, Generic, NamedTuple, TypeVar

from bot import process_counters
from bot.errors import SourceError
from bot.gc_tuning import give_back
from bot.kube.client.live import LiveCluster, Selection
from bot.kube.client.requests import ForbiddenError, StaleListError
from bot.kube.models import HOLDERS, Holder, Resource
from bot.kube.models.base import keep
from bot.kube.times import parse_time
from bot.kube.watch.mirror import Bookmark, EventReader, Mirror, version_of
from bot.texts import Text, in_english

R = TypeVar("R", bound=Resource)
T = TypeVar("T")

log = logging.getLogger(__name__)


class FollowPace(NamedTuple):
    """A follower's timing, in seconds. `silence_s`: a watch that is silent for so long is cut, and its list is too old
    to answer with; an API server sends a bookmark every 60 s. `watch_s`: how long a watch may last; servers end them
    after 30 to 60 minutes by themselves. `retry_s` doubles with every failure in a row up to `longest_retry_s`.
    `forbidden_s`: until a refused watch is tried again.
    """

    silence_s: float = 75
    watch_s: float = 600
    retry_s: float = 1
    longest_retry_s: float = 60
    forbidden_s: float = 600


async def wait_for_shared(reading: asyncio.Task[T], name: str) -> T:
    """The result of a reading that several callers wait for; it goes on when one of them is cancelled. Raises the
    reading's error, and SourceError where the reading itself was cancelled because the bot closes.
    """
    try:
        return await asyncio.shield(reading)
    except asyncio.CancelledError:
        here = asyncio.current_task()
        if reading.cancelled() and not (here and here.cancelling()):  # else both are told to end: `close`
            raise SourceError(
                Text("error-kube.closed-while-read", name=name), hint=Text("error-command.ask-again")
            ) from None
        raise


def take_over(item: Resource, before: Resource | None) -> None:
    """Puts the equal label and annotation texts of `before`, its older version, into `item`: caches hold those."""
    if before is None:
        return
    metadata, known = item.metadata, before.metadata
    keep(metadata, "labels", _unchanged(metadata.labels, known.labels))
    keep(metadata, "annotations", _unchanged(metadata.annotations, known.annotations))


def _unchanged(texts: dict[str, str] | None, known: dict[str, str] | None) -> dict[str, str] | None:
    if texts == known:
        return known
    if not texts or not known:
        return texts
    return {key: known[key] if known.get(key) == text else text for key, text in texts.items()}


class Follower(Generic[R]):
    """Follows one list of one cluster in a `mirror`. Nothing is read before `read`; `close` ends it."""

    def __init__(self, live: LiveCluster, wanted: Selection[R], pace: FollowPace) -> None:
        self.mirror = Mirror[R]()
        self._live = live
        self.wanted = wanted
        self._pace = pace
        self._task: asyncio.Task[None] | None = None
        self._listing: asyncio.Task[float] | None = None
        self._refused = False
        self._told_at: float | None = None
        self._lost = False
        self._failures = 0

    @property
    def begun(self) -> bool:
        """Whether the list was read, or is being read, for the first time."""
        return self._listing is not None or self._task is not None

    def age_s(self) -> float | None:
        """The greatest age of the mirror: seconds since the server's last news. None when it must not be used."""
        if self._told_at is None:
            return None
        age = _now() - self._told_at
        return age if age <= self._pace.silence_s else None

    async def read(self) -> float | None:
        """Reads the list into the mirror, once for all who wait; a watch follows it from there on. Returns the mirror's
        age in seconds for a caller that came during the reading, None for its first. Raises SourceError.
        """
        joins = self._listing is not None
        asked_at = await self._list()
        return _now() - asked_at if joins else None

    async def close(self) -> None:
        """Stops following; the mirror must not be used afterwards."""
        self._told_at = None
        running: list[asyncio.Task[Any]] = [task for task in (self._task, self._listing) if task]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _follow(self) -> None:
        while True:
            try:
                if self._lost:
                    await self._list()
                heard = await self._watch()
                self._failures += not heard
            except ForbiddenError as error:
                self._told_at, self._refused = None, True
                log.warning("%s: read directly from now on: %s", self._name, in_english(error.message))
                await asyncio.sleep(self._pace.forbidden_s)
            except SourceError as error:
                self._lost |= isinstance(error, StaleListError)
                self._failures += 1
                level = logging.WARNING if self._failures == 1 and not self._lost else logging.INFO
                log.log(level, "%s: %s", self._name, in_english(error.message))
            if self._failures:  # longer with every one in a row, and not the same for all that failed at once
                longest = min(self._pace.longest_retry_s, self._pace.retry_s * 2.0 ** min(self._failures - 1, 16))
                await asyncio.sleep(longest * random.uniform(0.5, 1))  # noqa: S311  # no secret

    async def _list(self) -> float:
        """Has the list read anew, or waits for the present reading; returns when that was asked for."""
        if self._listing is None:
            self._listing = asyncio.create_task(self._list_once())
            self._listing.add_done_callback(self._listed)
        return await wait_for_shared(self._listing, self._name)

    def _listed(self, listing: asyncio.Task[float]) -> None:
        self._listing = None
        if not listing.cancelled():
            listing.exception()  # told to those who wait; there may be none any more

    async def _list_once(self) -> float:
        """Keeps the old list until the new one has come whole; without a watch only those who wait may use it."""
        asked_at = _now()
        found = await self._live.listed(self.wanted)
        try:
            version = version_of(found.version)
        except ValueError as error:
            raise SourceError(Text("error-kube.versions-are-no-numbers", version=repr(found.version))) from error
        self.mirror.replace(found.items, found.bad, version)
        self._told_at, self._lost = None if self._refused else asked_at, False
        # In a context of its own: it goes on long after the question that began it.
        self._task = self._task or asyncio.create_task(self._follow(), context=Context())
        await asyncio.to_thread(give_back)
        return asked_at

    async def _watch(self) -> bool:
        reader = EventReader(self.wanted.kind.type)
        heard = False
        if self.wanted.kind is HOLDERS and not self.wanted.metadata_only:
            process_counters.POD_STARTS.begin(self._live.known_as)

        def take(piece: bytes) -> None:
            nonlocal heard
            noted = False
            for event in reader.feed(piece):
                if isinstance(event, Bookmark):
                    self.mirror.bookmark(event.version)
                else:
                    if event.item is not None:
                        known = self.mirror.get(event.key)
                        take_over(event.item, known)
                        if isinstance(event.item, Holder) and isinstance(known, Holder):
                            self._note_start(known, event.item)
                    self.mirror.apply(event)
                if not noted:  # once for all that came together: to read the clock for each is a tenth of the work
                    noted, heard, self._told_at, self._failures, self._refused = True, True, _now(), 0, False

        for_s = self._pace.watch_s * random.uniform(0.8, 1)  # noqa: S311  # so that not all of them end at once
        silence_s = self._pace.silence_s
        await self._live.watch(self.wanted, str(self.mirror.version), take, for_s=for_s, silence_s=silence_s)
        return heard

    def _note_start(self, before: Holder, pod: Holder) -> None:
        """Counts a pod that has begun to run, as it is told: what a list shows as running began some time before it."""
        began = before.status.phase == "Pending" and pod.status.phase == "Running"
        created = parse_time(pod.metadata.creation_timestamp) if began else None
        if created and before.metadata.uid == pod.metadata.uid:
            process_counters.POD_STARTS.observe(
                max(0.0, (self._live.now() - created).total_seconds()), self._live.known_as
            )

    @property
    def _name(self) -> str:
        selectors = " ".join(filter(None, (self.wanted.labels, self.wanted.fields)))
        return f"watch of {self.wanted.kind.plural} {selectors}".rstrip() + f" in {self._live.name}"


def _now() -> float:
    return asyncio.get_running_loop().time()
