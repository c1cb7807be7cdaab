"""What became of every deed, held against what the bot said that it took."""

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from benchmarks.soak import seen
from benchmarks.soak.deeds import KINDS, Deed, Kind
from benchmarks.soak.place import INCIDENTS, Place
from benchmarks.soak.store import Contents
from sandbox.slack import SlackServer

_TURNS: dict[Kind, tuple[str, ...]] = {
    "note": ("noted",),
    "ack": ("acknowledged",),
    "take": ("taken",),
    "mute": ("muted",),
    "handover": ("handed-over",),
}
MAY_BE_LOST = frozenset({"question"})
"""Its ack waits only a moment for the store (`bot.slack.question_tasks.KEEPING_S`): whoever asked asks again."""


_BEGUN = ("Looking at the cluster", "This takes a few seconds")


class Fate(NamedTuple):
    """When a deed was carried out, each time (seconds since 1970, 0: not known), and whether its person was told."""

    moments: list[float]
    is_told: bool

    @property
    def times(self) -> int:
        return len(self.moments)

    def took_s(self, deed: Deed) -> float:
        """Seconds from the ack to what followed from it; an ack that goes astray follows upon it."""
        return max(0.0, max(self.moments) - deed.acked_at)


class Row(NamedTuple):
    """One line of the account. `untaken_done`: done although nobody said so, as when the ack itself went astray."""

    kind: Kind
    sent: int
    acked: int
    once: int
    told: int
    lost: list[str]
    doubled: list[str]
    untaken_done: int
    longest_s: float


def account(deeds: Iterable[Deed], slack: SlackServer, store: Contents) -> list[Row]:
    """A row for every kind of which there were any."""
    replies = _replies(slack)
    by_kind: dict[Kind, list[tuple[Deed, Fate]]] = {kind: [] for kind in KINDS}
    for deed in deeds:
        by_kind[deed.kind].append((deed, _fate(deed, slack, store, replies)))
    return [_row(kind, found) for kind, found in by_kind.items() if found]


def wrong(place: Place, store: Contents, before: dict[str, Any]) -> list[str]:
    """What must not be, whatever was asked: one line each. `before` is the scheduler's Deployment at the start."""
    found: list[str] = []
    if json.dumps(place.deployment()["spec"]) != json.dumps(before["spec"]):
        found.append("the scheduler's Deployment is not what it was")
    if place.is_changed:
        found.append("the scheduler's Deployment carries the record of a change")
    everything = seen.everything(place.slack)
    keys = Counter(key for message in everything if (key := seen.key_of(message)))
    found += [f"the message {key} is there {count} times" for key, count in keys.items() if count > 1]
    found += [f"incident {incident} has no head" for incident in store.incidents if keys[f"triage:{incident}"] == 0]
    found += [f"a message says: {text[:200]}" for text in map(seen.text_of, everything) if "a fault of the bot" in text]
    found += [f"a message says: {text[:200]}" for text in map(seen.text_of, everything) if "a bug:" in text]
    found += [f"Slack was asked for {method}, which it does not have" for method in place.slack.unknown_methods]
    found += [f"the digest {digest} was not posted" for digest in store.missed]
    found += _in_log(place)
    return found


def _in_log(place: Place) -> list[str]:
    lines = place.log.read_text(errors="replace").splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith("Traceback")]
    ends = [next((line for line in lines[at + 1 :] if line and not line[0].isspace()), "") for at in starts]
    return [
        f"line {at + 1} of the bot's log begins a traceback: {end[:200]}" for at, end in zip(starts, ends, strict=True)
    ]


def _row(kind: Kind, found: list[tuple[Deed, Fate]]) -> Row:
    acked = [(deed, fate) for deed, fate in found if deed.acked_at]
    done = [(deed, fate) for deed, fate in acked if fate.times]
    return Row(
        kind,
        len(found),
        len(acked),
        sum(fate.times == 1 for _, fate in done),
        sum(fate.is_told for _, fate in acked if not fate.times),
        [deed.name for deed, fate in acked if not (fate.times or fate.is_told)],
        [deed.name for deed, fate in found if fate.times > 1],
        sum(fate.times == 1 for deed, fate in found if not deed.acked_at),
        max((fate.took_s(deed) for deed, fate in done), default=0.0),
    )


def _fate(deed: Deed, slack: SlackServer, store: Contents, replies: str) -> Fate:
    if deed.kind in ("alert", "resolved alert"):
        rows = store.alerts.get(deed.about, [])
        wanted = [incident if deed.kind == "alert" else status == "resolved" for incident, status in rows]
        return Fate([0.0 for expected in wanted if expected], is_told=False)
    moments = _moments(deed, slack, store)
    if deed.kind == "note" and len(moments) == 1:
        moments *= replies.count(deed.name)
    return Fate(moments, bool(_told_at(deed, slack)))


def _moments(deed: Deed, slack: SlackServer, store: Contents) -> list[float]:
    """When it was done: what stands in the incident's timeline, in the audit log, in the row that it made."""
    lines = store.audit.get(deed.who, [])
    match deed.kind:
        case "note" | "ack" | "take" | "mute" | "handover":
            return [event.at for event in store.events.get(deed.who, []) if event.turn in _TURNS[deed.kind]]
        case "digest":
            made = [at for action, outcome, at in lines if (action, outcome) == ("digest-add", "done")]
            return (made or [0.0])[:1] * store.digests[deed.who]
        case "digest stop":
            return [at for action, outcome, at in lines if (action, outcome) == ("digest-stop", "done")]
        case "raise":
            return store.raises.get(deed.who, [])
        case "extend":
            return [at for action, outcome, at in lines if (action, outcome) == ("extend", "extended")]
        case "revert":
            return [at for action, outcome, at in lines if action == "revert" and outcome.startswith("reverted")]
        case _:
            return _told_at(deed, slack)[:1]


def _told_at(deed: Deed, slack: SlackServer) -> list[float]:
    """When the person was told how it ended: what says that it is begun, or offers something, is no end."""
    said = [message for message in seen.told(slack, deed.who) if "change:confirm" not in seen.buttons(message)]
    ended = [message for message in said if not message["text"].lstrip("_ ").startswith(_BEGUN)]
    return sorted(float(message.get("edited", {}).get("ts", message["ts"])) for message in ended)


def _replies(slack: SlackServer) -> str:
    """What the bot says in triage threads."""
    said = slack.workspace.channels[INCIDENTS].messages.values()
    return "\n".join(
        message["text"]
        for message in said
        if message.get("bot_id") and message.get("thread_ts", message["ts"]) != message["ts"]
    )
