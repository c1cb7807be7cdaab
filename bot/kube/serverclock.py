"""The API server's clock, as the Date of its answers tells it: the one clock that all replicas and shells share.

Between two answers it goes on by this machine's monotonic clock, which nobody sets.
"""

import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime


class ServerClock:
    """Of one way to a cluster. `steady` is monotonic, in seconds."""

    def __init__(self, steady: Callable[[], float] = time.monotonic) -> None:
        self._steady = steady
        self._noted: tuple[float, float] | None = None

    def note(self, date: str) -> None:
        """Takes the Date of an answer that came just now; what is no date changes nothing."""
        try:
            self._noted = parsedate_to_datetime(date).timestamp(), self._steady()
        except (ValueError, TypeError, OverflowError):
            return

    def time(self) -> float | None:
        """Seconds since 1970 by the API server, whole ones plus those since; None before the first answer."""
        if self._noted is None:
            return None
        served, at = self._noted
        return served + self._steady() - at
