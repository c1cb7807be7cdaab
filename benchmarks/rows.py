"""What every benchmark gives: rows of the one table."""

from typing import NamedTuple


class Row(NamedTuple):
    """One budget: what was done, what it took, what it may take, and what the peers take."""

    what: str
    ours: str
    budget: str
    met: bool
    peer: str
