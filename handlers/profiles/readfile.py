"""A file that holds a profile."""

from collections.abc import Callable
from typing import Any

from bot.errors import SourceError, of_system
from bot.texts import Text

_MAX_FILE = 256 << 20


def read_file(path: str, read: Callable[[bytes], Any]) -> Any:
    """What `read` makes of the file, whose name goes into every SourceError."""
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
    try:
        return read(data)
    except SourceError as error:
        raise SourceError(Text("error.at", place=path, why=error.message), hint=error.hint) from error
