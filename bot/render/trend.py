"""Memory by type of card over the last digests, as a picture that a preview on a phone still shows.

Two charts a type, a bar per digest: what there is with the given part filled, and the largest free slice. What a fill
means shows without colour too: solid is given, blank is free, striped is the largest slice, dotted is not known.
"""

import io
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from PIL import Image, ImageDraw

from bot.digest.trend import Point
from bot.render.picture import amount
from bot.render.picture_text import fitted, write
from bot.render.words import visible
from bot.texts import Texts

_WIDTH, _MARGIN = 720, 24
_CHART, _BETWEEN = 324, 24
_HEAD, _KIND, _FOOT = 66, 206, 52
_TOP, _BARS = 72, 108
"""Within a type: where its bars begin, and how high they are at most."""
_TITLE, _TEXT, _SMALL = 28, 24, 20
_MOST_KINDS = 4
_WIDEST_BAR, _GAP = 48, 4
_NAME = 80

_PAPER, _FRAME, _INK, _FAINT = (255, 255, 255), (118, 118, 118), (32, 32, 32), (96, 96, 96)
_GIVEN, _SLICE, _UNKNOWN = (0, 84, 148), (196, 78, 0), (94, 60, 153)
"""Of different lightness, and apart for every kind of colour blindness; the same as in the picture of the cards."""


def trend_picture(points: Mapping[str, Sequence[Point]], say: Texts) -> bytes | None:
    """The PNG; None where there is nothing to compare. Of many types those with the most memory are shown."""
    if not points:
        return None
    shown = list(points.items())[:_MOST_KINDS]
    image = Image.new("RGB", (_WIDTH, _HEAD + len(shown) * _KIND + _FOOT), _PAPER)
    ImageDraw.Draw(image).rectangle((0, 0, image.width - 1, image.height - 1), outline=_FRAME, width=2)
    some = shown[0][1]
    title = say("picture.trend", first=_day(some[0]), last=_day(some[-1]))
    write(image, (_MARGIN, 20), fitted(title, _TITLE, _WIDTH - 2 * _MARGIN), size=_TITLE, ink=_INK)
    for number, (kind, series) in enumerate(shown):
        _draw_kind(image, visible(kind), series, say, _HEAD + number * _KIND)
    unknown = any(None in point for _, series in shown for point in series)
    _draw_foot(image, len(points) - len(shown), say, unknown=unknown)
    written = io.BytesIO()
    image.save(written, "PNG", compress_level=6)
    return written.getvalue()


def trend_words(points: Mapping[str, Sequence[Point]]) -> Iterator[tuple[str, str, str]]:
    """What the picture shows: by type how the memory and the largest free slice went, from the first to the last."""
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


def _day(point: Point) -> str:
    return f"{datetime.fromtimestamp(point.at, UTC):%Y-%m-%d}"


def _draw_kind(image: Image.Image, kind: str, series: Sequence[Point], say: Texts, top: int) -> None:
    write(image, (_MARGIN, top), fitted(kind, _TEXT, _WIDTH - 2 * _MARGIN), size=_TEXT, ink=_INK)
    last = series[-1]
    total = _known(last.memory)
    charts = (
        (
            say("picture.trend-given", given=_known(last.given), total=total),
            [(point.memory, point.given) for point in series],
            _GIVEN,
        ),
        (
            say("picture.trend-largest", amount=_known(last.largest)),
            [(point.largest, point.largest) for point in series],
            _SLICE,
        ),
    )
    for number, (words, bars, ink) in enumerate(charts):
        left = _MARGIN + number * (_CHART + _BETWEEN)
        write(image, (left, top + 34), fitted(words, _SMALL, _CHART), size=_SMALL, ink=_FAINT)
        _draw_bars(image, bars, ink, (left, top + _TOP))


def _known(mib: int | None) -> str:
    return "?" if mib is None else amount(mib)


def _draw_bars(
    image: Image.Image, bars: Sequence[tuple[int | None, int | None]], ink: tuple[int, int, int], at: tuple[int, int]
) -> None:
    """A bar for each (height, filled), in MiB; all are to one scale, the highest takes the whole height."""
    left, top = at
    draw, bottom = ImageDraw.Draw(image), top + _BARS
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
            draw.rectangle((start, bottom - full, end - 1, bottom), outline=_FRAME)
        if part:
            draw.rectangle((start, bottom - part, end - 1, bottom), fill=ink)
        if part and ink == _SLICE:
            for y in range(bottom - part + 5, bottom, 7):
                draw.line((start, y, end - 1, y), fill=_PAPER)
    draw.line((left, bottom + 1, left + _CHART, bottom + 1), fill=_FRAME, width=2)


def _draw_foot(image: Image.Image, left_out: int, say: Texts, *, unknown: bool) -> None:
    x, y = _MARGIN, image.height - _FOOT + 8
    draw = ImageDraw.Draw(image)
    for ink, words in (
        (_GIVEN, say("picture.given")),
        (_PAPER, say("picture.free")),
        (_SLICE, say("picture.largest-slice")),
    ):
        draw.rectangle((x, y + 2, x + 24, y + 20), fill=ink, outline=_FRAME)
        for line in range(y + 7, y + 20, 7) if ink == _SLICE else ():
            draw.line((x, line, x + 24, line), fill=_PAPER)
        x = write(image, (x + 32, y), words, size=_SMALL, ink=_INK) + 24
    words = ", ".join([say("picture.dotted")] * unknown + [say("picture.more-types", count=left_out)] * (left_out > 0))
    if words:
        write(image, (x, y), fitted(words, _SMALL, _WIDTH - x - _MARGIN), size=_SMALL, ink=_INK)
