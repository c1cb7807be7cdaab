"""Requests that HAMi's scheduler held back because its own client limits them (--kube-qps, --kube-burst), by its log.

The lines are client-go's (rest/request.go): structured since Kubernetes 1.32, a sentence before. A wait of over 1 s is
logged twice, by two loggers, with the same delay and URL: it is one request.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

NEEDLE = "client-side throttling"
_NEW = re.compile(
    r'delay="(?P<delay>[^"]+)" reason="client-side throttling[^"]*" verb="(?P<verb>\w+)" URL="(?P<url>[^"]+)"'
)
_OLD = re.compile(r"Waited for (?P<delay>\S+) due to client-side throttling.*request: (?P<verb>\w+):(?P<url>\S+)")
_PART = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s|µs|us|ns)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "µs": 1e-6, "us": 1e-6, "ns": 1e-9}
_FELT_S, _FELT_TOGETHER_S = 1.0, 60.0


class Wait(NamedTuple):
    """One request that was held back for so many seconds; `line` is the log's."""

    seconds: float
    verb: str
    url: str
    line: str


def read_waits(lines: Iterable[str]) -> list[Wait]:
    """The requests that these lines tell of, each once, in the log's order."""
    waits: dict[tuple[str, str], Wait] = {}
    for line in lines:
        if found := _NEW.search(line) or _OLD.search(line):
            delay, verb, url = found["delay"], found["verb"], found["url"]
            waits.setdefault((delay, url), Wait(_seconds(delay), verb, url, line))
    return list(waits.values())


def are_felt(waits: Sequence[Wait]) -> bool:
    """Whether pods are scheduled later for it: one waits for over a second, or all together for over a minute."""
    return any(wait.seconds > _FELT_S for wait in waits) or sum(wait.seconds for wait in waits) > _FELT_TOGETHER_S


def _seconds(duration: str) -> float:
    """Of a duration as Go's time.Duration prints it: `1m2.5s`, `338.85013ms`."""
    return sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(duration))
