"""The words behind `profile top`, `list`, `compare` and `hints`, with Go's flags as options, and files of profiles."""

import difflib
import os.path
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from bot.errors import SourceError, UsageError, of_system
from bot.texts import LANGUAGES, Text
from handlers.parsing.click_words import what_click_says

if TYPE_CHECKING:
    from bot.pprof.profile import Profile


PROGRAM = "hami-bot"
_MORE = f"      More: {PROGRAM} profile --help"
EXAMPLE = f"{PROGRAM} profile top --cum cpu.pb.gz{_MORE}"
LIST_EXAMPLE = f"{PROGRAM} profile list Filter cpu.pb.gz{_MORE}"
COMPARE_EXAMPLE = f"{PROGRAM} profile compare before.pb.gz after.pb.gz{_MORE}"
HINTS_EXAMPLE = f"{PROGRAM} profile hints cpu.pb.gz{_MORE}"
_BASES = ("base", "diff_base")
FILTERS = ("focus", "ignore", "hide", "show", "show_from", "tagfocus", "tagignore")
_SWITCHES = ("cum", "lines", "noinlines", "relative_percentages", "normalize", "drop_negative")
_TEXTS = (*FILTERS, *_BASES, "sample_index", "unit", "source", "versions")
_COMMAND = click.Command(
    "profile",
    params=[
        click.Argument(["plain"], nargs=-1),
        *(click.Option([f"-{switch}", f"--{switch}"], is_flag=True, default=None) for switch in _SWITCHES),
        *(click.Option([f"-{text}", f"--{text}"]) for text in _TEXTS),
        click.Option(["-lang", "--lang"], type=click.Choice(LANGUAGES)),
        click.Option(["-nodecount", "--nodecount"], type=int),
        click.Option(["-nodefraction", "--nodefraction"], type=float),
    ],
    add_help_option=False,
)


class Words(NamedTuple):
    """A `profile` command as typed: the words that are no options, and pprof's options by their names."""

    plain: list[str]
    options: dict[str, Any]


def profiles_named(study: str, asked: Words) -> list[str]:
    """The words that name a profile: all but the function of `list`, and the values of `-base` and `-diff_base`."""
    plain = asked.plain[1:] if study == "list" else asked.plain
    return [*plain, *(asked.options[base] for base in _BASES if asked.options.get(base))]


def read_words(words: Sequence[str]) -> Words:
    """Reads the words of a command, with options anywhere among them, as Go's flags are read. Raises UsageError."""
    try:
        given = _COMMAND.make_context(PROGRAM, [given for word in words for given in _switched(word)]).params
    except click.NoSuchOption as error:  # of `-nodecont=5` click names `-n`
        known = [str(option.name) for option in _COMMAND.params if isinstance(option, click.Option)]
        names = {word: word.lstrip("-").partition("=")[0] for word in words if word.startswith("-")}
        unknown = ((word, name) for word, name in names.items() if name not in known)
        word, name = next(unknown, (error.option_name, error.option_name.lstrip("-")))
        message, near = Text("error-command.no-option", option=repr(word)), difflib.get_close_matches(name, known, n=1)
        if near:
            raise UsageError(message, hint=Text("error-profile.did-you-mean-option", near=near[0])) from error
        raise UsageError(message, example=EXAMPLE) from error
    except click.UsageError as error:
        raise UsageError(what_click_says(error), example=EXAMPLE) from error
    options = {name: value for name, value in given.items() if value is not None}
    plain = list(options.pop("plain"))
    if not 0 <= options.get("nodefraction", 0) <= 1:
        raise UsageError(Text("error-profile.nodefraction"), example="-nodefraction=0.01")
    if options.get("base") and options.get("diff_base"):
        raise UsageError(Text("error-profile.base-and-diff-base"), example=EXAMPLE)
    if options.get("normalize") and not (options.get("base") or options.get("diff_base")):
        hint = Text("error-profile.add-diff-base")
        raise UsageError(Text("error-profile.must-have-base-profile-normalize"), hint=hint)
    return Words(plain, options)


def _switched(word: str) -> list[str]:
    """`-cum=true` as `-cum`, and nothing for `-cum=false`: Go's flags take a value, click's do not."""
    name, _, value = word.partition("=")
    if name.lstrip("-") not in _SWITCHES or value not in ("true", "false"):
        return [word]
    return [name] if value == "true" else []


_MAX_FILE, _MAX_UNPACKED = 256 << 20, 32 << 20
SUFFIX = ".pb.gz"
"""The suffix of a profile that `--out` saves; without it, the file's name is the name of the profile."""


Load = Callable[[str], tuple["Profile", str]]
"""Loads a profile by its name, with the name for it in commands: its path, or a kept one's id. Raises SourceError."""


def load_file(path: str) -> tuple["Profile", str]:
    """The profile in a file, and the file's path. Raises SourceError."""
    path = f"{path}{SUFFIX}" if os.path.isfile(f"{path}{SUFFIX}") else path  # noqa: PTH113
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            data = file.read(_MAX_FILE + 1)
    except OSError as error:
        raise SourceError(
            Text("error-profile.cannot-read", path=path, why=of_system(error)),
            hint=Text("error-profile.is-the-path-right"),
        ) from error
    if len(data) > _MAX_FILE:
        raise SourceError(
            Text("error-profile.larger-than-mib", path=path, most=_MAX_FILE >> 20),
            hint=Text("error-profile.read-with-go-tool-pprof"),
        )
    return load(data, path, limit=_MAX_UNPACKED)


def load(data: bytes, name: str, *, limit: int = 0) -> tuple["Profile", str]:
    """The profile in these bytes, and `name`, which every SourceError has. `limit`: the most bytes, 0 for the usual."""
    from bot.pprof.decode import MAX_BYTES, read  # noqa: PLC0415  # protobuf; words that make no sense are told at once

    try:
        return read(data, limit=limit or MAX_BYTES), name
    except SourceError as error:
        raise SourceError(Text("error.at", place=name, why=error.message), hint=error.hint) from error
