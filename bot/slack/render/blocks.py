"""Blocks, elements and views as dicts within Slack's limits: too long text is cut, extra parts are left out.

Text is shown as it is, whoever wrote it: `plain_text` without pictures. A text that is no words yet is cut when
`in_words` fills it in. A button's value holds the words that it asks, so the bot need not keep anything for a click; it
makes a round trip through a client, and is read like anything that a stranger sends.
"""

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any, NamedTuple, TypeVar, cast

import msgspec

from bot.render.words import visible
from bot.report import NextAction, Report
from bot.slack.message import Block, File, Message
from bot.slack.render.text import (
    ACTIONS_ELEMENTS,
    BLOCKS_OF_VIEW,
    BUTTON_TEXT,
    BUTTON_VALUE,
    CONFIRM_BUTTON,
    CONFIRM_TEXT,
    CONFIRM_TITLE,
    CONTEXT_ELEMENTS,
    HEADER,
    LABEL,
    PLACEHOLDER,
    SECTION,
    TABLE_COLUMNS,
    TABLE_ROWS,
    VIEW_TITLE,
    Mrkdwn,
    MrkdwnText,
    cut,
    escape,
    inert,
    told,
    total_text,
)
from bot.texts import Prose, Text, Texts, made

Element = dict[str, Any]

_NO_LABEL = "-"
_NUMBER = re.compile(r"-?\d{1,3}(,\d{3})*(\.\d+)?|-?\d+(\.\d+)?", re.ASCII)


T = TypeVar("T")
Shown = TypeVar("Shown", bound=dict[str, Any] | list[Any])


class Draft(NamedTuple):
    """A message to Slack before its language is chosen: its blocks hold `Text`s, keys with values."""

    text: Mrkdwn | MrkdwnText
    blocks: tuple[Block, ...] = ()
    files: tuple[File, ...] = ()
    broadcast: bool = False

    def in_words(self, say: Texts) -> Message:
        """The draft as a message in the language of `say`."""
        return Message(say.words(self.text), in_words(self.blocks, say), self.files, self.broadcast)


def in_words(value: T, say: Texts) -> T:
    """The blocks, elements or view with words of one language in place of each `Text`."""
    filled: Any = value
    match value:
        case Text():
            filled = say.words(value)
        case dict():
            filled = {name: in_words(part, say) for name, part in cast("dict[str, Any]", value).items()}
        case list() | tuple():
            parts: list[Any] = []
            for part in cast("Sequence[Any]", value):
                match part:
                    case {"type": "told", "text": Text() as text, "styles": styles, "ids": ids}:
                        parts += told(say.words(text), *styles, ids=ids)
                    case _:
                        parts.append(in_words(part, say))
            filled = parts if isinstance(value, list) else tuple(parts)
        case _:
            pass
    return filled


def plain(text: Prose, most: int) -> Element:
    """A text object in which Slack parses nothing; an empty text becomes a hyphen, because Slack refuses empty ones."""

    def labelled(words: str) -> str:
        return inert(words, most) if words.strip() else _NO_LABEL

    shown = made(labelled, text) if isinstance(text, Text) else labelled(text)
    return {"type": "plain_text", "text": shown, "emoji": False}


# --------------------------------------------------------------------------------------------------------- blocks


def plain_section(text: Prose, *, accessory: Element | None = None) -> Block:
    """A section with text that anybody may have written; nothing in it is parsed."""
    block: Block = {"type": "section", "text": plain(text, SECTION)}
    return block if accessory is None else {**block, "accessory": accessory}


def header(text: Prose) -> Block:
    return {"type": "header", "text": plain(text, HEADER)}


def context(*texts: Prose) -> Block:
    """A block of small print, one piece per text; needs at least one text."""
    return {"type": "context", "elements": [plain(text, SECTION) for text in texts[:CONTEXT_ELEMENTS]]}


def actions(*elements: Element) -> Block:
    """A block of elements such as buttons; at least one, each with its own action_id."""
    return {"type": "actions", "elements": list(elements[:ACTIONS_ELEMENTS])}


def table(rows: Sequence[Sequence[Element]], right: Sequence[bool]) -> Block:
    """A table of the rows, each cell as `cell` gives it, the heading first; `right` tells which columns align right."""
    aligned = [{"is_wrapped": True, "align": "right" if is_right else "left"} for is_right in right[:TABLE_COLUMNS]]
    shown = [list(row[:TABLE_COLUMNS]) for row in rows[:TABLE_ROWS]]
    return {"type": "table", "rows": shown, "column_settings": aligned}


def data_table(caption: Prose, rows: Sequence[Sequence[Element]], page: int) -> Block:
    """A table that people sort, filter and turn the pages of; a column of numbers sorts as numbers. Source:
    docs.slack.dev/reference/block-kit/blocks/data-table-block, October 2026.
    """
    header, *body = [list(row[:TABLE_COLUMNS]) for row in rows[: 1 + TABLE_ROWS]]
    columns = [_numbers(column) for column in zip(*body, strict=True)]
    shown = [header, *map(list, zip(*columns, strict=True))]
    return {
        "type": "data_table",
        "caption": inert(caption, HEADER) or _NO_LABEL,
        "rows": shown,
        "page_size": page,
    }


def _numbers(column: Sequence[Element]) -> Sequence[Element]:
    if not all(_NUMBER.fullmatch(cell["text"]) for cell in column):
        return column
    values = [float(cell["text"].replace(",", "")) for cell in column]
    return [
        {"type": "raw_number", "value": int(value) if value.is_integer() else value, "text": cell["text"]}
        for value, cell in zip(values, column, strict=True)
    ]


def task_card(task_id: str, title: str) -> Block:
    """A card for a step under way. Source: docs.slack.dev/reference/block-kit/blocks/task-card-block, October 2026."""
    return {
        "type": "task_card",
        "task_id": task_id,
        "title": inert(title, HEADER) or _NO_LABEL,
        "status": "in_progress",
    }


def cell(text: str) -> Element:
    """A cell of a table with inert text."""
    return {"type": "raw_text", "text": text if text.strip() else _NO_LABEL}


def asking(label: Prose, element: Element, block_id: str, *, hint: Prose = "") -> Block:
    """An `input` block with its label, around an element of a modal."""
    block: Block = {"type": "input", "block_id": block_id, "label": plain(label, LABEL), "element": element}
    return block | {"optional": False} | ({"hint": plain(hint, LABEL)} if hint else {})


# ------------------------------------------------------------------------------------------------------- elements


def button(
    label: Prose, action_id: str, value: str = "", *, style: str = "", confirm: Element | None = None
) -> Element:
    """A button; its `value` is never cut, since half of one means something else. Style: `primary` or `danger`."""
    element: Element = {"type": "button", "text": plain(label, BUTTON_TEXT), "action_id": action_id}
    optional = {"value": value, "style": style, "confirm": confirm}
    return {**element, **{name: value for name, value in optional.items() if value}}


def confirm(title: Prose, text: Prose, yes: Prose = "") -> Element:
    """The dialog that asks before a button acts."""
    return {
        "title": plain(title, CONFIRM_TITLE),
        "text": plain(text, CONFIRM_TEXT),
        "confirm": plain(yes or Text("slack.yes"), CONFIRM_BUTTON),
        "deny": plain(Text("slack.no"), CONFIRM_BUTTON),
        "style": "danger",
    }


def text_input(action_id: str, *, initial: str = "", placeholder: str = "", multiline: bool = False) -> Element:
    element: Element = {"type": "plain_text_input", "action_id": action_id, "multiline": multiline}
    if placeholder:
        element["placeholder"] = plain(placeholder, PLACEHOLDER)
    return {**element, "initial_value": cut(initial, SECTION)} if initial else element


# ---------------------------------------------------------------------------------------------------------- views


def modal(
    title: Prose,
    blocks: Sequence[Block],
    *,
    submit: Prose = "",
    callback_id: str = "",
    private_metadata: str = "",
) -> Element:
    """A modal view; one with an input block needs `submit`. `private_metadata`: at most 3,000 characters, never cut."""
    view: Element = {
        "type": "modal",
        "title": plain(title, VIEW_TITLE),
        "close": plain(Text("desk.cancel"), VIEW_TITLE),
        "blocks": list(blocks[:BLOCKS_OF_VIEW]),
    }
    if submit:
        view["submit"] = plain(submit, VIEW_TITLE)
    optional = {"callback_id": callback_id, "private_metadata": private_metadata}
    return {**view, **{name: value for name, value in optional.items() if value}}


def home(blocks: Sequence[Block]) -> Element:
    return {"type": "home", "blocks": list(blocks[:BLOCKS_OF_VIEW])}


# ----------------------------------------------------------------------------------------------------------- room


class Room:
    """The room that a message has left, in characters: each part takes its own as it becomes words of `say`."""

    def __init__(self, characters: int, say: Texts) -> None:
        self.characters = characters
        self.say = say
        self.overflowed = False

    def copy(self) -> "Room":
        """Another room with as many characters left, to be filled in another way."""
        other = Room(self.characters, self.say)
        other.overflowed = self.overflowed
        return other

    def text(self, prose: Prose, most: int) -> str:
        """The text made inert and cut to `most` characters; if it was cut, `overflowed` is set."""
        whole = visible(self.say.words(prose)[: most + 1])
        shown = cut(whole, most)
        self.overflowed = self.overflowed or shown != whole
        return shown

    def whole(self, raw: str, most: int) -> str:
        """The text made inert, or "" if it is too long: text to be copied, such as a command, is never cut."""
        shown = visible(raw[: most + 1])
        if len(shown) <= most:
            return shown
        self.overflowed = True
        return ""

    def take(self, part: Shown) -> Shown:
        """The part in words, whose characters are taken from the room, however few are left."""
        shown = in_words(part, self.say)
        self.characters -= total_text(shown)
        return shown

    def fill(self, items: Sequence[T], show: Callable[[int, T], Shown], *, share: int, most: int) -> list[Shown]:
        """The first items as `show(number, item)` gives them: at most `most`, in at most `share` characters together.
        `overflowed` is set if any item had to be left out.
        """
        limit = min(share, self.characters)
        shown: list[Shown] = []
        for number, item in enumerate(items[:most], 1):
            part = in_words(show(number, item), self.say)
            limit -= total_text(part)
            if limit < 0:
                break
            shown.append(self.take(part))
        self.overflowed = self.overflowed or len(shown) < len(items)
        return shown


ASK = "ask:"
POST = "post-to-channel"
EVERYTHING = "show-everything"


class Pressed(msgspec.Struct, frozen=True, tag_field="v", tag=1, forbid_unknown_fields=True, omit_defaults=True):
    """The values that a button or a form carries; `v` is the version of their meaning."""


P = TypeVar("P", bound=Pressed)


class AskButton(Pressed, frozen=True, rename={"words": "ask"}):
    """The question that a button asks: the words after the command, the cluster and gist of the answer above it."""

    words: Annotated[str, msgspec.Meta(pattern=r"\S")]
    cluster: str
    read: str = ""


def value_of(pressed: Pressed) -> str:
    """The value of a button or form: JSON without six-character escapes, as Slack takes at most 2,000 characters."""
    return json.dumps(msgspec.to_builtins(pressed), ensure_ascii=False, separators=(",", ":"))


def read_value(text: str, kind: type[P]) -> P | None:
    """The values that a button or a form carries, as `kind`; None if the text is no such value of the bot."""
    if len(text) > BUTTON_VALUE:
        return None
    try:
        return msgspec.convert(json.loads(text), kind)
    except (ValueError, RecursionError, msgspec.ValidationError):
        return None


def gist(report: Report) -> str:
    """A hash of what an answer tells, equal for another answer in which only ages or amounts differ."""
    found = [(finding.code, finding.confidence, finding.scope.nodes) for finding in report.findings]
    said = repr((report.playbook, report.subject, report.severity, re.sub(r"\d+", "0", report.verdict), found))
    return hashlib.sha256(said.encode(errors="replace")).hexdigest()[:16]


def action_button(action: NextAction, cluster: str, number: int) -> Element | None:
    """The button for an action that is a command of the bot; None where the command does not fit into a button."""
    value = value_of(AskButton(action.command, cluster))
    if len(value) > BUTTON_VALUE:
        return None
    if not action.changes_cluster:
        return button(action.command, f"{ASK}{number}", value)
    question = confirm(Text("slack.sure"), action.label)
    return button(action.command, f"{ASK}{number}", value, style="danger", confirm=question)


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
) -> list[Element]:
    """[Look again], [Show everything] unless `everything`, and [Post to channel] where the answer is `private` and a
    channel is there (not `direct`). For a pod that waits, `watch`, [Tell me when it runs] comes first. `read` is the
    answer's gist. No buttons where the question does not fit into one.
    """
    value, posted = value_of(AskButton(words, cluster)), value_of(AskButton(words, cluster, read))
    if not words.strip() or len(posted) > BUTTON_VALUE:
        return []
    offered = [button(Text("slack.again"), f"{ASK}{number}", value)]
    if watch:
        offered.insert(0, button(Text("desk.watch"), f"{ASK}watch", value_of(AskButton(f"watch {watch}", cluster))))
    if not everything:
        offered.append(button(Text("slack.everything"), EVERYTHING, value))
    if private and not direct:
        offered.append(button(Text("slack.post"), POST, posted))
    return offered


# ----------------------------------------------------------------------------- a question with several possible answers


def render_clusters(question: str, words: str, clusters: Sequence[str]) -> Message:
    """Asks which cluster a question is about: a button for each of at most 25, and how to name one."""
    return _choice(question, [(name, AskButton(words, name)) for name in clusters])


def render_choice(question: str, asks: Sequence[str], cluster: str) -> Message:
    """A choice among the questions `asks`, as typed after the command; at most 25, and none too long for a button."""
    return _choice(question, [(words, AskButton(words, cluster)) for words in asks], reads_out=True)


def _choice(question: str, offered: Sequence[tuple[str, AskButton]], *, reads_out: bool = False) -> Message:
    fitting = [(label, value) for label, ask in offered if len(value := value_of(ask)) <= BUTTON_VALUE]
    aloud = f"{question} {', '.join(label for label, _ in fitting)}" if reads_out else question
    buttons = [button(label, f"{ASK}{number}", value) for number, (label, value) in enumerate(fitting)]
    shown = [plain_section(question), *([actions(*buttons)] if buttons else [])]
    return Message(escape(aloud), tuple(shown))
