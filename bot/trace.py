"""The id of one request of a person, in every log line that it causes, in threads and calls to API servers as well."""

import zlib
from contextvars import ContextVar

FIELD = "request_id"
"""What log lines call it."""
_ID: ContextVar[str] = ContextVar(FIELD, default="")


def begin(key: str) -> None:
    """From here on the current task, and what it starts, is about this key, which is Slack's id of a delivery.

    The id is made of the key, so that another replica, or this one after a restart, goes on under the same.
    """
    _ID.set(f"{zlib.crc32(key.encode(errors='replace')):08x}")


def request_id() -> str:
    """The id, of 8 hexadecimal digits; empty for what no person asked for."""
    return _ID.get()
