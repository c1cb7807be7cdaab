"""Rate limits: calls per minute and method, one message per second and channel; short bursts pass."""

import math
from dataclasses import dataclass

from sandbox.slack.clock import Clock

_MESSAGES_AT_ONCE = 3  # burst of chat.postMessage to one channel
_LEAST_BURST = 30  # of any method: "1+ per minute" is not enforced on a client that reconnects


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class Rates:
    """Token buckets on the server's clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._buckets: dict[tuple[str, str], _Bucket] = {}

    def wait(self, method: str, per_minute: int, channel: str) -> int:
        """Seconds to wait before this call may be made, 0 when it may be made now and counts."""
        if method == "chat.postMessage":
            return self._take((method, channel), 1.0, _MESSAGES_AT_ONCE)
        if not per_minute:
            return 0
        return self._take((method, ""), per_minute / 60, max(per_minute, _LEAST_BURST))

    def _take(self, key: tuple[str, str], per_second: float, burst: float) -> int:
        now = self._clock.now()
        bucket = self._buckets.setdefault(key, _Bucket(burst, now))
        bucket.tokens = min(burst, bucket.tokens + (now - bucket.at) * per_second)
        bucket.at = now
        if bucket.tokens < 1:
            return max(1, math.ceil((1 - bucket.tokens) / per_second))
        bucket.tokens -= 1
        return 0
