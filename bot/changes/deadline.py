"""When a change reverts by itself: how long it may last, how far it may be extended, and by whose clock. Pure."""

import math
from datetime import UTC, datetime

from bot.changes.record import Record, Refusal
from bot.kube.times import format_duration, format_time, roughly
from bot.texts import Text

SHORTEST_S, USUAL_S, LONGEST_S = 60, 600, 4 * 3600
"""Seconds that a change lasts: at least, where no time is given, and from its start at most, also when extended."""
MOST_SKEW_S = 60.0
"""Seconds that this process's clock may be off the API server's. Beyond, changes are reverted, but none is made."""


def no_such_length(seconds: float) -> Refusal | None:
    """Why a change cannot be asked for so many seconds, None where it can."""
    if SHORTEST_S <= seconds <= LONGEST_S:
        return None
    limits = {"least": format_duration(SHORTEST_S), "most": format_duration(LONGEST_S)}
    return Refusal("duration", Text("refusal.duration", **limits), Text("refusal.duration-do", usual=roughly(USUAL_S)))


def later(record: Record, seconds: float, *, now: float) -> float:
    """The deadline `seconds` after the record's present deadline, or after `now` where that has passed."""
    return max(record.deadline, math.floor(now)) + math.ceil(seconds)


def no_extension(record: Record, until: float, *, now: float) -> Refusal | None:
    """Why the deadline cannot be moved to `until`: it is too long after the change's start, or no later than the
    present deadline, so that of two equal requests at once one is carried out. None where it can.
    """
    if until > record.since + LONGEST_S:
        why = Text("refusal.too-long", most=format_duration(LONGEST_S), at=record.raised_at)
        left = math.floor((record.since + LONGEST_S - later(record, 0, now=now)) / 60)
        do = Text("refusal.too-long-do", minutes=left) if left > 0 else Text("refusal.too-long-end")
        return Refusal("too-long", why, do)
    if until <= record.deadline:
        return Refusal("too-short", Text("refusal.too-short", until=record.at), Text("refusal.too-short-do"))
    return None


def skewed(skew_s: float) -> Text | None:
    """How far this process's clock is from the API server's, None while the difference is at most `MOST_SKEW_S`."""
    if abs(skew_s) <= MOST_SKEW_S:
        return None
    return Text("refusal.clock-ahead" if skew_s > 0 else "refusal.clock-behind", by=roughly(abs(skew_s)))


def wrong_clock(skew_s: float) -> Refusal | None:
    """Why a process whose clock is `skew_s` ahead of the API server's may make no change, None where it may."""
    why = skewed(skew_s)
    return Refusal("clock", why, Text("refusal.clock-do")) if why else None


def time_text(seconds: float) -> str:
    """The text that a record has for a time, given in seconds since 1970."""
    return format_time(datetime.fromtimestamp(seconds, UTC))
