"""A live cluster, read through its API server: every object is decoded from the raw answer as `bot.kube.models`.

The official client brings the credentials, TLS and the proxy (`bot.kube.client.connect`); it builds no objects here,
because 5,000 of its nodes take 2.5 s and 470 MB, and 5,000 of ours 0.1 s and 90 MB.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar, Unpack

import aiohttp
import msgspec

from bot.kube.client.pod_http import answer_of, is_refused_by_pod, too_slow
from bot.kube.client.requests import (
    ApiRequest,
    Review,
    Right,
    StaleListError,
    broken,
    is_cut,
    is_status,
    refused,
    review_of,
)
from bot.kube.client.responses import (
    ServerClock,
    as_it_comes,
    beginning,
    decoded,
    left_out,
    page_of,
    resource,
    segment,
    whole_body,
)
from bot.kube.cluster import Clocks, LineFilter, LogLines, LogWanted, PodAnswer, PodGet, Which
from bot.kube.models import PODS, Kind, Resource
from bot.kube.times import parse_time
from bot.report import Gap
from bot.texts import Prose

R = TypeVar("R", bound=Resource)
T = TypeVar("T")

PAGE_SIZE = 500
LOG_CHUNK = 256 * 1024
METADATA_ONLY = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"
WATCHED_METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json"
MOST_WAITS, LONGEST_WAIT_S = 2, 5
BUSY_BYTES, GATHER_S = 32 * 1024, 0.2
"""A watch that brought fewer bytes at once is not read for `GATHER_S`: one wake-up then serves many events."""
ERROR_BODY_LIMIT = 64 * 1024
_FINE = (200, 201)
"""The statuses of good answers: 201 for a review, which is created."""


class ServerLink(Protocol):
    """An authenticated way to one API server. `credentials` says in words where they come from; `namespace` is the
    default beside them; `cluster` is the name in the settings, `context` the kubeconfig's, each empty without one.
    """

    server: str
    credentials: Prose
    namespace: str
    cluster: str
    context: str

    async def send(self, request: ApiRequest, limits: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        """The server's answer, whatever its status, its body unread. Raises ClientError, OSError or SourceError."""
        ...

    async def aclose(self) -> None: ...


class Selection(NamedTuple, Generic[R]):
    """Which objects of a kind to list or watch; the fields are those of `Which`."""

    kind: Kind[R]
    labels: str = ""
    fields: str = ""
    metadata_only: bool = False
    most: int = 0


class Listed(NamedTuple, Generic[R]):
    """A whole list: its objects, what could not be read (`namespace/name` and why), and its resourceVersion."""

    items: list[R]
    bad: dict[str, str]
    version: str


class ServerVersion(msgspec.Struct, frozen=True, rename="camel"):
    git_version: str


class RefusedAnswer(NamedTuple):
    """An answer of the API server other than 200 or 201, and how many seconds it asks to wait."""

    status: int
    body: bytes
    wait_s: int


class ApiClient:
    """A client of one API server that renews its credentials; an async context manager, else call `aclose`. `clock` is
    the API server's, learned from every answer; `home` is the namespace of the bot's own pod, empty outside the
    cluster.
    """

    def __init__(
        self,
        link: ServerLink,
        reconnect: Callable[[], Awaitable[ServerLink]],
        limits: aiohttp.ClientTimeout,
        *,
        home: str = "",
    ) -> None:
        self.home = home
        self.clock = ServerClock()
        self._link = link
        self._reconnect = reconnect
        self._reconnecting = asyncio.Lock()
        self._retired: ServerLink | None = None
        self._limits = limits

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes every connection; nothing can be asked afterwards."""
        for link in filter(None, (self._link, self._retired)):
            await link.aclose()

    async def _renew(self, turned_away: ServerLink) -> None:
        """Reads the credentials anew, once for concurrent requests; the next renewal closes the link replaced here."""
        async with self._reconnecting:
            if self._link is not turned_away:
                return
            fresh = await self._reconnect()
            if self._retired:
                await self._retired.aclose()
            self._retired, self._link = turned_away, fresh


class LiveCluster(ApiClient):
    """A cluster read through its API server. `known_as` is its name in the settings, empty without one."""

    hami_version_hint = ""
    cache_age_s = None
    kept = None
    notes: tuple[Gap, ...] = ()

    def __init__(
        self,
        link: ServerLink,
        reconnect: Callable[[], Awaitable[ServerLink]],
        limits: aiohttp.ClientTimeout,
        *,
        name: str,
        home: str,
    ) -> None:
        super().__init__(link, reconnect, limits, home=home)
        self.name, self.known_as = name, link.cluster
        self.context, self.namespace = link.context, link.namespace
        self._undecodable: dict[tuple[Selection[Any], str], list[str]] = {}

    @property
    def undecodable(self) -> list[str]:
        """What the latest `list` of each selection left out because its JSON has other types: `pods ml/trainer-0: why`.
        Callers that share the cluster use what `listed` returns instead: see `bot.kube.watch.cache`.
        """
        return sorted({name for bad in self._undecodable.values() for name in bad})

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.clock.now(), UTC)

    @property
    def clocks(self) -> Clocks | None:
        return self.clock.clocks

    def as_of(self, shown: Iterable[str | None]) -> datetime:
        """Now, or the newest of the times `shown` if that is earlier: nodes' clocks may be behind the server's."""
        times = [moment for moment in map(parse_time, set(shown)) if moment]  # kubelets report many at once
        return min([self.now(), *([max(times)] if times else [])])

    async def server_version(self) -> str:
        """The API server's version, such as `v1.34.1`."""
        request = ApiRequest("get", "version", "/version")
        return decoded(request, await self._ask(request, whole_body), ServerVersion).git_version

    async def may(self, right: Right) -> bool:
        """Whether the API server says that these credentials have the right."""
        request = review_of(right)
        return decoded(request, await self._ask(request, whole_body), Review).status.allowed

    async def get(self, kind: Kind[R], name: str, namespace: str = "") -> R:
        return await self._one(kind, name, namespace, kind.type)

    async def raw(self, kind: Kind[R], name: str, namespace: str = "") -> dict[str, Any]:
        return await self._one(kind, name, namespace, dict[str, Any])

    async def _one(self, kind: Kind[R], name: str, namespace: str, shape: type[T]) -> T:
        path = kind.path(segment(namespace) if namespace else "", segment(name))
        request = ApiRequest("get", resource(kind), path, namespace)
        return decoded(request, await self._ask(request, whole_body), shape)

    async def pod_get(self, wanted: PodGet) -> PodAnswer:
        """The answer of a pod's port through the API server's proxy, which needs `get` on `pods/proxy`."""
        address = PODS.path(segment(wanted.namespace), f"{wanted.scheme}:{segment(wanted.pod)}:{wanted.port}")
        path = f"{address}/proxy/{wanted.path}"
        request = ApiRequest("get", "pods/proxy", path, wanted.namespace, wanted.query, "*/*")
        link = self._link
        answer = await self._pod_answer(link, request, wanted)
        if answer.status == 401 and is_status(answer.body):
            await self._renew(link)
            answer = await self._pod_answer(self._link, request, wanted)
        if answer.status >= 400 and is_status(answer.body) and not is_refused_by_pod(answer):
            raise refused(request, answer.status, answer.body, self._link.credentials)
        return answer

    async def _pod_answer(self, link: ServerLink, request: ApiRequest, wanted: PodGet) -> PodAnswer:
        limits = aiohttp.ClientTimeout(total=wanted.within_s, sock_connect=self._limits.sock_connect)
        try:
            async with await link.send(request, limits) as answer:
                return await answer_of(answer, wanted.limit_bytes)
        except TimeoutError as error:
            raise too_slow(wanted) from error
        except (aiohttp.ClientError, OSError) as error:
            raise broken(request, error, link.server, link.credentials, limits) from None

    async def log(self, wanted: LogWanted) -> LogLines:
        path = PODS.path(segment(wanted.namespace), segment(wanted.pod)) + "/log"
        query = {
            "container": wanted.container,
            "previous": "true" if wanted.previous else "",
            "timestamps": "true" if wanted.stamped else "",
            "sinceSeconds": "" if wanted.tail else str(max(1, wanted.since_s)),
            "tailLines": str(wanted.tail) if wanted.tail else "",
            "limitBytes": str(max(1, wanted.limit_bytes)),
        }
        request = ApiRequest("get", "pods/log", path, wanted.namespace, _filled(query), "*/*")

        async def matching(answer: aiohttp.ClientResponse) -> LogLines:
            lines, left = LineFilter(wanted.needle, *wanted.others), wanted.limit_bytes
            async for piece in as_it_comes(answer, answer.content.iter_chunked(LOG_CHUNK)):
                lines.feed(piece[:left])
                left -= len(piece)
                if left <= 0:
                    break
            return lines.finish(cut_short=left <= 0)

        return await self._ask(request, matching)

    async def watch(
        self, wanted: Selection[R], version: str, take: Callable[[bytes], None], *, for_s: float, silence_s: float
    ) -> None:
        """Hands what comes after `version` to `take`, piece by piece, until the server ends the watch, which it is
        asked to do after `for_s`. Raises StaleListError when the server no longer has that version, SourceError when
        the stream breaks or nothing comes for `silence_s`, and what `take` raises.
        """
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(max(1, round(for_s))),
            "labelSelector": wanted.labels,
            "fieldSelector": wanted.fields,
        }
        accept = WATCHED_METADATA if wanted.metadata_only else "application/json"
        request = ApiRequest("watch", resource(wanted.kind), wanted.kind.path(), "", _filled(query), accept)
        limits = aiohttp.ClientTimeout(total=None, sock_connect=self._limits.sock_connect, sock_read=silence_s)

        async def use(answer: aiohttp.ClientResponse) -> None:
            try:
                async for piece in as_it_comes(answer, answer.content.iter_any()):
                    take(piece)
                    if len(piece) < BUSY_BYTES:
                        await asyncio.sleep(GATHER_S)
            except (aiohttp.ClientError, OSError) as error:
                # Told here, because a read that breaks off is repeated, and this one must not begin at `version` again.
                raise broken(request, error, self._link.server, self._link.credentials, limits) from None

        await self._ask(request, use, limits)

    async def _ask(
        self,
        request: ApiRequest,
        use: Callable[[aiohttp.ClientResponse], Awaitable[T]],
        limits: aiohttp.ClientTimeout | None = None,
    ) -> T:
        """What `use` makes of the answer. A read may be repeated: once with credentials read anew, once after a broken
        exchange or a server's error, and twice where the server asks to wait.
        """
        limits = limits or self._limits
        renewals, repetitions, waits = 1, 1, MOST_WAITS
        while True:
            link = self._link
            try:
                async with await link.send(request, limits) as response:
                    self.clock.answered(request.resource, response.headers.get("Date", ""))
                    answer = await (use(response) if response.status in _FINE else _refusal(response))
            except (aiohttp.ClientError, OSError) as error:
                if not (is_cut(error) and repetitions):
                    raise broken(request, error, link.server, link.credentials, limits) from None
                repetitions -= 1
                continue
            if not isinstance(answer, RefusedAnswer):
                return answer
            if answer.status == 401 and renewals:
                renewals -= 1
                await self._renew(link)
            elif answer.status == 429 and waits:
                waits -= 1
                await asyncio.sleep(answer.wait_s)
            elif answer.status in (500, 502, 503, 504) and repetitions:
                repetitions -= 1
            else:
                raise refused(request, answer.status, answer.body, link.credentials)

    async def _pages(self, request: ApiRequest, kind: Kind[R], *, most: int = 0) -> Listed[R]:
        found: list[R] = []
        bad: dict[str, str] = {}
        turn = request
        while True:
            page = page_of(turn, await self._ask(turn, whole_body), kind, bad)
            found += page.items or ()
            if not page.metadata.next or 0 < most <= len(found):
                break
            turn = msgspec.structs.replace(request, query=(*request.query, ("continue", page.metadata.next)))
        return Listed(found[: most or None], bad, page.metadata.version)

    async def list(self, kind: Kind[R], namespace: str = "", **which: Unpack[Which]) -> list[R]:
        wanted = Selection(kind, **which)
        found = await self.listed(wanted, namespace)
        self._undecodable[wanted, namespace] = left_out(kind, found.bad)
        return found.items

    async def listed(self, wanted: Selection[R], namespace: str = "") -> Listed[R]:
        """The objects of one namespace or of all, and those not decodable, which `undecodable` does not name."""
        kind = wanted.kind
        path = kind.path(segment(namespace) if namespace else "")
        size = min(wanted.most or PAGE_SIZE, PAGE_SIZE)
        query = _filled({"limit": str(size), "labelSelector": wanted.labels, "fieldSelector": wanted.fields})
        accept = METADATA_ONLY if wanted.metadata_only else "application/json"
        request = ApiRequest("list", resource(kind), path, namespace if kind.namespaced else "", query, accept)
        try:
            return await self._pages(request, kind, most=wanted.most)
        except StaleListError:
            return await self._pages(request, kind, most=wanted.most)


async def _refusal(answer: aiohttp.ClientResponse) -> RefusedAnswer:
    body = bytearray()
    async for piece in answer.content.iter_chunked(ERROR_BODY_LIMIT):
        body += piece
        if len(body) >= ERROR_BODY_LIMIT:
            break
    body_text = beginning(answer, bytes(body), ERROR_BODY_LIMIT)
    # Kubernetes sends whole seconds; the other legal form, a date, is not worth a parser for a wait this short.
    retry_after = answer.headers.get("Retry-After", "")
    wait_s = min(int(retry_after), LONGEST_WAIT_S) if retry_after.isdecimal() else 1
    return RefusedAnswer(answer.status, body_text, wait_s)


def _filled(query: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((key, value) for key, value in query.items() if value)
