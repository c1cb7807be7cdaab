"""A flame graph as a PNG that is sharp at Slack's preview size. The same profile gives the same bytes."""

from bot.render.flame import OWN, Box, Flame, colour_of, group_of, legend, short
from bot.render.picture_text import FAINT, FRAME, Canvas, Ink
from bot.render.words import visible
from bot.texts import Text, Texts, together

_WIDTH = 1600
_MARGIN, _HEAD, _FOOT, _ROW, _GAP = 24, 84, 52, 26, 1
_TITLE, _TEXT, _FRAME = 26, 16, 15
_LEAST_ROOM = 26
"""Pixels below which no text is legible in a frame."""
_INK: Ink = (24, 24, 24)
_GROUPS = {
    OWN: Text("flame-group.own code"),
    "garbage collection": Text("flame-group.garbage collection"),
    "runtime": Text("flame-group.runtime"),
    "encoding": Text("flame-group.encoding"),
    "locks": Text("flame-group.locks"),
    "system calls": Text("flame-group.system calls"),
    "network": Text("flame-group.network"),
    "other std": Text("flame-group.other std"),
}


def flame_picture(flame: Flame, title: str, subtitle: str, say: Texts) -> bytes:
    """The PNG. `title` says whose profile it is, `subtitle` its kind, total and time; both are foreign text."""
    rows = max(flame.rows, 1)
    canvas = Canvas((_WIDTH, _HEAD + rows * _ROW + _FOOT), say)
    room = _WIDTH - 2 * _MARGIN
    canvas.write((_MARGIN, 16), visible(title), size=_TITLE, ink=_INK, room=room)
    canvas.write((_MARGIN, 52), visible(subtitle), size=_TEXT, ink=FAINT, room=room)
    for box in flame.boxes:
        _draw(canvas, box)
    if not flame.boxes:
        canvas.write((_MARGIN, _HEAD), Text("picture.no-samples"), size=_TEXT, ink=FAINT)
    _foot(canvas, flame)
    return canvas.png(64)


def flame_alt_text(flame: Flame, title: str) -> Text:
    """The picture in words, for those who do not see it: the largest functions of the own code, by all they call."""
    by_name: dict[str, float] = {}
    for box in flame.boxes:
        if box.row and group_of(box.name) == OWN:
            by_name[box.name] = max(by_name.get(box.name, 0.0), box.width)
    largest = sorted(by_name.items(), key=lambda item: (-item[1], item[0]))[:3]
    shares = ", ".join(f"{visible(short(name))} {part:.0%}" for name, part in largest)
    return Text("picture.flame", title=visible(title), shares=shares or Text("words.none"))


def _draw(canvas: Canvas, box: Box) -> None:
    room = _WIDTH - 2 * _MARGIN
    left, right = round(_MARGIN + box.left * room), round(_MARGIN + (box.left + box.width) * room)
    top = _HEAD + box.row * _ROW
    edge = None if box.row else FRAME
    place = (left, top, max(right - 1 - _GAP, left), top + _ROW - 1 - _GAP)
    canvas.draw.rectangle(place, fill=colour_of(box), outline=edge)
    space = right - left - 10
    if space < _LEAST_ROOM:
        return
    name, part = visible(short(box.name)), f"  {box.width:.1%}"
    if canvas.wide(name + part, _FRAME) <= space:
        name += part
    canvas.write((left + 5, top + 4), name, size=_FRAME, ink=_INK, room=space)


def _foot(canvas: Canvas, flame: Flame) -> None:
    y = canvas.image.height - _FOOT + 18
    x = _MARGIN
    for group, colour in legend(flame.boxes):
        canvas.draw.rectangle((x, y + 2, x + 14, y + 16), fill=colour)
        x = canvas.write((x + 20, y), _GROUPS[group], size=_TEXT, ink=_INK) + 22
    narrow = Text("picture.narrow", count=flame.hidden) if flame.hidden else ""
    said = together(narrow, Text("picture.deeper", count=flame.deeper) if flame.deeper else "", by=", ")
    text = canvas.fitted(said, _TEXT, max(_WIDTH - _MARGIN - x, 0))
    canvas.write((_WIDTH - _MARGIN - canvas.wide(text, _TEXT), y), text, size=_TEXT, ink=FAINT)
