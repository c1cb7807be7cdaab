"""The figures as metric families."""

from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from bot import process_counters
from bot.metrics.figures import BotFigures, ClusterFigures, Figures

_MIB = 1024 * 1024


class OfClusters(Collector):
    """What the last look at each cluster saw."""

    def __init__(self, clusters: Mapping[str, ClusterFigures | None]) -> None:
        self._clusters = clusters

    def collect(self) -> Iterator[Metric]:
        seen = {name: figures for name, figures in self._clusters.items() if figures is not None}
        yield from _of_pods(seen)
        yield from _of_gpus(seen)
        gaps = {(cluster, source): n for cluster, figures in seen.items() for source, n in figures.gaps.items()}
        yield _gauge("gaps", "sources that the last look could not read", gaps, "cluster", "source")
        yield _gauge("look_seconds", "how long the last look took", _each(seen, "took_s"), "cluster")
        yield _gauge("look_timestamp_seconds", "when the last look ended", _each(seen, "at"), "cluster")
        kept = {name: figures for name, figures in seen.items() if figures.cache_age_s is not None}
        text = "how old what the last look had from memory may have been"
        yield _gauge("cache_age_seconds", text, _each(kept, "cache_age_s"), "cluster")


class OfBot(Collector):
    """The bot itself, and what this process has counted."""

    def __init__(self, figures: Figures) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        yield _gauge("ready", "1 while the bot can hear and tell", {(): float(self._figures.is_ready())})
        failed, clusters = self._figures.blind, self._figures.clusters
        blind = {(name,): float(figures is None or name in failed) for name, figures in clusters.items()}
        yield _gauge("blind", "1 where the last look at the cluster failed, or the self-test", blind, "cluster")
        if self._figures.bot is not None:
            yield from _of_store(self._figures.bot)
        text = "from the creation of a pod with a GPU until it ran"
        yield _histogram("pod_start_seconds", text, process_counters.POD_STARTS, "cluster")
        yield _histogram("slack_ack_seconds", "from a request of Slack to its answer", process_counters.ACKS)
        text = "how long questions in Slack took to be read and judged"
        yield _histogram("playbook_seconds", text, process_counters.PLAYBOOKS, "verb", "outcome")
        requests: Any = CounterMetricFamily(
            "hami_bot_kubernetes_requests",
            "requests to API servers, by the status of the answer",
            labels=("cluster", "verb", "status"),
        )
        for labels, n in list(process_counters.KUBERNETES_REQUESTS.items()):
            requests.add_metric(labels, n)
        yield requests


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


def _histogram(name: str, text: str, counted: process_counters.Histogram, *labels: str) -> Metric:
    family: Any = HistogramMetricFamily(f"hami_bot_{name}", text, labels=labels)
    edges = [*(str(float(edge)) for edge in counted.edges), "+Inf"]
    for given, counts, total in counted.told():
        family.add_metric(given, list(zip(edges, counts, strict=True)), total)
    return family
