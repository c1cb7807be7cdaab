"""A record of a change as a workload carries it, how it can be damaged, and the words that ask for a change."""

import json
from collections.abc import Callable

import click
import msgspec

from bot.changes.record import Record
from bot.kube.hami_pods import EXTENDER_CONTAINER
from handlers.changes.words import ChangeAsked, Request, change_commands
from handlers.parsing.grammar import Grammar, read
from handlers.parsing.question import split_words

RECORD = Record(
    v=1, id="c1", target="a/b", flag="v", container="c", field="args", words_before=("-v=4",), words_after=("-v=5",),
    old="4", new="5", means="patch", raised_at="2026-11-21T05:00:00Z", at="2026-11-21T05:10:00Z", by="U1",
)  # fmt: skip
OF_SCHEDULER = msgspec.structs.replace(
    RECORD, target="hami-system/hami-scheduler", container=EXTENDER_CONTAINER, field="command"
)

DAMAGES: dict[str, Callable[[str], str | None]] = {
    "off": lambda _: None,
    "broken": lambda _: "{",
    "cut": lambda text: text[: len(text) // 2],
    "of another version": lambda text: text.replace('"v":1', '"v":2'),
    "edited": lambda text: json.dumps(json.loads(text) | {"new": "1", "to": ["other"]}),
    "copied from elsewhere": lambda text: json.dumps(json.loads(text) | {"target": "a/b"}),
}
"""What becomes of the record under our key."""


def asked(text: str) -> Request:
    """The request in words as a person types them."""
    grammar = Grammar("/hami", list)
    for command in change_commands("/hami", list[click.Parameter]):
        grammar.add_command(command)
    found = read(grammar, split_words(text))
    assert isinstance(found, ChangeAsked)
    return found.request
