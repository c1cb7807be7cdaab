"""What is passed around where changes are decided about: who asks, why not, and what waits for somebody's yes."""

import hashlib
from typing import NamedTuple

import msgspec

from bot.access import Denied
from bot.changes.record import Record, write_record
from bot.errors import BotError, NotAllowed
from bot.store.changes import Approval
from bot.texts import Prose, Text
from handlers.changes.draft import Draft


class AccessDenied(NotAllowed):
    """`denied` says who may."""

    def __init__(self, denied: Denied) -> None:
        super().__init__(denied.why)
        self.denied = denied


class Refused(BotError):  # noqa: N818  # what the person is told
    """It is not done, whoever asks. `record`: of the open change that stands in the way."""

    def __init__(self, message: Prose, *, hint: Prose = "", example: str = "", record: Record | None = None) -> None:
        super().__init__(message, hint=hint, example=example)
        self.people = (record.by,) if record else ()


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

    `basis` is the Deployment's that it was asked for (see `bot.changes.approval_basis`); one without was asked for
    before hami-bot kept it, and is not to be made.
    """

    record: Record
    draft: Draft | None = None
    until: float = 0.0
    basis: str = ""


class OpenChange(NamedTuple):
    """The record of a change as it stands on the object, and that object's basis (see `bot.changes.approval_basis`)."""

    record: Record
    basis: str


def pending_of(approval: Approval) -> Pending:
    """What the approval is about. Raises Refused where this version of hami-bot cannot read it."""
    try:
        return msgspec.json.decode(approval.request, type=Pending)
    except msgspec.DecodeError as error:
        why = Text("error-change.asked-for-unreadable", why=str(error.__cause__ or error))
        raise Refused(why, hint=Text("error-change.ask-for-it-again")) from error


def seal_longer(now: OpenChange, until: float, user: str) -> str:
    """SHA-256 of an extension: which record on which object, until when, asked for by whom."""
    return hashlib.sha256(msgspec.json.encode((write_record(now.record), now.basis, until, user))).hexdigest()
