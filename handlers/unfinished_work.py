"""Work that an earlier process took and did not finish: resumed where that is right, else reported as not done."""

import asyncio
import logging
from functools import partial

from msgspec.structs import replace

from bot.errors import BotError
from bot.periodic_jobs import Clock
from bot.report import one_line
from bot.slack.question_tasks import Tell
from bot.store.base import BEAT_S, DROPPED, Unfinished
from bot.texts import Text
from handlers.gate import Gate
from handlers.inbox import AT_ONCE, SHOWN_WORDS, GaveUp, Inbox
from handlers.parsing.question import SENT_BY, Origin, Question, plain_text, read_question
from handlers.user_actions import TOO_LATE_S, Deed, NotDone, Why, read_deed

_EVERY_S = BEAT_S
_TIDIED_S = 60.0
APART_S, _MORE_APART, _FARTHEST = 0.25, 4, 5
"""Seconds until the next work is resumed, at most: sooner if the last has ended. A suspect (`_is_suspect`) may have
ended its process: the next suspect waits `_MORE_APART` times as long for each process after the first that died of this
one (`_FARTHEST` such steps at most), so that work that ends processes is soon the only one in progress, and known by
that.
"""
_WHY: dict[str, Text] = {
    "tries": Text("error-not-done.process-ended"),
    "late": Text("error-not-done.asked-too-long-ago"),
}

log = logging.getLogger(__name__)


class Leftovers:
    """Resumes or reports the questions and deeds that the store has and no living process works on."""

    def __init__(self, inbox: Inbox, gate: Gate) -> None:
        self._inbox = inbox
        self._gate = gate
        self._deps = inbox.deps
        self._asked = set[str]()  # the questions that were taken up here
        self._suspect, self._suspect_until = "", 0.0

    async def run(self, clock: Clock) -> None:
        """Resumes left work at once and then regularly, and has the store forget old rows now and then."""
        async with asyncio.TaskGroup() as group:
            group.create_task(clock.repeat(_EVERY_S, "what an earlier process left", self.resume))
            group.create_task(clock.repeat(_TIDIED_S, "tidying the store", self._tidy))

    async def _tidy(self) -> None:
        """Lets go of what this process could neither do nor tell, so that it is tried again."""
        store = self._deps.store
        await store.read_clock()
        claimed = await store.held_keys()
        await store.let_go(claimed - self._deps.work.keys)  # of now: what was begun since is not among the claimed
        await store.sweep(store.now())

    async def resume(self) -> int:
        """Resumes left work and returns how much: deeds, then questions while few are being answered, suspects last.

        One suspect at a time is in progress; the others wait for a later look. It tells people what it drops. Raises
        StoreError.
        """
        taken, work, now = 0, self._deps.work, self._deps.now
        # What may have ended several processes holds up nothing else, and a question no deed.
        unfinished = await self._deps.store.unfinished()
        for left in sorted(unfinished, key=lambda left: (_is_suspect(left), read_deed(left.payload) is None)):
            if _is_suspect(left):
                if self._suspect in work.keys and now() < self._suspect_until:
                    break
                apart_s = APART_S * _MORE_APART ** min(left.deaths - 1, _FARTHEST)
                self._suspect, self._suspect_until = left.key, now() + apart_s
            taken += await self._resume(left.key, left.payload)
            await work.ended(left.key, within_s=APART_S)
        return taken

    async def _resume(self, key: str, payload: str) -> bool:
        """Whether it is taken up, and neither dropped nor left for the next look."""
        deed = read_deed(payload)
        question = deed.asked if deed else read_question(payload)
        is_late = question is None or self._deps.now() - question.asked_at > (deed.lasts_s if deed else TOO_LATE_S)
        SENT_BY.set(question.sent_by if question else None)
        self._asked &= self._deps.work.keys
        if not (deed or is_late or key.endswith(DROPPED)) and len(self._asked) >= AT_ONCE:
            return False
        sent_by = question and (question.sent_by or Origin(question.user))
        if question and sent_by and (why := await self._gate.why_not(sent_by)):
            if why != "stranger-unread":
                self._gate.refuse(sent_by, why, question.channel, thread_ts=question.thread_ts)
                self._deps.work.start(key, _nothing, payload=payload)
            elif is_late:  # else Slack may tell who it is next time
                self._drop(key, payload, "late", alone=True)
            return False
        if key.endswith(DROPPED):
            self._drop(key, payload, "tries")
        elif deed:
            return self._resume_deed(key, payload, deed, is_late=is_late)
        elif question is None or is_late:
            self._drop(key, payload, "late")
        else:
            self._asked.add(key)
            self._inbox.ask(key, question)
            return True
        return False

    def _resume_deed(self, key: str, payload: str, deed: Deed, *, is_late: bool) -> bool:
        known = self._inbox.kinds.read(key, deed)
        if known is None:
            self._drop(key, payload, "version")
        elif is_late:
            self._drop(key, payload, "late")
        elif known[0].is_live:
            self._drop(key, payload, "live")
        else:
            kind, taken = known
            self._inbox.carry_out(taken, kind, payload)
            return True
        return False

    def _drop(self, key: str, payload: str, why: Why, *, alone: bool = False) -> None:
        """Tells that it is not done, after another crash too: the store has it until then. `alone`: only who asked."""
        deed = read_deed(payload)
        question = deed.asked if deed else read_question(payload)
        if question is None:
            log.warning("%s is dropped: it is of another version", key)
            self._deps.work.start(key, _nothing, payload=payload)
            return
        log.warning("%s is dropped: %s", key, why)
        told = replace(question, public=False, beside=True) if alone else question
        inbox = self._inbox
        tell: Tell = partial(inbox.tell, key, told.for_who_asked())
        if deed and (known := inbox.kinds.read(key, replace(deed, asked=told))):
            tell, error = partial(inbox.tell_of, *known), NotDone(why)
        elif deed:
            error = NotDone(why).with_words(inbox.again(question.words))
        else:
            asked = one_line(plain_text(question.words), SHOWN_WORDS)
            hint = Text("error-not-done.please-ask-again", command=asked) if asked else ""
            error = GaveUp(Text("error-not-done.your-question-was-not-answered", why=_WHY[why]), hint=hint)
        of_asked = key.removesuffix(DROPPED)
        self._deps.work.start(key, partial(self._told, of_asked, question, tell, error), tell, payload=payload)

    async def _told(self, key: str, question: Question, tell: Tell, error: BotError) -> None:
        if await self._inbox.was_answered(key, question):
            return
        if isinstance(error, NotDone) or await self._inbox.is_current(key, question):
            await tell(error)


def _is_suspect(left: Unfinished) -> bool:
    return left.deaths > 1


async def _nothing() -> None:
    """Does nothing with what nobody can read, or what somebody asked who is not answered."""
