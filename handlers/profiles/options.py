"""The words behind `hami-bot profile top`, `list`, `compare` and `hints`: options are Go's flags, on every surface."""

import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from bot.errors import UsageError

PROGRAM = "hami-bot"
EXAMPLE = f"{PROGRAM} profile top --cum cpu.pb.gz      More: {PROGRAM} profile --help"
_BASES = ("base", "diff_base")
FILTERS = ("focus", "ignore", "hide", "show", "show_from", "tagfocus", "tagignore")
_SWITCHES = ("cum", "flat", "lines", "functions", "noinlines", "relative_percentages", "normalize", "drop_negative")
_TRUTHS = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}


class Words(NamedTuple):
    """The command as typed: what is no option, and pprof's options by their names."""

    plain: list[str]
    options: dict[str, Any]


def profiles_named(study: str, asked: Words) -> list[str]:
    """The words that name a profile: neither the function of `list` nor the value of any other option does."""
    plain = asked.plain[1:] if study == "list" else asked.plain
    return [*plain, *(asked.options[one] for one in _BASES if asked.options.get(one))]


def with_paths(study: str, asked: Words, paths: Mapping[str, str]) -> Words:
    """The same words with the path of a file in the place of each profile's name that has one."""
    kept = 1 if study == "list" else 0
    plain = [*asked.plain[:kept], *(paths.get(one, one) for one in asked.plain[kept:])]
    bases = {one: paths.get(asked.options[one], asked.options[one]) for one in _BASES if one in asked.options}
    return Words(plain, {**asked.options, **bases})


def read_words(words: Sequence[str]) -> Words:
    """Options as Go's flags are read, anywhere among the words. Raises UsageError."""
    options: dict[str, Any] = {}
    plain: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            plain += rest
            break
        if not word.startswith("-") or word == "-":
            plain.append(word)
            continue
        name, equals, value = word.removeprefix("-").removeprefix("-").partition("=")
        if name in _SWITCHES:
            options[name] = _truth(name, value) if equals else True
            continue
        if name not in _VALUES:
            raise _unknown(word)
        if not equals:
            if not rest:
                raise UsageError(f"option -{name} needs a value", example=EXAMPLE)
            value = rest.pop(0)
        options[name] = _VALUES[name](name, value)
    _check(options)
    return Words(plain, options)


def _check(options: dict[str, Any]) -> None:
    if options.get("cum") and options.get("flat"):
        raise UsageError("conflicting options set: [cum flat]", example=EXAMPLE)
    if options.get("lines") and options.get("functions"):
        raise UsageError("conflicting options set: [lines functions]", example=EXAMPLE)
    if options.get("base") and options.get("diff_base"):
        raise UsageError("-base and -diff_base flags cannot both be specified", example=EXAMPLE)
    if options.get("normalize") and not (options.get("base") or options.get("diff_base")):
        raise UsageError("must have base profile to normalize by", hint="Add -diff_base FILE or -base FILE.")


def _unknown(word: str) -> UsageError:
    name = word.lstrip("-").partition("=")[0]
    near = difflib.get_close_matches(name, [*_SWITCHES, *_VALUES], n=1)
    message = f"there is no option {word!r}"
    return UsageError(message, hint=f"Did you mean -{near[0]}?") if near else UsageError(message, example=EXAMPLE)


def _truth(name: str, value: str) -> bool:
    if value not in _TRUTHS:
        raise UsageError(f"-{name}={value} is neither true nor false", example=EXAMPLE)
    return _TRUTHS[value]


def _text(name: str, value: str) -> str:  # noqa: ARG001  # one shape for all
    return value


def _language(name: str, value: str) -> str:
    from bot.texts import LANGUAGES  # noqa: PLC0415  # tables need no texts

    if value not in LANGUAGES:
        raise UsageError(f"-{name} {value!r} is none of {', '.join(LANGUAGES)}", example=EXAMPLE)
    return value


def _count(name: str, value: str) -> int:
    try:
        return int(value)
    except ValueError as error:
        raise UsageError(f"-{name} {value!r} is not a whole number", example="-nodecount=10") from error


def _fraction(name: str, value: str) -> float:
    try:
        fraction = float(value)
    except ValueError as error:
        raise UsageError(f"-{name} {value!r} is not a number", example="-nodefraction=0.01") from error
    if not 0 <= fraction <= 1:
        raise UsageError(f"-{name} {value} is not between 0 and 1", example="-nodefraction=0.01")
    return fraction


_VALUES: dict[str, Callable[[str, str], Any]] = {
    **dict.fromkeys((*FILTERS, *_BASES, "sample_index", "unit", "source", "versions"), _text),
    "lang": _language,
    "nodecount": _count,
    "nodefraction": _fraction,
}
