"""What can be asked of a Prometheus: see `bot.prometheus.client`."""

from datetime import datetime
from typing import Protocol

from bot.hami.exposition import Sample

SOURCE = "Prometheus"
"""Its name where it could not be read."""


class Prometheus(Protocol):
    """Whatever answers PromQL."""

    async def query(self, expression: str, at: datetime) -> list[Sample]:
        """The samples of an instant query, as of `at`. `name` is empty where a function dropped it; `line` is the
        series and its value as the text format has them. What is no finite number is no sample.

        Raises SourceError: not reached, refused, too slow, too large, or an answer that is no vector.
        """
        ...
