"""Writes text in pictures, in the font that comes with Pillow, so that pictures are the same wherever they are made.
Every character is drawn once and then copied, else text would take most of the time of a large picture.
"""

import io
from functools import lru_cache
from importlib.resources import files

from PIL import Image, ImageDraw, ImageFont

from bot.texts import Prose, Texts

Ink = tuple[int, int, int]

PAPER: Ink = (255, 255, 255)
FRAME: Ink = (118, 118, 118)
"""The colour of frames, which stands out from white and from black alike."""
INK: Ink = (32, 32, 32)
FAINT: Ink = (96, 96, 96)

_MORE = "..."
_FIRST_HAN = "\u2e80"


class Canvas:
    """A framed picture of `size` pixels, whose words are in the language of `say`."""

    def __init__(self, size: tuple[int, int], say: Texts) -> None:
        self.image = Image.new("RGB", size, PAPER)
        self.draw = ImageDraw.Draw(self.image)
        self.draw.rectangle((0, 0, size[0] - 1, size[1] - 1), outline=FRAME, width=2)
        self._say = say

    def write(self, at: tuple[int, int], prose: Prose, *, size: int, ink: Ink = INK, room: int | None = None) -> int:
        """Writes the prose at the place (its top left corner), cut to `room` pixels. Returns the x of its end."""
        x, y = at
        words = self._say.words(prose)
        for letter in words if room is None else fitted(words, size, room):
            mask, step = _letter(letter, size)
            if mask is not None:
                self.image.paste(ink, (x, y), mask)
            x += step
        return x

    def wide(self, prose: Prose, size: int) -> int:
        return wide(self._say.words(prose), size)

    def png(self, colours: Image.Image | int | None = None, compress_level: int = 6) -> bytes:
        """The picture as PNG. `colours`: a palette, or the most colours that it may have."""
        image = self.image
        if isinstance(colours, int):
            image = image.quantize(colours, dither=Image.Dither.NONE)
        elif colours is not None:
            image = image.quantize(palette=colours, dither=Image.Dither.NONE)
        written = io.BytesIO()
        image.save(written, "PNG", compress_level=compress_level)
        return written.getvalue()


def wide(text: str, size: int) -> int:
    """The width of the text in pixels."""
    return sum(_letter(letter, size)[1] for letter in text)


def fitted(text: str, size: int, room: int) -> str:
    """The text, or its beginning and three dots where it would take more than `room` pixels."""
    if wide(text, size) <= room:
        return text
    left, kept = room - wide(_MORE, size), 0
    for letter in text:
        left -= _letter(letter, size)[1]
        if left < 0:
            break
        kept += 1
    return text[:kept].rstrip() + _MORE


@lru_cache(maxsize=4096)
def _letter(character: str, size: int) -> tuple[Image.Image | None, int]:
    """The character's mask (None for a blank one), and how far the next character is from it."""
    font = _han(size) if character >= _FIRST_HAN else _font(size)
    # The font's basic layout has whole steps and no kerning: letter by letter is how it writes a line too.
    step = round(font.getlength(character))
    if character.isspace() or step <= 0:
        return None, step
    mask = Image.new("L", (step + size // 2, size + size // 2))
    ImageDraw.Draw(mask).text((0, 0), character, fill=255, font=font)
    return mask, step


@lru_cache(maxsize=16)
def _han(size: int) -> ImageFont.FreeTypeFont:
    """The Chinese characters of the bot's own texts, and no others: see `han.md`."""
    return ImageFont.truetype(io.BytesIO(files("bot.render").joinpath("han.ttf").read_bytes()), size)


@lru_cache(maxsize=16)
def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)
