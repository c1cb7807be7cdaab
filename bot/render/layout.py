"""Lays out text and columns in terminal cells: lines break where a word ends, wide columns shrink first."""

import re
from collections.abc import Iterator, Sequence

from bot.render.words import cells

_COLUMN_GAP = 2
_LONGEST_NAMES = 40, 24, 16, 8
_FEW_LINES, _SHORT = 4, 6
_MARK = re.compile(r"(?<=[,;/])")
_NOT_AT_LINE_START = frozenset(",.;:!?)]}%，。；：！？）】》」』、…’”\ufe0f")
_NOT_AT_LINE_END = frozenset("（【《「『‘“")


def side_by_side(rows: Sequence[Sequence[str]], room: int, fewest: int) -> tuple[list[list[str]], list[int]]:
    """The part of the rows, the first of which is the header, that fits `room` cells; and the columns' widths."""
    count = len(rows[0])
    tries = [(columns, longest) for longest in _LONGEST_NAMES for columns in range(count, min(fewest, count) - 1, -1)]
    tries += [(columns, _LONGEST_NAMES[-1]) for columns in range(min(fewest, count) - 1, 0, -1)]
    shown: list[list[str]] = []
    for columns, longest in tries:
        shown = [[_shortened(cell, longest) for cell in row[:columns]] for row in rows]
        if widths := _column_widths(shown, room, longest):
            return shown, widths
    return shown, [room] * len(shown[0])


def parted(rows: Sequence[Sequence[str]], room: int) -> list[tuple[list[list[str]], list[int]]]:
    """All columns of the rows, in parts that fit `room` cells, one below the other, with the columns' widths.

    Each part begins with the columns that tell the rows apart: the first, or two where that is not enough. Long names
    are shortened in the middle.
    """
    for longest in _LONGEST_NAMES[:2]:
        shown = [[_shortened(cell, longest) for cell in row] for row in rows]
        if widths := _column_widths(shown, room, longest):
            return [(shown, widths)]
    count = len(rows[0])
    keys = min(2 if len({row[0] for row in rows}) < len(rows) == len({(*row[:2],) for row in rows}) else 1, count - 1)
    left, parts = range(keys, count), list[tuple[list[list[str]], list[int]]]()
    while left:
        part = [
            [_shortened(cell, _LONGEST_NAMES[1]) for cell in (*row[:keys], *(row[at] for at in left))] for row in rows
        ]
        parts.append(side_by_side(part, room, keys + 1))
        left = left[max(len(parts[-1][1]) - keys, 1) :]
    return parts


def _shortened(cell: str, longest: int) -> str:
    """The cell with an ellipsis in the middle of each word above `longest`; the first of `_LONGEST_NAMES` cuts none."""
    if longest == _LONGEST_NAMES[0] or len(cell) <= longest:
        return cell
    half = longest // 2
    words = (
        word if len(word) <= longest else f"{word[:half]}…{word[half + 1 - longest :]}" for word in cell.split(" ")
    )
    return " ".join(words)


def _column_widths(rows: Sequence[Sequence[str]], room: int, longest: int) -> list[int] | None:
    """The widest columns give way until all fit; None where that would break words, which are names to copy."""
    columns = list(zip(*rows, strict=True))
    widths = [max(map(cells, column)) for column in columns]
    words = [min(max(map(_least, column)), longest) for column in columns]
    room -= _COLUMN_GAP * (len(columns) - 1)
    if sum(words) > room:
        return None
    widths = [min(wide, room) for wide in widths]
    while sum(widths) > room:
        widest = max((at for at in range(len(widths)) if widths[at] > words[at]), key=widths.__getitem__)
        widths[widest] -= 1
    return widths


def _least(text: str) -> int:
    """The width of the longest word; of Chinese, which may break anywhere, that of a short cell, or of a few lines."""
    words = max(cells(unit.rstrip(" ")) for unit in [*_units(text, len(text) * 2), ""])
    return words if text.isascii() else max(words, min(cells(text), _SHORT), cells(text) // _FEW_LINES)


def row_lines(row: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> Iterator[str]:
    """The lines of one row, its cells wrapped to `widths`; `right` says which columns are right-aligned."""
    columns = [wrap(cell, wide) for cell, wide in zip(row, widths, strict=True)]
    for number in range(max(map(len, columns))):
        shown = [column[number] if number < len(column) else "" for column in columns]
        padded = (
            " " * (wide - cells(text)) + text if numeric else text + " " * (wide - cells(text))
            for text, wide, numeric in zip(shown, widths, right, strict=True)
        )
        yield (" " * _COLUMN_GAP).join(padded).rstrip(" ")


def wrap(text: str, room: int, later: int | None = None) -> list[str]:
    """Visible text as lines: the first of at most `room` cells, further ones of at most `later` (or `room`). Lines
    break at spaces and between wide characters, and inside a word only if it is longer than a line.
    """
    later = later or room
    lines, line = list[str](), ""
    for unit in _units(text, later):
        if line.strip(" ") and cells((line + unit).rstrip(" ")) > room:
            lines.append(line.rstrip(" "))
            line, room = "", later
        line += unit
        while cells(line.rstrip(" ")) > room:
            edge = used = 0
            while (used := used + cells(line[edge])) <= room:
                edge += 1
            lines.append(line[:edge])
            line, room = line[edge:], later
    return [*lines, line.rstrip(" ")] if line.strip(" ") or not lines else lines


def _units(text: str, room: int) -> Iterator[str]:
    """The pieces that stay together, each with the spaces after it; a word too long for a line is a piece per comma."""
    start = 0
    for at in range(1, len(text) + 1):
        if at == len(text) or _may_break(text[at - 1], text[at]):
            unit = text[start:at]
            yield from [unit] if cells(unit) <= room else _MARK.split(unit)
            start = at


def _may_break(before: str, after: str) -> bool:
    if after == " " or before == " ":
        return after != " "
    if before in _NOT_AT_LINE_END or after in _NOT_AT_LINE_START or not cells(after):
        return False
    return 2 in (cells(before), cells(after))
