"""What people write to change something for a while: `verbosity 5 for 10m because …`, `profiling off`.

The same words in Slack and in a shell. What comes out is a request and changes nothing by itself.
"""

import difflib
import re
import shlex
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import click

from bot.changes.durations import format_duration, read_duration
from bot.changes.flags import PROFILING, VERBOSITY, Flag
from bot.changes.plan import USUAL_S
from bot.errors import UsageError
from bot.hami.install import EXTENDER_CONTAINER, KUBE_SCHEDULER_CONTAINER
from handlers.changes.reason import ReasonedCommand

Verb = Literal["verbosity", "profiling"]
FLAGS: dict[Verb, Flag] = {"verbosity": VERBOSITY, "profiling": PROFILING}
EXAMPLES: dict[Verb, str] = {
    "verbosity": "verbosity 5 for 10m because ml/trainer-0 is refused",
    "profiling": "profiling on for 15m because filter runs are slow",
}
SUMMARIES: dict[Verb, str] = {
    "verbosity": "Show how much the scheduler logs; raise it for a while, after which it is put back.",
    "profiling": "Show whether the scheduler serves profiles; switch that on for a while.",
}
_CONTAINERS = {"extender": EXTENDER_CONTAINER, "kube-scheduler": KUBE_SCHEDULER_CONTAINER}
_UNITS = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), "m"),
    **dict.fromkeys(("h", "hour", "hours"), "h"),
}
_KEYWORDS = ("for", "because", "until-captured")
_WORDS = (*_KEYWORDS, "extend", "revert", "on", "off")


class Show(NamedTuple):
    """What is set now, and what is open."""

    verb: Verb


class Raise(NamedTuple):
    """To set the flag of `container` to `value` for `seconds`. `until_captured`: `namespace/name` of a pod, or empty.

    With `dry_run` nothing is written: only what would be done is told.
    """

    verb: Verb
    value: str
    container: str
    seconds: float
    because: str = ""
    until_captured: str = ""
    dry_run: bool = False


class Extend(NamedTuple):
    """To let the open change last `seconds` longer: they are added to its deadline."""

    verb: Verb
    seconds: float


class Revert(NamedTuple):
    """To undo the open change now."""

    verb: Verb


Request = Show | Raise | Extend | Revert


class ChangeAsked(NamedTuple):
    """A request as typed, with the values of the surface's own options."""

    request: Request
    options: dict[str, Any]


def change_commands(program: str, options: Callable[[], Sequence[click.Parameter]]) -> list[click.Command]:
    """The verbs for a grammar; `program` is what stands before them in examples, `options` the surface's own."""

    def command(verb: Verb) -> click.Command:
        def ask(words: Sequence[str], *, dry_run: bool, **values: Any) -> ChangeAsked:
            options = {"container": values.pop("container", None) or "", "until": values.pop("until_captured", "")}
            return ChangeAsked(read_change(program, verb, words, dry_run=dry_run, **options), values)

        return ReasonedCommand(
            verb,
            callback=ask,
            params=[*_parameters(verb), *options()],
            help=f"{SUMMARIES[verb]}\n\n{_GRAMMAR[verb]}",
            short_help=SUMMARIES[verb],
            epilog=f"Example: {program} {EXAMPLES[verb]}",
        )

    return [command(verb) for verb in FLAGS]


def read_change(
    program: str, verb: Verb, words: Sequence[str], *, dry_run: bool = False, container: str = "", until: str = ""
) -> Request:
    """What the words after the verb ask for. Raises UsageError, whose hint is an example."""
    try:
        request = _read(
            verb, _with_units(_small(words)), dry_run=dry_run, container=container or "extender", until=until
        )
        _check_options(request, given=dry_run or bool(container or until))
    except _WrongError as error:
        raise UsageError(str(error), example=f"{program} {error.example or EXAMPLES[verb]}") from error
    return request


def _check_options(request: Request, *, given: bool) -> None:
    """Nobody who says --dry-run means a revert that is done."""
    if given and not isinstance(request, Raise):
        raise _WrongError("--dry-run, --container and --until-captured go with raising it")


def words_of(request: Raise) -> str:
    """The words that ask for it again, to be done."""
    words: list[str] = [request.verb, "on" if request.verb == "profiling" else request.value]
    words += ["for", format_duration(request.seconds)]
    words += ["until-captured", request.until_captured] if request.until_captured else []
    words += ["--container", "kube-scheduler"] if request.container == KUBE_SCHEDULER_CONTAINER else []
    return shlex.join([*words, *(["because", *request.because.split()] if request.because else [])])


class _WrongError(UsageError):
    def __init__(self, message: str, example: str = "") -> None:
        super().__init__(message)
        self.example = example


def _read(verb: Verb, words: list[str], *, dry_run: bool, container: str, until: str) -> Request:
    match verb, words:
        case _, []:
            return Show(verb)
        case ("verbosity", ["revert"]) | ("profiling", ["off"]):
            return Revert(verb)
        case _, ["extend", duration]:
            return Extend(verb, _duration(duration))
        case _, ["extend", *_]:
            raise _WrongError("extend needs one length of time, which is added to the deadline", f"{verb} extend 10m")
        case "profiling", ["on", *rest]:
            value = "true"
        case "verbosity", [level, *rest] if level.isascii() and level.isdigit():
            value = str(int(level))
        case _, [word, *_]:
            raise _not_understood(verb, word)
        case _:  # pragma: no cover  # words are a list
            raise AssertionError(words)
    told = _clauses(verb, rest)
    pod = until or told.get("until-captured", "")
    if pod and not re.fullmatch(r"[^/\s]+/[^/\s]+", pod):
        raise _WrongError(f"{pod!r} is not NAMESPACE/POD", f"{verb} {words[0]} until-captured ml/trainer-0")
    seconds = _duration(told["for"]) if "for" in told else float(USUAL_S)
    return Raise(verb, value, _CONTAINERS[container], seconds, told.get("because", ""), pod, dry_run)


def _clauses(verb: Verb, words: list[str]) -> dict[str, str]:
    """What follows the keywords; all after `because` is the reason."""
    told: dict[str, str] = {}
    while words:
        keyword, *words = words
        if keyword not in _KEYWORDS:
            raise _not_understood(verb, keyword)
        if keyword in told:
            raise _WrongError(f"{keyword!r} stands there twice")
        if not words:
            raise _WrongError(f"nothing follows {keyword!r}")
        if keyword == "because":
            told[keyword], words = " ".join(words), []
        else:
            told[keyword], *words = words
    return told


def _small(words: Sequence[str]) -> list[str]:
    """The words with those of the grammar in lower case; a reason stays as it is."""
    read: list[str] = []
    for at, word in enumerate(words):
        read.append(word.lower() if word.lower() in _WORDS else word)
        if read[-1] == "because":
            return [*read, *words[at + 1 :]]
    return read


def _with_units(words: Sequence[str]) -> list[str]:
    """`for 10 minutes` as `for 10m`; a reason stays as it is."""
    joined: list[str] = []
    for at, word in enumerate(words):
        if word == "because":
            return [*joined, *words[at:]]
        unit = _UNITS.get(word.lower())
        if unit and joined[-2:-1] in (["for"], ["extend"]) and joined[-1].isascii() and joined[-1].isdigit():
            joined[-1] += unit
        else:
            joined.append(word)
    return joined


def _duration(text: str) -> float:
    seconds = read_duration(text)
    if seconds is None:
        raise _WrongError(f"{text!r} is no length of time: write 90s, 10m, 1h30m or 2h")
    return seconds


def _not_understood(verb: Verb, word: str) -> _WrongError:
    known = {"verbosity": ("revert", "extend"), "profiling": ("on", "off", "extend")}[verb]
    near = difflib.get_close_matches(word, (*known, *_KEYWORDS), n=1)
    meant = f"; did you mean {near[0]!r}?" if near else ""
    if read_duration(word) is not None:
        meant = f"; did you mean 'for {word}'?"
    example = {"revert": "verbosity revert", "extend": f"{verb} extend 10m", "off": "profiling off"}
    return _WrongError(f"{word!r} is not understood{meant}", example.get(near[0], "") if near else "")


_GRAMMAR: dict[Verb, str] = {
    "verbosity": "verbosity [LEVEL [for 10m] [until-captured NAMESPACE/POD] [because TEXT]], verbosity revert, "
    "verbosity extend 10m (added to its deadline). Without words: what is set now and what is open.",
    "profiling": "profiling [on [for 15m] [because TEXT]], profiling off, profiling extend 10m (added to its "
    "deadline). Without words: what is set now and what is open.",
}


def _parameters(verb: Verb) -> list[click.Parameter]:
    words = click.Argument(["words"], nargs=-1, metavar="[WORDS]…")
    dry_run = click.Option(["--dry-run"], is_flag=True, help="Write nothing; show the patches and what they bring.")
    if verb == "profiling":
        return [words, dry_run]
    container = click.Option(
        ["--container"], type=click.Choice(list(_CONTAINERS)), help="Whose log; the extender's by default."
    )
    until = click.Option(
        ["--until-captured"], default="", metavar="NAMESPACE/POD", help="End it once the pod's lines are captured."
    )
    return [words, container, until, dry_run]
