"""A question with several possible answers: one button for each."""

from collections.abc import Sequence

from bot.slack.message import Message
from bot.slack.render import blocks, limits
from bot.slack.render.buttons import ASK, ask_value
from bot.slack.render.text import escape

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
