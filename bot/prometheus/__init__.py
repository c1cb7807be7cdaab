"""The interface of a Prometheus to ask; `bot.prometheus.client` implements it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from bot.hami.metrics.exposition import Sample

SOURCE = "Prometheus"
"""The source's name in a gap about Prometheus."""
Labels = dict[bytes, Mapping[str, str]]
"""Label mappings by their text in an answer; most series of a large cluster share theirs with three others."""


class Prometheus(Protocol):
    """A server that answers PromQL."""

    async def query(self, expression: str, at: datetime, labels: Labels | None = None) -> list[Sample]:
        """The samples of an instant query, as of `at`. `name` is empty where a function dropped it; `line` is the
        series and its value in the text format. Values that are no finite numbers are left out. With `labels`, samples
        with equal labels share one mapping, also between answers.

        Raises SourceError: not reached, refused, too slow, too large, or an answer that is no vector.
        """
        ...
