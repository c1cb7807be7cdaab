"""What is asked of a port of a pod and what comes back, whichever way it takes: see `bot.kube.client.pod_http`."""

from typing import Literal, NamedTuple, Protocol

from bot.errors import SourceError
from bot.texts import in_english

Scheme = Literal["http", "https"]


class PodGet(NamedTuple):
    """What is asked: `path` without its leading slash. `within_s` bounds the whole answer, `limit_bytes` its body."""

    namespace: str
    pod: str
    scheme: Scheme
    port: int
    path: str
    query: tuple[tuple[str, str], ...] = ()
    within_s: float = 30.0
    limit_bytes: int = 64 * 1024 * 1024

    def __str__(self) -> str:
        query = "&".join(f"{key}={value}" for key, value in self.query)
        return f"{self.scheme}://{self.namespace}/{self.pod}:{self.port}/{self.path}" + (f"?{query}" if query else "")


class PodAnswer(NamedTuple):
    """The pod's own answer. `headers` have lower-case names; `cut`: the body was longer than the limit."""

    status: int
    headers: dict[str, str]
    body: bytes
    cut: bool = False


class PodPorts(Protocol):
    """Whatever can reach pods' ports."""

    async def pod_get(self, wanted: PodGet) -> PodAnswer:
        """The pod's answer. Raises SourceError when the pod itself was not reached, or did not answer in time.

        Cancelled, it closes the request, and a server that is at work for it notices.
        """
        ...


class TooSlow(SourceError):  # noqa: N818  # what the person is told
    """The answer was not whole in time."""


def nobody_listens(error: SourceError) -> bool:
    """Whether the pod was reached and has nothing on that port that speaks so: another port may have it."""
    message = in_english(error.message).lower()
    return any(phrase in message for phrase in _CLOSED)


_CLOSED = ("connection refused", "server gave http response to https client", "wrong version number")
"""Of the kernel; of Go's client, which the API server passes on; of OpenSSL, to which plain HTTP looks so."""
