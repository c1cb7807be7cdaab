"""What stands between a request in Slack and the change: who asks, what was shown to them, what waits for a yes.

What was shown is complete enough to be planned again, and to see if it differs. It comes back from a client, like
anything that a stranger sends.
"""

import hashlib
import re
import shlex
from typing import NamedTuple

import msgspec

from bot.access import WhyDenied
from bot.changes.plan import Plan, Raise
from bot.changes.record import Record, write_record
from bot.errors import BotError, NotAllowed
from bot.slack.failures import Problem, SlackFailure
from bot.slack.gateway import Gateway
from bot.store.changes import Approval
from bot.texts import Prose, Text
from handlers.changes.words import HOW_TO_REVERT, IS_ID, words_of
from handlers.parsing.question import join_words, plain_text, split_words

FRESH_S = 600.0
"""Seconds after which what was shown is not confirmed any more: things have moved on."""
OTHER_CLOCK_S = 120.0
"""What was offered by the clock of another of the API servers is not from the future."""


class ChangeDraft(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A change that was offered. `shown` seals what would be written; `offered_at` is by the API server's clock,
    in seconds since 1970. `thread_ts` is the thread where it was asked for, empty: in none.

    It comes back from whoever confirms, like anything that a stranger sends: it asks only what may be typed.
    """

    id: str
    cluster: str
    request: Raise
    shown: str
    offered_at: float
    thread_ts: str = ""


def draft_of(plan: Plan, cluster: str, now: float, thread_ts: str = "") -> ChangeDraft:
    """The draft of a plan that is shown now; who confirms it, and how it is set then, is seen then."""
    request = msgspec.structs.replace(plan.wanted, by="", means="patch")
    return ChangeDraft(plan.record.id, cluster, request, seal(plan), now, thread_ts)


def write_draft(draft: ChangeDraft) -> str:
    """For a form's private metadata, or a button's value."""
    return msgspec.json.encode(draft).decode()


def read_draft(text: str) -> ChangeDraft | None:
    """None for anything that is none of ours."""
    try:
        draft = msgspec.json.decode(text, type=ChangeDraft)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return draft if IS_ID.fullmatch(draft.id) else None


def seal(plan: Plan, *, basis: str = "") -> str:
    """SHA-256 of exactly what would be done, by whom it is asked and for how long.

    `basis` is the plan's where what else the effect rests on counts as well (see `bot.changes.plan`).
    """
    record = plan.record
    lasts = (record.deadline - record.since, record.until_captured)
    words = (record.field, record.words_before, record.words_after)
    what = (record.target, plan.uid, basis, record.container, *words, *record.flags, record.means, *lasts, record.by)
    return hashlib.sha256(msgspec.json.encode(what)).hexdigest()


class AccessDenied(NotAllowed):
    """`denied` says who may."""

    def __init__(self, denied: WhyDenied) -> None:
        super().__init__(denied.why)
        self.denied = denied


class Refused(BotError):  # noqa: N818  # what the person is told
    """It is not done, whoever asks. `record`: of the open change that stands in the way."""

    def __init__(self, message: Prose, *, hint: Prose = "", example: str = "", record: Record | None = None) -> None:
        super().__init__(message, hint=hint, example=example)
        self.people = (record.by,) if record else ()


async def check_room(gateway: Gateway, channel: str, why: Text, hint: Text) -> None:
    """Raises Refused, which says why, where the bot may not post: there nobody would be told."""
    try:
        await gateway.look_into(channel)
    except SlackFailure as failure:
        if failure.problem in {Problem.FORBIDDEN, Problem.GONE}:
            raise Refused(why, hint=hint) from failure


class Over(Refused):
    """What a card offers is over, or nothing here knows of it."""


class NotNow(Refused):
    """It cannot be done as the cluster is at the moment, and may be later: nothing that was asked for is void."""


class Person(NamedTuple):
    """Who asks, in which channel, and in which thread; empty: in none, or that is not known."""

    user: str
    channel: str
    thread_ts: str = ""


class Pending(msgspec.Struct, frozen=True):
    """What is done once it is approved: the change of this draft, or else an extension until then (unix seconds).

    `basis` is the Deployment's that it was asked for (see `bot.changes.plan`).
    """

    record: Record
    draft: ChangeDraft | None = None
    until: float = 0.0
    basis: str = ""


def pending_of(approval: Approval) -> Pending:
    """What the approval is about. Raises Refused where this version of hami-bot cannot read it."""
    try:
        return msgspec.json.decode(approval.request, type=Pending)
    except msgspec.DecodeError as error:
        why = Text("error-change.asked-for-unreadable", why=str(error.__cause__ or error))
        raise Refused(why, hint=Text("error-change.ask-for-it-again")) from error


def seal_longer(record: Record, basis: str, until: float, user: str) -> str:
    """SHA-256 of an extension: which record on which object, until when, asked for by whom."""
    return hashlib.sha256(msgspec.json.encode((write_record(record), basis, until, user))).hexdigest()


_BECAUSE = re.compile(r"\sbecause\s+", re.IGNORECASE)
_REVERTING = re.compile(rf"\b(?:off|(?:{'|'.join(HOW_TO_REVERT)})(?:\s+{IS_ID.pattern})?)\s*$", re.IGNORECASE)


def is_reverting(words: str) -> bool:
    """Whether a change that is asked for in these words is a revert: that is not put off."""
    return _REVERTING.search(_BECAUSE.split(words, maxsplit=1)[0]) is not None


def split_change(text: str) -> list[str]:
    """The words of text as Slack delivers it. In the reason no quotes are read. Raises UsageError."""
    head, *reason = _BECAUSE.split(text, maxsplit=1)
    words = split_words(head)
    return [*words, "because", *plain_text(reason[0]).split()] if reason and reason[0].strip() else words


def draft_words(draft: ChangeDraft) -> str:
    """The words that ask for a change that was offered, on its cluster wherever that is typed."""
    words = as_typed(words_of(draft.request))
    return f"--cluster {draft.cluster} {words}" if draft.cluster else words


def as_typed(words: str) -> str:
    """Words that a shell reads, such as a button's, as a person types them in Slack."""
    try:
        head = shlex.split(words)
    except ValueError:  # none of ours: it is told when it is read
        return words
    if "because" not in head:
        return words
    at = head.index("because")
    return " ".join([join_words(head[:at]), *head[at:]])
