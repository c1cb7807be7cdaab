"""Small pieces of prose that claims share: lists of names, amounts, times."""

from collections.abc import Sequence

from bot.texts import Texts

_SHOWN = 3


def names(say: Texts, listed: Sequence[str], shown: int = _SHOWN) -> str:
    """`a, b, c` or `a, b and 5 more`."""
    if len(listed) <= shown:
        return ", ".join(listed)
    return say("words.and-more", names=", ".join(listed[: shown - 1]), more=len(listed) - shown + 1)


def mib(amount: int) -> str:
    """`24,000 MiB`."""
    return f"{amount:,} MiB"
