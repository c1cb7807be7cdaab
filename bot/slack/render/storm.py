"""What the head of a thread shows that gathers the alerts of many causes: a line for each name, and a menu that opens
a thread for one.
"""

import hashlib
from collections.abc import Sequence

from bot.slack.message import Block
from bot.slack.render import blocks
from bot.slack.render.buttons import object_in, object_value
from bot.slack.render.rich import bullets, line, rich_text, span
from bot.slack.render.text import inert
from bot.texts import Text

OPEN = "triage-open-cause"
_LINES, _OPTIONS = 15, 25
_NAME, _OPTION = 60, 75
_VERSION = 1

Named = tuple[str, int, int]


def gathered(incident_id: str, by_name: Sequence[Named]) -> list[Block]:
    """The lines, those of which most fire first, and the menu with those that fire."""
    shown = [line(span(_told(alert))) for alert in by_name[:_LINES]]
    if more := len(by_name) - _LINES:
        shown += [line(span(Text("triage.storm-more", count=more)))] if more > 0 else []
    firing = [alert for alert in by_name if alert[1]][:_OPTIONS]
    built = [rich_text(bullets(*shown))] if shown else []
    if firing:
        options = [
            {"text": blocks.plain(alert[0], _OPTION), "value": _value(incident_id, alert[0])} for alert in firing
        ]
        placeholder = blocks.plain(Text("triage.storm-open"), _OPTION)
        menu = {"type": "static_select", "action_id": OPEN, "options": options, "placeholder": placeholder}
        built.append(blocks.actions(menu))
    return built


def digest_of(name: str) -> str:
    """What stands for an alert's name in the menu, which has no room for a long one."""
    return hashlib.sha256(name.encode(errors="replace")).hexdigest()[:16]


def read_choice(text: str) -> tuple[str, str]:
    """The incident, and the `digest_of` the name that was chosen; both empty if it is none of ours."""
    given = object_in(text) or {}
    incident, name = given.get("incident"), given.get("name")
    is_ours = given.get("v") == _VERSION and len(given) == 3
    return (incident, name) if is_ours and isinstance(incident, str) and isinstance(name, str) else ("", "")


def _value(incident_id: str, name: str) -> str:
    return object_value({"v": _VERSION, "incident": incident_id, "name": digest_of(name)})


def _told(alert: Named) -> Text:
    name, firing, total = alert
    return Text("triage.storm-row", name=inert(name, _NAME) or "-", firing=firing, total=total)
