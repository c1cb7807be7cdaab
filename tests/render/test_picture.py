"""The picture of the cards: readable at any size, the same bytes for the same report, never without need of colour."""

import io
import random
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec import structs
from PIL import Image, ImageFont

from bot.gpu_rows import GpuRow
from bot.render import picture_text
from bot.render.picture import picture
from bot.render.picture_text import fitted, wide
from bot.report import SCHEMA, Report, Sheet, Subject
from bot.texts import LANGUAGES, Texts
from tests.cases_support import CASES, VERSIONS, ask
from tests.render import SAY, typical

FONT = Path(picture_text.__file__).with_name("han.ttf")
STATES = ("free", "no-memory", "no-slots", "no-cores", "cordoned", "unhealthy", "unknown", "unregistered")
PAPER, GIVEN, HATCH, DOTS = (255, 255, 255), (0, 84, 148), (196, 78, 0), (94, 60, 153)

Cell = tuple[str, str, str]
"""Memory used, memory total, state."""


def cards(*nodes: tuple[Cell, ...], name: str = "gpu-node", **fields: object) -> Report:
    rows = tuple(
        GpuRow(
            node=f"{name}-{at:03}",
            card=f"GPU-{at:03}-{i}",
            type="NVIDIA A100-SXM4-80GB",
            state=state,
            memory_used=None if used == "?" else int(used),
            memory_free=None,
            memory_total=int(total),
            holders=("ml/trainer-0",),
            slots="1/10",
            cores_used=0,
            cores_total=100,
        )
        for at, cells in enumerate(nodes)
        for i, (used, total, state) in enumerate(cells)
    )
    usual = {
        "schema": SCHEMA,
        "playbook": "gpus",
        "cluster": "lab",
        "taken_at": "2026-11-21T05:00:00Z",
        "subject": Subject("GPUs", "", ""),
        "verdict": "14 of 72 GPUs can still take a pod",
        "severity": "info",
        "findings": (),
        "tables": (Sheet("cards", GpuRow).table(rows),),
    }
    return Report(**(usual | fields))


def many(nodes: int, per_node: int = 8) -> Report:
    chance = random.Random(7)
    return cards(
        *(
            tuple((str(chance.randint(0, 81920)), "81920", chance.choice(STATES)) for _ in range(per_node))
            for _ in range(nodes)
        )
    )


def drawn(report: Report) -> Image.Image:
    data = picture(report, SAY)
    assert data is not None
    image = Image.open(io.BytesIO(data))
    assert image.format == "PNG"
    return image.convert("RGB")


def colours(image: Image.Image) -> set[tuple[int, ...]]:
    """Of the cards; not of the legend below them."""
    return {colour for _, colour in image.crop((0, 90, image.width, image.height - 60)).getcolors(1 << 24)}


def pixels(image: Image.Image, colour: tuple[int, int, int]) -> int:
    held = image.crop((0, 90, image.width, image.height - 60)).getcolors(1 << 24)
    return next((count for count, one in held if one == colour), 0)


def test_a_report_of_another_question_has_no_picture() -> None:
    assert picture(typical(), SAY) is None


def test_a_report_without_cards_has_no_picture() -> None:
    assert picture(cards(), SAY) is None
    assert picture(structs.replace(many(2), tables=()), SAY) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_a_recorded_cluster_is_drawn_the_same_every_time(version: str) -> None:
    reports = [ask(CASES / version / "recording.tar.gz", verb="gpus") for _ in range(2)]
    first, second = (picture(report, SAY) for report in reports)
    assert first is not None
    assert first == second


@pytest.mark.parametrize(
    ("nodes", "per_node"), [(1, 1), (1, 8), (1, 200), (3, 300), (25, 4), (100, 8), (800, 8), (5000, 1)]
)
def test_no_picture_is_larger_than_slack_shows_well(nodes: int, per_node: int) -> None:
    image = drawn(many(nodes, per_node))
    assert image.width <= 1600
    assert image.height <= 2000


def test_what_is_given_fills_the_bar_as_far() -> None:
    half, all_ = (pixels(drawn(cards(((used, "1000", "free"),))), GIVEN) for used in ("500", "1000"))
    assert half / all_ == pytest.approx(0.5, abs=0.01)


def test_the_least_given_and_the_least_free_can_be_seen() -> None:
    little, much, nothing = (
        pixels(drawn(cards(((used, "81920", "free"),))), GIVEN) for used in ("1", "81919", "81920")
    )
    assert 0 < little < much < nothing


@pytest.mark.parametrize(
    ("state", "pattern", "other"),
    [("cordoned", HATCH, DOTS), ("no-slots", HATCH, DOTS), ("unknown", DOTS, HATCH), ("unregistered", DOTS, HATCH)],
)
def test_what_no_pod_can_get_and_what_is_not_known_have_patterns_of_their_own(
    state: str, pattern: tuple[int, int, int], other: tuple[int, int, int]
) -> None:
    found = colours(drawn(cards((("0", "81920", state),))))
    assert pattern in found
    assert other not in found


def test_cards_whose_use_was_not_seen_are_drawn_as_not_known() -> None:
    found = colours(drawn(cards((("?", "81920", "unknown"),))))
    assert DOTS in found
    assert GIVEN not in found


def test_patterns_differ_in_brightness_not_only_in_hue() -> None:
    images = [
        drawn(cards(((used, "81920", state),))).convert("L").crop((300, 105, 900, 130))
        for used, state in (("81920", "free"), ("0", "free"), ("0", "cordoned"), ("0", "unknown"))
    ]
    means = sorted(sum(image.tobytes()) / (image.width * image.height) for image in images)
    assert all(after - before > 3 for before, after in pairwise(means)), means


def test_a_frame_parts_the_picture_from_a_dark_page() -> None:
    image = drawn(many(3))
    corners = [(0, 0), (image.width - 1, 0), (0, image.height - 1), (image.width - 1, image.height - 1)]
    assert all(80 < part < 160 for corner in corners for part in image.getpixel(corner))
    assert image.getpixel((10, 10)) == PAPER


def test_hostile_names_are_drawn_as_text() -> None:
    report = cards((("1", "2", "free"),), name="\x1b[31m\u202e nöde\n名" * 40, cluster="\0" * 500)
    assert drawn(report).width <= 1600


def test_odd_figures_are_drawn_too() -> None:
    odd = (("90000", "81920", "free"), ("0", "0", "free"), ("0", "0", "unhealthy"), ("-5", "81920", "free"))
    drawn(cards(odd, odd))


@pytest.mark.parametrize("room", [0, 10, 40, 100, 1000])
def test_text_is_cut_to_the_room_there_is(room: int) -> None:
    text = fitted("gpu-node-with-a-long-name", 15, room)
    assert wide(text, 15) <= max(room, wide("...", 15))
    assert text == "gpu-node-with-a-long-name" or text.endswith("...")


# ------------------------------------------------------------------------------------------------------- Chinese


def test_every_label_of_a_picture_has_its_chinese_characters_in_the_font() -> None:
    texts = Texts("zh").templates
    labels = [
        text for key, text in texts.items() if key.startswith(("picture.", "flame-group.")) or key == "words.none"
    ]
    font = ImageFont.truetype(FONT, 20)
    nothing = bytes(font.getmask("\U0002f000"))
    characters = {letter for text in labels for letter in text if letter >= "\u2e80"}
    assert [character for character in sorted(characters) if bytes(font.getmask(character)) == nothing] == []


def test_a_picture_in_chinese_says_other_words_over_the_same_bars() -> None:
    english, chinese = (
        Image.open(io.BytesIO(picture(many(3), Texts(language)) or b"")).convert("RGB") for language in LANGUAGES
    )
    assert english.size == chinese.size
    assert english.tobytes() != chinese.tobytes()
    assert colours(english) == colours(chinese)
