"""How much of an answer a message has room for: what is taken, and what had to be left out."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from bot.render.words import visible
from bot.slack.render.blocks import in_words
from bot.slack.render.limits import total_text
from bot.slack.render.text import cut
from bot.texts import Prose, Texts

T = TypeVar("T")
Shown = TypeVar("Shown", bound=dict[str, Any] | list[Any])


class Room:
    """The characters that are left; every text and every part of an answer passes through it on its way to a block,
    and becomes words of `say` there, which are measured.
    """

    def __init__(self, characters: int, say: Texts) -> None:
        self.characters = characters
        self.say = say
        self.left_out: Counter[str] = Counter()
        self.cut = False

    def copy(self) -> "Room":
        """The same room, to be filled in another way."""
        other = Room(self.characters, self.say)
        other.left_out, other.cut = self.left_out.copy(), self.cut
        return other

    @property
    def overflowed(self) -> bool:
        """Whether anything had to be left out."""
        return self.cut or any(self.left_out.values())

    def text(self, prose: Prose, most: int) -> str:
        """The text made inert, or the beginning of it: that the rest is missing is kept in mind."""
        whole = visible(self.say.words(prose)[: most + 1])
        shown = cut(whole, most)
        self.cut = self.cut or shown != whole
        return shown

    def whole(self, raw: str, most: int) -> str:
        """The text made inert, or nothing: what is copied, such as a command, is never cut."""
        shown = visible(raw[: most + 1])
        if len(shown) <= most:
            return shown
        self.cut = True
        return ""

    def take(self, part: Shown) -> Shown:
        """The part, which is shown whatever is left."""
        shown = in_words(part, self.say)
        self.characters -= total_text(shown)
        return shown

    def fill(
        self, kind: str, items: Sequence[T], show: Callable[[int, T], Shown], *, share: int, most: int
    ) -> list[Shown]:
        """The first items as `show(number, item)` gives them: at most so many, in at most `share` characters together.

        The others are counted under `kind`.
        """
        limit = min(share, self.characters)
        shown: list[Shown] = []
        for number, item in enumerate(items[:most], 1):
            part = in_words(show(number, item), self.say)
            limit -= total_text(part)
            if limit < 0:
                break
            shown.append(self.take(part))
        self.left_out[kind] += len(items) - len(shown)
        return shown
