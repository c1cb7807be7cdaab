"""The id of one cause, such as a request of a person, in every log line and call to an API server that comes of it."""

import zlib
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

FIELD = "request_id"
"""What log lines call it."""
_ID: ContextVar[str] = ContextVar(FIELD, default="")


def begin(key: str) -> None:
    """From here on the current task, and what it starts, is about this key, such as Slack's id of a delivery.

    The id is made of the key, so that another replica, or this one after a restart, goes on under the same.
    """
    _ID.set(_id_of(key))


@contextmanager
def about(key: str) -> Generator[None]:
    """What happens inside is about this key, unless it belongs to something larger already."""
    token = _ID.set(_ID.get() or _id_of(key))
    try:
        yield
    finally:
        _ID.reset(token)


def request_id() -> str:
    """The id, of 8 hexadecimal digits; empty for what is done all day long, such as a watch."""
    return _ID.get()


def _id_of(key: str) -> str:
    return f"{zlib.crc32(key.encode(errors='replace')):08x}"
