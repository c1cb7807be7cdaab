"""What can be asked of a Prometheus: see `bot.prometheus.client`."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Protocol

from bot.hami.metrics.exposition import Sample

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


_LABELS: ContextVar[dict[bytes, Mapping[str, str]] | None] = ContextVar("labels", default=None)


@contextmanager
def sharing_labels() -> Generator[None]:
    """Until it ends, samples of all answers that have the same labels have one mapping of them.

    Of a large cluster's 100,000 series most have the labels of three others.
    """
    token = _LABELS.set({})
    try:
        yield
    finally:
        _LABELS.reset(token)


def shared_labels() -> dict[bytes, Mapping[str, str]]:
    """By what was written; a new one where nobody shares."""
    known = _LABELS.get()
    return {} if known is None else known
