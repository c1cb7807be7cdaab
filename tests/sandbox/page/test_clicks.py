"""A click counts although what is clicked changes between the press and the release of the button."""

from typing import Any

import pytest

from tests.sandbox.page.support import CHANNEL, Chrome

pytestmark = pytest.mark.process

AT_CHANNEL = f"#/c/{CHANNEL}"
GENERAL = "C0GENERAL1"
GO: dict[str, Any] = {"type": "button", "action_id": "go", "text": {"type": "plain_text", "text": "Go"}, "value": "7"}
BLOCKS = [{"type": "actions", "block_id": "row", "elements": [GO]}]


async def press(page, locator) -> None:
    """Moves to the middle of it and holds the button down."""
    box = await locator.bounding_box()
    await page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    await page.mouse.down()


def test_a_click_on_a_place_counts_although_the_list_was_drawn_anew_meanwhile(chrome: Chrome) -> None:
    async def scenario(slack, app, page):
        places = page.get_by_role("navigation", name="Places")
        await press(page, places.get_by_role("link", name="general"))
        await slack.say("grace", "general", "anybody?")  # its own row changes
        await places.get_by_role("link", name="general (new messages)").wait_for()
        await slack.say("ada", "ml-training", "and here?")  # another row changes
        await places.get_by_role("link", name="ml-training (new messages)").wait_for()
        await page.mouse.up()
        await page.wait_for_url(f"**/#/c/{GENERAL}")

    chrome.run(scenario, path=AT_CHANNEL)


def test_a_click_in_a_message_counts_although_the_app_changed_the_message_meanwhile(chrome: Chrome) -> None:
    async def scenario(slack, app, page):
        posted = await app.call("chat.postMessage", channel=CHANNEL, text="ready?", blocks=BLOCKS)
        await press(page, page.get_by_role("button", name="Go"))
        async with page.expect_response(lambda answer: "/ui/messages" in answer.url):
            change = {
                "text": "changed",
                "blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": "x"}}, *BLOCKS],
            }
            await app.call("chat.update", channel=CHANNEL, ts=posted["ts"], **change)
        await page.evaluate("new Promise(requestAnimationFrame)")  # whatever the answer has drawn is drawn
        await page.mouse.up()
        await slack.wait_for(lambda: app.payloads("block_actions"))
        await page.locator(".message", has_text="x").get_by_text("(edited)").wait_for()

    chrome.run(scenario, path=AT_CHANNEL)
