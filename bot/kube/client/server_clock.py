"""The API server's clock, as the Date of its answers tells it: the one clock that all replicas and shells share.

Between two answers it goes on by this machine's monotonic clock, which nobody sets.
"""

import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime

from bot.kube.cluster import Clocks


class ServerClock:
    """Of one way to a cluster. `steady` is monotonic, `here` is this machine's time since 1970, both in seconds."""

    def __init__(self, steady: Callable[[], float] = time.monotonic, here: Callable[[], float] = time.time) -> None:
        self._steady = steady
        self._here = here
        self._noted_at = 0.0
        self.clocks: Clocks | None = None

    def answered(self, resource: str, date: str) -> None:
        """Takes the Date of an answer about `resource` that came just now; not a pod's, which has its node's clock."""
        if resource != "pods/proxy":
            self.note(date)

    def note(self, date: str) -> None:
        """Takes a Date that the API server wrote just now; what is no date changes nothing."""
        try:
            served = parsedate_to_datetime(date).timestamp()
        except (ValueError, TypeError, OverflowError):
            return
        self.clocks, self._noted_at = Clocks(date, served, self._here()), self._steady()

    def time(self) -> float | None:
        """Seconds since 1970 by the API server, whole ones plus those since; None before the first answer."""
        return self.clocks and self.clocks.served + self._steady() - self._noted_at

    def now(self) -> float:
        """The same; before the first answer by this machine's clock."""
        served = self.time()
        return self._here() if served is None else served
