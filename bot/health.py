"""What keeps the bot from hearing or telling people something, judged from facts alone."""

from collections.abc import Mapping
from typing import NamedTuple

from bot.texts import Prose, Text

DEAF_S = 30.0
WAITING_S = 300.0
"""So old the oldest message that was not sent may be."""
BLIND_S = 270.0
"""A cluster is told in Slack when looks so far apart could not read it: looked at every minute, after five minutes.
/readyz tells it at once.
"""

_UNNAMED = "(default)"


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
    """One trouble: what is wrong in one line, and what to do about it where Slack can be told.

    `channel` or `cluster` is the one that it is about. `may_pass`: it is too young to be told in Slack.
    """

    kind: str
    text: Text
    cure: Prose = ""
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


def judge(facts: HealthFacts) -> list[Trouble]:
    """The troubles, those that make the bot unready first."""
    found: list[Trouble] = []
    if facts.stopped:
        found.append(Trouble("stopped", Text("trouble.stopped")))
    if facts.token:
        found.append(Trouble("token", Text("trouble.token")))
    if facts.deaf_s > DEAF_S:
        found.append(Trouble("deaf", Text("trouble.deaf", seconds=f"{facts.deaf_s:.0f}")))
    if facts.store:
        found.append(Trouble("store", Text("trouble.store", why=facts.store), Text("trouble.store-cure")))
    for channel, why in sorted(facts.closed.items()):
        text = Text("trouble.channel", channel=channel, why=why)
        found.append(Trouble("channel", text, Text("trouble.channel-cure"), channel))
    if facts.oldest_s > WAITING_S:
        text = Text("trouble.outbox", channel=facts.oldest_for, minutes=f"{facts.oldest_s / 60:.0f}")
        found.append(Trouble("outbox", text, Text("trouble.outbox-cure"), facts.oldest_for))
    if facts.watchdog_s and facts.unheard_s > facts.watchdog_s:
        text = Text("trouble.watchdog", minutes=f"{facts.unheard_s / 60:.0f}")
        found.append(Trouble("watchdog", text, Text("trouble.watchdog-cure")))
    for name in sorted({*facts.blind, *facts.unread}):
        why, unread_s = facts.unread.get(name, (facts.blind.get(name, ""), 0.0))
        text = Text("trouble.blind", cluster=name or _UNNAMED, why=why)
        may_pass = name not in facts.blind and unread_s < BLIND_S
        found.append(Trouble("blind", text, Text("trouble.blind-cure"), cluster=name, may_pass=may_pass))
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
