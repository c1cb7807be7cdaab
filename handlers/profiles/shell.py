"""`hami-bot profile …` for profiles in files: what `go tool pprof -top` prints, with its options; lists; comparisons.

The options are Go's flags (`-cum`, `--cum`, `-nodecount=10`, `--nodecount 10`). Nothing is imported here that the shell
needs for other verbs: a small table takes 0.1 s of processor time instead of 0.3 s, `go tool pprof` 0.3 s.
"""

import os.path
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bot.errors import BotError, bugs_as_errors
from handlers.profiles.answers_in_files import PROGRAM, SUFFIX, answer_to, profiles_named, read_words

if TYPE_CHECKING:  # it takes as long to import as a small table to make; below paths are texts
    from pathlib import Path

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
_INTERRUPTED = 130


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
    missing = [path for path in named if not (os.path.exists(path) or os.path.isfile(f"{path}{SUFFIX}"))]  # noqa: PTH110, PTH113
    if not missing:
        return answer_to(words[0], asked, config)
    from handlers.profiles.kept import answer_beside_the_bot  # noqa: PLC0415  # few ask for those

    return answer_beside_the_bot(words[0], asked, missing, config)


def answer(words: Sequence[str], config: "Path | None" = None) -> str:
    """The text for the words behind `profile`; `config` as in `main`, for its language. Raises what they are wrong in:
    UsageError and SourceError.
    """
    return USAGE if wants_usage(words) else answer_to(words[0], read_words(words[1:]), config)


def wants_usage(words: Sequence[str]) -> bool:
    """Whether the words behind `profile` ask for help, or for nothing."""
    return not words or any(word in ("-h", "-help", "--help") for word in words)


def _print(text: str) -> None:
    """Names as the profile has them, whatever their encoding."""
    sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
    sys.stdout.buffer.flush()
