"""The command with which a person reverts a change that the bot cannot revert. Pure."""

import json
import shlex
from typing import Any

from bot.changes.flags import ArgumentList, Object, Set, find_spot, sets_of
from bot.changes.merge import first_word, was_set
from bot.changes.plan import KEY_PATH, annotation
from bot.changes.record import KEY, Record, id_in


def by_hand(deployment: Object | None, record: Record) -> str:
    """One shell line that sets the flag back and takes the record off, and touches nothing else.

    Every element with our value goes back: a person who runs it has decided that none of them is to stay. Where the
    container is not known now, or no element has our value, the line opens the Deployment in an editor.
    """
    namespace, _, name = record.target.partition("/")
    at = ["kubectl", "-n", namespace]
    if record.means == "debug-flags":
        restart = shlex.join([*at, "rollout", "restart", "deployment", name])
        return f"{restart} && {shlex.join([*at, 'annotate', 'deployment', name, f'{KEY}-'])}"
    spot = find_spot(deployment, record.container) if deployment else None
    found = (
        [daemon_set for daemon_set in sets_of(spot, record.kind.flag) if daemon_set.value == record.new] if spot else []
    )
    if spot is None or not found:
        return in_an_editor(record.target)
    back = [each for daemon_set in reversed(found) for each in _set_back(record, spot, daemon_set)]
    name_at = f"{spot.path(record.field).rpartition('/')[0]}/name"
    text = annotation(deployment) if deployment else None
    forget = [] if text is None or id_in(text) not in ("", record.id) else [{"op": "remove", "path": KEY_PATH}]
    patch = [{"op": "test", "path": name_at, "value": spot.container}, *back, *forget]
    text = json.dumps(patch, separators=(",", ":"))
    return shlex.join([*at, "patch", "deployment", name, "--type=json", "-p", text])


def in_an_editor(target: str) -> str:
    """The shell line that opens the Deployment."""
    namespace, _, name = target.partition("/")
    return shlex.join(["kubectl", "-n", namespace, "edit", "deployment", name])


def _set_back(record: Record, spot: ArgumentList, daemon_set: Set) -> list[dict[str, Any]]:
    """Guarded by what stands there; from behind, as a removal moves what follows."""
    words, path = spot.words(daemon_set.field), spot.path(daemon_set.field)
    places = range(daemon_set.at, first_word(daemon_set) - 1, -1)
    tests = [{"op": "test", "path": f"{path}/{at}", "value": words[at]} for at in places]
    if was_set(record, spot):
        return [
            *tests,
            {"op": "replace", "path": f"{path}/{daemon_set.at}", "value": f"{daemon_set.spelling}{record.old}"},
        ]
    return [*tests, *({"op": "remove", "path": f"{path}/{at}"} for at in places)]
