"""What Slack would make of a message: enough of its parsing to see whether foreign text acts."""

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from bot.report import Report
from bot.slack.message import Message
from bot.slack.render.text import TOTAL_BUDGET, total_text
from sandbox.slack.validate import validate_blocks
from tests.cases_support import Scenario, scenarios

EXPECTED = Path(__file__).parent / "expected"

_SEQUENCE = re.compile(r"<([^<>]*)>")
_DATE = re.compile(r"<!date\^\d+\^\{date_short_pretty\} \{time_secs\}\|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ>")
"""A time in the reader's own zone, which calls nobody."""
_PICTURE = re.compile(r":(?!\d\d:)[\w+'-]+:")
_FORMATTED = re.compile(
    r"(?<![A-Za-z0-9])([*_~])(?=\S)(.+?)(?<=\S)\1(?![A-Za-z0-9])|`[^`]+`|^\s*(>|&gt;)", re.MULTILINE
)
_ADDRESS = re.compile(r"\w+://\S|\bwww\.\S", re.IGNORECASE)
_ACT = ("Cc", "Cf", "Cs", "Zl", "Zp")
_ENTITY = re.compile(r"&(?!amp;|lt;|gt;)")


class Read(NamedTuple):
    """What acts in a text that Slack parses."""

    sequences: list[str]
    pictures: list[str]
    formatted: list[str]
    addresses: list[str]
    broken: list[str]


def read(mrkdwn: str) -> Read:
    """The `<…>` sequences but times, `:pictures:`, formatting, bare addresses and halves of entities in it."""
    mrkdwn = _DATE.sub("", mrkdwn)
    formatted = [found[0] for found in _FORMATTED.finditer(mrkdwn)]
    found = [pattern.findall(mrkdwn) for pattern in (_SEQUENCE, _PICTURE, _ADDRESS, _ENTITY)]
    return Read(found[0], found[1], formatted, found[2], found[3])


NOTHING = Read([], [], [], [], [])


def objects(value: Any) -> Iterator[dict[str, Any]]:
    """All objects in it, outer ones first."""
    if isinstance(value, dict):
        yield value
        for item in value.values():
            yield from objects(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from objects(item)


def parsed(message: Message) -> list[str]:
    """Every text of the message that Slack parses."""
    shown = objects([*message.blocks, *message.newer])
    return [message.text, *(object_["text"] for object_ in shown if object_.get("type") == "mrkdwn")]


def texts(message: Message) -> list[str]:
    """Every text that the blocks show."""
    return [object_["text"] for object_ in objects(message.blocks) if isinstance(object_.get("text"), str)]


def assert_fits(message: Message) -> None:
    """Slack takes the message, and it is within our budget."""
    for shown in (message.blocks, message.newer):
        assert validate_blocks(list(shown)) == []
        assert total_text(shown) <= TOTAL_BUDGET
        assert len(shown) <= 45
    assert message.text.strip()
    assert len(message.text) <= 3000


def assert_inert(message: Message) -> None:
    """Nothing in the message pings, links, formats or shows a picture, and no control character is in it."""
    for text in parsed(message):
        assert read(text) == NOTHING, text
    parts = "text rich_text_section rich_text_list rich_text_quote rich_text_preformatted rich_text raw_text plain_text"
    allowed = {*parts.split(), "header", "section", "context", "actions", "button", "table"}
    for object_ in objects(message.blocks):
        assert object_.get("type", "text") in allowed
        assert object_.get("type") != "plain_text" or object_["emoji"] is False
    for text in [*texts(message), message.text]:
        assert not any(unicodedata.category(letter) in _ACT and letter not in "\n\u200b" for letter in text), text
        text.encode("utf-8")


@cache
def report_of(scenario: Scenario) -> Report:
    """The report about a recorded pod."""
    return scenario.question.ask()


def expected_file(scenario: Scenario) -> Path:
    return EXPECTED / f"{scenario.pod.replace('/', '.')}.json"


SCENARIOS = scenarios()

# One each: all well, no card fits, an unregistered node, a pod that another scheduler has, a lock, a quota.
CHOSEN = [
    scenario
    for scenario in SCENARIOS
    if (scenario.version, scenario.pod)
    in {
        ("hami-2.10", "ml/s01-fit-a100"),
        ("hami-2.9.0", "ml/s03-card-insufficient-memory"),
        ("hami-2.8.1", "ml/s09-node-unregistered"),
        ("hami-2.7.1", "ml/s14-wrong-scheduler"),
        ("hami-2.5.1", "ml/s12-node-locked"),
        ("hami-2.9.0", "quota-ns/s08-quota-filter"),
    }
]
