"""What keeps the bot from hearing or telling people something, judged from facts alone."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from bot.texts import Prose, Text

DEAF_S = 30.0
WAITING_S = 300.0
"""So old the oldest message that was not sent may be."""
BLIND_S = 270.0
"""A cluster is told in Slack when looks so far apart could not read it: looked at every minute, after five minutes.
/readyz tells it at once.
"""

_UNNAMED = "(default)"

Kind = Literal["stopped", "token", "deaf", "store", "channel", "outbox", "watchdog", "blind"]


_TEXTS: Mapping[Kind, str] = {
    "stopped": "trouble.stopped",
    "token": "trouble.token",
    "deaf": "trouble.deaf",
    "store": "trouble.store",
    "channel": "trouble.channel",
    "outbox": "trouble.outbox",
    "watchdog": "trouble.watchdog",
    "blind": "trouble.blind",
}
_CURES: Mapping[Kind, Text] = {
    "store": Text("trouble.store-cure"),
    "channel": Text("trouble.channel-cure"),
    "outbox": Text("trouble.outbox-cure"),
    "watchdog": Text("trouble.watchdog-cure"),
    "blind": Text("trouble.blind-cure"),
}
"""What to do about those that Slack can be told of."""


class HealthFacts(NamedTuple):
    """What is known now. `deaf_s`: seconds without a connection to Slack; `store`: why it takes no writes, or empty.

    `closed`: why nothing can be posted to a channel; `oldest_s` is the age of the oldest message that was not sent, to
    `oldest_for`; `unheard_s`: seconds since Alertmanager's Watchdog was heard, of which `watchdog_s` are fine (0: any).
    `blind`: why a cluster is not seen, by its name, as two self-tests in a row found. `unread`: why, and for how many
    seconds, a cluster could not be read at the last looks.
    """

    stopped: bool = False
    token: bool = False
    deaf_s: float = 0.0
    store: Prose = ""
    closed: Mapping[str, Prose] = {}
    oldest_s: float = 0.0
    oldest_for: str = ""
    unheard_s: float = 0.0
    watchdog_s: float = 0.0
    blind: Mapping[str, str] = {}
    unread: Mapping[str, tuple[Prose, float]] = {}


class Trouble(NamedTuple):
    """One trouble. `channel` or `cluster` is the one that it is about, `values` those of its text. `may_pass`: it is
    too young to be told in Slack.
    """

    kind: Kind
    values: Mapping[str, Prose] = {}
    channel: str = ""
    cluster: str = ""
    may_pass: bool = False

    @property
    def key(self) -> str:
        """Names it as long as it lasts, whatever its figures."""
        if self.kind == "blind":
            return f"blind:{self.cluster}"
        return f"{self.kind}:{self.channel}" if self.kind == "channel" else self.kind

    @property
    def is_unready(self) -> bool:
        """Whether nothing should be sent to this process: what it takes could be neither kept nor told."""
        return self.kind in {"stopped", "token", "deaf", "store"}

    @property
    def text(self) -> Text:
        """What is wrong, in one line."""
        return Text(_TEXTS[self.kind], **self.values)

    @property
    def cure(self) -> Text:
        """What to do about it. Raises KeyError for a trouble that nobody can be told of in Slack."""
        return _CURES[self.kind]


def judge(facts: HealthFacts) -> list[Trouble]:
    """The troubles, those that make the bot unready first."""
    found: list[Trouble] = []
    if facts.stopped:
        found.append(Trouble("stopped"))
    if facts.token:
        found.append(Trouble("token"))
    if facts.deaf_s > DEAF_S:
        found.append(Trouble("deaf", {"seconds": f"{facts.deaf_s:.0f}"}))
    if facts.store:
        found.append(Trouble("store", {"why": facts.store}))
    found += [
        Trouble("channel", {"channel": channel, "why": facts.closed[channel]}, channel)
        for channel in sorted(facts.closed)
    ]
    if facts.oldest_s > WAITING_S:
        values = {"channel": facts.oldest_for, "minutes": f"{facts.oldest_s / 60:.0f}"}
        found.append(Trouble("outbox", values, facts.oldest_for))
    if facts.watchdog_s and facts.unheard_s > facts.watchdog_s:
        found.append(Trouble("watchdog", {"minutes": f"{facts.unheard_s / 60:.0f}"}))
    for name in sorted({*facts.blind, *facts.unread}):
        blind: Prose = facts.blind.get(name, "")
        why, unread_s = facts.unread.get(name, (blind, 0.0))
        may_pass = name not in facts.blind and unread_s < BLIND_S
        values = {"cluster": name or _UNNAMED, "why": why}
        found.append(Trouble("blind", values, cluster=name, may_pass=may_pass))
    return found


class SteadyAge:
    """An age by the wall clock, which may jump: it grows no faster than a clock that does not. All in seconds."""

    def __init__(self) -> None:
        self._last: tuple[float, float] | None = None

    def of(self, age_s: float, at: float) -> float:
        """The age, given what the wall clock makes of it, and the other clock at that moment. The first is believed."""
        age_s = max(age_s, 0.0)
        if self._last:
            was_s, was_at = self._last
            age_s = min(age_s, was_s + at - was_at)
        self._last = age_s, at
        return age_s
