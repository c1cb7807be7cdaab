"""GET /metrics: what waits on each cluster and why, what has room, and whether the bot itself is well.

The exposition is OpenMetrics, or Prometheus' text, as the client asks. No series names a pod, a node or a UUID.
"""

import ipaddress
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from bot.codes import CODES, Code, PendingClass
from bot.endpoint import Handler, is_bearer

METRICS_PATH = "/metrics"
MOST_NAMESPACES = 200
OTHERS = "(others)"
"""The namespaces of a cluster beyond the `MOST_NAMESPACES` with the most pending pods, together."""
NOT_JUDGED = "not-judged"
_MIB = 1024 * 1024


class Pending(NamedTuple):
    """One pending pod: the code of its cause, empty where it was not judged, and how long it has waited."""

    namespace: str
    code: Code | None
    age_s: float


class Waiting(NamedTuple):
    """Pending pods counted: by namespace, class and code, and the longest time by class."""

    pods: Mapping[tuple[str, PendingClass, str], int] = {}
    oldest_s: Mapping[PendingClass, float] = {}


class ClusterFigures(NamedTuple):
    """What one look at a cluster saw. `gpus` by state; `largest_free_mib` by GPU type; `took_s` is the look's time."""

    waiting: Waiting = Waiting()
    gpus: Mapping[str, int] = {}
    largest_free_mib: Mapping[str, int] = {}
    gaps: int = 0
    took_s: float = 0.0
    at: float = 0.0


class BotFigures(NamedTuple):
    """Of the bot itself. `incidents` by state, those that have not ended; times in seconds."""

    open_changes: int = 0
    overdue_changes: int = 0
    incidents: Mapping[str, int] = {}
    unsent_messages: int = 0
    oldest_unsent_s: float = 0.0


class Figures:
    """The newest of everything. A cluster whose last look failed is `None`: nothing is told of it but that."""

    def __init__(self, is_ready: Callable[[], bool]) -> None:
        self.is_ready = is_ready
        self.clusters: dict[str, ClusterFigures | None] = {}
        self.bot: BotFigures | None = None


def class_of(code: Code | None) -> PendingClass:
    """The class of a pod that waits for this cause."""
    return CODES[code].pending_class if code else "unknown"


def counted(pending: Collection[Pending]) -> Waiting:
    """Done once for each look, so that a scrape costs the same however many pods wait."""
    by_namespace = Counter(pod.namespace for pod in pending)
    named = {namespace for namespace, _ in by_namespace.most_common(MOST_NAMESPACES)}
    pods: Counter[tuple[str, PendingClass, str]] = Counter()
    oldest: dict[PendingClass, float] = {}
    for pod in pending:
        kind = class_of(pod.code)
        pods[pod.namespace if pod.namespace in named else OTHERS, kind, pod.code or NOT_JUDGED] += 1
        oldest[kind] = max(oldest.get(kind, 0.0), pod.age_s)
    return Waiting(pods, oldest)


def metrics_route(figures: Figures, token: str) -> Handler:
    """What answers `METRICS_PATH`. Without a token only a client on the same machine is answered."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Told(figures))

    async def metrics(request: web.Request) -> web.Response:
        if not _may_read(request, token):
            text = (
                "the bearer token is missing or wrong\n" if token else "set metrics.token to be read from elsewhere\n"
            )
            return web.Response(status=401, text=text, headers={"WWW-Authenticate": 'Bearer realm="metrics"'})
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(registry), headers={"Content-Type": content_type})

    return metrics


def _may_read(request: web.Request, token: str) -> bool:
    if token:
        return is_bearer(request.headers.get("Authorization", ""), token)
    try:
        return ipaddress.ip_address(request.remote or "").is_loopback
    except ValueError:
        return False


class _Told(Collector):
    """The figures as metric families."""

    def __init__(self, figures: Figures) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        seen = {name: one for name, one in self._figures.clusters.items() if one is not None}
        yield _gauge("ready", "1 while the bot can hear and tell", {(): float(self._figures.is_ready())})
        blind = {(name,): float(one is None) for name, one in self._figures.clusters.items()}
        yield _gauge("blind", "1 where the last look at the cluster failed", blind, "cluster")
        yield from _of_pods(seen)
        yield from _of_gpus(seen)
        yield _gauge("gaps", "sources that the last look could not read", _each(seen, "gaps"), "cluster")
        yield _gauge("look_seconds", "how long the last look took", _each(seen, "took_s"), "cluster")
        yield _gauge("look_timestamp_seconds", "when the last look ended", _each(seen, "at"), "cluster")
        if self._figures.bot is not None:
            yield from _of_bot(self._figures.bot)


def _of_pods(seen: Mapping[str, ClusterFigures]) -> Iterator[Metric]:
    pods = {(cluster, *labels): n for cluster, one in seen.items() for labels, n in one.waiting.pods.items()}
    labels = ("cluster", "namespace", "class", "code")
    yield _gauge("pending_pods", "pods that wait for GPUs, by the first cause", pods, *labels)
    oldest = {(cluster, kind): age_s for cluster, one in seen.items() for kind, age_s in one.waiting.oldest_s.items()}
    yield _gauge("oldest_pending_seconds", "how long the oldest of them has waited", oldest, "cluster", "class")


def _of_gpus(seen: Mapping[str, ClusterFigures]) -> Iterator[Metric]:
    states = {(cluster, state): n for cluster, one in seen.items() for state, n in one.gpus.items()}
    yield _gauge("gpus", "GPUs by state", states, "cluster", "state")
    free = {
        (cluster, type_): mib * _MIB for cluster, one in seen.items() for type_, mib in one.largest_free_mib.items()
    }
    yield _gauge("largest_free_slice_bytes", "the most memory that one pod could get", free, "cluster", "type")


def _of_bot(bot: BotFigures) -> Iterator[Metric]:
    yield _gauge("open_changes", "temporary changes that have not ended", {(): bot.open_changes})
    yield _gauge("overdue_changes", "those that should have been reverted", {(): bot.overdue_changes})
    states = {(state,): n for state, n in bot.incidents.items()}
    yield _gauge("incidents", "triage threads that have not ended", states, "state")
    yield _gauge("unsent_messages", "messages that wait for Slack", {(): bot.unsent_messages})
    yield _gauge("oldest_unsent_message_seconds", "how long the oldest of them has waited", {(): bot.oldest_unsent_s})


def _each(seen: Mapping[str, ClusterFigures], field: str) -> dict[tuple[str, ...], float]:
    return {(cluster,): getattr(figures, field) for cluster, figures in seen.items()}


def _gauge(name: str, text: str, values: Mapping[tuple[str, ...], float], *labels: str) -> Metric:
    family: Any = GaugeMetricFamily(f"hami_bot_{name}", text, labels=labels)
    for given, value in values.items():
        family.add_metric(given, value)
    return family
