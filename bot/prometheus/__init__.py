"""What can be asked of a Prometheus: see `bot.prometheus.client`."""

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from bot.hami.metrics.exposition import Sample

SOURCE = "Prometheus"
"""Its name where it could not be read."""
Labels = dict[bytes, Mapping[str, str]]
"""Labels by how they were written. Of a large cluster's 100,000 series most have the labels of three others."""


class Prometheus(Protocol):
    """Whatever answers PromQL."""

    async def query(self, expression: str, at: datetime, labels: Labels | None = None) -> list[Sample]:
        """The samples of an instant query, as of `at`. `name` is empty where a function dropped it; `line` is the
        series and its value as the text format has them. What is no finite number is no sample. With `labels`, samples
        of all answers that have the same labels have one mapping of them.

        Raises SourceError: not reached, refused, too slow, too large, or an answer that is no vector.
        """
        ...
