"""The bot's flag among other people's arguments: what became of it, and how to revert it, also by hand. Pure.

It is a three-way merge: the arguments before the change, those that it made, and those that stand there now. The
element is found by its flag and its value, never by its position; all other arguments belong to somebody else.
"""

import json
import shlex
from typing import Any, Literal, NamedTuple

from bot.changes.flags import ArgumentList, Flag, FlagInWords, Object, find_spot, last_set, sets_of, with_words
from bot.changes.plan import KEY_PATH, annotation
from bot.changes.record import KEY, FlagChange, Record, id_in


class OurElement(NamedTuple):
    """The flag that the bot set still has its value. `words` are the present arguments, with that flag as before."""

    words: tuple[str, ...]


Stand = OurElement | Literal["back", "theirs", "unclear"]
"""What became of the flag that the bot set. `back`: it has its value of before the change; of several the last one
counts. `theirs`: somebody else gave it another value, or removed it. `unclear`: our value stands in more places, or in
the container's other list, so nobody can tell which is ours.
"""


def stand_of(record: Record, spot: ArgumentList) -> Stand:
    """What became of the record's flags in the container: all settings that are still its own are reverted together."""
    now = spot.words(record.field)
    if record.means == "debug-flags":  # no words were changed: the level that they set has to be the old one still
        found = last_set(spot, record.kind.flag)
        return OurElement(now) if (found.value if found else "") == record.old else "theirs"
    if now == record.words_after:
        return OurElement(record.words_before)
    if now == record.words_before:
        return "back"
    stands: list[Stand] = []
    for each in record.flags:
        stand = _stand_of(each, record, spot)
        if isinstance(stand, OurElement):
            spot = with_words(spot, record.field, stand.words)
        stands.append(stand)
    if "unclear" in stands:
        return "unclear"
    if any(isinstance(stand, OurElement) for stand in stands):
        return OurElement(spot.words(record.field))
    return "theirs" if "theirs" in stands else "back"


def _stand_of(ours: FlagChange, record: Record, spot: ArgumentList) -> Stand:
    flag, now = ours.kind.flag, spot.words(record.field)
    before = _sets(flag, record, spot, record.words_before)
    made = _sets(flag, record, spot, record.words_after)
    left = _sets(flag, record, spot, now)
    with_ours = [setting for setting in left if setting.value == ours.new]
    if with_ours and len(with_ours) == sum(setting.value == ours.new for setting in made):
        return OurElement(_without(now, with_ours[-1], ours.old, appended=len(made) > len(before)))
    if with_ours or any(setting.value == ours.new for setting in sets_of(spot, flag)):
        return "unclear"
    was, is_now = ([setting.value for setting in some[-1:]] for some in (before, left))
    return "back" if was == is_now else "theirs"


def _first_word(setting: FlagInWords) -> int:
    """The index of the setting's first word: of `-v 4` that is the flag, else the only word."""
    return setting.at if setting.spelling else setting.at - 1


def _sets(flag: Flag, record: Record, spot: ArgumentList, words: tuple[str, ...]) -> list[FlagInWords]:
    """The settings of the flag in the list that was changed, if it held these words."""
    found = sets_of(with_words(spot, record.field, words), flag)
    return [setting for setting in found if setting.field == record.field]


def _without(words: tuple[str, ...], setting: FlagInWords, old: str, *, appended: bool) -> tuple[str, ...]:
    """The words with the setting at `old` again, in its present spelling, or without it where it was `appended`."""
    first = _first_word(setting)
    back = () if appended else (*words[first : setting.at], f"{setting.spelling}{old}")
    return (*words[:first], *back, *words[setting.at + 1 :])


def by_hand(deployment: Object | None, record: Record) -> str:
    """One shell line that sets the record's flags back and removes the record, and touches nothing else. Every setting
    with the bot's value goes back: a person who runs the line has decided that none is to stay. Where the container is
    not known now, or no setting has that value, the line opens the Deployment in an editor.
    """
    namespace, _, name = record.target.partition("/")
    at = ["kubectl", "-n", namespace]
    if record.means == "debug-flags":
        restart = shlex.join([*at, "rollout", "restart", "deployment", name])
        return f"{restart} && {shlex.join([*at, 'annotate', 'deployment', name, f'{KEY}-'])}"
    spot = find_spot(deployment, record.container) if deployment else None
    found = [
        (setting, each)
        for each in record.flags
        for setting in (sets_of(spot, each.kind.flag) if spot else ())
        if setting.value == each.new
    ]
    if spot is None or not found:
        return in_an_editor(record.target)
    found.sort(key=lambda one: (one[0].field, one[0].at))
    back = [part for setting, each in reversed(found) for part in _set_back(each, record, spot, setting)]
    name_at = f"{spot.path(record.field).rpartition('/')[0]}/name"
    text = annotation(deployment) if deployment else None
    forget = [] if text is None or id_in(text) not in ("", record.id) else [{"op": "remove", "path": KEY_PATH}]
    patch = [{"op": "test", "path": name_at, "value": spot.container}, *back, *forget]
    text = json.dumps(patch, separators=(",", ":"))
    return shlex.join([*at, "patch", "deployment", name, "--type=json", "-p", text])


def in_an_editor(target: str) -> str:
    """The shell line that opens the Deployment `target` in an editor."""
    namespace, _, name = target.partition("/")
    return shlex.join(["kubectl", "-n", namespace, "edit", "deployment", name])


def _set_back(ours: FlagChange, record: Record, spot: ArgumentList, setting: FlagInWords) -> list[dict[str, Any]]:
    """The operations that revert one setting, guarded by what stands there; from behind, as removals move the rest."""
    flag, words, path = ours.kind.flag, spot.words(setting.field), spot.path(setting.field)
    places = range(setting.at, _first_word(setting) - 1, -1)
    tests = [{"op": "test", "path": f"{path}/{at}", "value": words[at]} for at in places]
    before, made = (_sets(flag, record, spot, words) for words in (record.words_before, record.words_after))
    if len(before) == len(made):  # it stood in the list before the change: else reverting removes the element
        return [*tests, {"op": "replace", "path": f"{path}/{setting.at}", "value": f"{setting.spelling}{ours.old}"}]
    return [*tests, *({"op": "remove", "path": f"{path}/{at}"} for at in places)]
