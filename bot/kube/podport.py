"""One GET of a port of a pod: through the API server's proxy, or straight to the pod's address.

What the pod answers is the pod's own, whatever its status: another process than ours, so bounded in size and in time
and never followed elsewhere.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator
from typing import Literal, NamedTuple, Protocol

import aiohttp
import httpx

from bot.errors import SourceError
from bot.kube.failures import quoted

Scheme = Literal["http", "https"]
CONNECT_S = 5.0


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
        """The pod's answer. Raises SourceError when the pod itself was not reached, or did not answer in time."""
        ...


class Direct:
    """Straight to pods' addresses, for a bot that runs in the cluster; `address` is the pod's IP.

    With `trust_any` its certificate is not checked: HAMi's is signed by nobody (charts/hami, certgen). A settings key
    of its own allows that, for profiles and nothing else.
    """

    def __init__(self, address: str, *, trust_any: bool) -> None:
        self._address = f"[{address}]" if ":" in address else address
        self._trust_any = trust_any

    async def pod_get(self, wanted: PodGet) -> PodAnswer:
        """See `PodPorts`."""
        url = f"{wanted.scheme}://{self._address}:{wanted.port}/{wanted.path}"
        timeout = httpx.Timeout(wanted.within_s, connect=CONNECT_S)
        # No proxy of the environment: a pod's address means something inside the cluster only.
        verify: bool | ssl.SSLContext = not self._trust_any
        try:
            async with (
                asyncio.timeout(wanted.within_s),
                httpx.AsyncClient(verify=verify, timeout=timeout, trust_env=False, follow_redirects=False) as client,
                client.stream("GET", url, params=dict(wanted.query)) as answer,
            ):
                body, cut = await bounded(answer.aiter_bytes(), wanted.limit_bytes)
                return PodAnswer(answer.status_code, dict(answer.headers.items()), body, cut)
        except TimeoutError as error:
            raise too_slow(wanted) from error
        except httpx.HTTPError as error:
            raise _unreached(wanted, error) from error


async def answer_of(answer: aiohttp.ClientResponse, limit_bytes: int) -> PodAnswer:
    """The answer that came through the API server's proxy."""
    body, cut = await bounded(answer.content.iter_chunked(256 * 1024), limit_bytes)
    headers = {key.lower(): value for key, value in answer.headers.items()}
    return PodAnswer(answer.status, headers, body, cut)


def too_slow(wanted: PodGet) -> SourceError:
    """The error for an answer that was not whole in time."""
    text = f"GET {wanted}: not finished within {wanted.within_s:g} s"
    return SourceError(text, hint="the process or the way to it is stuck: ask again, or for a shorter time")


async def bounded(pieces: AsyncIterator[bytes], limit: int) -> tuple[bytes, bool]:
    """The body, and whether more than `limit` bytes came, of which the rest was not read."""
    body = bytearray()
    async for piece in pieces:
        body += piece
        if len(body) > limit:
            return bytes(body[:limit]), True
    return bytes(body), False


def _unreached(wanted: PodGet, error: httpx.HTTPError) -> SourceError:
    said = quoted(str(error)) or type(error).__name__
    if isinstance(error, httpx.ConnectTimeout | httpx.ConnectError):
        if "CERTIFICATE" in said.upper():
            hint = "HAMi's certificate is signed by nobody: allow that with profiles.trust_any_certificate"
        else:
            hint = "the bot reaches pods' addresses only inside the cluster, where no NetworkPolicy forbids it"
    else:
        hint = "ask again"
    return SourceError(f"GET {wanted}: {said}", hint=hint)
