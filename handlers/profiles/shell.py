"""`hami-bot profile …` for profiles in files: the output of `go tool pprof -top`, with its options; lists; comparisons.

The options are Go's flags (`-cum`, `--cum`, `-nodecount=10`, `--nodecount 10`). Modules that the shell needs for other
verbs are not imported: a small table takes 0.1 s of processor time instead of 0.3 s, `go tool pprof` 0.3 s.
"""

import contextlib
import os.path
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bot.errors import BotError, bugs_as_errors
from handlers.profiles.answers_in_files import PROGRAM, SUFFIX, profiles_named, read_words
from handlers.profiles.studies import answer_study

if TYPE_CHECKING:  # it takes as long to import as a small table to make; below paths are texts
    from pathlib import Path

    from bot.texts import Language

_INTERRUPTED = 130


def usage(language: "Language") -> str:
    """The text that `profile --help` prints."""
    from importlib.resources import files  # noqa: PLC0415  # for a table it takes too long

    return files("handlers.profiles").joinpath(f"usage.{language}.txt").read_text(encoding="utf-8")


def main(words: Sequence[str], config: "Path | None" = None) -> int:
    """Runs the words behind `profile`; returns the exit code. The table goes to stdout as bytes, errors to stderr. A
    name that is no file may be that of a kept profile, in the store of the settings file `config` (`load_settings`).
    """
    try:
        with bugs_as_errors():
            text = answer(words, config)  # names as the profile has them, whatever their encoding
            with contextlib.suppress(BrokenPipeError):  # whoever read our output has seen enough
                sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
                sys.stdout.buffer.flush()
    except BotError as error:
        sys.stderr.write(f"{PROGRAM}: {error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        return _INTERRUPTED
    return 0


def answer(words: Sequence[str], config: "Path | None" = None) -> str:
    """The text for the words behind `profile`; `config` as in `main`. Raises UsageError and SourceError."""
    if not words or any(word in ("-h", "-help", "--help") for word in words):
        from bot.texts import LANGUAGES  # noqa: PLC0415  # for a table it takes too long
        from handlers.cluster_choice import ClusterChoice, usual_language  # noqa: PLC0415

        given = " ".join(words).replace("=", " ")
        chosen: list[Language] = [language for language in LANGUAGES if f"-lang {language}" in given]
        return usage(chosen[0] if chosen else usual_language(ClusterChoice(config=config)))
    asked = read_words(words[1:])
    named = profiles_named(words[0], asked)
    missing = [path for path in named if not (os.path.exists(path) or os.path.isfile(f"{path}{SUFFIX}"))]  # noqa: PTH110, PTH113
    if not missing:
        return answer_study(words[0], asked, config)
    from handlers.profiles.kept import answer_beside_the_bot  # noqa: PLC0415  # few ask for those

    return answer_beside_the_bot(words[0], asked, missing, config)
