"""Pictures of the main messages in docs/pictures, on a desk and on a phone, by the real bot in a real browser.

Where a message has other words than its picture, the pictures are made anew and the test fails: look at them, then
commit them.
"""

import asyncio
import io
import re
from pathlib import Path

import aiohttp
import pytest
from PIL import Image
from playwright.async_api import Locator, Page, expect

from sandbox.demo import ALERT, POD, TOKEN, demo
from tests.sandbox.page.support import BROWSERS, find_browser, open_browser, type_command

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pictures"
PAGE = ROOT / "deploy" / "sandbox.png"
WORDS = PICTURES / "words.txt"
ASKED = {
    "why": f"why {POD}",
    "fit": "fit 4 --type T4 -n ml",
    "pending": "pending",
    "nodes": "nodes",
    "gpus": "gpus",
    "status": "status",
    "quota": "quota",
    "latency": "latency",
    "logs": f"logs {POD}",
    "tune": "tune",
    "help": "help",
}
WIDTHS = {"desk": 1400, "phone": 390}
PATIENCE_MS = 120_000
_PASSING = re.compile(r"(?<=Incident )\w+|\d+|[µm]?s\b|min\b|earlier|Today|Yesterday|[AP]M\b")
"""What another moment changes: times, ages, measured figures and an incident's id."""
_CIRCLES = """message => {
  const walk = document.createTreeWalker(message, NodeFilter.SHOW_TEXT), found = []
  while (walk.nextNode()) if (/[🔴🟡🟢]/u.test(walk.currentNode.data)) found.push(walk.currentNode)
  for (const text of found) {
    const parts = text.data.split(/([🔴🟡🟢])/u).map(part => {
      const colour = {"🔴": "#dd2e44", "🟡": "#fdcb58", "🟢": "#78b159"}[part]
      if (!colour) return part
      const circle = document.createElement("span")
      circle.style.cssText = "display:inline-block;width:1em;height:1em;border-radius:50%;vertical-align:-0.1em"
      circle.style.background = colour
      return circle
    })
    text.replaceWith(...parts)
  }
}"""
"""Draws the marks of severity as Slack does, which has pictures for emoji: whoever draws may have no font for them."""


def test_the_pictures_of_the_main_messages_say_what_the_messages_say() -> None:
    path = find_browser()
    if path is None:
        pytest.skip(f"none of {', '.join(BROWSERS)} is on the PATH")
    said, pictures = asyncio.run(drawn(path))
    told = "".join(f"{name}: {words}\n" for name, words in said.items())
    if not WORDS.exists() or WORDS.read_text(encoding="utf-8") != told:
        PICTURES.mkdir(exist_ok=True)
        for file, content in pictures.items():
            file.write_bytes(small(content))
        WORDS.write_text(told, encoding="utf-8")
        pytest.fail("the messages have other words: docs/pictures and deploy/sandbox.png are made anew, look at them")
    assert all(file.exists() for file in pictures)


async def drawn(browser_path: str) -> tuple[dict[str, str], dict[Path, bytes]]:
    """The words of each message, without what passes, and the pictures by their files."""
    said, pictures = dict[str, str](), dict[Path, bytes]()
    async with asyncio.timeout(500), demo() as running, open_browser(browser_path) as browser:
        page = await browser.new_page(viewport={"width": 1280, "height": 860})
        page.set_default_timeout(PATIENCE_MS)
        await page.goto(running.url)
        await page.get_by_role("link", name="gpu-oncall").click()
        for name, words in ASKED.items():
            message = await answer(page, words)
            if name == "why":
                await message.evaluate(_CIRCLES)
                pictures[PAGE] = await page.screenshot()
            await shoot(page, message, name, said, pictures)
        credentials = {"Authorization": f"Bearer {TOKEN}"}
        async with aiohttp.ClientSession(headers=credentials) as session:
            await session.post(running.alerts, data=ALERT)
        await page.get_by_role("link", name="gpu-incidents").click()
        head = page.locator("#main .message", has_text="ml/s05-exclusive-cores100").first
        await expect(head).to_contain_text("exclusive-device-conflict")
        await shoot(page, head, "incident", said, pictures)
    return said, pictures


async def answer(page: Page, words: str) -> Locator:
    """The message that answers the words."""
    before = await page.locator(".message.ephemeral").count()
    await type_command(page, f"/hami {words}")
    message = page.locator(".message.ephemeral").nth(before)
    await message.wait_for()
    await expect(message).not_to_contain_text(re.compile(r"^.*(Looking|looking|reading).*…", re.DOTALL))
    return message


async def shoot(page: Page, message: Locator, name: str, said: dict[str, str], pictures: dict[Path, bytes]) -> None:
    said[name] = " ".join(_PASSING.sub("#", await message.inner_text()).split())
    await message.evaluate(_CIRCLES)
    await page.mouse.move(0, 0)
    for place, wide in WIDTHS.items():
        await page.set_viewport_size({"width": wide, "height": 2600})
        pictures[PICTURES / f"{name}-{place}.png"] = await message.screenshot()
    await page.set_viewport_size({"width": 1280, "height": 860})


def small(content: bytes) -> bytes:
    """The same picture with a palette of 64 colours, the rare ones too."""
    made = io.BytesIO()
    Image.open(io.BytesIO(content)).convert("RGB").quantize(64, Image.Quantize.MAXCOVERAGE, kmeans=1).save(
        made, "PNG", optimize=True
    )
    return made.getvalue()
