"""What /metrics tells, as figures."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from bot.finding_codes import CODES, Code, PendingClass

MOST_NAMESPACES = 200
OTHERS = "(others)"
"""The namespaces of a cluster beyond the `MOST_NAMESPACES` with the most pending pods, together; GPU types likewise."""
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
    """What one look at a cluster saw. `gpus` by state; `largest_free_mib` by GPU type; `gaps` by source.

    `took_s` is the look's time; `cache_age_s` how old what it had from memory may have been, None for a cluster of
    which nothing is kept.
    """

    waiting: Waiting = Waiting()
    gpus: Mapping[str, int] = {}
    largest_free_mib: Mapping[str, int] = {}
    gaps: Mapping[str, int] = {}
    took_s: float = 0.0
    at: float = 0.0
    cache_age_s: float | None = None


class BotFigures(NamedTuple):
    """Of the bot itself. `incidents` by state, those that have not ended; times in seconds."""

    open_changes: int = 0
    overdue_changes: int = 0
    incidents: Mapping[str, int] = {}
    unsent_messages: int = 0
    oldest_unsent_s: float = 0.0
    questions: int = 0
    oldest_question_s: float = 0.0


class Figures:
    """The newest of everything. A cluster whose last look failed is `None`: nothing is told of it but that."""

    def __init__(self, is_ready: Callable[[], bool]) -> None:
        self.is_ready = is_ready
        self.clusters: Mapping[str, ClusterFigures | None] = {}
        self.bot: BotFigures | None = None
        self.blind: frozenset[str] = frozenset()
        """Clusters of which the self-test failed."""


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


def largest_by_type(slices: Iterable[tuple[str, int]]) -> Mapping[str, int]:
    """The largest slice of each GPU type, of one slice for each GPU. The `MOST_TYPES` with the most GPUs are named.

    Types come from annotations of nodes, which may hold anything.
    """
    cut = [(type_[:_LONGEST_TYPE], mib) for type_, mib in slices]
    named = {type_ for type_, _ in Counter(type_ for type_, _ in cut).most_common(MOST_TYPES)}
    largest: dict[str, int] = {}
    for type_, mib in cut:
        name = type_ if type_ in named else OTHERS
        largest[name] = max(largest.get(name, 0), mib)
    return largest


def gaps_by_source(sources: Iterable[str]) -> Mapping[str, int]:
    """Each source once, under its beginning that names no object: `log of ns/pod` is a `log`."""
    found = (_SOURCE.match(source) for source in set(sources))
    return Counter(match[1] if match else OTHER_SOURCE for match in found)
