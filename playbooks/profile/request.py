"""Reads which Go profile is to be taken, from words such as `cpu 30s` or `heap`."""

import hashlib
import re
from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

from bot.errors import UsageError
from bot.kube.cluster import Scheme
from bot.kube.times import read_duration
from bot.texts import Text

ProfileKind = Literal["cpu", "heap", "allocs", "goroutine", "goroutineleak"]
KINDS: tuple[ProfileKind, ...] = get_args(ProfileKind)
EXAMPLE = "profile cpu 30s"
USUAL_S = 30
"""The seconds of a CPU profile, as in Go; profiles of other kinds are of one moment unless a time is given."""
_TARGET = re.compile(r"(?:(https?)://)?([a-z0-9][a-z0-9.-]*)/([a-z0-9][a-z0-9.-]*):(\d{1,5})")
_TLS_PORTS = (443, 6443, 8443, 10250, 10257, 10259)


class PodPort(NamedTuple):
    """One port of one pod."""

    namespace: str
    pod: str
    scheme: Scheme
    port: int

    def __str__(self) -> str:
        return f"{self.scheme}://{self.namespace}/{self.pod}:{self.port}"


class Request(NamedTuple):
    """Which profile to take. `seconds`: how long; 0 for a snapshot. For other kinds than cpu, seconds mean the change
    meanwhile.

    `target` is None for HAMi's scheduler. `limit_bytes` is of the answer. `namespaces` are those besides HAMi's own of
    whose pods profiles may be taken; None if whoever asks reads with their own rights.
    """

    kind: ProfileKind
    seconds: int
    target: PodPort | None = None
    limit_bytes: int = 32 * 1024 * 1024
    namespaces: tuple[str, ...] | None = None

    def within(self, *, longest_s: int, limit_bytes: int, namespaces: tuple[str, ...] | None = None) -> "Request":
        """A copy of the request with the settings' limits. Raises UsageError for more seconds than `longest_s`."""
        if self.seconds > longest_s:
            example = f"profile {self.kind} {longest_s}s      (the limit is the setting profiles.longest_s)"
            raise UsageError(
                Text("error-profile.too-many-seconds", seconds=self.seconds, most=longest_s), example=example
            )
        return self._replace(limit_bytes=limit_bytes, namespaces=namespaces)


def request(words: Sequence[str], target: str = "") -> Request:
    """Reads the request from the words after the verb. Raises UsageError."""
    kind: ProfileKind | None = next((kind for kind in KINDS if list(words[:1]) == [kind]), None)
    if kind is None:
        raise UsageError(Text("error-profile.name-kind-profile", kinds=", ".join(KINDS)), example=EXAMPLE)
    return Request(kind, _seconds(kind, list(words[1:])), read_target(target) if target else None)


def read_target(text: str) -> PodPort:
    """Reads `namespace/pod:port`; https if the port usually is, unless `http://` stands before. Raises UsageError."""
    found = _TARGET.fullmatch(text)
    port = int(found[4]) if found else 0
    if not found or not 0 < port < 65536:
        example = "--target kube-system/hami-scheduler-0:10259, or http://ml/api-0:6060"
        raise UsageError(Text("error-profile.target-is-not-namespace-pod", text=repr(text)), example=example)
    usual: Scheme = "https" if port in _TLS_PORTS else "http"
    given: dict[str | None, Scheme] = {"http": "http", "https": "https"}
    return PodPort(found[2], found[3], given.get(found[1], usual), port)


def _seconds(kind: ProfileKind, words: list[str]) -> int:
    given = [word for word in words if word != "for"]
    if not given:
        return USUAL_S if kind == "cpu" else 0
    seconds = read_duration(f"{given[0]}s" if given[0].isdecimal() else given[0])
    if len(given) > 1 or seconds is None:
        raise UsageError(Text("error-profile.no-duration", words=repr(" ".join(words))), example=EXAMPLE)
    if seconds < 1:
        raise UsageError(Text("error-profile.profile-takes-least-1-s"), example=EXAMPLE)
    return int(seconds)


def name_of(kind: ProfileKind, content: bytes) -> str:
    """A profile's name, made of its kind and a hash of its bytes."""
    return f"{kind}-{hashlib.sha256(content).hexdigest()[:8]}"
