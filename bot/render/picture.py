"""Draws the GPUs of a report: a bar per GPU, filled as far as its memory is given.

A fill is clear without colour: solid is given, blank is free, hatched is free but out of reach, dotted is unknown. The
same report gives the same bytes.
"""

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec
from msgspec.structs import replace
from PIL import Image, ImageDraw

from bot.render.overview import GpusByNode, gpus_by_node, unusable
from bot.render.picture_text import FAINT, FRAME, INK, PAPER, Canvas, wide
from bot.render.words import visible
from bot.report import Report
from bot.rows import FREE, UNKNOWN, UNREGISTERED, GpuRow, TypeRow
from bot.texts import Text, Texts, together

_GIVEN = (0, 84, 148)
_HATCH = (196, 78, 0)
_DOTS = (94, 60, 153)
_BLANK = (240, 246, 240)

_MARGIN = 28
_HEAD = 102
_FOOT = 62
_TALLEST = 2000
_TITLE, _TEXT, _SMALL = 26, 18, 13
_THINNEST = 4
_GAP = 3
_STRIP = (1600, 64)
_NARROWEST_WITH_TEXT = 66
_MIB_PER_GIB = 1024
_MANY_GIB = 1000

_Box = tuple[int, int, int, int]
"""Pixels of a rectangle: left, top, right, bottom; the last two are outside of it."""


class _Row(NamedTuple):
    """A line of bars: a node, or one GPU where there is only one node. `note` is written below, `says` after them."""

    label: str
    note: str
    bars: tuple[GpuRow, ...]
    says: Text


class _Layout(msgspec.Struct, frozen=True):
    """In pixels: the width of the picture, the height of a row, its bars and the font, the room for labels and sums."""

    width: int
    columns: int
    row: int
    bar: int
    font: int
    label: int
    says: int


_LAYOUTS = (
    (24, _Layout(1200, 1, 58, 34, font=17, label=230, says=130)),
    (40, _Layout(1200, 1, 40, 28, font=16, label=210, says=125)),
    (130, _Layout(1600, 2, 27, 20, font=15, label=180, says=115)),
)
"""By the most rows that each fits: the layout; more rows get `_DENSEST`."""
_DENSEST = _Layout(1600, 3, 17, 13, font=12, label=130, says=90)


def picture(report: Report, say: Texts) -> bytes | None:
    """The report's GPUs as PNG, at most 1600 x 2000 pixels; None without GPUs. Of many nodes those with the most free
    memory are shown, and the number of the others.
    """
    by_node = gpus_by_node(report)
    if not by_node:
        return None
    cards = [card for some in by_node.values() for card in some]
    rows = _rows(by_node)
    layout = next((layout for most, layout in _LAYOUTS if len(rows) <= most), _DENSEST)
    nouns = {card.noun for card in cards}
    noun = nouns.pop() if len(nouns) == 1 else "device"
    per_column = min(-(-len(rows) // layout.columns), (_TALLEST - _HEAD - _FOOT) // layout.row)
    shown = rows[: per_column * layout.columns]
    wide_column = (layout.width - _MARGIN) // layout.columns - _MARGIN
    layout = replace(layout, label=min(layout.label, max(wide(row.label, layout.font) for row in shown) + 14))
    bars = wide_column - layout.label - layout.says
    card = max(bars // max(len(row.bars) for row in shown), _THINNEST)
    canvas = Canvas((layout.width, _HEAD + per_column * layout.row + _FOOT), say.about(noun))
    name, room = visible(report.subject.name), layout.width - 2 * _MARGIN
    what = Text("picture.of-node" if report.subject.kind == "Node" else "picture.of-type", name=name)
    cluster = Text("render.in-cluster", cluster=visible(report.cluster)) if report.cluster else ""
    taken = report.taken_at.replace("T", " ").replace("Z", " UTC")
    title = together(what if name else Text("picture.all"), cluster, taken, by=", ")
    canvas.write((_MARGIN, 20), title, size=_TITLE, room=room)
    canvas.write((_MARGIN, 58), _facts(report, cards), size=_TEXT, ink=FAINT, room=room)
    for number, row in enumerate(shown):
        column, line = divmod(number, per_column)
        at = (_MARGIN + column * (wide_column + _MARGIN), _HEAD + line * layout.row)
        _draw_row(canvas, row, layout, at, room=bars, card=card)
    _draw_foot(canvas, len(rows) - len(shown))
    return canvas.png(_palette(), compress_level=4)


# --------------------------------------------------------------------------------------------------------- rows


def _rows(by_node: GpusByNode) -> list[_Row]:
    """A row per node; per GPU where there is only one node, so that the pods that hold it can be told too."""
    if len(by_node) == 1:
        return [
            _Row(
                visible(str(bar.card)),
                visible(", ".join((bar.type, *bar.holders))),
                (bar,),
                Text("picture.slots", used=bar.slots),
            )
            for bars in by_node.values()
            for bar in bars
        ]
    types = {node: Counter(visible(bar.type) for bar in bars) for node, bars in by_node.items()}
    rows = [
        _Row(node, ", ".join(f"{count} x {kind}" for kind, count in types[node].items()), tuple(bars), _sum(bars))
        for node, bars in by_node.items()
    ]
    free_first = sorted(rows, key=lambda row: -sum(bar.room for bar in row.bars))
    return free_first if len(rows) > _LAYOUTS[0][0] else rows


def _sum(bars: Sequence[GpuRow]) -> Text:
    if all(bar.state == UNREGISTERED for bar in bars):
        return Text("picture.dropped")
    if not any(bar.is_known for bar in bars):
        return Text("bars.unknown")
    room = sum(bar.room for bar in bars)
    if room:
        return Text("bars.free", memory=amount(room))
    free = sum(bar.state == FREE for bar in bars if not bar.divided)
    if free:
        return Text("bars.free", memory=free)
    return Text("picture.none-usable" if unusable(bars) else "picture.none-free")


def amount(mib: int | None) -> str:
    """`13.5 GiB`; in MiB below 1 GiB, without a fraction from 1,000 on; `?` where it is not known."""
    if mib is None:
        return "?"
    if mib < _MIB_PER_GIB:
        return f"{mib} MiB"
    if mib >= _MANY_GIB * _MIB_PER_GIB:
        return f"{mib // _MIB_PER_GIB:,} GiB"
    return f"{mib / _MIB_PER_GIB:,.1f}".removesuffix(".0") + " GiB"


# ------------------------------------------------------------------------------------------------------ drawing


def _facts(report: Report, cards: Sequence[GpuRow]) -> Text:
    known = [bar for bar in cards if bar.state != UNREGISTERED]
    if all(bar.memory_used is None for bar in cards):
        return Text("picture.unread", count=f"{len(known):,}")
    largest = max((row.largest_slice or 0 for row in report.typed(TypeRow)), default=0)
    free = sum(bar.state == FREE for bar in known)
    facts = Text("picture.free-cards", free=f"{free:,}", all=f"{len(known):,}")
    if unknown := sum(bar.state == UNKNOWN for bar in known):
        facts = Text("picture.unknown-cards", facts=facts, count=f"{unknown:,}")
    return Text("picture.largest", facts=facts, amount=amount(largest)) if largest else facts


def _draw_row(canvas: Canvas, row: _Row, layout: _Layout, at: tuple[int, int], *, room: int, card: int) -> None:
    """`room` is all bars', `card` that of one: pixels."""
    left, top = at
    start = left + layout.label
    line = top + (layout.bar - layout.font) // 2 - 1
    canvas.write((left, line), row.label, size=layout.font, room=layout.label - 12)
    if layout.row - layout.bar > _SMALL:
        place = (start, top + layout.bar + 3)
        canvas.write(place, row.note, size=_SMALL, ink=FAINT, room=room + layout.says)
    bars = row.bars[: room // card]
    gap = _GAP if card > 2 * _GAP else 1
    for number, bar in enumerate(bars):
        x = start + number * card
        _draw_bar(canvas, bar, (x, top, x + card - gap, top + layout.bar), layout.font - 2)
    left_out = f"+{len(row.bars) - len(bars)}" if len(bars) < len(row.bars) else ""
    canvas.write(
        (start + room + 10, line), together(left_out, row.says, by="; "), size=layout.font, room=layout.says - 14
    )


def _draw_bar(canvas: Canvas, bar: GpuRow, box: _Box, size: int) -> None:
    image, (left, top, right, bottom) = canvas.image, box
    edge, (given, total) = left, bar.given
    # Some given, and some free, memory shows at any scale.
    if given > 0 and total and bar.state != UNREGISTERED:
        edge = right if given >= total else min(max(left + (right - left) * given // total, left + 2), right - 2)
    if edge < right:
        if not bar.is_known:
            image.paste(_dots().crop((0, 0, right - edge, bottom - top)), (edge, top))
        elif bar.state == FREE:
            image.paste(_BLANK, (edge, top, right, bottom))
        else:
            image.paste(_hatch().crop((0, 0, right - edge, bottom - top)), (edge, top))
    image.paste(_GIVEN, (left, top, edge, bottom))
    canvas.draw.rectangle((left, top, right - 1, bottom - 1), outline=FRAME)
    if right - left < _NARROWEST_WITH_TEXT:
        return
    left_of = amount(bar.room) if bar.divided else Text("picture.of-slots", free=total - given, all=total)
    says = left_of if bar.state == FREE else bar.state
    taken = canvas.wide(says, size)
    if taken + 12 > right - edge:
        return
    x, y = right - taken - 7, top + (bottom - top - size) // 2 - 1
    if bar.state != FREE:
        image.paste(PAPER, (x - 3, y, right - 4, y + size + 3))
    canvas.write((x, y), says, size=size)


def _draw_foot(canvas: Canvas, left_out: int) -> None:
    image = canvas.image
    x, y = _MARGIN, image.height - _FOOT + 20
    box = (0, 0, 26, 18)
    legend = (
        (Image.new("RGB", box[2:], _GIVEN), Text("picture.given")),
        (Image.new("RGB", box[2:], _BLANK), Text("picture.free")),
        (_hatch().crop(box), Text("picture.stranded")),
        (_dots().crop(box), Text("picture.not-known-or-dropped")),
    )
    for swatch, words in legend:
        image.paste(swatch, (x, y))
        canvas.draw.rectangle((x, y, x + box[2] - 1, y + box[3] - 1), outline=FRAME)
        x = canvas.write((x + box[2] + 8, y), words, size=15) + 28
    if left_out:
        words = Text("picture.left-out", count=f"{left_out:,}")
        canvas.write((x, y), words, size=15, room=image.width - x - _MARGIN)


@lru_cache(maxsize=1)
def _hatch() -> Image.Image:
    """A pattern for free memory that no pod can get."""
    image = Image.new("RGB", _STRIP, PAPER)
    draw = ImageDraw.Draw(image)
    for x in range(-_STRIP[1], _STRIP[0], 7):
        draw.line((x, _STRIP[1], x + _STRIP[1], 0), fill=_HATCH, width=2)
    return image


@lru_cache(maxsize=1)
def _dots() -> Image.Image:
    """A pattern for what is not known."""
    image = Image.new("RGB", _STRIP, PAPER)
    draw = ImageDraw.Draw(image)
    for y in range(2, _STRIP[1], 5):
        for x in range(2 + y % 2 * 2, _STRIP[0], 5):
            draw.rectangle((x, y, x + 1, y + 1), fill=_DOTS)
    return image


@lru_cache(maxsize=1)
def _palette() -> Image.Image:
    """The few colours there are, and the shades at the edges of letters: half the file in half the time."""
    colours: list[tuple[int, ...]] = [PAPER, FRAME, _GIVEN, _HATCH, _DOTS, _BLANK]
    for ink, steps in ((INK, 16), (FAINT, 12)):
        colours += [tuple(part + (255 - part) * step // steps for part in ink) for step in range(steps)]
    image = Image.new("P", (1, 1))
    image.putpalette([part for colour in colours for part in colour])
    return image
