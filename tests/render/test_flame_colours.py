"""Every colour of a flame graph is in its legend, and told apart by whoever sees fewer of them."""

import asyncio
import io
import math
from collections import Counter
from itertools import combinations

import pytest
from PIL import Image
from playwright.async_api import Page

from bot.render.flame import COLOURS, ROOT, Colour, StackSample, flame_page, flame_picture, lay_out, legend
from tests.render import SAY
from tests.sandbox.page.support import BROWSERS, find_browser, open_browser, violations_of

pytestmark = pytest.mark.process

STACKS = [
    StackSample(["main.serve", name], 10)
    for name in (
        "runtime.gcBgMarkWorker", "runtime.mallocgc", "encoding/json.Marshal", "sync.(*Mutex).Lock", "syscall.Syscall",
        "net/http.(*conn).serve", "strings.Index", "example.com/a/b.F", "example.com/c/d.G",
    )
]  # fmt: skip
FLAME = lay_out(STACKS)
# Machado, Oliveira and Fernandes 2009, severity 1.0: linear RGB as seen without red, green and blue cones.
BLINDNESS = {
    "none": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.1523, 1.0526, -0.2049), (0.1145, 0.7863, 0.0992), (-0.0039, -0.0481, 1.0520)),
    "deuteranopia": ((0.3673, 0.8606, -0.2280), (0.2801, 0.6725, 0.0474), (-0.0118, 0.0429, 0.9690)),
    "tritanopia": ((1.2555, -0.0767, -0.1788), (-0.0784, 0.9308, 0.1476), (0.0047, 0.6914, 0.3039)),
}


def linear(colour: Colour) -> list[float]:
    return [part / 255 / 12.92 if part <= 10 else ((part / 255 + 0.055) / 1.055) ** 2.4 for part in colour]


def luminance(colour: Colour) -> float:
    return sum(weight * one for weight, one in zip((0.2126, 0.7152, 0.0722), linear(colour), strict=True))


def lab(colour: Colour, blindness: str) -> tuple[float, float, float]:
    """CIELAB, as that person sees it."""
    rgb = [sum(a * b for a, b in zip(row, linear(colour), strict=True)) for row in BLINDNESS[blindness]]
    r, g, b = (min(max(part, 0.0), 1.0) for part in rgb)
    white = 0.9505, 1.0, 1.089
    xyz = (
        0.4124 * r + 0.3576 * g + 0.1805 * b,
        0.2126 * r + 0.7152 * g + 0.0722 * b,
        0.0193 * r + 0.1192 * g + 0.9505 * b,
    )
    x, y, z = (
        t ** (1 / 3) if (t := one / full) > 0.008856 else 7.787 * t + 16 / 116
        for one, full in zip(xyz, white, strict=True)
    )
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@pytest.mark.parametrize("blindness", BLINDNESS)
def test_any_two_groups_are_told_apart_by_whoever_sees_fewer_colours(blindness: str) -> None:
    for one, other in combinations(COLOURS, 2):
        apart = math.dist(lab(COLOURS[one], blindness), lab(COLOURS[other], blindness))
        assert apart >= 15, (one, other)


@pytest.mark.parametrize("group", COLOURS)
def test_the_names_in_the_frames_are_legible_on_every_colour(group: str) -> None:
    assert (luminance(COLOURS[group]) + 0.05) / (luminance((24, 24, 24)) + 0.05) >= 4.5


def test_the_picture_has_no_frame_in_a_colour_that_its_legend_lacks() -> None:
    picture = Image.open(io.BytesIO(flame_picture(FLAME, "title", "subtitle", SAY))).convert("RGB")
    room, row, head, margin = 1600 - 48, 26, 84, 24  # as it is laid out
    frames = {
        picture.getpixel((round(margin + box.left * room) + 3, head + box.row * row + row - 5))
        for box in FLAME.boxes
        if box.row
    }
    foot = picture.crop((margin, picture.height - 40, 1600 - margin, picture.height - 10))
    counted = Counter(foot.get_flattened_data() if hasattr(foot, "get_flattened_data") else foot.getdata())
    swatches = {colour for colour, count in counted.items() if count >= 200}
    assert len(frames) == len([*legend(FLAME.boxes)]) == len(COLOURS)
    assert frames <= swatches


def in_chromium(page: str, scene) -> None:
    path = find_browser()
    if path is None:
        pytest.skip(f"none of {', '.join(BROWSERS)} is on the PATH")

    async def play() -> None:
        async with asyncio.timeout(180), open_browser(path) as browser:
            complaints: list[str] = []
            for scheme in ("light", "dark"):
                shown = await browser.new_page(color_scheme=scheme, viewport={"width": 340, "height": 700})
                shown.on("console", lambda said: complaints.append(said.text))
                shown.on("pageerror", lambda error: complaints.append(str(error)))
                await shown.set_content(page)
                await scene(shown)
            assert complaints == []

    asyncio.run(play())


def test_the_page_has_a_legend_and_on_a_phone_no_frame_is_wider_than_its_share() -> None:
    narrow = [StackSample([f"main.f{number:02}", "runtime.mallocgc"], 1) for number in range(60)]
    flame = lay_out([*STACKS, *narrow])

    async def scene(shown: Page) -> None:
        colour = "e => getComputedStyle(e).backgroundColor"
        frames = await shown.eval_on_selector_all("#graph button", f"all => all.map({colour})")
        swatches = await shown.eval_on_selector_all("#legend span", f"all => all.map({colour})")
        assert frames[0] == "rgb({}, {}, {})".format(*ROOT)
        assert {*frames[1:]} == {*swatches}
        assert len(swatches) == len(COLOURS)
        wider = await shown.evaluate(
            """() => { const all = document.getElementById('graph').getBoundingClientRect().width;
            return [...document.querySelectorAll('#graph button')]
              .filter(e => e.getBoundingClientRect().width > e.dataset.w * all + 0.5).length }"""
        )
        assert wider == 0
        assert await shown.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert await violations_of(shown) == []

    in_chromium(flame_page(flame, "a-pod-with-quite-a-long-name-0", "cpu-1"), scene)
