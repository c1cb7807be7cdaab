"""A file that holds a profile."""

from collections.abc import Callable
from typing import Any

from bot.errors import SourceError

_MAX_FILE = 256 << 20


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
