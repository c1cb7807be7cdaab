"""What a playbook may read from a cluster, live or recorded, and how a log is read; nothing here changes a cluster."""

import asyncio
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple, Protocol, TypedDict, TypeVar, Unpack, runtime_checkable

import msgspec
from msgspec import structs

from bot.errors import NotFound, SourceError
from bot.kube.models import Kind, Resource
from bot.kube.models.base import Kept
from bot.report import Gap, gap
from bot.texts import Text, in_english

R = TypeVar("R", bound=Resource)
T = TypeVar("T")

PLUGIN_LOG_BYTES = 2 * 1024 * 1024
"""The most bytes that are read of one log of HAMi's device plugin."""
PLUGIN_LOG_LINES = 4000
"""The most lines, the newest, that are read of a device plugin's log: some ten a minute, and hundreds at its start."""


class LogWanted(msgspec.Struct, frozen=True):
    """The lines of a container's log that a caller asks for: those with the bytes `needle` or one of the `others`, in
    at most `limit_bytes` of log. `since_s`: not older than so many seconds; `stamped`: the runtime's time in front of
    each, as RFC 3339 (a recording gives all, without times). `previous`: the log of the container's run before this
    one. `tail`: only so many of the newest lines, whatever their age; 0 for all that `since_s` leaves.
    """

    namespace: str
    pod: str
    container: str
    needle: bytes
    since_s: int = 600
    limit_bytes: int = 32 * 1024 * 1024
    previous: bool = False
    stamped: bool = False
    tail: int = 0
    others: tuple[bytes, ...] = ()

    @property
    def source(self) -> str:
        """The log's name where a reading of it failed: `previous log of ml/trainer-0 main`."""
        return f"{'previous log' if self.previous else 'log'} of {self.namespace}/{self.pod} {self.container}"


class LogLines(NamedTuple):
    """The matching lines of a log, oldest first. `cut`: lines of the log, or matches, were left out; `ends_early`: they
    were the newest. `first` is the oldest line read, whether it matched or not.
    """

    lines: tuple[str, ...]
    cut: bool = False
    ends_early: bool = False
    first: str = ""


class Clocks(NamedTuple):
    """Both clocks when an answer came: the server's Date as sent and in seconds since 1970, and this machine's."""

    date: str
    served: float
    here: float

    @property
    def skew_s(self) -> float:
        """The seconds by which this machine's clock is ahead of the API server's; negative when it is behind."""
        return self.here - self.served


class Which(TypedDict, total=False):
    """Kubernetes' label and field selectors for a list. With `metadata_only` a live cluster sends no spec and no
    status. At most `most` objects are read, whichever come first; 0 for all.
    """

    labels: str
    fields: str
    metadata_only: bool
    most: int


class Cluster(Protocol):
    """A cluster to read from. Every method raises `SourceError` (or its subclass `NotFound`) and nothing else."""

    @property
    def name(self) -> str:
        """The cluster's name in reports."""
        ...

    @property
    def context(self) -> str:
        """The kubeconfig's context for the cluster; empty for a recording, and inside the cluster itself."""
        ...

    @property
    def hami_version_hint(self) -> str:
        """HAMi's version as a recording's meta.json states it; empty for a live cluster."""
        ...

    @property
    def namespace(self) -> str:
        """The namespace to look for a pod in when searching all namespaces is refused; empty when unknown."""
        ...

    @property
    def undecodable(self) -> Sequence[str]:
        """Objects that were skipped because they do not have the API's shape: name, and why."""
        ...

    @property
    def notes(self) -> Sequence[Gap]:
        """Gaps (what could not be read) of the whole cluster, such as the time of a recording that states none."""
        ...

    @property
    def kept(self) -> Kept | None:
        """Results that questions keep for later ones (`bot.kube.models.base`); None where no more will follow."""
        ...

    @property
    def cache_age_s(self) -> int | None:
        """The greatest age in seconds of what was read from a cache so far; None when all was read fresh."""
        ...

    def now(self) -> datetime:
        """The time that ages are counted to: a recording's, the API server's, or at first this machine's."""
        ...

    @property
    def clocks(self) -> Clocks | None:
        """The API server's clock and this machine's at the last answer; None before the first, and for a recording."""
        ...

    def as_of(self, shown: Iterable[str | None]) -> datetime:
        """The moment to judge ages by, given the times that objects show (RFC 3339, in any order): `now()`, but of a
        live cluster no later than the newest of them. Nodes' clocks may be behind the API server's, and a cluster that
        shows nothing newer is no proof that a lease or a handshake ran out.
        """
        ...

    async def server_version(self) -> str:
        """The API server's version, such as `v1.34.1`; empty for a recording that does not state one."""
        ...

    async def get(self, kind: Kind[R], name: str, namespace: str = "") -> R:
        """One object, read fresh."""
        ...

    async def raw(self, kind: Kind[R], name: str, namespace: str = "") -> dict[str, Any]:
        """One object with all its fields, as JSON builtins, read fresh: for a planned change."""
        ...

    async def list(self, kind: Kind[R], namespace: str = "", **which: Unpack[Which]) -> list[R]:
        """The objects of a kind in one namespace or in all; `which` narrows them."""
        ...

    async def log(self, wanted: LogWanted) -> LogLines:
        """The wanted lines of one container's log."""
        ...


@runtime_checkable
class Hinting(Protocol):
    """A cluster that states facts about HAMi's devices which no object shows, as a recording's meta.json may."""

    @property
    def device_hints(self) -> Mapping[str, int]:
        """Hints about devices, by names that vendors choose (`bot.hami.vendors.vendor.Vendor.hinted`)."""
        ...


def seen(source: str, reading: Awaitable[T]) -> Coroutine[Any, Any, T | Gap]:
    """Gives what `reading` gives, or a gap for its SourceError; cancelled before it begins, it closes `reading`."""
    found = _seen(source, reading)
    if isinstance(reading, Coroutine):
        weakref.finalize(found, reading.close).atexit = False
    return found


async def _seen(source: str, reading: Awaitable[T]) -> T | Gap:
    try:
        return await reading
    except SourceError as error:
        return gap(source, error.message, error.hint)


async def as_read(value: T) -> T:
    """Wraps a value that need not be read as an awaitable, to stand among real reads."""
    return value


Scheme = Literal["http", "https"]
_AT_ONCE = 8


class PodGet(msgspec.Struct, frozen=True):
    """A GET of a pod's port: `path` without its leading slash. `within_s` and `limit_bytes` bound the answer."""

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
    """A pod's answer to a `PodGet`. `headers` have lower-case names; `cut`: the body was longer than the limit."""

    status: int
    headers: dict[str, str]
    body: bytes
    cut: bool = False


class PodPorts(Protocol):
    """Access to pods' ports, through the API server or at the pods' IPs."""

    async def pod_get(self, wanted: PodGet) -> PodAnswer:
        """The pod's answer, whatever its status. Raises SourceError for none in time. Cancelling closes the request."""
        ...


async def served(source: str, ports: PodPorts, wanted: PodGet) -> str | Gap:
    """The text that a pod's port serves, such as metrics; or a gap where it cannot be read whole."""
    answer = await seen(source, ports.pod_get(wanted))
    if isinstance(answer, Gap):
        return answer
    if answer.status != 200 or answer.cut:
        most = Text("error-oncall.more-than-bytes", most=f"{wanted.limit_bytes:,}")
        why = most if answer.cut else f"HTTP {answer.status}"
        return gap(source, Text("error.at", place=f"GET {wanted}", why=why))
    return answer.body.decode("utf-8", "replace")


async def served_by_each(
    ports: PodPorts, wanted: Sequence[tuple[str, PodGet]], read: Callable[[str], T], *, within_s: float
) -> list[T | Gap]:
    """What `read` makes of the text at each port in `wanted`, in a thread; a few ports are read at a time, all of them
    within `within_s`. A port that could not be read gives a gap with the source's name.
    """
    turn, loop = asyncio.Semaphore(_AT_ONCE), asyncio.get_running_loop()
    until = loop.time() + within_s

    async def one(source: str, asked: PodGet) -> T | Gap:
        async with turn:
            left = until - loop.time()
            if left <= 0:
                return gap(source, Text("error-usage.others-took-all-time"))
            text = await served(source, ports, structs.replace(asked, within_s=min(asked.within_s, left)))
            return text if isinstance(text, Gap) else await asyncio.to_thread(read, text)

    return await asyncio.gather(*(one(*each) for each in wanted))


def as_one(gaps: Sequence[Gap], source: str, asked: int) -> list[Gap]:
    """One gap in place of `gaps`, with the first one's reason; `asked` is how many sources were tried."""
    if len(gaps) < 2:
        return list(gaps)
    first, unread, count = gaps[0], f"{len(gaps):,}", f"{asked:,}"
    why = Text("error-usage.some-could-not-be-read", unread=unread, count=count, source=first.source, why=first.text)
    return [gap(source, why, first.advice)]


class TooSlow(SourceError):  # noqa: N818  # what the person is told
    """Raised when a pod's answer was not whole in time."""


def nobody_listens(error: SourceError) -> bool:
    """Whether the pod was reached, but its port is closed or speaks another protocol: another port may answer."""
    message = in_english(error.message).lower()
    return any(phrase in message for phrase in _CLOSED)


_CLOSED = ("connection refused", "server gave http response to https client", "wrong version number")
"""Error texts of the kernel; of Go's client, which the API server passes on; of OpenSSL, for plain HTTP."""


async def list_served(cluster: Cluster, kind: Kind[R], namespace: str = "") -> list[R]:
    """All objects of the kind, in the newest version that the API server serves; none where it serves no version."""
    for candidate in (kind, *(structs.replace(kind, version=version) for version in kind.older)):
        try:
            return await cluster.list(candidate, namespace)
        except NotFound:
            continue
    return []


LONGEST_LINE = 1024 * 1024
MOST_LINES = 20_000
MOST_BYTES = 16 * 1024 * 1024
LONGEST_FIRST = 4096


class LineFilter:
    """Keeps the lines of a log that contain one of the `needles`; the log arrives in pieces. It holds the newest
    `MOST_LINES` matches, of at most `MOST_BYTES`, one unfinished line of at most `LONGEST_LINE`, and the beginning of
    the first line.
    """

    def __init__(self, *needles: bytes) -> None:
        self._needles = [needle for needle in needles if b"\n" not in needle]
        self._kept: deque[bytes] = deque()
        self._kept_bytes = 0
        self._first = b""
        self._rest = b""
        self._in_overlong_line = False
        self._dropped = False

    def feed(self, piece: bytes) -> None:
        if b"\n" not in self._first and len(self._first) < LONGEST_FIRST:
            self._first += piece[:LONGEST_FIRST]
        if self._in_overlong_line:
            _, newline, piece = piece.partition(b"\n")
            self._in_overlong_line = not newline
        end = piece.rfind(b"\n") + 1
        if end:
            self._keep(self._rest + piece[:end])
            self._rest = b""
        self._rest += piece[end:]
        if len(self._rest) > LONGEST_LINE:
            self._rest = b""
            self._in_overlong_line = self._dropped = True

    def finish(self, *, cut_short: bool) -> LogLines:
        """The matching lines. Of a log that was cut short, an unfinished last line is left out."""
        if not cut_short:
            self._keep(self._rest)
        lines = tuple(line.decode(errors="replace") for line in self._kept)
        first = self._first.partition(b"\n")[0].decode(errors="replace")
        return LogLines(lines, cut_short or self._dropped, cut_short, first)

    def _keep(self, block: bytes) -> None:
        """Goes from match to match, so that a block without one costs a single search."""
        next_of = {needle: block.find(needle) for needle in self._needles}
        while (at := min((hit for hit in next_of.values() if hit >= 0), default=-1)) >= 0 and at < len(block):
            start, end = block.rfind(b"\n", 0, at) + 1, block.find(b"\n", at)
            end = len(block) if end < 0 else end
            self._kept.append(block[start:end])
            self._kept_bytes += end - start
            while len(self._kept) > MOST_LINES or self._kept_bytes > MOST_BYTES:
                self._kept_bytes -= len(self._kept.popleft())
                self._dropped = True
            next_of |= {needle: block.find(needle, end + 1) for needle, found in next_of.items() if 0 <= found <= end}


_TIMES, _PART = 4, 4


async def newest_lines(cluster: Cluster, wanted: LogWanted) -> LogLines:
    """The newest lines of a log, as many as `wanted.tail`; fewer where lines are too long. Raises as `Cluster.log`. An
    API server goes back `tail` lines and stops after `limit_bytes`, so that it leaves out the newest: then a quarter of
    the lines is asked for. `ends_early` where even the last answer stopped early.
    """
    found = await cluster.log(wanted)
    for _ in range(_TIMES - 1):
        if not (found.ends_early and wanted.tail):
            break
        wanted = structs.replace(wanted, tail=wanted.tail // _PART or 1)
        found = await cluster.log(wanted)
    return found


def newest_missing(wanted: LogWanted) -> Gap:
    """The gap for a log whose newest lines were not read."""
    return gap(wanted.source, Text("error-kube.newest-lines-were-not-read", size=f"{wanted.limit_bytes:,}"))
