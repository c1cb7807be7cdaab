"""`hami-bot profile …` for profiles in files: what `go tool pprof -top` prints, with its options; lists; comparisons.

It reads its own words: the options are Go's flags (`-cum`, `--cum`, `-nodecount=10`, `--nodecount 10`), and importing
click would take longer than the answer.
"""

import os.path
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from bot.bugs import bugs_as_errors
from bot.errors import BotError, SourceError, UsageError

if TYPE_CHECKING:  # it takes as long to import as a small table to make; below paths are texts
    from pathlib import Path

PROGRAM = "hami-bot"
USAGE = f"""Usage: {PROGRAM} profile top [OPTIONS] FILE
       {PROGRAM} profile list FUNCTION FILE
       {PROGRAM} profile compare BEFORE AFTER …
       {PROGRAM} profile hints FILE

  top: the text of go tool pprof -top for a profile in a file, gzipped or not.
  list: the weight of each line of the functions that a regular expression finds.
  compare: what changed beyond chance, between two profiles or over several versions.
  hints: what stands out, in words.
  FILE may also be a profile that the bot keeps: its id (cpu-1a2b3c4d), the version that it is of (v2.9.0), or the time
  that it was taken (14:05, 2026-11-21T14:05, in UTC). profile kept lists them.

Options of list:
  -source DIR               Print the source itself, from below this folder; else links to it.
  -versions LIST            Whose source the links lead to, where the profile does not say:
                            github.com/Project-HAMi/HAMi@v2.9.0,go@1.25.3

Options of top, with one dash or two; list, compare and hints take -sample_index, and the last two -lang en or zh:
  -cum                      Sort by cumulative weight; else by flat.
  -nodecount N              Show at most N rows; all by default.
  -nodefraction F           Leave out rows below this share of the total; 0.005 by default.
  -sample_index NAME        The sample type: its name or position; the profile's default by default.
  -unit UNIT                Write values in this unit; one that fits all rows by default.
  -diff_base FILE           Compare with this profile; percentages are of it.
  -base FILE                Subtract this profile.
  -normalize                Scale the profile to the total of its base.
  -focus REGEXP             Only samples that go through a matching function or file.
  -ignore REGEXP            No samples that go through a matching function or file.
  -hide REGEXP              Leave out matching functions.
  -show REGEXP              Leave out all other functions.
  -show_from REGEXP         Leave out the callers of the outermost matching function.
  -tagfocus TAGS            Only samples with a matching label: key=regexp, regexp, or a range: bytes=1mb:2mb.
  -tagignore TAGS           No samples with a matching label.
  -lines                    A row per line instead of per function.
  -noinlines                Count inlined functions for their callers.
  -relative_percentages     Percentages of what the filters leave.
  -drop_negative            Leave out rows below zero.

Example: {PROGRAM} profile top --cum --nodecount=20 cpu.pb.gz
"""
HINT = f"For example: {PROGRAM} profile top --cum cpu.pb.gz      More: {PROGRAM} profile --help"
_MAX_FILE = 256 << 20
_SUFFIX = ".pb.gz"
"""How `--out` saves a profile, which is then called by its name without it."""
_INTERRUPTED = 130
_BASES = ("base", "diff_base")
_FILTERS = ("focus", "ignore", "hide", "show", "show_from", "tagfocus", "tagignore")
_SWITCHES = ("cum", "flat", "lines", "functions", "noinlines", "relative_percentages", "normalize", "drop_negative")
_TRUTHS = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}


class Words(NamedTuple):
    """The command as typed: what is no option, and pprof's options by their names."""

    plain: list[str]
    options: dict[str, Any]


def main(words: Sequence[str], config: "Path | None" = None) -> int:
    """Do what stands behind `profile`; the exit code. The table goes to stdout as bytes, errors to stderr.

    A profile that is no file may be one that the bot keeps: `config` is the settings file that says where, as by
    `load_settings`.
    """
    try:
        with bugs_as_errors():
            _print(_answer_with_kept(words, config))
    except BotError as error:
        sys.stderr.write(f"{PROGRAM}: {error}\n")
        return error.exit_code
    except BrokenPipeError:  # whoever read our output has seen enough
        sys.stderr.close()
    except KeyboardInterrupt:
        return _INTERRUPTED
    return 0


def _answer_with_kept(words: Sequence[str], config: "Path | None") -> str:
    if wants_usage(words):
        return USAGE
    asked = read_words(words[1:])
    named = profiles_named(words[0], asked)
    saved = {one: f"{one}{_SUFFIX}" for one in named if os.path.isfile(f"{one}{_SUFFIX}")}  # noqa: PTH113
    asked = with_paths(words[0], asked, saved)
    missing = [one for one in named if one not in saved and not os.path.exists(one)]  # noqa: PTH110
    if not missing:
        return answer_to(words[0], asked, config)
    from handlers.profiles.kept_files import answer_beside_the_bot  # noqa: PLC0415  # few ask for those

    return answer_beside_the_bot(words[0], asked, missing, config)


def answer(words: Sequence[str], config: "Path | None" = None) -> str:
    """The text for the words behind `profile`; `config` as in `main`, for its language. Raises what they are wrong in:
    UsageError and SourceError.
    """
    return USAGE if wants_usage(words) else answer_to(words[0], read_words(words[1:]), config)


def wants_usage(words: Sequence[str]) -> bool:
    """Whether the words behind `profile` ask for help, or for nothing."""
    return not words or any(word in ("-h", "-help", "--help") for word in words)


def answer_to(study: str, asked: Words, config: "Path | None" = None) -> str:
    """As `answer`, for words that were read: `study` is `top`, `list`, `compare` or `hints`."""
    if study == "top":
        return top_text(asked)
    if study in ("list", "compare", "hints"):
        from handlers.profiles import more  # noqa: PLC0415

        if study == "list":
            return more.list_text(asked)
        told = more.compare_text if study == "compare" else more.hints_text
        return told(asked, more.texts(asked, config))
    raise UsageError(f"there is no profile command {study!r}", hint=HINT)


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
                raise UsageError(f"option -{name} needs a value", hint=HINT)
            value = rest.pop(0)
        options[name] = _VALUES[name](name, value)
    _check(options)
    return Words(plain, options)


def top_text(asked: Words) -> str:
    """The table. Raises SourceError for files that cannot be read, UsageError for options that do not fit them."""
    files, given = asked
    if len(files) != 1:
        raise UsageError("name one profile" + (f", not {len(files)}: {' '.join(files)}" if files else ""), hint=HINT)
    from bot.pprof.decode import read  # noqa: PLC0415  # protobuf; words that make no sense are told at once
    from bot.pprof.filters import Filters  # noqa: PLC0415
    from bot.pprof.graph import Trim  # noqa: PLC0415
    from bot.pprof.top import Options, top  # noqa: PLC0415

    trim = Trim(
        cum=given.get("cum", False),
        nodecount=given.get("nodecount", 0),
        nodefraction=given.get("nodefraction", Trim().nodefraction),
        lines=given.get("lines", False),
        inlines=not given.get("noinlines", False),
        drop_negative=given.get("drop_negative", False),
    )
    options = Options(
        sample_index=given.get("sample_index", ""),
        unit=given.get("unit") or Options().unit,
        relative_percentages=given.get("relative_percentages", False),
        normalize=given.get("normalize", False),
        trim=trim,
        filters=Filters(**{name: given[name] for name in _FILTERS if name in given}),
    )
    base = given.get("diff_base") or given.get("base")
    profiles = [read_file(path, read) for path in (files[0], base) if path]
    return top(*profiles, diff=bool(given.get("diff_base")), options=options)


def read_file(path: str, read: Callable[[bytes], Any]) -> Any:
    """What `read` makes of the file, whose name goes into every SourceError."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            data = file.read(_MAX_FILE + 1)
    except OSError as error:
        raise SourceError(f"cannot read {path}: {error.strerror}", hint="Is the path right?") from error
    if len(data) > _MAX_FILE:
        raise SourceError(f"{path} is larger than {_MAX_FILE >> 20} MiB", hint="Read it with go tool pprof.")
    try:
        return read(data)
    except SourceError as error:
        raise SourceError(f"{path}: {error.message}", hint=error.hint) from error


def _check(options: dict[str, Any]) -> None:
    if options.get("cum") and options.get("flat"):
        raise UsageError("conflicting options set: [cum flat]", hint=HINT)
    if options.get("lines") and options.get("functions"):
        raise UsageError("conflicting options set: [lines functions]", hint=HINT)
    if options.get("base") and options.get("diff_base"):
        raise UsageError("-base and -diff_base flags cannot both be specified", hint=HINT)
    if options.get("normalize") and not (options.get("base") or options.get("diff_base")):
        raise UsageError("must have base profile to normalize by", hint="Add -diff_base FILE or -base FILE.")


def _unknown(word: str) -> UsageError:
    import difflib  # noqa: PLC0415

    name = word.lstrip("-").partition("=")[0]
    near = difflib.get_close_matches(name, [*_SWITCHES, *_VALUES], n=1)
    return UsageError(f"there is no option {word!r}", hint=f"Did you mean -{near[0]}?" if near else HINT)


def _truth(name: str, value: str) -> bool:
    if value not in _TRUTHS:
        raise UsageError(f"-{name}={value} is neither true nor false", hint=HINT)
    return _TRUTHS[value]


def _text(name: str, value: str) -> str:  # noqa: ARG001  # one shape for all
    return value


def _language(name: str, value: str) -> str:
    from bot.texts import LANGUAGES  # noqa: PLC0415  # tables need no texts

    if value not in LANGUAGES:
        raise UsageError(f"-{name} {value!r} is none of {', '.join(LANGUAGES)}", hint=HINT)
    return value


def _count(name: str, value: str) -> int:
    try:
        return int(value)
    except ValueError as error:
        raise UsageError(f"-{name} {value!r} is not a whole number", hint="For example: -nodecount=10") from error


def _fraction(name: str, value: str) -> float:
    try:
        fraction = float(value)
    except ValueError as error:
        raise UsageError(f"-{name} {value!r} is not a number", hint="For example: -nodefraction=0.01") from error
    if not 0 <= fraction <= 1:
        raise UsageError(f"-{name} {value} is not between 0 and 1", hint="For example: -nodefraction=0.01")
    return fraction


_VALUES: dict[str, Callable[[str, str], Any]] = {
    **dict.fromkeys((*_FILTERS, *_BASES, "sample_index", "unit", "source", "versions"), _text),
    "lang": _language,
    "nodecount": _count,
    "nodefraction": _fraction,
}


def _print(text: str) -> None:
    """Names as the profile has them, whatever their encoding."""
    sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
    sys.stdout.buffer.flush()
