"""The page's parsers of Slack's text, run in the browser that will run them."""

import asyncio
import json
from typing import Any

import pytest

from tests.sandbox.page.support import Chrome

pytestmark = pytest.mark.process


def parsed(chrome: Chrome, module: str, function: str, *arguments: Any) -> Any:
    found: list[Any] = []

    async def scenario(slack, app, page):
        call = f"(given) => import('/page/{module}').then((m) => m.{function}(...given))"
        found.append(await page.evaluate(call, list(arguments)))

    chrome.run(scenario)
    return found[0]


def text(words: str) -> dict[str, str]:
    return {"t": "text", "s": words}


MRKDWN = [
    ("a *bold* b", [text("a "), {"t": "b", "c": [text("bold")]}, text(" b")]),
    ("_it_ ~gone~", [{"t": "i", "c": [text("it")]}, text(" "), {"t": "s", "c": [text("gone")]}]),
    ("*bold _both_*", [{"t": "b", "c": [text("bold "), {"t": "i", "c": [text("both")]}]}]),
    ("snake_case_name and 2*3*4", [text("snake_case_name and 2*3*4")]),
    ("* a * b", [text("* a * b")]),
    ("`*code*`", [{"t": "code", "c": [text("*code*")]}]),
    ("*never closed", [text("*never closed")]),
    ("*over\nlines*", [text("*over"), {"t": "br"}, text("lines*")]),
    ("x\n```\npre *x*\n```\ny", [text("x"), {"t": "pre", "c": [text("pre *x*")]}, text("y")]),
    ("&gt; said\nnot said", [{"t": "quote", "c": [text("said")]}, text("not said")]),
    ("&gt;&gt;&gt; all\nof it", [{"t": "quote", "c": [text("all"), {"t": "br"}, text("of it")]}]),
    ("<https://example.com/a_b_c|a_b>", [{"t": "link", "url": "https://example.com/a_b_c", "s": "a_b"}]),
    ("<mailto:a@example.com>", [{"t": "link", "url": "mailto:a@example.com", "s": "mailto:a@example.com"}]),
    (
        "see https://example.com/x.",
        [text("see "), {"t": "link", "url": "https://example.com/x", "s": "https://example.com/x"}, text(".")],
    ),
    ("<javascript:alert(1)|x>", [text("<javascript:alert(1)|x>")]),
    ("< b > c", [text("< b > c")]),
    ("&lt;!channel&gt; &amp;lt;", [text("<!channel> &lt;")]),
    ("<!channel> <!here|x>", [{"t": "broadcast", "s": "@channel"}, text(" "), {"t": "broadcast", "s": "@here"}]),
    ("`<!channel>`", [{"t": "code", "c": [{"t": "broadcast", "s": "@channel"}]}]),
    ("<!subteam^S1|@oncall>", [{"t": "group", "id": "S1", "s": "@oncall"}]),
    (
        "<@U1|ada> <#C1|general>",
        [{"t": "user", "id": "U1", "s": "ada"}, text(" "), {"t": "channel", "id": "C1", "s": "general"}],
    ),
    ("<!date^1^{date_num}|then>", [text("1970-01-01")]),
    ("<!date^soon^{date_num}|then>", [text("then")]),
    (":eyes: :nothing_known: 12:30:45", [{"t": "emoji", "name": "eyes", "s": "👀"}, text(" :nothing_known: 12:30:45")]),
]


def test_mrkdwn_is_parsed_as_slack_does(chrome: Chrome) -> None:
    got: list[Any] = []

    async def scenario(slack, app, page):
        script = "(all) => import('/page/text-mrkdwn.js').then((m) => all.map((one) => m.parseMrkdwn(one)))"
        got.extend(await page.evaluate(script, [source for source, _ in MRKDWN]))

    chrome.run(scenario)
    wrong = [(source, is_, should) for (source, should), is_ in zip(MRKDWN, got, strict=True) if is_ != should]
    assert wrong == []


PARSERS = [("text-mrkdwn.js", "parseMrkdwn"), ("text-markdown.js", "parseMarkdown")]


@pytest.mark.parametrize(("module", "function"), PARSERS)
def test_parsing_takes_time_in_proportion_to_the_length(chrome: Chrome, module: str, function: str) -> None:
    hard = [
        "*a ",
        "_a_ ",
        "`",
        "<",
        "<a",
        "*",
        ":a",
        "```",
        "a*b_c~d`e<f",
        "[a",
        "[a](b",
        "**",
        "https://",
        "| a ",
        "&gt;",
    ]

    async def scenario(slack, app, page):
        work = f"for (const one of all) m.{function}(one.repeat(200000 / one.length));"
        script = f"(all) => import('/page/{module}').then((m) => {{ {work} }})"
        async with asyncio.timeout(180):  # a fraction of a second; a pattern that looks back takes hours
            await page.evaluate(script, hard)

    chrome.run(scenario)


def test_markdown_knows_a_safe_subset(chrome: Chrome) -> None:
    source = (
        "# Head\n\nOne **b** *i* `c` ~~s~~ [l](https://example.com) [x](javascript:alert) <b>\n\n1. a\n2. b\n\n---\n> q"
    )
    nodes = parsed(chrome, "text-markdown.js", "parseMarkdown", source)
    assert [node["t"] for node in nodes] == ["h", "p", "list", "hr", "quote"]
    kinds = [node["t"] for node in nodes[1]["c"]]
    assert kinds.count("link") == 1
    assert "[x](javascript:alert)" in json.dumps(nodes[1])


DAY = 86400
NOON = 1795262400  # 2026-11-21 12:00 UTC, which is the same day in every zone that a person tests in


@pytest.mark.parametrize(
    ("seconds", "form", "shown"),
    [
        (NOON, "{date_num}", "2026-11-21"),
        (NOON, "on {date_short_pretty}", "on today"),
        (NOON + DAY, "{date_long_pretty}", "tomorrow"),
        (NOON - DAY, "{day_divider_pretty}", "yesterday"),
        (NOON - 3 * DAY, "{ago}", "3 days ago"),
        (NOON, "{date_of_birth}", None),
        (1e300, "{date_num}", None),
    ],
)
def test_a_date_is_shown_as_its_reader_would_say_it(chrome: Chrome, seconds: float, form: str, shown: str) -> None:
    assert parsed(chrome, "text-date.js", "slackDate", seconds, form, NOON * 1000) == shown
