"""What a pod said when it was asked for a profile: the profile, that it serves none there, or what is wrong."""

from typing import NamedTuple

import msgspec

from bot.errors import SourceError
from bot.kube.cluster import PodAnswer, PodGet
from bot.report import one_line
from bot.texts import Text

_GO_PPROF = "x-go-pprof"
"""The header that net/http/pprof sets on its own errors."""
_IN_USE = "already in use"
_OTHER_PROTOCOL = "HTTP request to an HTTPS server"
_QUOTE = 300


class _Status(msgspec.Struct):
    """How Kubernetes' own programs tell what is wrong."""

    message: str = ""


class NotServed(NamedTuple):
    """Somebody answers there and serves no profiles; `quote` is what was said."""

    quote: str


class AlreadyProfiling(SourceError):  # noqa: N818  # what the person is told
    """The program takes one CPU profile at a time, and is at one that we did not ask for."""


def content_of(wanted: PodGet, answer: PodAnswer) -> bytes | NotServed:
    """The bytes of what should be a profile. Raises SourceError with what came instead and what to do."""
    if answer.cut:
        text = Text("error-profile.answer-is-longer", wanted=wanted, limit=f"{wanted.limit_bytes / 2**20:.0f}")
        raise SourceError(text, hint=Text("error-profile.ask-for-shorter-time-raise"))
    if answer.status == 200:
        return answer.body
    said, of_go = _said(answer), _GO_PPROF in answer.headers
    text = f"GET {wanted}: HTTP {answer.status}: {said}" if said else f"GET {wanted}: HTTP {answer.status}"
    if answer.status == 500 and _IN_USE in said:
        hint = Text("error-profile.program-takes-one-cpu-profile")
        raise AlreadyProfiling(text, hint=hint)
    if of_go:
        raise SourceError(text, hint=Text("error-profile.program-own-profiler-said"))
    if answer.status == 404 or (answer.status == 400 and _OTHER_PROTOCOL in said):
        return NotServed(f"HTTP {answer.status}: {said}" if said else f"HTTP {answer.status}")
    if answer.status in (401, 403):
        hint = Text("error-profile.program-itself-asks-who")
        raise SourceError(text, hint=hint)
    if 300 <= answer.status < 400:
        where = one_line(answer.headers.get("location", "elsewhere"), _QUOTE)
        raise SourceError(
            Text("error-profile.leads-to", text=text, where=where), hint=Text("error-profile.not-followed")
        )
    raise SourceError(text, hint=Text("error-profile.is-that-a-go-port"))


def _said(answer: PodAnswer) -> str:
    if "html" in answer.headers.get("content-type", ""):
        return "a web page"
    try:
        if message := msgspec.json.decode(answer.body, type=_Status).message:
            return one_line(message, _QUOTE)
    except (ValueError, RecursionError):
        pass  # it is plain text, as most of it is
    return one_line(answer.body[:4096].decode(errors="replace"), _QUOTE)
