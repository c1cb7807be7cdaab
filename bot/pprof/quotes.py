"""Lines of tables as evidence: each with the command that prints it again."""

import re
import shlex
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from bot.pprof.filters import Filters
from bot.pprof.graph import Trim
from bot.pprof.profile import Profile
from bot.pprof.top import Options, prepared, table
from bot.report import Evidence

PROGRAM = "hami-bot"
_LONGEST_NAME = 60
_LONGEST = 600
"""Of a line: a name may have a megabyte."""
_ROW = re.compile(r" *\S+ +\S+% +\S+% +\S+ +\S+%  (.*)")
_HEADING = re.compile(r" +flat  flat%")
_SECOND_NS = 1_000_000_000
_EVERY = Trim(cum=True, nodefraction=0.0)


class Taken(NamedTuple):
    """A profile and where it comes from.

    `profile` is as `decode.read` gives it. `file` is what a command can name: a path, or the id of a kept profile.
    `object` is what the evidence is about: a pod, or the file's name.
    """

    profile: Profile
    file: str
    object: str

    def ready(self) -> "Taken":
        """The same with a profile of its own that is prepared: the one that was given stays as it is."""
        return self._replace(profile=prepared(self.profile.copy()))


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


def headline(taken: Taken, kind: str) -> Evidence:
    """The line that tells how much there is at all, and for how long it was measured."""
    text = table(taken.profile.copy(), Options(sample_index=kind, trim=Trim(nodecount=1)))
    wanted = [line for line in text.split("\n") if line.startswith(("Duration: ", "Showing nodes accounting for "))]
    return _evidence(taken, wanted[0], ["top", f"-sample_index={kind}", "-nodecount=1", taken.file])


def focused(
    taken: Taken,
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
    text = table(taken.profile.copy(), Options(sample_index=kind, trim=_EVERY, filters=filters))
    words = ["top", f"-sample_index={kind}", "-cum", "-nodefraction=0", *(f"-{one}" for one in filters.active())]
    summary, found = _lines(text)
    chosen = [line for line, name in found if wanted(name)][:rows]
    chosen += [line for line, name in found if name in callers and line not in chosen]
    return [_evidence(taken, line, [*words, taken.file]) for line in (*summary, *chosen)]


def _lines(text: str) -> tuple[list[str], list[tuple[str, str]]]:
    lines = text.split("\n")
    heading = next(i for i, line in enumerate(lines) if _HEADING.match(line))
    summary = [line for line in lines[:heading] if line.startswith("Showing nodes accounting for ")]
    found = [(line, row[1]) for line in lines[heading + 1 :] if (row := _ROW.match(line))]
    return summary[-1:], [(line, re.sub(r" \((partial-)?inline\)$", "", name)) for line, name in found]


def _evidence(taken: Taken, line: str, words: Sequence[str]) -> Evidence:
    quote, at = printable(line[:_LONGEST]), _at(taken.profile.time_nanos)
    return Evidence(source="profile", object=taken.object, at=at, quote=quote, command=f"{PROGRAM} {question(*words)}")


def _at(nanoseconds: int) -> str | None:
    try:
        moment = datetime.fromtimestamp(nanoseconds // _SECOND_NS, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return moment.replace(tzinfo=None).isoformat() + "Z" if nanoseconds > 0 else None
