"""What was shown to somebody who may now confirm it: complete enough to be planned again, and to see if it differs."""

import hashlib
import re

import msgspec

from bot.changes.kinds import kind_of
from bot.changes.plan import Plan
from handlers.changes.words import Raise

FRESH_S = 600.0
"""Seconds after which what was shown is not confirmed any more: things have moved on."""
OTHER_CLOCK_S = 120.0
"""What was offered by the clock of another of the API servers is not from the future."""
_ID = re.compile(r"[0-9a-f]{12}")


class Draft(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A change that was offered. `shown` seals what would be written; `offered_at` is by the API server's clock,
    in seconds since 1970. `thread_ts` is the thread where it was asked for, empty: in none.

    It comes back from whoever confirms, like anything that a stranger sends: it asks only what may be typed. A verb of
    no kind raises UnknownKind.
    """

    id: str
    cluster: str
    channel: str
    verb: str
    value: str
    container: str
    seconds: float
    because: str
    until_captured: str
    shown: str
    offered_at: float
    thread_ts: str = ""

    def __post_init__(self) -> None:
        kind_of(self.verb)

    @property
    def request(self) -> Raise:
        return Raise(self.verb, self.value, self.container, self.seconds, self.because, self.until_captured)


def draft_of(request: Raise, plan: Plan, cluster: str, now: float, thread_ts: str = "") -> Draft:
    """The draft of a plan that is shown now."""
    return Draft(
        plan.record.id,
        cluster,
        plan.record.channel,
        request.verb,
        request.value,
        request.container,
        request.seconds,
        request.because,
        request.until_captured,
        seal(plan),
        now,
        thread_ts,
    )


def write_draft(draft: Draft) -> str:
    """For a form's private metadata, or a button's value."""
    return msgspec.json.encode(draft).decode()


def read_draft(text: str) -> Draft | None:
    """None for anything that is none of ours."""
    try:
        draft = msgspec.json.decode(text, type=Draft)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return draft if _ID.fullmatch(draft.id) else None


def seal(plan: Plan, *, basis: str = "") -> str:
    """SHA-256 of exactly what would be done, by whom it is asked and for how long.

    `basis` is the plan's where what else the effect rests on counts as well (see `bot.changes.approval_basis`).
    """
    record = plan.record
    lasts = (record.deadline - record.since, record.until_captured)
    words = (record.field, record.words_before, record.words_after)
    values = (record.flag, record.old, record.new, record.means)
    what = (record.target, plan.uid, basis, record.container, *words, *values, *lasts, record.by)
    return hashlib.sha256(msgspec.json.encode(what)).hexdigest()
