"""Buttons that say what they ask: their value holds the words, so a click needs nothing that we would have to keep.

A value makes a round trip through the client of whoever clicks: it is read like anything a stranger sends.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from bot.report import NextAction, Report
from bot.slack.message import Message
from bot.slack.render import blocks, limits
from bot.slack.render.limits import BUTTON_VALUE
from bot.slack.render.text import escape
from bot.texts import Text

ASK = "ask:"
POST = "post-to-channel"
EVERYTHING = "show-everything"

_VERSION = 1


class Ask(NamedTuple):
    """What a button asks: the words after the command, and the cluster and gist of the answer that it stood under."""

    words: str
    cluster: str
    read: str = ""


def ask_value(words: str, cluster: str, read: str = "") -> str:
    """The value of a button; a value of more than 2,000 characters is refused by Slack."""
    value = {"v": _VERSION, "ask": words, "cluster": cluster}
    return object_value({**value, "read": read} if read else value)


def gist(report: Report) -> str:
    """A digest that is another one when an answer tells something else: not when an age or an amount differs."""
    found = [(finding.code, finding.confidence, finding.scope.nodes) for finding in report.findings]
    said = repr((report.playbook, report.subject, report.severity, re.sub(r"\d+", "0", report.verdict), found))
    return hashlib.sha256(said.encode(errors="replace")).hexdigest()[:16]


def object_value(value: Mapping[str, Any]) -> str:
    """The JSON object as a button's value. Slack counts characters, so no character is written as an escape of six."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def object_in(text: str) -> dict[str, Any] | None:
    """The JSON object of a button's value; None where it is none, or longer than Slack takes."""
    if len(text) > BUTTON_VALUE:
        return None
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def read_value(text: str) -> Ask | None:
    """What the value asks, or None if it is none of ours."""
    value = object_in(text)
    if value is None:
        return None
    given: list[Any] = [value.get("ask"), value.get("cluster"), value.get("read", "")]
    is_ours = type(value.get("v")) is int and value["v"] == _VERSION and value.keys() <= {"v", "ask", "cluster", "read"}
    if is_ours and all(isinstance(part, str) for part in given) and given[0].strip():
        return Ask(*given)
    return None


def is_ours(action: NextAction) -> bool:
    """Whether the action is a verb of the bot, which a button can ask, and no command for a shell."""
    return bool(action.command.strip()) and not action.command.startswith("kubectl ")


def action_button(action: NextAction, cluster: str, number: int) -> blocks.Element | None:
    """The button that asks for the action, which must be ours; None where it does not fit into a button."""
    value = ask_value(action.command, cluster)
    if len(value) > BUTTON_VALUE:
        return None
    if not action.changes_cluster:
        return blocks.button(action.command, f"{ASK}{number}", value)
    question = blocks.confirm(Text("slack.sure"), action.label, Text("slack.yes"), Text("slack.no"))
    return blocks.button(action.command, f"{ASK}{number}", value, style="danger", confirm=question)


def closing_buttons(
    words: str,
    cluster: str,
    number: int,
    *,
    read: str,
    private: bool,
    everything: bool = False,
    direct: bool = False,
) -> list[blocks.Element]:
    """[Look again]; where only the asker sees the answer also [Show everything], unless it does, and [Post to channel].

    `direct`: there is no channel to post it to. `read` is the answer's gist. None where the question does not fit into
    a button.
    """
    value, posted = ask_value(words, cluster), ask_value(words, cluster, read)
    if not words.strip() or len(posted) > BUTTON_VALUE:
        return []
    offered = [blocks.button(Text("slack.again"), f"{ASK}{number}", value)]
    if (private or direct) and not everything:
        offered.append(blocks.button(Text("slack.everything"), EVERYTHING, value))
    if private and not direct:
        offered.append(blocks.button(Text("slack.post"), POST, posted))
    return offered


_MOST = 25


def render_clusters(question: str, words: str, clusters: Sequence[str]) -> Message:
    """Which cluster a question is about: a button for each of at most 25, and how to name one."""
    values = [(name, ask_value(words, name)) for name in clusters]
    offered = [(name, value) for name, value in values if len(value) <= limits.BUTTON_VALUE][:_MOST]
    buttons = [blocks.button(name, f"{ASK}{number}", value) for number, (name, value) in enumerate(offered)]
    return Message(escape(question), (blocks.plain_section(question), *([blocks.actions(*buttons)] if buttons else [])))


def render_choice(question: str, asks: Sequence[str], cluster: str) -> Message:
    """`asks` are questions as typed after the command; at most 25 are offered, those too long for a button never."""
    offered = [(words, value) for words in asks if len(value := ask_value(words, cluster)) <= limits.BUTTON_VALUE]
    buttons = [blocks.button(words, f"{ASK}{number}", value) for number, (words, value) in enumerate(offered)]
    spoken = escape(f"{question} {', '.join(words for words, _ in offered)}")
    return Message(spoken, (blocks.plain_section(question), *([blocks.actions(*buttons)] if buttons else [])))
