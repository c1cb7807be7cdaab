"""What became of an incident, from its timeline: how long it took, who did what, and who was called."""

from collections.abc import Sequence
from typing import NamedTuple

from bot.triage.gputime import GpuTime
from bot.triage.state import CALLS, News, Turn

ENDS: frozenset[Turn] = frozenset({"resolved", "closed"})
"""After these nobody has to do anything."""
_RETURNS = frozenset({"reopened", "renewed"})
_SEEN = frozenset({"acknowledged", "taken", "handed-over", "muted"})
_DONE = frozenset({"noted", "handed-over", "muted", "closed", "change-asked", "profile-taken"})


class TimelineEntry(NamedTuple):
    """One line of a timeline; `at` in seconds since 1970."""

    at: float
    news: News


class Summary(NamedTuple):
    """Times are in seconds since the incident first opened, None for what did not happen, or not yet.

    `acknowledged_s` is until the first person acknowledged, took, muted or handed it over. `ended_s` is until it was
    resolved or closed the last time, and includes the time in between if it came back (`returned` times). `closed_by`
    is empty where it resolved by itself. `called` are the calls in order, a person called twice is there twice; `pages`
    counts how often pagers were rung. `done` are notes, hand-overs, mutes, changes asked for and profiles taken in
    the thread, and what was said when it was closed. `owner` is the last one. `affected` is not in the timeline: see
    `bot.triage.gputime`.
    """

    acknowledged_s: float | None = None
    acknowledged_by: str = ""
    ended_s: float | None = None
    closed_by: str = ""
    returned: int = 0
    called: tuple[str, ...] = ()
    pages: int = 0
    done: tuple[TimelineEntry, ...] = ()
    owner: str = ""
    affected: GpuTime = GpuTime()


def summarize(happened: Sequence[TimelineEntry]) -> Summary:
    """The summary of a timeline, which is in order and begins with the opening."""
    if not happened:
        return Summary()
    began = happened[0].at
    seen = next((event for event in happened if event.news.turn in _SEEN and event.news.by), None)
    turns = [event for event in happened if event.news.turn in ENDS or event.news.turn in _RETURNS]
    end = turns[-1] if turns and turns[-1].news.turn in ENDS else None
    return Summary(
        seen.at - began if seen else None,
        seen.news.by if seen else "",
        end.at - began if end else None,
        end.news.by if end else "",
        sum(turn.news.turn in _RETURNS for turn in turns),
        tuple(event.news.detail for event in happened if event.news.turn in CALLS),
        sum(event.news.turn == "paged" for event in happened),
        tuple(
            event
            for event in happened
            if event.news.turn in _DONE and (event.news.detail or event.news.turn == "muted")
        ),
        _owner(happened),
    )


def _owner(happened: Sequence[TimelineEntry]) -> str:
    """As `bot.triage.state.act` has it: whoever does something first, until somebody takes it or is given it."""
    owner = ""
    for _, news in happened:
        match news.turn:
            case "handed-over":
                owner = news.detail
            case "taken":
                owner = news.by
            case "acknowledged" | "muted" | "unmuted":
                owner = owner or news.by
            case _:
                pass
    return owner
