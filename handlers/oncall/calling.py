"""Who is called for an incident: how bad it is now, who is due, and what a last resort is told."""

import contextlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from bot.slack.render.blocks import Draft
from bot.slack.render.triage_head import render_last_resort
from bot.store.alert_rows import Counts
from bot.store.incidents import Row
from bot.triage.cause import severest
from bot.triage.state import Call, Extent, IncidentTimes, News, next_call, wants_call
from handlers.oncall.on_call_now import ON_CALL, Rota
from handlers.oncall.words import DEEDS
from handlers.user_actions import read_deed

PRESSED, SUBMITTED, IN_WORDS = "triage-press", "triage-form", "triage"
"""The kinds of deeds about an incident: a button, a form, words."""
_CALM = frozenset(DEEDS.values()) - {"note"}
"""After these nobody needs to be called."""
_WORDS = re.compile(
    rf"\s*(?:--cluster[= ]\S+\s+)?triage\s+({'|'.join(DEEDS)})\b(?:\s+([0-9a-f]{{8}})\b)?", re.IGNORECASE
)


class Unfinished(NamedTuple):
    """Something that a person did about an incident, and that is not carried out yet. Without `incident` it is about
    that of the thread.
    """

    incident: str
    channel: str
    thread_ts: str

    def is_about(self, row: Row) -> bool:
        """Whether it is that incident."""
        if self.incident:
            return self.incident == row.id
        return (self.channel, self.thread_ts) == (row.channel, row.thread_ts)


class _Deed(msgspec.Struct, frozen=True):
    """As much as counts here of the details of a button and of a form. Both may be made up."""

    deed: str = ""
    incident: str = ""


def read_unfinished(payloads: Iterable[str]) -> list[Unfinished]:
    """What of the store's unfinished work spares others a call, such as an acknowledgement."""
    found: list[Unfinished] = []
    for kept in filter(None, map(read_deed, payloads)):
        asked, what, incident = kept.asked, "", ""
        if kept.kind == IN_WORDS and (words := _WORDS.match(asked.words)):
            what, incident = DEEDS[words[1].casefold()], words[2] or ""
        elif kept.kind in {PRESSED, SUBMITTED}:
            with contextlib.suppress(msgspec.DecodeError):  # of another version
                details = msgspec.json.decode(kept.details, type=_Deed)
                what, incident = details.deed, details.incident
        if what in _CALM:
            found.append(Unfinished(incident, asked.channel, asked.thread_ts))
    return found


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


def told_elsewhere(row: Row, news: News, link: str) -> tuple[str, Draft] | None:
    """Where a last resort is told outside the thread, and what; None for a user group, which the thread calls, and for
    the thread's own channel, which sees what the thread tells of calls.
    """
    if news.turn != "last-resort" or news.detail.startswith("S") or news.detail == row.channel:
        return None
    return news.detail, render_last_resort(row.id, row.cause.text, link)
