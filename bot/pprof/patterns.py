"""Regular expressions, in Go's own dialect (RE2): linear in the text, whoever wrote the pattern or the names."""

import re
from collections.abc import Callable
from typing import Any

import re2 as untyped

from bot.errors import UsageError
from bot.texts import Text

re2: Any = untyped

_MAX_MEMORY = 8 << 20  # of one compiled pattern: RE2 refuses what needs more

_META = re.compile(r"[\\.+*?()|\[\]{}^$]")

Match = Callable[[str], bool]


def matcher(pattern: str, what: str) -> Match:
    """Whether the pattern is found anywhere in a text. `what` names the option for the UsageError of a bad pattern."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_MEMORY
    try:
        search: Callable[[bytes], object] = re2.compile(_bytes(pattern), options=options).search
    except re2.error as error:
        raise UsageError(
            Text("error-pprof.parsing-regexp", option=what, why=_why(error), pattern=pattern),
            hint=Text("error-pprof.use-go-regexp"),
        ) from error
    known: dict[str, bool] = {}

    def match(text: str) -> bool:
        if (found := known.get(text)) is None:
            found = known[text] = search(_bytes(text)) is not None
        return found

    return match


def literally(text: str) -> str:
    """The pattern that finds this text and nothing else."""
    return _META.sub(r"\\\g<0>", text)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _why(error: Exception) -> str:
    reason = error.args[0] if error.args else ""
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
