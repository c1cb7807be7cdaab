"""The rows of a digest's report."""

from typing import NamedTuple

from bot.texts import Prose


class FigureRow(NamedTuple):
    """One of the figures that digests are compared by, see `bot.digest.figures`."""

    area: Prose
    what: str
    value: str


class OwnerRow(NamedTuple):
    """Whose so many pods a finding concerns, by its place in the report from 1 on. `namespace`, `team` may be empty."""

    finding: int
    kind: str
    namespace: str
    name: str
    team: str
    pods: int
