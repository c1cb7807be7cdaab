"""`watch POD`: a person is told once, in a direct message, when the pod runs, ends, or its cause changes. Watches stand
in the store as marks, so they survive restarts; one replica looks at the pods.
"""

import hashlib
import logging
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple

import msgspec

from bot.errors import BotError, UsageError, bugs_as_errors
from bot.periodic_jobs import Clock
from bot.report import Report
from bot.slack.message import Message
from bot.slack.render import blocks
from bot.slack.render.prose import render_told
from bot.slack.render.report import render_report
from bot.slack.render.text import escape
from bot.store.facts import Mark
from bot.texts import Language, Text, Texts
from handlers.deps import Deps, TaskLease
from handlers.parsing.question import Question
from handlers.parsing.slack_grammar import UNWATCH, WatchAsked
from playbooks.own.discovery import find
from playbooks.playbook import Sources
from playbooks.scenes.placed_pod import AbsentScene, PlacedScene
from playbooks.scenes.waiting_pod import PodScene

PACE_S = 30.0
LONGEST_S = 7 * 86400.0
MOST = 20
"""How many pods one person may watch."""
_PREFIX = "watch:"
_PASSING = ("waiting-for-retry", "not-enough-evidence", "bot-blind", "placed")
"""Finding codes that say nothing about why the pod waits."""

log = logging.getLogger(__name__)


class PodWatch(msgspec.Struct, frozen=True):
    """A pod that somebody watches. `cause` is its first finding code, `news` another one that was seen once since."""

    user: str
    cluster: str
    pod: str
    cause: str
    language: Language
    news: str = ""

    @property
    def name(self) -> str:
        """The name of the watch's mark in the store."""
        about = hashlib.sha256(f"{self.cluster}\0{self.pod}".encode()).hexdigest()[:16]
        return f"{_of(self.user)}{about}"


class PodSeen(NamedTuple):
    """A pod as `why` judges it: `state` is waits, runs, ended, failed or gone."""

    report: Report
    state: str
    node: str = ""

    @property
    def name(self) -> str:
        return f"{self.report.subject.namespace}/{self.report.subject.name}"

    @property
    def cause(self) -> str:
        return self.report.findings[0].code


class Watches:
    """The watches of all people. `owner` is a name that only this process has."""

    def __init__(self, deps: Deps, owner: str) -> None:
        self._deps = deps
        self._marks = deps.store.marks
        self._lease = TaskLease(deps, "watches", owner, 3 * PACE_S)

    async def answer(
        self, question: Question, asked: WatchAsked, cluster: str, reading: AbstractAsyncContextManager[Sources]
    ) -> Message:
        """Begins or ends a watch, or lists the person's; returns the message for them. Raises BotError."""
        language: Language = asked.options.get("lang") or self._deps.say.language
        say = Texts(language)
        mine = [(mark, _watch(mark)) for mark in await self._marks.all(_of(question.user))]
        if asked.verb == UNWATCH:
            ended = [watch for _, watch in mine if asked.pod in ("", watch.pod, watch.pod.partition("/")[2])]
            for watch in ended:
                await self._marks.drop(watch.name)
            return render_told([say("watch.ended", pods=_names(ended)) if ended else say("watch.none")])
        if not asked.pod:
            return render_told(
                [say("watch.list", pods=_names([watch for _, watch in mine])) if mine else say("watch.nothing")]
            )
        if len(mine) >= MOST:
            raise UsageError(Text("watch.too-many", most=MOST), example=UNWATCH)
        async with reading as sources:
            seen = await look_at(asked.pod, sources, say)
        if seen.state != "waits":
            return _report(seen, say("watch.not-waiting", pod=seen.name), say)
        watch = PodWatch(question.user, cluster, seen.name, seen.cause, language)
        await self._marks.set(watch.name, _written(watch))
        return render_told([say("watch.begun", pod=watch.pod)])

    async def run(self, clock: Clock) -> None:
        """Looks at watched pods every `PACE_S` seconds, until it is cancelled."""
        await clock.repeat(PACE_S, "watched pods", self.look)

    async def look(self) -> None:
        """Looks at every watched pod and tells whoever has to be told. A failed read is tried again the next time."""
        if not await self._lease.is_mine():
            return
        for mark in await self._marks.all(_PREFIX):
            watch = _watch(mark)
            try:
                with bugs_as_errors():
                    await self._look_at(watch, mark)
            except BotError as error:
                log.warning("the watch of %s: %s", watch.pod, error)

    async def _look_at(self, watch: PodWatch, mark: Mark) -> None:
        say = Texts(watch.language)
        if self._deps.now() - mark.at > LONGEST_S:
            await self._tell(watch, mark, render_told([say("watch.over", pod=watch.pod)]))
            return
        async with self._deps.open_sources(watch.cluster) as sources:
            seen = await look_at(watch.pod, sources, say)
        if seen.state == "waits":
            if seen.cause in (*_PASSING, watch.cause):
                return
            if seen.cause != watch.news:  # causes come and go while HAMi tries: it has to be there twice
                await self._marks.set(watch.name, _written(msgspec.structs.replace(watch, news=seen.cause)))
                return
            message = _report(seen, say("watch.changed", pod=watch.pod), say)
        elif seen.state == "runs":
            message = render_told([say("watch.runs", pod=watch.pod, node=seen.node)])
        elif seen.state == "ended":
            message = render_told([say("watch.succeeded", pod=watch.pod)])
        else:
            said = say("watch.gone" if seen.state == "gone" else "watch.failed", pod=watch.pod)
            message = _report(seen, said, say)
        await self._tell(watch, mark, message)

    async def _tell(self, watch: PodWatch, mark: Mark, message: Message) -> None:
        """Tells it once, however often it is tried."""
        await self._deps.outbox.put(f"{mark.name}:{mark.at:.0f}", watch.user, message, asker=watch.user)
        await self._marks.drop(mark.name)


async def look_at(pod: str, sources: Sources, say: Texts) -> PodSeen:
    """Reads a pod and judges it as `why` does. Raises BotError."""
    why = find("why")
    snapshot = await why.gather(why.request(pod=pod), sources)
    report = why.report(snapshot, say)
    match snapshot.scene:
        case PodScene():
            return PodSeen(report, "waits")
        case PlacedScene(pod=found):
            phase = found.status.phase
            if phase == "Running":
                return PodSeen(report, "runs" if report.severity == "info" else "failed", found.spec.node_name)
            states = {"Succeeded": "ended", "Failed": "failed"}
            starting = report.severity == "info" or not found.status.container_statuses
            return PodSeen(report, states.get(phase, "waits" if starting else "failed"), found.spec.node_name)
        case AbsentScene() if report.findings[0].code == "not-found":
            return PodSeen(report, "gone")
        case _:
            raise BotError(report.verdict)


def _of(user: str) -> str:
    return f"{_PREFIX}{user}:"


def _watch(mark: Mark) -> PodWatch:
    return msgspec.json.decode(mark.text, type=PodWatch)


def _written(watch: PodWatch) -> str:
    return msgspec.json.encode(watch).decode()


def _names(watches: Sequence[PodWatch]) -> str:
    return ", ".join(sorted(watch.pod for watch in watches))


def _report(seen: PodSeen, note: str, say: Texts) -> Message:
    message = render_report(
        seen.report,
        say,
        channel_buttons=False,
        words=f"why {seen.name}",
        direct=True,
        files=False,
        watch=seen.name if seen.state == "waits" else "",
    )
    return message._replace(
        text=f"{escape(note)}\n{message.text}", blocks=(blocks.context(escape(note)), *message.blocks), newer=()
    )
