"""What is due on a Deployment that carries a record of an open change: pure, the same for every replica that looks.

What somebody else made of the object is never overwritten: the record is dropped instead, and that is told.
"""

from typing import Literal, NamedTuple

from bot.changes.flags import Object, find_spot
from bot.changes.plan import LONGEST_S, Patch, annotation, plan_forget, plan_revert
from bot.changes.record import Record, Unreadable, read_record
from bot.kube.redact import masked_arguments

CLOCKS_S = 1800
"""A deadline further away than the longest change and this was written by a clock that was wrong: it is due."""

How = Literal["reverted-by-another", "drifted", "container-gone"]


class Wait(NamedTuple):
    """It is not due before `record.deadline`."""

    record: Record


class Restore(NamedTuple):
    """Due: the patch puts back what was there before and drops the record.

    A record of `debug-flags` changed no words: the running processes are set back first, then the patch drops it.
    """

    record: Record
    patch: Patch


class Forget(NamedTuple):
    """There is nothing of ours to undo: the patch drops the record alone. `diff`: our words (-) and those found (+)."""

    record: Record
    patch: Patch
    how: How
    diff: str = ""


def decide(deployment: Object, now: float) -> Wait | Restore | Forget | Unreadable | None:
    """What is due at `now` (seconds since 1970); None for an object without a record."""
    text = annotation(deployment)
    if text is None:
        return None
    record = read_record(text)
    if isinstance(record, Unreadable):
        return record
    if (here := _name(deployment)) != record.target:
        return Unreadable(text, f"it was copied here: it is about {record.target}, this is {here}")
    spot = find_spot(deployment, record.container)
    if spot is None:
        return Forget(record, plan_forget(deployment), "container-gone")
    words = spot.words(record.field)
    if record.means == "patch" and words == record.words_before:
        return Forget(record, plan_forget(deployment), "reverted-by-another")
    if now < record.deadline <= now + LONGEST_S + CLOCKS_S:
        return Wait(record)
    if words == record.words_after:
        return Restore(record, plan_revert(deployment, record))
    return Forget(record, plan_forget(deployment), "drifted", _diff(record.words_after, words))


def _name(deployment: Object) -> str:
    meta = deployment["metadata"]
    return f"{meta.get('namespace', '')}/{meta.get('name', '')}"


def _diff(ours: tuple[str, ...], found: tuple[str, ...]) -> str:
    """One word a line, as they are in neither order nor number the same. Secrets are masked: everybody may read it."""
    import difflib  # noqa: PLC0415  # rarely needed, and not cheap to import

    lines = difflib.ndiff(masked_arguments(list(ours)), masked_arguments(list(found)))
    return "\n".join(line.rstrip("\n") for line in lines if line[0] in "+-")
