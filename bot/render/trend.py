"""Draws memory by type of GPU over the last digests, legible in a preview on a phone.

Two charts a type, a bar per digest: the memory with the given part filled, and the largest free slice. A fill is clear
without colour: solid is given, blank is free, striped is the largest slice, dotted is unknown.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from PIL import ImageDraw

from bot.digest.figures import Point
from bot.render.picture import amount
from bot.render.picture_text import FAINT, FRAME, PAPER, Canvas
from bot.render.words import visible
from bot.texts import Text, Texts, together

_WIDTH, _MARGIN = 720, 24
_CHART, _BETWEEN = 324, 24
_HEAD, _KIND, _FOOT = 66, 206, 52
_TOP, _BARS = 72, 108
"""In pixels: the top of a chart's bars within a type, and the height of the highest."""
_TITLE, _TEXT, _SMALL = 28, 24, 20
_MOST_KINDS = 4
_WIDEST_BAR, _GAP = 48, 4
_NAME = 80

_GIVEN, _SLICE, _UNKNOWN = (0, 84, 148), (196, 78, 0), (94, 60, 153)
"""Colours of different lightness, apart for every kind of colour blindness; as in the picture of the GPUs."""


def trend_picture(points: Mapping[str, Sequence[Point]], say: Texts) -> bytes | None:
    """The trend as PNG; None where there is nothing to compare. Of many types those with the most memory are shown."""
    if not points:
        return None
    shown = list(points.items())[:_MOST_KINDS]
    canvas = Canvas((_WIDTH, _HEAD + len(shown) * _KIND + _FOOT), say)
    some = shown[0][1]
    first, last = (f"{datetime.fromtimestamp(point.at, UTC):%Y-%m-%d}" for point in (some[0], some[-1]))
    title = Text("picture.trend", first=first, last=last)
    canvas.write((_MARGIN, 20), title, size=_TITLE, room=_WIDTH - 2 * _MARGIN)
    for number, (kind, series) in enumerate(shown):
        _draw_kind(canvas, visible(kind), series, _HEAD + number * _KIND)
    x, y = _MARGIN, canvas.image.height - _FOOT + 8
    for ink, words in (
        (_GIVEN, Text("picture.given")),
        (PAPER, Text("picture.free")),
        (_SLICE, Text("picture.largest-slice")),
    ):
        canvas.draw.rectangle((x, y + 2, x + 24, y + 20), fill=ink, outline=FRAME)
        for line in range(y + 7, y + 20, 7) if ink == _SLICE else ():
            canvas.draw.line((x, line, x + 24, line), fill=PAPER)
        x = canvas.write((x + 32, y), words, size=_SMALL) + 24
    dotted = Text("picture.dotted") if any(None in point for _, series in shown for point in series) else ""
    more = Text("picture.more-types", count=len(points) - len(shown)) if len(points) > len(shown) else ""
    if dotted or more:
        canvas.write((x, y), together(dotted, more, by=", "), size=_SMALL, room=_WIDTH - x - _MARGIN)
    return canvas.png()


def trend_words(points: Mapping[str, Sequence[Point]]) -> Iterator[tuple[str, str, str]]:
    """The trend in words: by type, memory and the largest free slice, from the first digest to the last."""
    for kind, series in list(points.items())[:_MOST_KINDS]:
        yield (
            visible(kind[:_NAME]),
            _went([point.memory for point in series]),
            _went([point.largest for point in series]),
        )


def _went(amounts: Sequence[int | None]) -> str:
    first, last = (next((amount for amount in some if amount is not None), None) for some in (amounts, amounts[::-1]))
    if first is None or last is None:
        return "?"
    return amount(last) if first == last else f"{amount(first)} → {amount(last)}"


def _draw_kind(canvas: Canvas, kind: str, series: Sequence[Point], top: int) -> None:
    canvas.write((_MARGIN, top), kind, size=_TEXT, room=_WIDTH - 2 * _MARGIN)
    last = series[-1]
    given = Text("picture.trend-given", given=amount(last.given), total=amount(last.memory))
    largest = Text("picture.trend-largest", amount=amount(last.largest))
    charts = (
        (given, [(point.memory, point.given) for point in series], _GIVEN),
        (largest, [(point.largest, point.largest) for point in series], _SLICE),
    )
    for number, (words, bars, ink) in enumerate(charts):
        left = _MARGIN + number * (_CHART + _BETWEEN)
        canvas.write((left, top + 34), words, size=_SMALL, ink=FAINT, room=_CHART)
        _draw_bars(canvas.draw, bars, ink, (left, top + _TOP))


def _draw_bars(
    draw: ImageDraw.ImageDraw,
    bars: Sequence[tuple[int | None, int | None]],
    ink: tuple[int, int, int],
    at: tuple[int, int],
) -> None:
    """A bar for each (height, filled), in MiB; all are to one scale, the highest takes the whole height."""
    left, top = at
    bottom = top + _BARS
    highest = max((height for height, _ in bars if height), default=1)
    step = min(_CHART // len(bars), _WIDEST_BAR)
    for number, (height, filled) in enumerate(bars):
        start, end = left + number * step, left + (number + 1) * step - _GAP
        if height is None or filled is None:
            for y in range(top + _BARS // 2, bottom, 8):
                draw.rectangle(((start + end) // 2 - 1, y, (start + end) // 2 + 1, y + 2), fill=_UNKNOWN)
            continue
        full, part = (round(_BARS * min(amount, highest) / highest) for amount in (height, filled))
        if full:
            draw.rectangle((start, bottom - full, end - 1, bottom), outline=FRAME)
        if part:
            draw.rectangle((start, bottom - part, end - 1, bottom), fill=ink)
        if part and ink == _SLICE:
            for y in range(bottom - part + 5, bottom, 7):
                draw.line((start, y, end - 1, y), fill=PAPER)
    draw.line((left, bottom + 1, left + _CHART, bottom + 1), fill=FRAME, width=2)
