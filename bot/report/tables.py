"""The tables of a report: typed rows that remember the objects they were made of, and rows of prose."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cached_property
from itertools import repeat
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

import msgspec
from msgspec import structs

from bot.texts import Prose, Text, Texts

_NAMES_IN_A_CELL = 8


if TYPE_CHECKING:
    Cells = Sequence[tuple[str, ...]]
else:
    Cells = tuple[tuple[str, ...], ...]
"""The cells of a table: a tuple, as it is read back from JSON, or `Rows`."""


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of text; every row has as many cells as `columns`. `Report.typed` gives the objects behind the rows."""

    title: str
    columns: tuple[str, ...]
    rows: Cells


Row = TypeVar("Row", bound=object)
"""The type of a table's rows before they are text: a NamedTuple or a msgspec Struct."""


class Uuid(str):
    """A GPU's UUID; people are shown only as much of it as is unique."""

    __slots__ = ()


class NameList(tuple[str, ...]):
    """Names; people are shown only the first ones."""

    __slots__ = ()


class FirstNames(NameList):
    """Names, of which JSON too has only the first eight."""

    __slots__ = ()


class Rows(Sequence[tuple[str, ...]], Generic[Row]):
    """The cells of a table, which remember the typed rows they were made of; JSON keeps the cells only.

    A cell is made when it is read: of 40,000 GPUs a terminal shows a dozen. `brief` are the rows for an overview, which
    tell of as many rows as `of` says; None where the table is in no overview.
    """

    def __init__(
        self, sheet: "Sheet[Row]", typed: tuple[Row, ...], brief: tuple[Row, ...] | None, of: int | None = None
    ) -> None:
        self.sheet = sheet
        self.typed = typed
        self.brief = brief
        self.of = len(brief or ()) if of is None else of

    @cached_property
    def cells(self) -> tuple[tuple[str, ...], ...]:
        return tuple(map(self.sheet.cells, self.typed))

    def __len__(self) -> int:
        return len(self.typed)

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        return iter(self.cells)

    @overload
    def __getitem__(self, place: int) -> tuple[str, ...]: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[tuple[str, ...], ...]: ...
    def __getitem__(self, place: int | slice) -> tuple[str, ...] | tuple[tuple[str, ...], ...]:
        if isinstance(place, int):
            return self.sheet.cells(self.typed[place])
        return tuple(map(self.sheet.cells, self.typed[place]))

    def __eq__(self, other: object) -> bool:
        return self.cells == (cast("Rows[Any]", other).cells if isinstance(other, Rows) else other)

    def __hash__(self) -> int:
        return hash(self.cells)


class Sheet(Generic[Row]):
    """A kind of table: its typed rows' fields are its columns, `_` in a field's name is a space.

    `names` renames columns; `fields` are the fields that are columns, else all but `beside`. `brief` has the fields for
    an overview, the most telling first, with a heading where it differs: `node memory_free=free_MiB`, as in `names`.
    The first `together` are dropped only if empty.
    `tells_findings`: there is a row for each finding. `listed`: a chat shows rows as a list, because a phone cuts their
    words off. `heading` is the title once the report is in words. Cells: `?` for None, RFC 3339 for a time, tuples
    joined by commas.
    """

    def __init__(
        self,
        title: str,
        row: type[Row],
        *,
        names: str = "",
        fields: Sequence[str] = (),
        beside: Sequence[str] = (),
        brief: str = "",
        together: int = 1,
        tells_findings: bool = False,
        listed: bool = False,
        heading: Text | None = None,
    ) -> None:
        self.title = title
        self.heading = heading
        self._fields = tuple(fields or (field for field in row.__annotations__ if field not in beside))
        named, self.brief = _headings(names), _headings(brief)
        self.columns = tuple(named.get(field, field.replace("_", " ")) for field in self._fields)
        self.together = together
        self.tells_findings = tells_findings
        self.listed = listed
        self.texts = [name for name, kind in row.__annotations__.items() if "Text" in str(kind) or kind == Prose]

    def table(self, typed: Iterable[Row], *, brief: Iterable[Row] | None = None, of: int | None = None) -> Table:
        """The table of these typed rows, in their order. `brief`: the rows for an overview, in its order; where one
        stands for several, together for `of`.
        """
        rows = Rows(self, tuple(typed), None if brief is None else tuple(brief), of)
        return Table(self.title, self.columns, rows)

    def cells(self, row: Row) -> tuple[str, ...]:
        """The cells of a typed row; a cell that is a `Text` is empty until the report is in words."""
        values = map(getattr, repeat(row), self._fields)
        # Most are texts: a large cluster has half a million cells.
        return tuple(
            [value if type(value) is str else str(value) if type(value) is int else _cell(value) for value in values]
        )


def _headings(words: str) -> dict[str, str]:
    pairs = (word.partition("=") for word in words.split())
    return {field: (heading or field).replace("_", " ") for field, _, heading in pairs}


def _cell(value: Any) -> str:
    match value:
        case str():
            return str(value)
        case None:
            return "?"
        case Text():
            return ""
        case bool():
            return "yes" if value else "no"
        case datetime():
            return value.astimezone(UTC).replace(microsecond=0, tzinfo=None).isoformat() + "Z"
        case FirstNames():
            return ", ".join(value[:_NAMES_IN_A_CELL]) + (", …" if len(value) > _NAMES_IN_A_CELL else "")
        case tuple():
            return ", ".join(map(_cell, cast("tuple[Any, ...]", value)))
        case _:
            return str(value)


class _ProseRows(tuple[tuple[str, ...], ...]):  # noqa: SLOT001  # as `Rows`
    """The cells of a table that are not in words yet, with its title and its columns."""

    title: Prose
    columns: Sequence[Prose]
    prose: Sequence[Sequence[Prose]]


def in_no_overview(table: Table) -> Table:
    """The table without its rows for an overview, for a person who asks for everything."""
    match table.rows:
        case Rows():
            told = cast("Rows[Any]", table.rows)
            return structs.replace(table, rows=Rows(told.sheet, told.typed, None))
        case _:
            return table


def prose_table(title: Prose, columns: Sequence[Prose], rows: Iterable[Sequence[Prose]]) -> Table:
    """A table whose title, columns and cells may be texts; until it is in words its rows have no cells."""
    kept = tuple(rows)
    unsaid = _ProseRows(() for _ in kept)
    unsaid.title, unsaid.columns, unsaid.prose = title, columns, kept
    return Table("", (), unsaid)


def table_in_words(table: Table, say: Texts) -> Table:
    """The table with its texts in the language of `say`."""
    match table.rows:
        case _ProseRows() as unsaid:
            rows = tuple(tuple(map(say.words, row)) for row in unsaid.prose)
            return Table(say.words(unsaid.title), tuple(map(say.words, unsaid.columns)), rows)
        case Rows():
            told = cast("Rows[Any]", table.rows)
            sheet = told.sheet

            def in_words(row: Any) -> Any:
                words = {name: say.words(cell) for name in sheet.texts if isinstance(cell := getattr(row, name), Text)}
                if not words:
                    return row
                return row._replace(**words) if hasattr(row, "_replace") else structs.replace(row, **words)

            if sheet.texts:
                brief = None if told.brief is None else map(in_words, told.brief)
                told = cast("Rows[Any]", sheet.table(map(in_words, told.typed), brief=brief, of=told.of).rows)
            return Table(say.words(sheet.heading or sheet.title), sheet.columns, told)
        case _:
            return table
