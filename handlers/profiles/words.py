"""What people write about profiles: `profile cpu 30s`, `profile kept`, `profile top cpu-1a2b3c4d`.

The same words in Slack and in a shell. What comes out is a request; nothing is read yet.
"""

import difflib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import click

from bot.changes.durations import read_duration
from bot.errors import UsageError
from playbooks.profile.request import KINDS, USUAL_S, Address, Kind, Request, read_target

VERB = "profile"
EXAMPLE = "profile cpu 30s"
SUMMARY = "Take a profile of HAMi's scheduler; table, flame graph, what stands out, and the file."
STUDIES = ("top", "list", "compare", "hints")
"""What is asked about profiles that are there already, with the options of go tool pprof."""
_KEPT = "kept"
_GRAMMAR = (
    "profile cpu [30s] | heap | allocs | goroutine | mutex | block | threadcreate [--target NAMESPACE/POD:PORT]: "
    "take one. With a time, kinds other than cpu tell what changes meanwhile. profile kept: list those that are kept. "
    "profile top | list FUNCTION | compare | hints: about profiles that are there already, each by its id, the time "
    "or the version that it was taken at, with the options of go tool pprof."
)


class Capture(NamedTuple):
    """To take one. `seconds` 0: what is so now; `target` None: HAMi's scheduler."""

    kind: Kind
    seconds: int
    target: Address | None

    def request(self, *, longest_s: int, limit_bytes: int, namespaces: tuple[str, ...] | None = None) -> Request:
        """What is read for it; `namespaces` as in `Request`. Raises UsageError for more seconds than that."""
        if self.seconds > longest_s:
            example = f"{VERB} {self.kind} {longest_s}s      (the limit is the setting profiles.longest_s)"
            raise UsageError(f"{self.seconds} s is too long: at most {longest_s} s", example=example)
        return Request(self.kind, self.seconds, self.target, limit_bytes, namespaces)


class ShowKept(NamedTuple):
    """To list those that are kept."""


class Study(NamedTuple):
    """To look at profiles that are there already; `words` begin with one of `STUDIES`."""

    words: tuple[str, ...]


class ProfileAsked(NamedTuple):
    """A request as typed, with the values of the surface's own options."""

    request: Capture | ShowKept | Study
    options: dict[str, Any]


class _Command(click.Command):
    """Leaves the words of a study alone: their options are Go's, with one dash and long names."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words = (*STUDIES, *KINDS, _KEPT)
        first = next((place for place, word in enumerate(args) if word.lower() in words), len(args))
        args = [word.lower() if place == first else word for place, word in enumerate(args)]
        start = next((place for place, word in enumerate(args) if word in STUDIES), None)
        if start is None:
            return super().parse_args(ctx, args)
        study = tuple(args[start:])
        rest = super().parse_args(ctx, args[:start])
        if ctx.params["words"]:
            raise UsageError(f"{study[0]!r} comes first", example=f"{VERB} {study[0]} cpu-1a2b3c4d")
        ctx.params["words"] = study
        return rest


def profile_command(
    program: str, options: Callable[[], Sequence[click.Parameter]], *, help_text: str = ""
) -> click.Command:
    """The verb for a grammar; `program` is what stands before it in examples, `options` the surface's own."""

    def ask(words: Sequence[str], target: str, **values: Any) -> ProfileAsked:
        return ProfileAsked(read_profile(program, words, target), values)

    target = click.Option(["--target"], default="", metavar="NAMESPACE/POD:PORT", help="Another Go program.")
    return _Command(
        VERB,
        callback=ask,
        params=[click.Argument(["words"], nargs=-1, metavar="[WORDS]…"), target, *options()],
        help="\n\n".join(filter(None, (SUMMARY, _GRAMMAR, help_text))),
        short_help=SUMMARY,
        epilog=f"Example: {program} {EXAMPLE}",
    )


def read_profile(program: str, words: Sequence[str], target: str = "") -> Capture | ShowKept | Study:
    """What the words after the verb ask for. Raises UsageError, whose hint is an example."""
    example = f"{program} {EXAMPLE}"
    match list(words):
        case []:
            raise UsageError(
                f"name a kind of profile: {', '.join(KINDS)}; or {_KEPT}, {', '.join(STUDIES)}", example=example
            )
        case ["kept"]:
            return ShowKept()
        case [study, *_] if study in STUDIES:
            return Study(tuple(words))
        case [kind, *rest] if kind in KINDS:
            place = read_target(target) if target else None
            return Capture(kind, _seconds(kind, rest, example), place)
        case [word, *_]:
            near = difflib.get_close_matches(word, [*KINDS, *STUDIES, _KEPT], n=1)
            meant = f"; did you mean {near[0]!r}?" if near else f": there are {', '.join(KINDS)}"
            raise UsageError(f"there is no profile {word!r}{meant}", example=example)
        case _:  # pragma: no cover  # words are a list
            raise AssertionError(words)


def _seconds(kind: Kind, words: list[str], example: str) -> int:
    told = [word for word in words if word != "for"]
    if not told:
        return USUAL_S if kind == "cpu" else 0
    seconds = read_duration(f"{told[0]}s" if told[0].isdecimal() else told[0])
    if len(told) > 1 or seconds is None:
        raise UsageError(f"{' '.join(words)!r} is no length of time: write 30s or 2m", example=example)
    if seconds < 1:
        raise UsageError("it takes at least a second", example=example)
    return int(seconds)
