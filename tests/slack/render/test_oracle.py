"""Another builder of blocks, which checks what it builds, is able to build ours and builds the same."""

import json
from typing import Any

import pytest
import slackblocks as other

from bot.slack.render.report import render_report
from tests.cases_support import Scenario
from tests.render import SAY, typical
from tests.slack.render import SCENARIOS, report_of


def text(one: dict[str, Any]) -> other.Text:
    return other.Text(one["text"], other.TextType(one["type"]), emoji=one["emoji"])


def button(one: dict[str, Any]) -> other.Button:
    return other.Button(text(one["text"]), one["action_id"], value=one["value"])


def piece(one: dict[str, Any]) -> other.RichText:
    return other.RichText(one["text"], **one.get("style", {}))


def part(one: dict[str, Any]) -> other.RichTextObject:
    if one["type"] == "rich_text_list":
        return other.RichTextList(one["style"], [part(each) for each in one["elements"]])
    made = {
        "rich_text_section": other.RichTextSection,
        "rich_text_quote": other.RichTextQuote,
        "rich_text_preformatted": other.RichTextCodeBlock,
    }
    return made[one["type"]]([piece(each) for each in one["elements"]])


def table(one: dict[str, Any]) -> other.TableBlock:
    rows = [[other.RawText(cell["text"]) for cell in row] for row in one["rows"]]
    return other.TableBlock(rows, [other.ColumnSettings(**column) for column in one["column_settings"]])


def block(one: dict[str, Any]) -> other.Block:
    match one["type"]:
        case "header":
            return other.HeaderBlock(text(one["text"]))
        case "section":
            return other.SectionBlock(text(one["text"]), accessory=button(one["accessory"]))
        case "context":
            return other.ContextBlock([text(each) for each in one["elements"]])
        case "actions":
            return other.ActionsBlock([button(each) for each in one["elements"]])
        case "table":
            return table(one)
        case _:
            return other.RichTextBlock([part(each) for each in one["elements"]])


def without_defaults(value: Any) -> Any:
    """The builders leave out or name different defaults: `emoji` false, borders and offsets of 0, block ids."""
    if isinstance(value, dict):
        dropped = ("block_id", "emoji", "border", "offset", "indent")
        return {name: without_defaults(one) for name, one in value.items() if name not in dropped}
    return [without_defaults(item) for item in value] if isinstance(value, list | tuple) else value


@pytest.mark.parametrize(
    "scenario", [None, *SCENARIOS[::5]], ids=lambda scenario: scenario.pod if scenario else "typical"
)
def test_another_builder_builds_the_same_message(scenario: Scenario | None) -> None:
    report = report_of(scenario) if scenario else typical()
    ours = render_report(report, SAY, channel_buttons=True, words="why ml/x").blocks
    theirs = json.loads(other.Message("C1", blocks=[block(our) for our in ours]).json())["blocks"]
    assert without_defaults(theirs) == without_defaults(ours)
