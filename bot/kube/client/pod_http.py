"""GETs a port of a pod, through the API server's proxy or at the pod's IP; bounds size and time, never redirects."""

import asyncio
import errno
import os
import ssl
from collections.abc import AsyncIterator, Iterator

import aiohttp

from bot.errors import SourceError
from bot.kube.client.requests import quoted
from bot.kube.client.responses import as_it_comes
from bot.kube.cluster import Cluster, PodAnswer, PodGet, TooSlow
from bot.kube.models import PODS
from bot.texts import Text

CONNECT_S = 5.0


class DirectPodPorts:
    """Pods' ports (`PodPorts`) read at each pod's present IP, for a bot in the cluster; see `straight`."""

    def __init__(self, cluster: Cluster, *, trust_any: bool) -> None:
        self._cluster = cluster
        self._trust_any = trust_any

    async def pod_get(self, wanted: PodGet) -> PodAnswer:
        pod = await self._cluster.raw(PODS, wanted.pod, wanted.namespace)
        address = str(pod.get("status", {}).get("podIP") or "")
        if not address:
            raise SourceError(
                Text("error-kube.pod-has-no-ip-yet", namespace=wanted.namespace, pod=wanted.pod),
                hint=Text("error-kube.check-pod-runs"),
            )
        return await straight(address, wanted, trust_any=self._trust_any)


async def straight(address: str, wanted: PodGet, *, trust_any: bool) -> PodAnswer:
    """The answer of a port at a pod's IP. With `trust_any` the certificate is not checked: HAMi uses a self-signed one
    (charts/hami, certgen). Raises SourceError.
    """
    import httpx  # noqa: PLC0415  # a tenth of a second, which no other question needs

    host = f"[{address}]" if ":" in address else address
    url = f"{wanted.scheme}://{host}:{wanted.port}/{wanted.path}"
    timeout = httpx.Timeout(wanted.within_s, connect=CONNECT_S)
    # No proxy of the environment: a pod's address means something inside the cluster only.
    verify: bool | ssl.SSLContext = not trust_any
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
        # What the operating system said; httpx says only that all attempts failed.
        refusals = (
            cause for cause in _causes(error) if isinstance(cause, OSError) and not isinstance(cause, ssl.SSLError)
        )
        numbers = (error.errno or 0 for error in refusals)
        said = next((os.strerror(number).lower() for number in numbers if number in errno.errorcode), "")
        reason = said or quoted(str(error)) or type(error).__name__
        hint = Text("error-command.ask-again")
        if isinstance(error, httpx.ConnectTimeout | httpx.ConnectError):
            is_tls = "CERTIFICATE" in reason.upper()
            hint = Text("error-kube.signed-by-nobody") if is_tls else Text("error-kube.reached-only-inside")
        raise SourceError(f"GET {wanted}: {reason}", hint=hint) from error


async def answer_of(answer: aiohttp.ClientResponse, limit_bytes: int) -> PodAnswer:
    """The pod's answer, as it came through the API server's proxy."""
    body, cut = await bounded(as_it_comes(answer, answer.content.iter_chunked(256 * 1024)), limit_bytes)
    headers = {key.lower(): value for key, value in answer.headers.items()}
    return PodAnswer(answer.status, headers, body, cut)


def is_refused_by_pod(answer: PodAnswer) -> bool:
    """Whether the pod itself refuses a path as an API server does (403): kube-scheduler does so."""
    return answer.status == 403 and b"cannot get path" in answer.body


def too_slow(wanted: PodGet) -> SourceError:
    """The error for a pod's answer that was not whole in time."""
    text = Text("error-kube.get-not-finished-within-s", wanted=wanted, seconds=f"{wanted.within_s:g}")
    return TooSlow(text, hint=Text("error-kube.process-network-path-hangs-try"))


async def bounded(pieces: AsyncIterator[bytes], limit: int) -> tuple[bytes, bool]:
    """The first `limit` bytes of the body, and whether more came."""
    body = bytearray()
    async for piece in pieces:
        body += piece
        if len(body) > limit:
            return bytes(body[:limit]), True
    return bytes(body), False


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
