"""On call as a person sees it in a browser: an alert, its thread, what is done about it, and the digest."""

import asyncio
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from tests.oncall.bot import GIVEN, World, a_world
from tests.oncall.scenes import busy_cluster
from tests.sandbox.page.support import BROWSERS, DESK, find_browser, open_browser, type_command, violations_of
from tests.scenes import as_test

pytestmark = pytest.mark.process

PATIENCE_MS = 120_000
CAUSE = "card-insufficient-memory"


def in_the_browser(folder: Path, scene) -> None:
    path = find_browser()
    if path is None:
        pytest.skip(f"none of {', '.join(BROWSERS)} is on the PATH")

    async def play() -> None:
        recording = busy_cluster(folder / "cluster", 6)
        async with (
            asyncio.timeout(180),
            a_world(folder, recording, GIVEN) as world,
            open_browser(path) as browser,
        ):
            page = await browser.new_page(**DESK)
            page.set_default_timeout(PATIENCE_MS)
            complaints: list[str] = []
            page.on("console", lambda said: said.type in {"error", "warning"} and complaints.append(said.text))
            page.on("pageerror", lambda error: complaints.append(str(error)))
            await page.goto(world.slack.url)
            await page.get_by_role("link", name="gpu-oncall").click()
            await scene(world, page)
            assert complaints == []

    asyncio.run(play())


@pytest.mark.sampled(0)
@as_test(in_the_browser, "tmp_path")
async def test_an_alert_opens_a_thread_whose_head_tells_the_story_and_the_digest_shows_a_picture(
    world: World, page: Page
) -> None:
    await world.alert("trainer-0", "trainer-3")
    head = page.locator("#main .message", has_text="Incident ")
    await expect(head).to_contain_text(CAUSE, timeout=PATIENCE_MS)
    await expect(head).to_contain_text("2 of 2 pods still affected, 2 alerts", timeout=PATIENCE_MS)
    await head.get_by_role("button", name="Acknowledge").click()
    await expect(head).to_contain_text("Acknowledged, warning", timeout=PATIENCE_MS)

    await head.get_by_role("button", name="Note").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_role("textbox").fill("a cable is loose")
    await dialog.get_by_role("button", name="Note", exact=True).click()
    await head.get_by_role("button", name="Reply in thread").click()
    thread = page.locator("#thread")
    await expect(thread).to_contain_text("Evidence", timeout=PATIENCE_MS)
    await expect(thread).to_contain_text("a cable is loose", timeout=PATIENCE_MS)

    await head.get_by_role("button", name="Hand over").click()
    await dialog.get_by_role("combobox").select_option("U0GRACE001")
    await dialog.get_by_role("button", name="Hand over", exact=True).click()
    await expect(thread).to_contain_text("Handed over to", timeout=PATIENCE_MS)

    await head.get_by_role("button", name="Close", exact=True).click()
    await expect(dialog).to_contain_text("The cause is still there: 2 of 2 pods", timeout=PATIENCE_MS)
    await dialog.get_by_role("button", name="Close", exact=True).click()
    await expect(head).to_contain_text("Closed, warning", timeout=PATIENCE_MS)
    assert await head.get_by_role("button", name="Acknowledge").count() == 0

    await type_command(page, "/hami digest now")
    digest = page.locator("#main .message:not(.ephemeral)", has_text="pods are pending for").last
    await digest.get_by_role("button", name="Reply in thread").click()
    await expect(thread.locator("img[alt]:not([alt=''])").last).to_be_visible(timeout=PATIENCE_MS)
    assert await violations_of(page) == []
