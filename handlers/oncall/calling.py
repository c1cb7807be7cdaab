"""Who is called for an incident: how bad it is now, who is due, and what a last resort is told."""

from collections.abc import Mapping, Sequence

from bot.slack.message import Message
from bot.slack.render.escalation import render_last_resort
from bot.store.alert_rows import Counts
from bot.store.incidents import Row
from bot.texts import Texts
from bot.triage.cause import severest
from bot.triage.state import Call, Extent, IncidentTimes, News, next_call, wants_call
from handlers.oncall.on_call_now import ON_CALL, Rota


def extent_of(row: Row, counts: Counts) -> Extent:
    """How bad the incident is now."""
    return Extent(
        severest(row.cause.severity, counts.severities), counts.pods_firing or counts.nodes_firing or counts.firing
    )


def call_to_come(row: Row, counts: Counts, terms: IncidentTimes, rota: Sequence[str]) -> Call | None:
    """The next call while nothing changes, with that rota."""
    firing, extent = counts.firing > 0, extent_of(row, counts)
    return next_call(row.incident, terms._replace(rota=tuple(rota)), firing=firing, extent=extent)


def terms_now(terms: IncidentTimes, rota: Rota) -> IncidentTimes:
    """With the rota of now; without anybody while that has to be asked for first."""
    known = rota.known()
    return terms._replace(call_s=0.0) if known is None else terms._replace(rota=known)


def is_asked_for(
    rows: Sequence[Row], counts: Mapping[str, Counts], terms: IncidentTimes, rota: Rota, now: float
) -> bool:
    """Whether the rota has to be asked for: somebody is due to be called.

    Where everybody was called already, it is asked for no more often than people are called.
    """
    if rota.known() is not None:
        return False
    probed = terms._replace(rota=rota.known(terms.call_s) or (ON_CALL,))
    for row in rows:
        some = counts.get(row.id, Counts())
        if wants_call(row.incident, now, probed, firing=some.firing > 0, extent=extent_of(row, some)):
            return True
    return False


def told_elsewhere(row: Row, news: News, link: str, say: Texts) -> tuple[str, Message] | None:
    """Where a last resort is told outside the thread, and what; None for a user group, which the thread calls, and for
    the thread's own channel, which sees what the thread tells of calls.
    """
    if news.turn != "last-resort" or news.detail.startswith("S") or news.detail == row.channel:
        return None
    return news.detail, render_last_resort(row.id, row.cause.claim, link, say)
