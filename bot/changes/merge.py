"""Three-way merge of one flag: the words before the change, those that it made, and those that stand there now. Pure.

The element is found by its flag and its value, never by its position; all other words belong to somebody else.
"""

from typing import Literal, NamedTuple

from bot.changes.flags import ArgumentList, Set, last_set, sets_of, with_words
from bot.changes.record import Record


class OurElement(NamedTuple):
    """Our element still has our value. `words` is the list as it is now with that element alone as it was before."""

    words: tuple[str, ...]


Stand = OurElement | Literal["back", "theirs", "unclear"]
"""`back`: the flag has the value of before the change; of several the last one counts. `theirs`: somebody else gave it
another value, or removed it. `unclear`: our value stands there in more places, or in the container's other list, so
nobody can tell which is ours.
"""


def stand_of(record: Record, spot: ArgumentList) -> Stand:
    """What became of our element in the container."""
    now = spot.words(record.field)
    if record.means == "debug-flags":  # no words were changed: the level that they set has to be the old one still
        found = last_set(spot, record.kind.flag)
        return OurElement(now) if (found.value if found else "") == record.old else "theirs"
    if now == record.words_after:
        return OurElement(record.words_before)
    if now == record.words_before:
        return "back"
    before = _sets(record, spot, record.words_before)
    made = _sets(record, spot, record.words_after)
    left = _sets(record, spot, now)
    with_ours = [daemon_set for daemon_set in left if daemon_set.value == record.new]
    if with_ours and len(with_ours) == sum(daemon_set.value == record.new for daemon_set in made):
        return OurElement(_without(now, with_ours[-1], record, appended=len(made) > len(before)))
    if with_ours or any(daemon_set.value == record.new for daemon_set in sets_of(spot, record.kind.flag)):
        return "unclear"
    return (
        "back"
        if [daemon_set.value for daemon_set in left[-1:]] == [daemon_set.value for daemon_set in before[-1:]]
        else "theirs"
    )


def is_back(record: Record, spot: ArgumentList) -> bool:
    """Whether the container's words set the flag as before the change."""
    stand = stand_of(record, spot)
    return stand == "back" or (record.means == "debug-flags" and isinstance(stand, OurElement))


def was_set(record: Record, spot: ArgumentList) -> bool:
    """Whether the flag stood in the list before the change: if not, undoing it removes the element."""
    return len(_sets(record, spot, record.words_before)) == len(_sets(record, spot, record.words_after))


def first_word(daemon_set: Set) -> int:
    """The index of the setting's first word: of `-v 4` that is the flag, else the only word."""
    return daemon_set.at if daemon_set.spelling else daemon_set.at - 1


def _sets(record: Record, spot: ArgumentList, words: tuple[str, ...]) -> list[Set]:
    """The settings of the flag in the list that was changed, if it held these words."""
    found = sets_of(with_words(spot, record.field, words), record.kind.flag)
    return [daemon_set for daemon_set in found if daemon_set.field == record.field]


def _without(words: tuple[str, ...], daemon_set: Set, record: Record, *, appended: bool) -> tuple[str, ...]:
    """In the spelling that stands there now, which is that of before unless somebody changed it."""
    old = () if appended else (*words[first_word(daemon_set) : daemon_set.at], f"{daemon_set.spelling}{record.old}")
    return (*words[: first_word(daemon_set)], *old, *words[daemon_set.at + 1 :])
