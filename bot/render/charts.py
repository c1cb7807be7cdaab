"""Charts of bars: the latency of scheduling by stage, and of each pool its use and its requests. In English.

What a fill means shows without colour too: solid is the first amount, striped the second, an empty frame the whole. The
same report gives the same bytes.
"""

import io
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from PIL import Image, ImageDraw

from bot.chart_rows import PoolRow, StageRow
from bot.render.picture import amount
from bot.render.picture_text import fitted, wide, write
from bot.render.words import visible
from bot.report import Report
from bot.texts import Texts

_WIDTH, _MARGIN = 1000, 24
_TITLE, _TEXT, _SMALL = 26, 18, 15
_HEAD, _ROW, _BAR, _FOOT = 84, 48, 24, 48
_LABEL, _NOTE = 300, 230
_MOST_BARS = 30
_PAPER, _FRAME, _INK, _FAINT = (255, 255, 255), (118, 118, 118), (32, 32, 32), (96, 96, 96)
_SOLID, _STRIPED = (0, 84, 148), (196, 78, 0)
"""The same as in the picture of the GPUs."""
_STRIPE = 6


class Chart(NamedTuple):
    """A PNG with the name of its file, and what it shows in words."""

    name: str
    png: bytes
    alt_text: str


class _Bar(NamedTuple):
    """A line: its label, what is filled solid, what is striped beyond that, and the whole; `note` stands after it."""

    label: str
    solid: float
    striped: float
    whole: float
    note: str


def charts(report: Report, say: Texts) -> list[Chart]:
    """All that the report's rows can be drawn as."""
    pools = report.typed(PoolRow)
    found = [_latency(report.typed(StageRow), say), _use(pools, say), _requests(pools, say)]
    return [chart for chart in found if chart is not None]


def _latency(stages: Sequence[StageRow], say: Texts) -> Chart | None:
    bars = [
        _Bar(row.stage, row.median_s or 0, row.p95_s or 0, row.max_s or 0, f"{row.median_s:g} / {row.p95_s:g} s")
        for row in stages
        if row.median_s is not None and row.p95_s is not None
    ]
    return _chart("latency", bars, say)


def _use(pools: Sequence[PoolRow], say: Texts) -> Chart | None:
    bars = [
        _Bar(
            row.pool,
            row.used_mib or 0,
            row.given_mib,
            row.memory_mib,
            say(
                "picture.use-note",
                used="?" if row.used_mib is None else amount(row.used_mib),
                given=amount(row.given_mib),
            ),
        )
        for row in pools
    ]
    return _chart("use", bars, say)


def _requests(pools: Sequence[PoolRow], say: Texts) -> Chart | None:
    bars = [
        _Bar(f"{row.pool}: {size}", count, 0, 0, say("picture.requests-note", count=count, splits=row.splits))
        for row in pools
        for size, count in row.requests
        if row.given_mib
    ]
    return _chart("requests", bars, say)


def _chart(name: Literal["latency", "use", "requests"], bars: Sequence[_Bar], say: Texts) -> Chart | None:
    if not bars:
        return None
    title, legend = say(f"picture.{name}"), say(f"picture.{name}-legend")
    shown = [bar._replace(label=visible(bar.label)) for bar in bars[:_MOST_BARS]]
    image = Image.new("RGB", (_WIDTH, _HEAD + len(shown) * _ROW + _FOOT), _PAPER)
    ImageDraw.Draw(image).rectangle((0, 0, image.width - 1, image.height - 1), outline=_FRAME, width=2)
    write(image, (_MARGIN, 18), fitted(title, _TITLE, _WIDTH - 2 * _MARGIN), size=_TITLE, ink=_INK)
    write(image, (_MARGIN, 52), fitted(legend, _SMALL, _WIDTH - 2 * _MARGIN), size=_SMALL, ink=_FAINT)
    scale = _scale(shown)
    for number, bar in enumerate(shown):
        _draw(image, bar, scale, _HEAD + number * _ROW)
    if left_out := len(bars) - len(shown):
        write(image, (_MARGIN, image.height - 34), say("picture.more-bars", count=left_out), size=_SMALL, ink=_FAINT)
    written = io.BytesIO()
    image.save(written, "PNG", compress_level=6)
    words = "; ".join(f"{bar.label}: {bar.note}" for bar in shown)
    return Chart(name, written.getvalue(), f"{title}. {words}")


def _scale(bars: Sequence[_Bar]) -> Callable[[float], int]:
    """Pixels for an amount: the highest of all takes the whole room."""
    room = _WIDTH - 2 * _MARGIN - _LABEL - _NOTE
    highest = max(max(bar.solid, bar.striped, bar.whole) for bar in bars) or 1
    return lambda value: round(room * value / highest)


def _draw(image: Image.Image, bar: _Bar, scale: Callable[[float], int], top: int) -> None:
    draw, left = ImageDraw.Draw(image), _MARGIN + _LABEL
    write(image, (_MARGIN, top + 2), fitted(bar.label, _TEXT, _LABEL - 12), size=_TEXT, ink=_INK)
    solid, striped, whole = scale(bar.solid), scale(bar.striped), scale(bar.whole)
    for x in range(left + solid, left + striped, _STRIPE):
        draw.rectangle((x, top, min(x + _STRIPE // 2, left + striped) - 1, top + _BAR), fill=_STRIPED)
    if solid:
        draw.rectangle((left, top, left + solid - 1, top + _BAR), fill=_SOLID)
    longest = max(solid, striped, whole)
    draw.rectangle((left, top, left + max(longest, 1), top + _BAR), outline=_FRAME)
    place = min(left + longest + 10, _WIDTH - _MARGIN - wide(bar.note, _TEXT))
    write(image, (place, top + 2), fitted(bar.note, _TEXT, _NOTE), size=_TEXT, ink=_INK)
