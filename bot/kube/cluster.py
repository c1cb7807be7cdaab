"""What a playbook may read from a cluster, whether it is live or recorded. Nothing here can change one."""

import weakref
from collections.abc import Awaitable, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from bot.errors import SourceError
from bot.kube.models import Kind, Resource
from bot.kube.object_memo import Kept
from bot.report import Gap

R = TypeVar("R", bound=Resource)
T = TypeVar("T")

PLUGIN_LOG_BYTES = 2 * 1024 * 1024
"""How much of one log of HAMi's device plugin is read."""
PLUGIN_LOG_LINES = 4000
"""Of each such log the newest: the plugin prints some ten lines a minute, and hundreds when it starts."""


class LogWanted(NamedTuple):
    """Which lines of a container's log are asked for.

    `needle`: only lines that contain these bytes, or one of the `others`.
    `since_s`: not older than so many seconds (a recording gives all).
    `limit_bytes`: how much log is read at most. `previous`: the log of the container's last run before this one.
    `stamped`: the container runtime's time in front of each line, as RFC 3339 (a recording has no such times).
    `tail`: only so many of the newest lines, whatever their age; 0 for all that `since_s` leaves.
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
        """What a gap calls the log."""
        return f"{'previous log' if self.previous else 'log'} of {self.namespace}/{self.pod} {self.container}"


class LogLines(NamedTuple):
    """The lines that matched, oldest first; `cut` when lines of the log, or matches, were left out.

    `ends_early`: those left out are the newest ones. `first` is the oldest line read, whether it matched or not.
    """

    lines: tuple[str, ...]
    cut: bool = False
    ends_early: bool = False
    first: str = ""


class Clocks(NamedTuple):
    """Both clocks when an answer came: its Date as it was sent, and the same moment by this machine, since 1970."""

    date: str
    served: float
    here: float

    @property
    def skew_s(self) -> float:
        """How many seconds this machine's clock is ahead of the API server's; negative: behind."""
        return self.here - self.served


class Cluster(Protocol):
    """A cluster to read from. Every method raises `SourceError` (or its `NotFound`) and nothing else."""

    @property
    def name(self) -> str:
        """The name that reports carry."""
        ...

    @property
    def context(self) -> str:
        """The kubeconfig's context that leads to it; empty for a recording, and inside the cluster itself."""
        ...

    @property
    def hami_version_hint(self) -> str:
        """HAMi's version as a recording's meta.json states it; empty for a live cluster."""
        ...

    @property
    def namespace(self) -> str:
        """Where to look for a pod when searching all namespaces is refused; empty when nothing says so."""
        ...

    @property
    def undecodable(self) -> Sequence[str]:
        """Objects that were skipped because they do not have the API's shape: which, and why."""
        ...

    @property
    def notes(self) -> Sequence[Gap]:
        """What is assumed about the cluster as a whole, such as the time of a recording that names none."""
        ...

    @property
    def kept(self) -> Kept | None:
        """Where questions leave for later ones what they worked out of the objects; None where none will follow."""
        ...

    @property
    def cache_age_s(self) -> int | None:
        """How many seconds ago what was read so far may have been true; None when all of it was read when asked for."""
        ...

    def now(self) -> datetime:
        """The moment that answers are about, which times of the cluster's objects are held against.

        For a live cluster the API server's time, this machine's before its first answer; `taken_at` of a recording.
        """
        ...

    @property
    def clocks(self) -> Clocks | None:
        """The API server's clock and this machine's when it answered last; None of a recording, and before that."""
        ...

    def as_of(self, shown: Iterable[str | None]) -> datetime:
        """The moment to judge ages by, given the times that the objects show (RFC 3339, in any order).

        `now()` of a recording. For a live cluster no later than the newest of these times: nodes' clocks may be
        behind the API server's, and a cluster that shows nothing newer is no proof that a lease or a handshake ran out.
        """
        ...

    async def server_version(self) -> str:
        """The API server's version, such as `v1.34.1`; empty of a recording that does not state it."""
        ...

    async def get(self, kind: Kind[R], name: str, namespace: str = "") -> R:
        """One object, read fresh."""
        ...

    async def raw(self, kind: Kind[R], name: str, namespace: str = "") -> dict[str, Any]:
        """One object with all its fields, as JSON builtins, read fresh: for what is planned to be changed."""
        ...

    async def list(
        self,
        kind: Kind[R],
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        metadata_only: bool = False,
        most: int = 0,
    ) -> list[R]:
        """All objects of a kind, in one namespace or in all, that match Kubernetes label and field selectors.

        With `metadata_only` a live cluster sends no spec and no status. `most`: no more are read, whichever
        come first; 0 for all of them.
        """
        ...

    async def log(self, wanted: LogWanted) -> LogLines:
        """The lines of one container's log that were asked for."""
        ...


@runtime_checkable
class Hinting(Protocol):
    """A cluster that states about HAMi's devices what no object shows, as a recording may."""

    @property
    def device_hints(self) -> Mapping[str, int]:
        """By what the vendors call it (`bot.hami.vendors.vendor.Vendor.hinted`)."""
        ...


def seen(source: str, reading: Awaitable[T]) -> Coroutine[Any, Any, T | Gap]:
    """What the reading gives, or the gap that its failure leaves.

    Cancelled before it begins, it closes the reading, which else would be told as one that nobody awaited.
    """
    found = _seen(source, reading)
    if isinstance(reading, Coroutine):
        weakref.finalize(found, reading.close).atexit = False
    return found


async def _seen(source: str, reading: Awaitable[T]) -> T | Gap:
    try:
        return await reading
    except SourceError as error:
        return Gap(source=source, why=error.message, hint=error.hint)
