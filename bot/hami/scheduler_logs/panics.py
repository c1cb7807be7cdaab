"""Panics in the logs of HAMi's Go programs.

net/http recovers from a panic inside a request (`http2: panic serving`): the process runs on and kube-scheduler sees a
broken connection. Any other panic, and a `fatal error`, ends the process with exit code 2.
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple

_SERVING = re.compile(r"(?:(\d{4}/\d\d/\d\d \d\d:\d\d:\d\d)(?:\.\d+)? )?http2?: panic serving \S+: (.+)")
_ENDED = re.compile(r"(?:panic|fatal error): .+")
EXIT_CODE = 2
"""Of a Go program that a panic ended."""
_BROKE_OFF = re.compile(r"INTERNAL_ERROR|\bEOF\b")
_NOBODY = re.compile(r"connection refused")
_REFUSED = re.compile(r"extender at URL \S+, code 4\d\d\b|\bunexpected EOF\b")
_FAILED = re.compile(r"\bcode 5\d\d\b")


class Panic(NamedTuple):
    """A line that tells of a panic. `what` is what went wrong; `at` None where the line carries no time."""

    raw: str
    what: str
    at: datetime | None


def broke_off(message: str) -> bool:
    """Whether kube-scheduler prints that an answer ended in the middle: a panic, by HTTP/2 and by HTTP/1."""
    return bool(_BROKE_OFF.search(message))


def found_nobody(message: str) -> bool:
    """Whether kube-scheduler prints that no process listened: one that a panic ended, not one that runs on."""
    return bool(_NOBODY.search(message))


def may_be_panic(message: str) -> bool:
    """Whether kube-scheduler prints of a call what a panic, or the end of a process by one, can be the cause of."""
    return broke_off(message) or found_nobody(message) or bool(_FAILED.search(message))


def may_be_refused_request(message: str) -> bool:
    """Whether kube-scheduler prints of a call what an extender that could not read its request may answer."""
    return bool(_REFUSED.search(message))


def read_panics(lines: Iterable[str]) -> list[Panic]:
    """The panics, in the order of the lines; of a stack, which names `panic(` too, only the line that heads it."""
    return [found for line in lines if (found := _read(line.rstrip("\n"))) is not None]


def _read(line: str) -> Panic | None:
    if found := _SERVING.search(line):
        at = datetime.strptime(found[1], "%Y/%m/%d %H:%M:%S").replace(tzinfo=UTC) if found[1] else None
        return Panic(line, found[2], at)
    return Panic(line, line, None) if _ENDED.match(line) else None
