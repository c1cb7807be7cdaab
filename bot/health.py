"""The bot's own health: what keeps it from hearing or telling people something, judged from facts alone."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from bot.texts import Prose, Text

DEAF_S = 30.0
WAITING_S = 300.0
"""The age in seconds from which on an unsent message is trouble."""
BLIND_S = 270.0
"""The seconds between two failed reads of a cluster after which Slack is told: five minutes, at a read a minute.
/readyz tells of it at once."""

_UNNAMED = "(default)"


class HealthFacts(msgspec.Struct, frozen=True):
    """The facts about the bot's health now. `deaf_s`: seconds without a connection to Slack. `store`: why it takes no
    writes, or empty. `closed`: by channel, why nothing can be posted; `oldest_s` is the age of the oldest unsent
    message, to `oldest_for`; `unheard_s`: seconds since Alertmanager's Watchdog was heard, of which `watchdog_s` are
    fine (0: any). `blind`: by cluster, why two self-tests in a row failed. `unread`: by cluster, why it could not be
    read lately, and for how many seconds.
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
    """One trouble of the bot: what is wrong in one line, and what to do about it where Slack can be told. `channel` or
    `cluster` is the one in trouble. `may_pass`: the trouble is too young to be told in Slack.
    """

    kind: str
    text: Text
    cure: Prose = ""
    channel: str = ""
    cluster: str = ""
    may_pass: bool = False

    @property
    def key(self) -> str:
        """The trouble's name for as long as it lasts, whatever its figures."""
        if self.kind == "blind":
            return f"blind:{self.cluster}"
        return f"{self.kind}:{self.channel}" if self.kind == "channel" else self.kind

    @property
    def is_unready(self) -> bool:
        """Whether this process should get no requests: it could neither keep them nor answer."""
        return self.kind in {"stopped", "token", "deaf", "store"}


def judge(facts: HealthFacts) -> list[Trouble]:
    """The troubles that follow from the facts, those that make the bot unready first."""
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
    """An age by the wall clock, which may jump: it grows no faster than a monotonic clock. All in seconds."""

    def __init__(self) -> None:
        self._last: tuple[float, float] | None = None

    def of(self, age_s: float, at: float) -> float:
        """The age: `age_s` is the wall clock's, `at` the monotonic clock's time. The first call is believed."""
        age_s = max(age_s, 0.0)
        if self._last:
            was_s, was_at = self._last
            age_s = min(age_s, was_s + at - was_at)
        self._last = age_s, at
        return age_s
