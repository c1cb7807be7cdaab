"""Buttons that say what they ask: their value holds the words, so a click needs nothing that we would have to keep.

A value makes a round trip through the client of whoever clicks: it is read like anything a stranger sends.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from typing import Annotated, TypeVar

import msgspec

from bot.report import NextAction, Report
from bot.slack.message import Message
from bot.slack.render import blocks
from bot.slack.render.text import BUTTON_VALUE, escape
from bot.texts import Text

ASK = "ask:"
POST = "post-to-channel"
EVERYTHING = "show-everything"


class Pressed(msgspec.Struct, frozen=True, tag_field="v", tag=1, forbid_unknown_fields=True, omit_defaults=True):
    """What a button or a form carries; `v` is the version of what we mean by it."""


P = TypeVar("P", bound=Pressed)


class AskButton(Pressed, frozen=True, rename={"words": "ask"}):
    """What a button asks: the words after the command, and the cluster and gist of the answer that it stood under."""

    words: Annotated[str, msgspec.Meta(pattern=r"\S")]
    cluster: str
    read: str = ""


def value_of(pressed: Pressed) -> str:
    """The value of a button; Slack refuses one of more than 2,000 characters, so no character is an escape of six."""
    return json.dumps(msgspec.to_builtins(pressed), ensure_ascii=False, separators=(",", ":"))


def read_value(text: str, kind: type[P]) -> P | None:
    """What the value of a button or a form carries, or None if it is none of ours."""
    if len(text) > BUTTON_VALUE:
        return None
    try:
        return msgspec.convert(json.loads(text), kind)
    except (ValueError, RecursionError, msgspec.ValidationError):
        return None


def gist(report: Report) -> str:
    """A digest that is another one when an answer tells something else: not when an age or an amount differs."""
    found = [(finding.code, finding.confidence, finding.scope.nodes) for finding in report.findings]
    said = repr((report.playbook, report.subject, report.severity, re.sub(r"\d+", "0", report.verdict), found))
    return hashlib.sha256(said.encode(errors="replace")).hexdigest()[:16]


def action_button(action: NextAction, cluster: str, number: int) -> blocks.Element | None:
    """The button that asks for the action, which must be ours; None where it does not fit into a button."""
    value = value_of(AskButton(action.command, cluster))
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
    watch: str = "",
) -> list[blocks.Element]:
    """[Look again], [Show everything] unless the answer does, and [Post to channel] where only the asker sees it.

    `watch` is a pod that waits: before all [Tell me when it runs]. `direct`: there is no channel to post it to. `read`
    is the answer's gist. None where the question does not fit into a button.
    """
    value, posted = value_of(AskButton(words, cluster)), value_of(AskButton(words, cluster, read))
    if not words.strip() or len(posted) > BUTTON_VALUE:
        return []
    offered = [blocks.button(Text("slack.again"), f"{ASK}{number}", value)]
    if watch:
        offered.insert(
            0, blocks.button(Text("desk.watch"), f"{ASK}watch", value_of(AskButton(f"watch {watch}", cluster)))
        )
    if not everything:
        offered.append(blocks.button(Text("slack.everything"), EVERYTHING, value))
    if private and not direct:
        offered.append(blocks.button(Text("slack.post"), POST, posted))
    return offered


# ----------------------------------------------------------------------------- a question with several possible answers


def render_clusters(question: str, words: str, clusters: Sequence[str]) -> Message:
    """Which cluster a question is about: a button for each of at most 25, and how to name one."""
    return _choice(question, question, [(name, AskButton(words, name)) for name in clusters])


def render_choice(question: str, asks: Sequence[str], cluster: str) -> Message:
    """`asks` are questions as typed after the command; at most 25 are offered, those too long for a button never."""
    offered = [(words, AskButton(words, cluster)) for words in asks]
    fitting = [words for words, ask in offered if len(value_of(ask)) <= BUTTON_VALUE]
    return _choice(question, f"{question} {', '.join(fitting)}", offered)


def _choice(question: str, aloud: str, offered: Sequence[tuple[str, AskButton]]) -> Message:
    values = [(label, value_of(ask)) for label, ask in offered]
    fitting = [(label, value) for label, value in values if len(value) <= BUTTON_VALUE]
    buttons = [blocks.button(label, f"{ASK}{number}", value) for number, (label, value) in enumerate(fitting)]
    shown = [blocks.plain_section(question), *([blocks.actions(*buttons)] if buttons else [])]
    return Message(escape(aloud), tuple(shown))
