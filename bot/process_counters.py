"""Counters of this process since it began, for /metrics; global, so that any code can count without getting them."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate

Labels = tuple[str, ...]


class Histogram:
    """Counts of values up to each edge, by labels."""

    def __init__(self, edges: Sequence[float]) -> None:
        self.edges = edges
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}

    def begin(self, *labels: str) -> None:
        """Begins to count under these labels: /metrics serves 0 before the first value."""
        self._counts.setdefault(labels, [0] * (len(self.edges) + 1))
        self._sums.setdefault(labels, 0.0)

    def observe(self, value: float, *labels: str) -> None:
        """Counts one value under these labels."""
        self.begin(*labels)
        self._counts[labels][bisect_left(self.edges, value)] += 1
        self._sums[labels] += value

    def cumulated(self) -> list[tuple[Labels, Sequence[int], float]]:
        """For each set of labels, the counts of values up to each edge and of all, and the values' sum."""
        return [(labels, list(accumulate(counts)), self._sums[labels]) for labels, counts in self._counts.items()]


ACKS = Histogram((0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 3))
"""Seconds from a request of Slack to the bot's answer. Slack waits 3 s."""
PLAYBOOKS = Histogram((0.1, 0.3, 1, 3, 10, 30, 120))
"""Seconds that a question in Slack took to be read and judged, by verb and outcome."""
POD_STARTS = Histogram((5, 15, 30, 60, 120, 300, 600, 1800, 3600, 14400, 86400))
"""Seconds from a pod's creation until it ran, by cluster."""
SCHEDULER_CALLS = Histogram((0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30))
"""Seconds that a call of HAMi's scheduler took, by cluster and `filter` or `bind`."""
REFUSALS: Counter[tuple[str, str]] = Counter()
"""Filters of HAMi's scheduler that took no node, by cluster and reason; one with several reasons counts for each."""
KUBERNETES_REQUESTS: Counter[tuple[str, str, str]] = Counter()
"""Requests to API servers by cluster, RBAC's verb, and the status of the answer; `none` where none came."""
