"""The trend of a digest: what is drawn of the last ones, and what is said of it."""

import io

from PIL import Image

from bot.digest.figures import Point, memory_by_model, trends
from bot.render.trend import trend_picture, trend_words
from tests.render import SAY

DAY = 86400.0
T4, A100 = "NVIDIA-Tesla T4", "NVIDIA-A100-SXM4-40GB"
BLUE, ORANGE, DOTS = (0, 84, 148), (196, 78, 0), (94, 60, 153)


def figures(kind: str, memory: str, given: str, largest: str) -> dict[str, str]:
    named = {"memory-MiB": memory, "memory-given-MiB": given, "largest-slice-MiB": largest}
    return {f"{area}/{kind}": value for area, value in named.items()}


def drawn(*runs: dict[str, str]) -> Image.Image:
    found = trend_picture(trends([(number * DAY, one) for number, one in enumerate(runs)]), SAY)
    assert found
    return Image.open(io.BytesIO(found)).convert("RGB")


def pixels(image: Image.Image, colour: tuple[int, int, int]) -> int:
    return next((count for count, pixel in image.getcolors(1 << 24) or () if pixel == colour), 0)


def test_one_digest_is_no_trend() -> None:
    once = figures(T4, "16384", "1000", "15384")
    assert trends([(0.0, once)]) == {}
    assert trends([(0.0, once), (DAY, {})]) == {}
    assert trend_picture({}, SAY) is None


def test_what_was_not_known_is_no_number() -> None:
    found = trends([(0.0, figures(T4, "16384", "?", "?")), (DAY, figures(T4, "16384", "10", "16374"))])
    assert found == {T4: [Point(0.0, 16384, None, None), Point(DAY, 16384, 10, 16374)]}


def test_the_types_with_the_most_memory_come_first() -> None:
    both = figures(T4, "16384", "0", "16384") | figures(A100, "40960", "0", "40960")
    assert list(trends([(0.0, both), (DAY, both)])) == [A100, T4]
    assert list(memory_by_model(both, 0.0)) == [A100, T4]


def test_bars_are_as_high_as_what_is_given_and_left() -> None:
    half = drawn(*[figures(T4, "16384", "8192", "8192")] * 2)
    more = drawn(*[figures(T4, "16384", "12288", "8192")] * 2)
    legend = 24 * 18  # pixels of a swatch, about
    assert 1.35 < (pixels(more, BLUE) - legend) / (pixels(half, BLUE) - legend) < 1.6
    assert pixels(half, ORANGE) == pixels(more, ORANGE) > 1000


def test_a_slice_that_shrank_has_a_lower_bar() -> None:
    all_day = drawn(*[figures(T4, "16384", "0", "16384")] * 2)
    shrunk = drawn(figures(T4, "16384", "0", "16384"), figures(T4, "16384", "0", "4096"))
    assert pixels(shrunk, ORANGE) < 0.75 * pixels(all_day, ORANGE)


def test_what_is_not_known_is_dotted_and_said_so() -> None:
    known = figures(T4, "16384", "0", "16384")
    assert pixels(drawn(known, known), DOTS) == 0
    assert pixels(drawn(known, {}, known), DOTS) > 50


def test_the_picture_is_small_and_the_same_for_the_same_figures() -> None:
    many = {}
    for number in range(9):
        many |= figures(f"type {number}", "16384", "1", "16383")
    runs = [(number * DAY, many) for number in range(14)]
    first, second = trend_picture(trends(runs), SAY), trend_picture(trends(runs), SAY)
    assert first
    assert first == second
    assert len(first) < 40_000
    width, height = Image.open(io.BytesIO(first)).size
    assert width == 720  # twice what a preview in Slack has
    assert height < 1000


def test_its_colours_differ_in_lightness_and_from_the_paper() -> None:
    """As a printer or an eye without colours sees them."""
    greys = sorted(
        Image.new("RGB", (1, 1), colour).convert("L").getpixel((0, 0)) for colour in (BLUE, ORANGE, (255,) * 3)
    )
    assert greys[1] - greys[0] >= 30
    assert greys[2] - greys[1] >= 100


def test_what_it_shows_is_said_in_words() -> None:
    points = {T4: [Point(0.0, 16384, 0, 16384), Point(DAY, 16384, 0, 4096)], A100: [Point(0.0, None, None, None)]}
    assert list(trend_words(points)) == [(T4, "16 GiB", "16 GiB → 4 GiB"), (A100, "?", "?")]
