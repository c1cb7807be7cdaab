"""Lines of tables as evidence: each with the command that prints it again."""

import shlex
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from bot.pprof.filters import Filters
from bot.pprof.graph import Trim
from bot.pprof.profile import Profile
from bot.pprof.top import Options, TopRow, listing, prepared
from bot.report import Evidence, Sheet, Table
from bot.texts import Prose

PROGRAM = "hami-bot"
_LONGEST_NAME = 60
_LONGEST = 600
"""Of a line: a name may have a megabyte."""
_SECOND_NS = 1_000_000_000
_EVERY = Trim(cum=True, nodefraction=0.0)


_TOP_NAMES = {"flat_share": "flat%", "sum_share": "sum%", "cum_share": "cum%"}


class SourcedProfile(NamedTuple):
    """A profile and where it comes from.

    `profile` is as `decode.read` gives it. `file` is what a command can name: a path, or the id of a kept profile.
    `object` is what the evidence is about: a pod, or the file's name.
    """

    profile: Profile
    file: str
    object: str

    def ready(self) -> "SourcedProfile":
        """The same with a profile of its own that is prepared: the one that was given stays as it is."""
        return self._replace(profile=prepared(self.profile.copy()))


def top_table(title: Prose, rows: Iterable[TopRow]) -> Table:
    """Lines of `top` as a table of a report."""
    valid = (TopRow(*map(printable, row)) for row in rows)
    words, heading = (title, None) if isinstance(title, str) else ("", title)
    return Sheet(words, TopRow, names=_TOP_NAMES, fields=TopRow._fields[:-1], heading=heading).table(valid)


def question(*words: str) -> str:
    """One of ours, as a next action names it: `profile list …`."""
    return printable(shlex.join(["profile", *words]))


def printable(text: str) -> str:
    """What a file holds that is no UTF-8, escaped: a report is valid text."""
    return text.encode("utf-8", "backslashreplace").decode()


def short_name(function: str) -> str:
    """`scheduler.(*Scheduler).Filter` of the whole path, and generics without their types: for a sentence."""
    name = _without_types(function)
    package, bracket, method = name.partition("(")
    name = f"{package.rpartition('/')[2]}{bracket}{method}"
    return printable(name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…")


def _without_types(function: str) -> str:
    opening, closing = function.find("["), function.rfind("]")
    return f"{function[:opening]}[…]{function[closing + 1 :]}" if 0 <= opening < closing else function


def headline(taken: SourcedProfile, kind: str) -> Evidence:
    """The line that tells how much there is at all, and for how long it was measured."""
    found = listing(taken.profile.copy(), Options(sample_index=kind, trim=Trim(nodecount=1)))
    return _evidence(
        taken, found.duration or found.summary, ["top", f"-sample_index={kind}", "-nodecount=1", taken.file]
    )


def focused(
    taken: SourcedProfile,
    kind: str,
    pattern: str,
    wanted: Callable[[str], bool],
    *,
    ignore: str = "",
    rows: int = 2,
    callers: Sequence[str] = (),
) -> list[Evidence]:
    """The line of what all samples with a match of `pattern` add up to; the first rows `wanted`; those of `callers`.

    The profile is prepared. The pattern is anchored at the beginning of a name.
    """
    focus = f"^({pattern})"
    filters = Filters(focus=focus, ignore=f"^({ignore})" if ignore else "")
    found = listing(taken.profile.copy(), Options(sample_index=kind, trim=_EVERY, filters=filters))
    words = ["top", f"-sample_index={kind}", "-cum", "-nodefraction=0", *(f"-{option}" for option in filters.active())]
    chosen = [row for row in found.rows if wanted(row.name)][:rows]
    chosen += [row for row in found.rows if row.name in callers and row not in chosen]
    return [_evidence(taken, line, [*words, taken.file]) for line in (found.summary, *map(str, chosen))]


def _evidence(taken: SourcedProfile, line: str, words: Sequence[str]) -> Evidence:
    quote, at = printable(line[:_LONGEST]), _at(taken.profile.time_nanos)
    return Evidence(source="profile", object=taken.object, at=at, quote=quote, command=f"{PROGRAM} {question(*words)}")


def _at(nanoseconds: int) -> str | None:
    try:
        moment = datetime.fromtimestamp(nanoseconds // _SECOND_NS, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return moment.replace(tzinfo=None).isoformat() + "Z" if nanoseconds > 0 else None
