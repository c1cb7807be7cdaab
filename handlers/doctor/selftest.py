"""Now and then the bot tests itself: a question whose answer is known, and what it has to read of each cluster.

The store remembers what failed, so that every replica tells the same of it: `bot.health`, /metrics and `doctor`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

from bot.errors import BotError, bugs_as_errors
from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.periodic_jobs import Clock
from bot.report import Report, in_words
from bot.slack.render.report import render_report
from bot.slack.render.text import total_text
from bot.texts import LANGUAGES, Prose, Text, Texts
from handlers.deps import Deps, TaskLease
from handlers.parsing.grammar import ParsedQuestion
from handlers.parsing.slack_grammar import understand
from playbooks.playbook import Sources, find

EVERY_S = 3600.0
PACE_S = 300.0
"""Between two tests while something is wrong, and between two looks whether one is due."""
BLIND, TESTED = "blind:", "self-test"
"""Marks in the store: by cluster why the bot is blind there, and when the last test was."""
_WITHIN_S = 120.0
_BLIND_CODES = ("bot-blind", "not-found", "hami-not-installed")

log = logging.getLogger(__name__)


class SelfTest:
    """In one replica at a time. A cluster is told as blind when two tests in a row say so."""

    def __init__(self, deps: Deps, owner: str, pace_s: float = PACE_S) -> None:
        self._deps = deps
        self._lease = TaskLease(deps, TESTED, owner, 2.5 * pace_s)
        self._pace_s = pace_s
        self._failed: set[str] = set()

    async def run(self, clock: Clock) -> None:
        """Every hour until it is cancelled; the first time after the pace."""
        await clock.repeat(self._pace_s, "the self-test ended early", self._look, at_once=False)

    async def _look(self) -> None:
        if await self._lease.is_mine() and await self._is_due():
            await self.test()

    async def _is_due(self) -> bool:
        marks = self._deps.store.marks
        if self._failed or await marks.all(BLIND):
            return True
        return all(self._deps.now() - mark.at >= EVERY_S for mark in await marks.all(TESTED))

    async def test(self) -> None:
        """One test of everything, noted in the store."""
        marks, wrong = self._deps.store.marks, await wrong_answer()
        unseen = {name: why for name in self._deps.clusters or ("",) if (why := wrong or await self._unseen(name))}
        failed = {name: self._deps.say.words(why) for name, why in unseen.items()}
        known = {mark.name.removeprefix(BLIND) for mark in await marks.all(BLIND)}
        for name, why in failed.items():
            log.warning("the self-test of the cluster %s failed: %s", name or "(default)", why)
            if name in self._failed and name not in known:
                await marks.set(f"{BLIND}{name}", why)
        for name in known - failed.keys():
            await marks.drop(f"{BLIND}{name}")
        self._failed = set(failed)
        await marks.set(TESTED)

    async def _unseen(self, cluster: str) -> Prose:
        return await why_unread(self._deps, cluster, what_is_unseen, _WITHIN_S)


async def why_unread(deps: Deps, cluster: str, read: Callable[[Sources], Awaitable[Prose]], within_s: float) -> Prose:
    """What `read` says of the open cluster, or why it failed or took longer; empty when all is well. Never raises."""
    try:
        async with asyncio.timeout(within_s), deps.open_sources(cluster) as sources:
            with bugs_as_errors():
                return await read(sources)
    except TimeoutError:
        return Text("doctor.no-answer", seconds=f"{within_s:.0f}")
    except BotError as error:
        return error.message


async def what_is_unseen(sources: Sources) -> Prose:
    """What the bot has to read of a cluster and cannot; empty when it reads it all. Raises SourceError for the worst.

    The API server answers, pending pods can be listed, and so can nodes and HAMi's scheduler, which is found.
    """
    await sources.cluster.server_version()
    pending, status = find("pending"), find("status")
    await pending.gather(pending.request(all=False), sources)
    snapshot = await status.gather(status.request(), sources)
    report = await asyncio.to_thread(status.diagnose, snapshot)
    return next((finding.text for finding in report.findings if finding.code in _BLIND_CODES), "")


RECORDING = Path(__file__).parent / "known"
WORDS = ("why", "ml/known-answer")
CODE, QUOTE = "impossible-anywhere", "1 4/4 CardInsufficientMemory"
"""One node with GPUs of 15,360 MiB, and a pod that asks for 20,000 MiB."""


async def wrong_answer() -> Prose:
    """Asks it as Slack does, in every language. Why the answer is wrong; empty when it is what it has to be.

    Never raises.
    """
    asked = understand(WORDS)
    assert isinstance(asked, ParsedQuestion)
    try:
        with bugs_as_errors():
            snapshot = await asked.playbook.gather(asked.request, Sources(RecordedCluster.open(RECORDING)))
            return await asyncio.to_thread(lambda: _wrong_with(asked.playbook.diagnose(snapshot)))
    except BotError as error:
        return error.message


def _wrong_with(report: Report) -> Prose:
    first = report.findings[0]
    if first.code != CODE or not any(QUOTE in proof.quote for proof in first.evidence):
        return Text("doctor.other-answer", code=first.code, known=CODE)
    for language in LANGUAGES:
        said = in_words(report, say := Texts(language))
        shown = render_report(said, say, channel_buttons=True, words=" ".join(WORDS))
        if said.verdict not in shown.text or not total_text(list(shown.blocks)):
            return Text("doctor.not-shown")
    return ""
