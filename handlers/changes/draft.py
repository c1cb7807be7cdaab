"""A change in Slack before it is made: who asks (`Person`), what was offered (`ChangeDraft`), what waits for approval.

A draft is complete enough to plan the change again and to see whether the plan differs. A draft comes back from a Slack
client, so it is checked like any input from outside.
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
"""Seconds after which an offer can no longer be confirmed: the cluster may have changed."""
OTHER_CLOCK_S = 120.0
"""Seconds that an offer may lie in the future: another API server of the cluster, with another clock, dated it."""


class ChangeDraft(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A change that was offered. `shown` is the `seal` of its plan; `offered_at` is by the API server's clock, in unix
    seconds; `thread_ts` is the Slack thread where it was asked for, or empty. It can ask only for what may be typed.
    """

    id: str
    cluster: str
    request: Raise
    shown: str
    offered_at: float
    thread_ts: str = ""


def draft_of(plan: Plan, cluster: str, now: float, thread_ts: str = "") -> ChangeDraft:
    """Makes the draft of a plan shown at `now` (unix seconds); who confirms it, and how it is written, comes later."""
    request = msgspec.structs.replace(plan.wanted, by="", means="patch")
    return ChangeDraft(plan.record.id, cluster, request, seal(plan), now, thread_ts)


def write_draft(draft: ChangeDraft) -> str:
    """Encodes a draft for a form's private metadata or a button's value."""
    return msgspec.json.encode(draft).decode()


def read_draft(text: str) -> ChangeDraft | None:
    """Decodes what `write_draft` encoded; None for any other text."""
    try:
        draft = msgspec.json.decode(text, type=ChangeDraft)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return draft if IS_ID.fullmatch(draft.id) else None


def seal(plan: Plan, *, basis: str = "") -> str:
    """SHA-256 of exactly what a plan would write, who asks for it and for how long. `basis` is the plan's, for a seal
    that also breaks when anything else that the effect rests on was edited.
    """
    record = plan.record
    lasts = (record.deadline - record.since, record.until_captured)
    words = (record.field, record.words_before, record.words_after)
    what = (record.target, plan.uid, basis, record.container, *words, *record.flags, record.means, *lasts, record.by)
    return hashlib.sha256(msgspec.json.encode(what)).hexdigest()


class AccessDenied(NotAllowed):
    """The person may not do what they asked for; `denied` says who may."""

    def __init__(self, denied: WhyDenied) -> None:
        super().__init__(denied.why)
        self.denied = denied


class Refused(BotError):  # noqa: N818  # what the person is told
    """A change is not made, whoever asks for it. `record` is the open change that stands in the way, if one does."""

    def __init__(self, message: Prose, *, hint: Prose = "", example: str = "", record: Record | None = None) -> None:
        super().__init__(message, hint=hint, example=example)
        self.people = (record.by,) if record else ()


async def check_room(gateway: Gateway, channel: str, why: Text, hint: Text) -> None:
    """Raises Refused with `why` and `hint` if the bot may not post in the channel, where it would report the change."""
    try:
        await gateway.look_into(channel)
    except SlackFailure as failure:
        if failure.problem in {Problem.FORBIDDEN, Problem.GONE}:
            raise Refused(why, hint=hint) from failure


class ChangeOver(Refused):
    """The change that a card's button is about has ended, or this bot does not know it."""


class NotNow(Refused):
    """The change cannot be made while the cluster is as it is, but may be later: its approval stays valid."""


class Person(NamedTuple):
    """The Slack user who asks, in which channel and thread; empty where there is none or it is not known."""

    user: str
    channel: str
    thread_ts: str = ""


class Pending(msgspec.Struct, frozen=True):
    """What an approval allows: the change of `draft`, or without one an extension until `until` (unix seconds). `basis`
    identifies the Deployment's state for which approval was asked (see `bot.changes.plan`).
    """

    record: Record
    draft: ChangeDraft | None = None
    until: float = 0.0
    basis: str = ""


def pending_of(approval: Approval) -> Pending:
    """What an approval allows. Raises Refused where this version of hami-bot cannot read it."""
    try:
        return msgspec.json.decode(approval.request, type=Pending)
    except msgspec.DecodeError as error:
        why = Text("error-change.asked-for-unreadable", why=str(error.__cause__ or error))
        raise Refused(why, hint=Text("error-change.ask-for-it-again")) from error


def seal_longer(record: Record, basis: str, until: float, user: str) -> str:
    """SHA-256 of an extension: of which record, on which Deployment state (`basis`), until when, asked for by whom."""
    return hashlib.sha256(msgspec.json.encode((write_record(record), basis, until, user))).hexdigest()


_BECAUSE = re.compile(r"\sbecause\s+", re.IGNORECASE)
_REVERTING = re.compile(rf"\b(?:off|(?:{'|'.join(HOW_TO_REVERT)})(?:\s+{IS_ID.pattern})?)\s*$", re.IGNORECASE)


def is_reverting(words: str) -> bool:
    """Whether the words ask for a revert; a revert is never postponed."""
    return _REVERTING.search(_BECAUSE.split(words, maxsplit=1)[0]) is not None


def split_change(text: str) -> list[str]:
    """Splits text as Slack delivers it into words; quotes in the reason after `because` are text. Raises UsageError."""
    head, *reason = _BECAUSE.split(text, maxsplit=1)
    words = split_words(head)
    return [*words, "because", *plain_text(reason[0]).split()] if reason and reason[0].strip() else words


def draft_words(draft: ChangeDraft) -> str:
    """The words that ask for the offered change again; they name its cluster, so they work in any channel."""
    words = as_typed(words_of(draft.request))
    return f"--cluster {draft.cluster} {words}" if draft.cluster else words


def as_typed(words: str) -> str:
    """Turns words quoted for a shell, such as a button's, into what a person types in Slack."""
    try:
        head = shlex.split(words)
    except ValueError:  # none of ours: it is told when it is read
        return words
    if "because" not in head:
        return words
    at = head.index("because")
    return " ".join([join_words(head[:at]), *head[at:]])
