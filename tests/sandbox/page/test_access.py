"""What people with a keyboard, a screen reader, a phone or a dark room get, and what the page may not do."""

import re
from pathlib import Path

import pytest

from tests.sandbox.page.browsing import open_modal, put
from tests.sandbox.page.samples import EVERY_BLOCK, LONG, mrkdwn
from tests.sandbox.page.support import CHANNEL, Chrome, violations_of

pytestmark = pytest.mark.process

PAGE = Path(__file__).parents[3] / "sandbox" / "slack" / "page"
AT_CHANNEL = f"#/c/{CHANNEL}"
FULL = "C0MLTRAIN1"  # the channel with every block: a large document, read only once
PHONE = {"viewport": {"width": 400, "height": 780}}


@pytest.mark.parametrize(("scheme", "size"), [("light", {}), ("dark", PHONE)], ids=["light desk", "dark phone"])
def test_axe_finds_nothing_wrong(chrome: Chrome, scheme: str, size) -> None:
    async def scenario(slack, app, page):
        found = {"start": await violations_of(page)}
        await page.goto(f"{slack.url}/#/c/{FULL}")
        await page.locator("[data-block=hologram]").wait_for()
        found["blocks"] = await violations_of(page)
        await page.goto(f"{slack.url}/{AT_CHANNEL}")
        await app.call("chat.postEphemeral", channel=CHANNEL, user="U0ADA00001", text="only <!channel> *you*")
        await page.locator(".message.ephemeral").wait_for()
        found["messages"] = await violations_of(page)
        await page.locator("#main textarea").fill("/hami ")
        found["completion"] = await violations_of(page)
        dialog = await open_modal(app, page)
        found["modal"] = await violations_of(page)
        await dialog.get_by_role("button", name="Ask", exact=True).click()
        await dialog.get_by_text("Please complete").wait_for()
        found["errors"] = await violations_of(page)
        await page.keyboard.press("Escape")
        await dialog.wait_for(state="detached")
        await page.get_by_role("button", name="1 reply").click()
        await page.locator("#thread .message").last.wait_for()
        found["thread"] = await violations_of(page)
        slack.journal.write(
            "api", "chat.postMessage", ok=False, error="invalid_blocks", request={"a": 1}, violations=({"code": "x"},)
        )
        await page.get_by_role("button", name="Inspector", exact=True).click()
        await page.locator(".journal-entry").last.locator("summary").click()
        found["inspector"] = await violations_of(page)
        await page.locator(".journal-entry").first.wait_for()
        assert {state: one for state, one in found.items() if one} == {}

    chrome.run(scenario, before=lambda slack: put(slack, FULL, blocks=EVERY_BLOCK), color_scheme=scheme, **size)


def test_the_list_of_messages_is_a_polite_live_log(chrome: Chrome) -> None:
    async def scenario(slack, app, page):
        log = page.get_by_role("log", name="Messages in #gpu-oncall")
        assert await log.get_attribute("aria-live") == "polite"
        for landmark in ("banner", "main"):
            assert await page.get_by_role(landmark).count() == 1
        assert await page.get_by_role("navigation", name="Places").count() == 1

    chrome.run(scenario, path=AT_CHANNEL)


def test_nothing_sticks_out_on_a_phone(chrome: Chrome) -> None:
    async def scenario(slack, app, page):
        await page.locator(".message").last.wait_for()
        assert await page.evaluate("document.documentElement.scrollWidth") <= 400
        assert await page.evaluate(
            "document.querySelector('.log').scrollWidth <= document.querySelector('.log').clientWidth"
        )
        await page.get_by_role("button", name="Places").click()
        await page.get_by_role("link", name="general").click()
        await page.get_by_label("Message #general").wait_for()
        assert await page.get_by_role("link", name="general").is_hidden()

    def before(slack):
        put(slack, blocks=EVERY_BLOCK)
        put(slack, username=LONG, text=LONG, blocks=[{"type": "section", "fields": [mrkdwn("y" * 2000)] * 3}])

    chrome.run(scenario, path=AT_CHANNEL, before=before, **PHONE)


def test_the_policy_of_the_page_stops_scripts_that_are_not_its_own(chrome: Chrome) -> None:
    async def scenario(slack, app, page):
        script = "Object.assign(document.createElement('script'), {textContent: 'window.broken = 1'})"
        await page.evaluate(f"() => document.body.append({script})")
        assert await page.evaluate("window.broken") is None

    chrome.run(scenario, expected_complaints=("Content Security Policy",))


def test_no_module_hands_text_to_a_parser_or_writes_styles() -> None:
    forbidden = re.compile(
        r"innerHTML\b(?!\$)|outerHTML\b(?!\$)|insertAdjacentHTML|document\.write|\beval\(|new Function"
        r"|\.style\.|\.cssText|DOMParser|setHTML"
    )
    rule = "const FORBIDDEN"  # the line of dom.js that names them
    found = [
        f"{path.name}: {line.strip()}"
        for path in PAGE.glob("*.js")
        for line in path.read_text(encoding="utf-8").splitlines()
        if forbidden.search(line) and rule not in line
    ]
    assert found == []
