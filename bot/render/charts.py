"""Draws bar charts as PNG: the latency of scheduling by stage, and the use and the requests of each pool.

A fill is clear without colour: solid is the first amount, striped the second, an empty frame the whole. The same report
gives the same bytes.
"""

from collections.abc import Sequence
from typing import NamedTuple

from bot.render.picture import amount
from bot.render.picture_text import FAINT, FRAME, Canvas
from bot.render.words import visible
from bot.report import Report
from bot.rows import PoolRow, StageRow
from bot.texts import Prose, Text, Texts, together

_WIDTH, _MARGIN = 1000, 24
_TITLE, _TEXT, _SMALL = 26, 18, 15
_HEAD, _ROW, _BAR, _FOOT = 84, 48, 24, 48
_LABEL, _NOTE = 300, 230
_MOST_BARS = 30
_SOLID, _STRIPED = (0, 84, 148), (196, 78, 0)
"""The colours of the first and the second amount, as in the picture of the GPUs."""
_STRIPE = 6


class Chart(NamedTuple):
    """A chart as PNG, with its file name, and its content in words."""

    name: str
    png: bytes
    alt_text: str


class _Bar(NamedTuple):
    """A bar: its label, what is filled solid, what is striped beyond that, and the whole; `note` stands after it."""

    label: str
    solid: float
    striped: float
    whole: float
    note: Prose


def charts(report: Report, say: Texts) -> list[Chart]:
    pools = report.typed(PoolRow)
    latency = [
        _Bar(visible(row.stage), row.median_s, row.p95_s, row.max_s or 0, f"{row.median_s:g} / {row.p95_s:g} s")
        for row in report.typed(StageRow)
        if row.median_s is not None and row.p95_s is not None
    ]
    use: list[_Bar] = []
    for row in pools:
        note = Text("picture.use-note", used=amount(row.used_mib), given=amount(row.given_mib))
        use.append(_Bar(visible(row.pool), row.used_mib or 0, row.given_mib, row.memory_mib, note))
    requests = [
        _Bar(visible(f"{row.pool}: {size}"), count, 0, 0, Text("picture.requests-note", count=count, splits=row.splits))
        for row in pools
        for size, count in row.requests
        if row.given_mib
    ]
    plans = (
        ("latency", Text("picture.latency"), Text("picture.latency-legend"), latency),
        ("use", Text("picture.use"), Text("picture.use-legend"), use),
        ("requests", Text("picture.requests"), Text("picture.requests-legend"), requests),
    )
    return [_chart(say, name, title, legend, bars) for name, title, legend, bars in plans if bars]


def _chart(say: Texts, name: str, title: Text, legend: Text, bars: Sequence[_Bar]) -> Chart:
    shown = bars[:_MOST_BARS]
    canvas = Canvas((_WIDTH, _HEAD + len(shown) * _ROW + _FOOT), say)
    canvas.write((_MARGIN, 18), title, size=_TITLE, room=_WIDTH - 2 * _MARGIN)
    canvas.write((_MARGIN, 52), legend, size=_SMALL, ink=FAINT, room=_WIDTH - 2 * _MARGIN)
    # The longest bar takes the whole width.
    highest = max(max(bar.solid, bar.striped, bar.whole) for bar in shown) or 1
    for number, bar in enumerate(shown):
        _draw(canvas, bar, (_WIDTH - 2 * _MARGIN - _LABEL - _NOTE) / highest, _HEAD + number * _ROW)
    if left_out := len(bars) - len(shown):
        more = Text("picture.more-bars", count=left_out)
        canvas.write((_MARGIN, canvas.image.height - 34), more, size=_SMALL, ink=FAINT)
    told = (together(bar.label, bar.note, by=": ") for bar in shown)
    return Chart(name, canvas.png(), say.words(together(title, together(*told, by="; "), by=". ")))


def _draw(canvas: Canvas, bar: _Bar, scale: float, top: int) -> None:
    draw, left = canvas.draw, _MARGIN + _LABEL
    canvas.write((_MARGIN, top + 2), bar.label, size=_TEXT, room=_LABEL - 12)
    solid, striped, whole = (round(scale * value) for value in (bar.solid, bar.striped, bar.whole))
    for x in range(left + solid, left + striped, _STRIPE):
        draw.rectangle((x, top, min(x + _STRIPE // 2, left + striped) - 1, top + _BAR), fill=_STRIPED)
    if solid:
        draw.rectangle((left, top, left + solid - 1, top + _BAR), fill=_SOLID)
    longest = max(solid, striped, whole)
    draw.rectangle((left, top, left + max(longest, 1), top + _BAR), outline=FRAME)
    place = min(left + longest + 10, _WIDTH - _MARGIN - canvas.wide(bar.note, _TEXT))
    canvas.write((place, top + 2), bar.note, size=_TEXT, room=_NOTE)
