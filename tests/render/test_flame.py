"""A flame graph: widths are shares, hostile names stay text, and every size can be drawn."""

import io
import re
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from bot.render.flame import (
    DEEPEST,
    OWN,
    StackSample,
    flame_alt_text,
    flame_page,
    flame_picture,
    group_of,
    lay_out,
    short,
)
from tests.render import SAY

HOSTILE = '<script>alert(1)</script>&"\u202e.x'
names = st.sampled_from(["main.f", "main.g", "runtime.mallocgc", "encoding/json.Marshal", HOSTILE, ""])
samples = st.lists(st.builds(StackSample, st.lists(names, max_size=8), st.floats(-5, 1e9)), max_size=20)


@given(samples)
def test_a_frame_is_as_wide_as_what_is_below_it_together_and_stays_inside(some: list[StackSample]) -> None:
    flame = lay_out(some)
    assert flame.total == pytest.approx(sum(entry.value for entry in some if entry.value > 0))
    for box in flame.boxes:
        assert box.left >= -1e-9
        assert box.left + box.width <= 1 + 1e-6
        assert box.width == pytest.approx(box.value / flame.total)
    for row in range(flame.rows):
        ends = 0.0
        for box in (box for box in flame.boxes if box.row == row):
            assert box.left >= ends - 1e-9
            ends = box.left + box.width


def test_siblings_stand_in_the_order_of_their_names_whatever_they_weigh() -> None:
    flame = lay_out([StackSample(["b"], 9), StackSample(["c"], 1), StackSample(["a"], 5)])
    assert [box.name for box in flame.boxes] == ["all", "a", "b", "c"]


def test_what_is_too_narrow_or_too_deep_is_left_out_and_counted() -> None:
    flame = lay_out([StackSample(["a"] * 60, 1000), StackSample(["tiny"], 1)])
    assert (flame.rows, flame.hidden, flame.deeper) == (DEEPEST, 1, 1)


@pytest.mark.parametrize(
    ("name", "group", "shown"),
    [
        ("runtime.gcBgMarkWorker", "garbage collection", "runtime.gcBgMarkWorker"),
        ("encoding/json.(*decodeState).object", "encoding", "json.(*decodeState).object"),
        ("k8s.io/klog/v2.(*loggingT).output", OWN, "klog/v2.(*loggingT).output"),
        ("github.com/a/b.F[go.shape.int]", OWN, "b.F[go.shape.int]"),
        ("main.main", OWN, "main.main"),
        ("sync.(*Mutex).Lock", "locks", "sync.(*Mutex).Lock"),
        ("strings.Index", "other std", "strings.Index"),
        ("net/http.(*conn).serve", "network", "http.(*conn).serve"),
    ],
)
def test_a_function_is_shown_short_and_in_its_group(name: str, group: str, shown: str) -> None:
    assert (group_of(name), short(name)) == (group, shown)


@pytest.mark.parametrize("count", [0, 1, 2000])
def test_a_picture_of_any_size_is_the_same_every_time(count: int) -> None:
    flame = lay_out(
        [StackSample([f"main.f{number % 7}", f"main.g{number}", HOSTILE], number + 1) for number in range(count)]
    )
    drawn = flame_picture(flame, HOSTILE, "cpu " * 200, SAY)
    assert drawn == flame_picture(flame, HOSTILE, "cpu " * 200, SAY)
    assert Image.open(io.BytesIO(drawn)).width == 1600


def test_a_page_keeps_foreign_names_as_text() -> None:
    page = flame_page(lay_out([StackSample(["main.f", HOSTILE], 1)]), HOSTILE, HOSTILE)
    assert page.count("<script>") == 1
    assert "alert(1)" not in re.sub(r"&lt;script&gt;alert\(1\)|script&gt;\.x", "", page)
    assert "\u202e" not in page


def test_the_picture_in_words_names_the_largest_of_the_own_code() -> None:
    flame = lay_out([StackSample(["main.small"], 1), StackSample(["main.large", "runtime.mallocgc"], 9)])
    assert (
        SAY.words(flame_alt_text(flame, "x"))
        == "Flame graph of x; the largest of its own code: main.large 90%, main.small 10%"
    )


def test_what_is_too_narrow_to_see_takes_no_memory_for_all_that_it_calls() -> None:
    names = [f"main.f{number}" for number in range(3000)]
    stacks = [
        StackSample([names[number], *(names[(number * place) % 3000] for place in range(2, 30))], 1)
        for number in range(3000)
    ]
    tracemalloc.start()
    try:
        flame = lay_out(stacks)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
    assert (len(flame.boxes), flame.hidden) == (1, 3000)
