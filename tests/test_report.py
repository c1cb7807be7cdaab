"""A line that is too long is cut where a reader can follow it."""

import pytest

from bot.report import one_line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("short  enough,\nas it is", "short enough, as it is"),
        ("refused 4 of 4 nodes: CardInsufficientMemory", "refused 4 of 4 nodes…"),
        ("two pods wait here (the oldest for an hour)", "two pods wait here (the…"),
        ("a sentence that ends here, another one begins", "a sentence that ends here…"),
        ("配额已用完" * 4 + " " + "配额已用完" * 2, "配额已用完" * 4 + "…"),
        (
            "短 配额已用完配额已用完配额已用完配额已用完配额已用完配额已用完",
            "短 配额已用完配额已用完配额已用完配额已用完配额已用完…",
        ),
        ("see gpu-node-with-a-name-that-is-longer-than-all", "see gpu-node-with-a-name-th…"),
        ("gpu-node-with-a-name-that-is-longer-than-all", "gpu-node-with-a-name-that-i…"),
    ],
)
def test_a_long_line_loses_whole_words_unless_it_has_none_to_lose(text: str, shown: str) -> None:
    assert one_line(text, 28) == shown
    assert len(shown) <= 28
    assert one_line(shown, 28) == shown
