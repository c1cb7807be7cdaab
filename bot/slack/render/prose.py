"""Messages that are no report: errors, help, progress."""

import re
from collections.abc import Sequence

from bot.errors import BotError
from bot.render.words import visible
from bot.slack.message import Message
from bot.slack.render.blocks import Draft, plain_section
from bot.slack.render.text import (
    TOTAL_BUDGET,
    bullets,
    cut,
    escape,
    inert,
    line,
    lines,
    pieced,
    preformatted,
    rich_text,
    span,
    told,
    told_mrkdwn,
)
from bot.texts import Text, Texts, made, spaced

_MESSAGE, _HINT, _EXAMPLE = 1000, 1000, 300
_ALOUD = 900
_HELP = 6000
_BLANK_BESIDE_CHINESE = re.compile(r"(?<=[，。：；？！]) ")


def render_error(error: BotError, example: str = "") -> Draft:
    """The error with what to do about it, and an example as it is typed (`/hami why ml/trainer-0`)."""

    def headline(text: str) -> str:
        return _sentence(inert(text, _MESSAGE).strip() or type(error).__name__)

    def advice(text: str) -> str:
        return inert(_BLANK_BESIDE_CHINESE.sub("", text), _HINT).strip()

    message = made(headline, error.message)
    aloud, pieces = [escape(message, _ALOUD)], told(message, "bold", ids=error.people)
    if error.hint and (isinstance(error.hint, Text) or error.hint.strip()):
        hint = made(advice, error.hint)
        aloud, pieces = [*aloud, escape(hint, _ALOUD)], pieces + told(pieced("\n{}", hint), ids=error.people)
    parts = [line(*pieces)]
    if example := inert(example, _EXAMPLE).strip():
        aloud.append(escape(spaced(Text("slack.example"), example), _ALOUD))
        parts = [line(*pieces, span(pieced("\n{}", Text("slack.example")))), preformatted(example)]
    return Draft(told_mrkdwn(lines(aloud), error.people), (rich_text(*parts),))


def in_words(error: BotError, say: Texts) -> tuple[str, str]:
    """The error's message and its hint, in words."""
    return say.words(error.message), _BLANK_BESIDE_CHINESE.sub("", say.words(error.hint))


def error_line(error: BotError, say: Texts) -> str:
    """The error's message and hint as sentences on one line, where there is no room for more."""
    message, advice = in_words(error, say)
    return _BLANK_BESIDE_CHINESE.sub("", f"{_sentence(message)} {advice}".strip())


def _sentence(text: str) -> str:
    """The sentence with its full stop, or it runs into the next one where it is read aloud."""
    last = text[-1]
    if "一" <= last <= "鿿":
        return f"{text}。"
    return f"{text}." if last.isascii() and (last.isalnum() or last in "'\")") else text


def render_help(text: str) -> Message:
    """Help text as the grammar writes it: a list of questions with what each is for, or lines with aligned columns."""
    help_lines = [visible(row).rstrip() for row in text[:TOTAL_BUDGET].strip("\n").split("\n")]
    shown = cut("\n".join(help_lines), _HELP).strip("\n") or "-"
    first = next(row for row in help_lines if row) if any(help_lines) else "-"
    heading, *rows = (row.partition(" — ") for row in shown.split("\n"))
    if rows and all(purpose for _, _, purpose in rows):
        items = (line(span(words, "code"), span(" — " + purpose)) for words, _, purpose in rows)
        return Message(escape(first), (rich_text(line(span(heading[0] or "-")), bullets(*items)),))
    return Message(escape(first), (rich_text(preformatted(shown)),))


def render_told(told: Sequence[str]) -> Message:
    """Paragraphs as a message, each in a section of its own."""
    shown = [inert(text, _MESSAGE).strip() for text in told]
    return Message(escape(shown[0], _ALOUD), tuple(plain_section(text) for text in shown))


def progress(text: str) -> Message:
    """One line that says what is going on, with times in the reader's own zone."""
    return Message(told_mrkdwn(escape(text)))
