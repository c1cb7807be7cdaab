"""The answer: what follows from what was seen. Public contract `hami-bot.report/v1`.

A report carries no markup, no colour and no limit of the place it will be shown in.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Generic, Literal, TypeVar, cast

import msgspec

from bot.finding_codes import Code

SCHEMA = "hami-bot.report/v1"
VERDICT_LIMIT = 140
_NAMES_IN_A_CELL = 8

Severity = Literal["info", "warning", "critical"]
Confidence = Literal["confirmed", "suspected"]
SEVERITIES: tuple[Severity, ...] = ("info", "warning", "critical")


class Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An immutable part of the report contract."""


class Evidence(Value, frozen=True):
    """One verbatim quote: where it stands, when it was true, and the command that shows it again.

    `at` is RFC 3339 in UTC, or None where the source carries no time.
    """

    source: str
    object: str
    at: str | None
    quote: str
    command: str

    @property
    def kind(self) -> str:
        """Of the object: `Pod` of `Pod ml/trainer-0`."""
        return self.object.partition(" ")[0]

    @property
    def name(self) -> str:
        """Of the object: `ml/trainer-0` of `Pod ml/trainer-0`."""
        return self.object.partition(" ")[2]

    def __eq__(self, other: Any) -> bool:  # noqa: PYI032  # `object` is a field here
        """By what it says: JSON does not keep the kind of a quote, and a report read back equals the one written."""
        if not isinstance(other, Evidence):
            return NotImplemented
        return msgspec.structs.astuple(self) == msgspec.structs.astuple(other)

    def __hash__(self) -> int:
        return hash(msgspec.structs.astuple(self))


class NextAction(Value, frozen=True):
    """One thing to do next: a command of ours or of kubectl, and whether it changes the cluster."""

    label: str
    command: str
    changes_cluster: bool = False


class Scope(Value, frozen=True):
    """What a finding is about, beyond the subject itself. Names are sorted."""

    nodes: tuple[str, ...] = ()


class Finding(Value, frozen=True):
    """A claim, how sure we are of it, and what it rests on. `bot.finding_codes` has what all of a code share."""

    code: Code
    claim: str
    severity: Severity
    confidence: Confidence
    scope: Scope
    evidence: tuple[Evidence, ...]
    next_actions: tuple[NextAction, ...] = ()


class Table(Value, frozen=True):
    """Rows as text; every row has as many cells as `columns`. `Report.typed` gives what a `Sheet` made them of."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


Row = TypeVar("Row", bound=tuple[Any, ...])
"""A NamedTuple: a row of a table before it is text."""


class Uuid(str):
    """A GPU's UUID, of which people are shown as much as is unique."""

    __slots__ = ()


class Names(tuple[str, ...]):
    """Names of which people are shown the first ones."""

    __slots__ = ()


class FirstNames(Names):
    """Names of which JSON has the first eight, too."""

    __slots__ = ()


class Rows(tuple[tuple[str, ...], ...], Generic[Row]):  # noqa: SLOT001  # a tuple can have none that hold something
    """The cells of a table that remember the typed rows that they were made of. JSON keeps the cells only.

    `brief` are the rows that an overview shows; None where the table is no part of one.
    """

    sheet: "Sheet[Row]"
    typed: tuple[Row, ...]
    brief: tuple[Row, ...] | None


class Sheet(Generic[Row]):
    """A kind of table: the fields of its typed rows are its columns, `_` in a field's name is a space.

    `names` has the other names of columns, `fields` those fields that are columns, if not all are. `brief` has the
    fields that an overview shows, the most telling first, with the headings that they have there: the first
    `together` of them say nothing without each other (empty ones are left out all the same). `tells_findings` is for a
    table with a row for each finding.
    Cells: `?` for None, RFC 3339 for a time, tuples joined by commas.
    """

    def __init__(
        self,
        title: str,
        row: type[Row],
        *,
        names: Mapping[str, str] = {},
        fields: Sequence[str] = (),
        brief: Mapping[str, str] = {},
        together: int = 1,
        tells_findings: bool = False,
    ) -> None:
        every: tuple[str, ...] = cast("Any", row)._fields
        self.title = title
        self.columns = tuple(names.get(field, field.replace("_", " ")) for field in fields or every)
        self.brief = brief
        self.together = together
        self.tells_findings = tells_findings
        self._places = [every.index(field) for field in fields]
        self._first = len(fields) if tuple(fields) == every[: len(fields)] else 0

    def table(self, typed: Iterable[Row], *, brief: Iterable[Row] | None = None) -> Table:
        """The rows as text, in their order. `brief`: those that an overview shows, in its order."""
        kept = tuple(typed)
        rows = Rows[Row](map(self.cells, kept))
        rows.sheet, rows.typed = self, kept
        rows.brief = None if brief is None else tuple(brief)
        return Table(self.title, self.columns, rows)

    def cells(self, row: Row) -> tuple[str, ...]:
        """The row as text."""
        picked = row[: self._first] if self._first else [row[place] for place in self._places] if self._places else row
        # Most are texts: a large cluster has half a million cells.
        return tuple(
            [value if type(value) is str else str(value) if type(value) is int else _cell(value) for value in picked]
        )


def _cell(value: Any) -> str:
    match value:
        case str():
            return str(value)
        case None:
            return "?"
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


class Gap(Value, frozen=True):
    """Something that could not be seen. No rule concludes anything from it."""

    source: str
    why: str
    hint: str = ""


class Subject(Value, frozen=True):
    """What the report is about."""

    kind: str
    namespace: str
    name: str


class ChangeTarget(Value, frozen=True):
    """What a change sets: the flag of one container of an object, from `old` (empty: not set) to `new`."""

    kind: str
    namespace: str
    name: str
    container: str
    flag: str
    old: str
    new: str


class Impact(Value, frozen=True):
    """One thing that a change brings with it. `code` is stable and listed in docs/changes.md."""

    code: str
    severity: Severity
    text: str


class Change(Value, frozen=True):
    """A change of the cluster, made or only planned: JSON patches (RFC 6902) of the whole object, there and back."""

    target: ChangeTarget
    patch: tuple[dict[str, Any], ...]
    revert_patch: tuple[dict[str, Any], ...]
    blast_radius: tuple[Impact, ...]


class Report(Value, frozen=True):
    """`findings` are ordered, the cause first; `verdict` is one line of at most 140 characters.

    `change` is there only in a report about one. `cache_age_s`, there only where something came from a watch cache, is
    how old that may have been, in seconds.
    """

    schema: str
    playbook: str
    cluster: str
    taken_at: str
    subject: Subject
    verdict: str
    severity: Severity
    findings: tuple[Finding, ...]
    tables: tuple[Table, ...] = ()
    gaps: tuple[Gap, ...] = ()
    change: Change | msgspec.UnsetType = msgspec.UNSET
    cache_age_s: int | msgspec.UnsetType = msgspec.UNSET

    def typed(self, row: type[Row]) -> list[Row]:
        """The rows of that type, in all tables; none in a report that was read back from JSON."""
        made = (getattr(table.rows, "typed", ()) for table in self.tables)
        return [candidate for rows in made for candidate in rows if isinstance(candidate, row)]


def worst(findings: tuple[Finding, ...]) -> Severity:
    """The highest severity among the findings; info when there is none."""
    return SEVERITIES[max((SEVERITIES.index(finding.severity) for finding in findings), default=0)]


def identity(report: Report, finding: Finding) -> str:
    """A stable name for "the same finding again": a hash of its structured facts, never of its prose."""
    facts = (report.cluster, msgspec.to_builtins(report.subject), finding.code, finding.scope.nodes)
    return hashlib.sha256(msgspec.json.encode(facts)).hexdigest()[:16]


def one_line(text: str, limit: int = VERDICT_LIMIT) -> str:
    """The text on one line of at most `limit` characters. An ellipsis stands for what is cut off: whole words, unless
    the line would lose a third by that, as it may in Chinese or with a long name.
    """
    line = " ".join(text.split())
    if len(line) <= limit:
        return line
    words = line[:limit].rpartition(" ")[0].rstrip(" ,;:(")
    return (words if len(words) > limit * 2 // 3 else line[: limit - 1].rstrip()) + "…"
