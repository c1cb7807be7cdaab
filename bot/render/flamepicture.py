"""A flame graph as a PNG that is sharp at Slack's preview size. The same profile gives the same bytes."""

import io

from PIL import Image, ImageDraw

from bot.render.flame import OWN, Box, Flame, colour_of, group_of, legend, short
from bot.render.picture_text import Ink, fitted, wide, write
from bot.render.words import visible
from bot.texts import Texts

_WIDTH = 1600
_MARGIN, _HEAD, _FOOT, _ROW, _GAP = 24, 84, 52, 26, 1
_TITLE, _TEXT, _FRAME = 26, 16, 15
_LEAST_ROOM = 26
"""Pixels below which no text is legible in a frame."""
_PAPER: Ink = (255, 255, 255)
_EDGE: Ink = (118, 118, 118)
_INK: Ink = (24, 24, 24)
_FAINT: Ink = (96, 96, 96)


def flame_picture(flame: Flame, title: str, subtitle: str, say: Texts) -> bytes:
    """The PNG. `title` says whose profile it is, `subtitle` its kind, total and time; both are foreign text."""
    rows = max(flame.rows, 1)
    image = Image.new("RGB", (_WIDTH, _HEAD + rows * _ROW + _FOOT), _PAPER)
    draw = ImageDraw.Draw(image)
    draw.rectangle((0, 0, image.width - 1, image.height - 1), outline=_EDGE, width=2)
    room = _WIDTH - 2 * _MARGIN
    write(image, (_MARGIN, 16), fitted(visible(title), _TITLE, room), size=_TITLE, ink=_INK)
    write(image, (_MARGIN, 52), fitted(visible(subtitle), _TEXT, room), size=_TEXT, ink=_FAINT)
    for box in flame.boxes:
        _draw(image, draw, box)
    if not flame.boxes:
        write(image, (_MARGIN, _HEAD), say("picture.no-samples"), size=_TEXT, ink=_FAINT)
    _foot(image, draw, flame, say)
    written = io.BytesIO()
    image.quantize(64, dither=Image.Dither.NONE).save(written, "PNG", compress_level=6)
    return written.getvalue()


def flame_alt_text(flame: Flame, title: str, say: Texts) -> str:
    """The picture in words, for those who do not see it: the largest functions of the own code, by all they call."""
    by_name: dict[str, float] = {}
    for box in flame.boxes:
        if box.row and group_of(box.name) == OWN:
            by_name[box.name] = max(by_name.get(box.name, 0.0), box.width)
    largest = sorted(by_name.items(), key=lambda item: (-item[1], item[0]))[:3]
    shares = ", ".join(f"{visible(short(name))} {part:.0%}" for name, part in largest)
    return say("picture.flame", title=visible(title), shares=shares or say("words.none"))


def _draw(image: Image.Image, draw: ImageDraw.ImageDraw, box: Box) -> None:
    room = _WIDTH - 2 * _MARGIN
    left, right = round(_MARGIN + box.left * room), round(_MARGIN + (box.left + box.width) * room)
    top = _HEAD + box.row * _ROW
    edge = None if box.row else _EDGE
    place = (left, top, max(right - 1 - _GAP, left), top + _ROW - 1 - _GAP)
    draw.rectangle(place, fill=colour_of(box), outline=edge)
    space = right - left - 10
    if space < _LEAST_ROOM:
        return
    name, part = visible(short(box.name)), f"  {box.width:.1%}"
    if wide(name + part, _FRAME) <= space:
        name += part
    write(image, (left + 5, top + 4), fitted(name, _FRAME, space), size=_FRAME, ink=_INK)


def _foot(image: Image.Image, draw: ImageDraw.ImageDraw, flame: Flame, say: Texts) -> None:
    y = image.height - _FOOT + 18
    x = _MARGIN
    for group, colour in legend(flame.boxes):
        draw.rectangle((x, y + 2, x + 14, y + 16), fill=colour)
        x = write(image, (x + 20, y), say(f"flame-group.{group}"), size=_TEXT, ink=_INK) + 22
    said = [say("picture.narrow", count=flame.hidden)] if flame.hidden else []
    said += [say("picture.deeper", count=flame.deeper)] if flame.deeper else []
    text = fitted(", ".join(said), _TEXT, max(_WIDTH - _MARGIN - x, 0))
    write(image, (_WIDTH - _MARGIN - wide(text, _TEXT), y), text, size=_TEXT, ink=_FAINT)
