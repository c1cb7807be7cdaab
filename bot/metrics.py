"""GET /metrics: each cluster's pending pods and their causes, free GPUs, and the bot's health; no pod, node or UUID."""

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
from aiohttp import web
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from bot import process_counters
from bot.endpoint import Handler, is_bearer
from bot.finding_codes import Code, PendingClass

MOST_NAMESPACES = 200
OTHERS = "(others)"
"""The label value for all namespaces beyond the `MOST_NAMESPACES` with the most pending pods; and for GPU types."""
MOST_TYPES = 50
_LONGEST_TYPE = 63
NOT_JUDGED = "not-judged"
OTHER_SOURCE = "other"
_SOURCES = (
    *("API server's log", "API server's version", "HAMi version", "HAMi's events and log", "cards", "config maps"),
    *("container log", "daemon sets", "deployments", "device config", "device plugin", "endpoint slices", "events"),
    *("finished pods", "fit", "kube-scheduler config", "lock owner", "log", "metrics", "namespaces", "node", "nodes"),
    *("objects", "pods", "previous log", "resource claims", "resource quotas", "resource slices", "scheduler flags"),
    *("scheduler lease", "scheduler metrics", "scheduler pods", "services", "vGPUmonitor metrics", "webhook"),
    *("webhooks", "newer HAMi"),
)
_SOURCE = re.compile(rf"({'|'.join(sorted(map(re.escape, _SOURCES), key=len, reverse=True))})(?= |$)")
_MIB = 1024 * 1024
METRICS_PATH = "/metrics"
_THIS_MACHINE = ("127.0.0.1", "::1", "::ffff:127.0.0.1")
"""This machine's addresses. No other on loopback counts: a service mesh's sidecar forwards requests as 127.0.0.6."""
_END = b"# EOF\n"
"""The last line of an exposition in OpenMetrics."""


class PendingPod(NamedTuple):
    """One pending pod: its namespace, the code of its cause (None where not judged), its age in seconds, its class."""

    namespace: str
    code: Code | None
    age_s: float
    kind: PendingClass


class PendingCounts(NamedTuple):
    """Counts of pending pods by namespace, class and code, and the longest wait in seconds by class."""

    pods: Mapping[tuple[str, PendingClass, str], int] = {}
    oldest_s: Mapping[PendingClass, float] = {}


class ClusterFigures(msgspec.Struct, frozen=True):
    """The figures of one look at a cluster. `gpus` by state; `largest_free_mib` by GPU type; `gaps` by source. `took_s`
    is the look's time; `cache_age_s` the greatest age of what came from memory, None for a cluster not kept in memory.
    """

    waiting: PendingCounts = PendingCounts()
    gpus: Mapping[str, int] = {}
    largest_free_mib: Mapping[str, int] = {}
    gaps: Mapping[str, int] = {}
    took_s: float = 0.0
    at: float = 0.0
    cache_age_s: float | None = None


Clusters = Mapping[str, ClusterFigures | None]
"""The figures of each cluster; None where the last look failed, of which only the failure is served."""


class BotFigures(msgspec.Struct, frozen=True):
    """The figures of the bot itself. `incidents` by state, those that have not ended; times in seconds."""

    open_changes: int = 0
    overdue_changes: int = 0
    incidents: Mapping[str, int] = {}
    unsent_messages: int = 0
    oldest_unsent_s: float = 0.0
    questions: int = 0
    oldest_question_s: float = 0.0


class Figures:
    """The newest figures of all clusters and of the bot, for the next scrape."""

    def __init__(self, is_ready: Callable[[], bool]) -> None:
        self.is_ready = is_ready
        self.clusters: Clusters = {}
        self.bot: BotFigures | None = None
        self.blind: frozenset[str] = frozenset()
        """The clusters whose self-test failed."""


def count_pending(pending: Collection[PendingPod]) -> PendingCounts:
    """The counts of these pending pods, made once for each look, so that a scrape's cost does not grow with them."""
    by_namespace = Counter(pod.namespace for pod in pending)
    named = {namespace for namespace, _ in by_namespace.most_common(MOST_NAMESPACES)}
    pods: Counter[tuple[str, PendingClass, str]] = Counter()
    oldest: dict[PendingClass, float] = {}
    for pod in pending:
        pods[pod.namespace if pod.namespace in named else OTHERS, pod.kind, pod.code or NOT_JUDGED] += 1
        oldest[pod.kind] = max(oldest.get(pod.kind, 0.0), pod.age_s)
    return PendingCounts(pods, oldest)


def largest_by_type(slices: Iterable[tuple[str, int]]) -> Mapping[str, int]:
    """The largest of the free slices, by GPU type; at most `MOST_TYPES` are named, since nodes may claim any type."""
    cut = [(type_[:_LONGEST_TYPE], mib) for type_, mib in slices]
    named = {type_ for type_, _ in Counter(type_ for type_, _ in cut).most_common(MOST_TYPES)}
    largest: dict[str, int] = {}
    for type_, mib in cut:
        name = type_ if type_ in named else OTHERS
        largest[name] = max(largest.get(name, 0), mib)
    return largest


def gaps_by_source(sources: Iterable[str]) -> Mapping[str, int]:
    """Counts distinct sources of gaps by their beginning that names no object: `log of ns/pod` is a `log`."""
    found = (_SOURCE.match(source) for source in set(sources))
    return Counter(match[1] if match else OTHER_SOURCE for match in found)


# --------------------------------------------------------------------------------------------------------- the families


class _Families(list[Metric], Collector):
    def collect(self) -> Iterable[Metric]:
        return self


def _of_clusters(clusters: Clusters) -> Iterator[Metric]:
    seen = {name: look for name, look in clusters.items() if look is not None}
    yield from _of_pods(seen)
    yield from _of_gpus(seen)
    gaps = {(cluster, source): n for cluster, look in seen.items() for source, n in look.gaps.items()}
    yield _gauge("gaps", "sources that the last look could not read", gaps, "cluster", "source")
    yield _gauge("look_seconds", "how long the last look took", _each(seen, "took_s"), "cluster")
    yield _gauge("look_timestamp_seconds", "when the last look ended", _each(seen, "at"), "cluster")
    kept = {name: look for name, look in seen.items() if look.cache_age_s is not None}
    text = "how old what the last look had from memory may have been"
    yield _gauge("cache_age_seconds", text, _each(kept, "cache_age_s"), "cluster")


def _of_bot(figures: Figures) -> Iterator[Metric]:
    yield _gauge("ready", "1 while the bot can hear and tell", {(): float(figures.is_ready())})
    blind = {(name,): float(look is None or name in figures.blind) for name, look in figures.clusters.items()}
    yield _gauge("blind", "1 where the last look at the cluster failed, or the self-test", blind, "cluster")
    if figures.bot is not None:
        yield from _of_store(figures.bot)
    text = "from the creation of a pod with a GPU until it ran"
    yield _histogram("pod_start_seconds", text, process_counters.POD_STARTS, "cluster")
    yield _histogram("slack_ack_seconds", "from a request of Slack to its answer", process_counters.ACKS)
    text = "how long questions in Slack took to be read and judged"
    yield _histogram("playbook_seconds", text, process_counters.PLAYBOOKS, "verb", "outcome")
    text = "how long HAMi's scheduler took to filter nodes for a pod, or to bind it"
    yield _histogram("scheduler_call_seconds", text, process_counters.SCHEDULER_CALLS, "cluster", "call")
    text = "filters of HAMi's scheduler that took no node, by reason"
    yield _counter("scheduler_refusals", text, process_counters.REFUSALS, "cluster", "reason")
    text = "requests to API servers, by the status of the answer"
    yield _counter("kubernetes_requests", text, process_counters.KUBERNETES_REQUESTS, "cluster", "verb", "status")


def _of_pods(seen: Mapping[str, ClusterFigures]) -> Iterator[Metric]:
    pods = {(cluster, *labels): n for cluster, figures in seen.items() for labels, n in figures.waiting.pods.items()}
    labels = ("cluster", "namespace", "class", "code")
    yield _gauge("pending_pods", "pods that wait for GPUs, by the first cause", pods, *labels)
    oldest = {
        (cluster, kind): age_s for cluster, figures in seen.items() for kind, age_s in figures.waiting.oldest_s.items()
    }
    yield _gauge("oldest_pending_seconds", "how long the oldest of them has waited", oldest, "cluster", "class")


def _of_gpus(seen: Mapping[str, ClusterFigures]) -> Iterator[Metric]:
    states = {(cluster, state): n for cluster, figures in seen.items() for state, n in figures.gpus.items()}
    yield _gauge("gpus", "GPUs by state", states, "cluster", "state")
    free = {
        (cluster, type_): mib * _MIB
        for cluster, figures in seen.items()
        for type_, mib in figures.largest_free_mib.items()
    }
    yield _gauge("largest_free_slice_bytes", "the most memory that one pod could get", free, "cluster", "type")


def _of_store(bot: BotFigures) -> Iterator[Metric]:
    yield _gauge("open_changes", "temporary changes that have not ended", {(): bot.open_changes})
    yield _gauge("overdue_changes", "those that should have been reverted", {(): bot.overdue_changes})
    states = {(state,): n for state, n in bot.incidents.items()}
    yield _gauge("incidents", "triage threads that have not ended", states, "state")
    yield _gauge("unsent_messages", "messages that wait for Slack", {(): bot.unsent_messages})
    yield _gauge("oldest_unsent_message_seconds", "how long the oldest of them has waited", {(): bot.oldest_unsent_s})
    yield _gauge("open_questions", "questions and deeds that are being answered", {(): bot.questions})
    yield _gauge("oldest_open_question_seconds", "how long the oldest has been", {(): bot.oldest_question_s})


def _each(seen: Mapping[str, ClusterFigures], field: str) -> dict[tuple[str, ...], float]:
    return {(cluster,): getattr(figures, field) for cluster, figures in seen.items()}


def _gauge(name: str, text: str, values: Mapping[tuple[str, ...], float], *labels: str) -> Metric:
    family: Any = GaugeMetricFamily(f"hami_bot_{name}", text, labels=labels)
    for given, value in values.items():
        family.add_metric(given, value)
    return family


def _counter(name: str, text: str, counted: Mapping[Any, int], *labels: str) -> Metric:
    family: Any = CounterMetricFamily(f"hami_bot_{name}", text, labels=labels)
    for given, n in list(counted.items()):
        family.add_metric(given, n)
    return family


def _histogram(name: str, text: str, counted: process_counters.Histogram, *labels: str) -> Metric:
    family: Any = HistogramMetricFamily(f"hami_bot_{name}", text, labels=labels)
    edges = [*(str(float(edge)) for edge in counted.edges), "+Inf"]
    for given, counts, total in counted.cumulated():
        family.add_metric(given, list(zip(edges, counts, strict=True)), total)
    return family


# --------------------------------------------------------------------------------------------------------- the endpoint


class Exposition:
    """The figures as text for a scrape. Clusters' figures become text once, in the format that was asked for last."""

    def __init__(self, figures: Figures) -> None:
        self.figures = figures
        self._kept: tuple[str, Clusters, bytes] = "", {}, b""

    async def text(self, accept: str) -> tuple[bytes, str]:
        """All figures as text and its content type, in the best format that the header `Accept` allows."""
        try:
            encode, content_type = choose_encoder(accept)
        except (TypeError, ValueError):  # of a version that is no number
            encode, content_type = choose_encoder("")
        clusters, (format_, of, text) = self.figures.clusters, self._kept
        if format_ != content_type or of is not clusters:
            text = await asyncio.to_thread(encode, _Families(_of_clusters(clusters)))
            text = text.removesuffix(_END)
            self._kept = content_type, clusters, text
        return text + encode(_Families(_of_bot(self.figures))), content_type


def metrics_route(exposition: Exposition, token: str) -> Handler:
    """The HTTP handler of `METRICS_PATH`. Without a token only a client on the same machine is answered."""

    async def metrics(request: web.Request) -> web.Response:
        given = request.headers.get("Authorization", "")
        if not (is_bearer(given, token) if token else request.remote in _THIS_MACHINE):
            text = (
                "the bearer token is missing or wrong\n" if token else "set metrics.token to be read from elsewhere\n"
            )
            return web.Response(status=401, text=text, headers={"WWW-Authenticate": 'Bearer realm="metrics"'})
        body, content_type = await exposition.text(request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})

    return metrics
