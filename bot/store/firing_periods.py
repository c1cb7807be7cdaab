"""When the alerts of incidents about pods fired, and how many GPUs these pods asked for."""

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import bindparam, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.kube.times import parse_time
from bot.store.engine import Rows, columns
from bot.store.tables import alerts, spells
from bot.triage.summary import FiringSpan

_DAY_S = 86400.0
_NAMED = ("source", "fingerprint", "day")
_MERGED = update(spells).where(
    spells.c.incident == bindparam("of_incident"), *(spells.c[name] == bindparam(f"of_{name}") for name in _NAMED)
)
_Place = tuple[str, str, int]


class SpellRows(Rows):
    """Every method raises only StoreError."""

    async def of(self, incident_ids: Collection[str]) -> dict[str, list[FiringSpan]]:
        """The spells of these incidents, none for one without pods. Of a spell that ended because nobody repeated the
        alert, the end is when that was last heard of.
        """
        found: defaultdict[str, list[FiringSpan]] = defaultdict(list)
        newest = select(alerts).where(alerts.c.incident.in_(incident_ids), alerts.c.pod != "")
        before = select(spells).where(spells.c.incident.in_(incident_ids))
        async with self._reading("reading how long pods were affected") as connection:
            for row in await connection.execute(newest):
                found[row.incident].append(FiringSpan((row.namespace, row.pod), row.gpus, *_period(row)))
            for row in await connection.execute(before):
                share = row.fired_s / (row.ended - row.began)
                found[row.incident].append(FiringSpan((row.namespace, row.pod), row.gpus, row.began, row.ended, share))
        return found


async def note_spells(connection: AsyncConnection, incident_id: str, rows: Sequence[Any]) -> None:
    """Adds outbreaks that are over, in order, to what is known of their alerts in the incident.

    There is a row for each alert and day, so that one that comes and goes for weeks stays small.
    """
    merged: dict[_Place, dict[str, Any]] = {}
    periods = [(row, *_period(row)) for row in rows if row.pod]
    if not periods:
        return
    places = [_place(row, began) for row, began, _ in periods]
    known = await _known(connection, incident_id, places)
    for (row, began, ended), place in zip(periods, places, strict=True):
        before = merged.get(place) or known.get(place)
        if ended > began:
            merged[place] = _with(before, row, began, ended)
    named = [dict(zip(_NAMED, place, strict=True)) | {"incident": incident_id} for place in merged]
    fresh = [{**name, **merged[place]} for name, place in zip(named, merged, strict=True) if place not in known]
    more = [
        {f"of_{case}": value for case, value in name.items()} | merged[place]
        for name, place in zip(named, merged, strict=True)
        if place in known
    ]
    if fresh:
        await connection.execute(insert(spells), fresh)
    if more:
        await connection.execute(_MERGED, more)


async def _known(
    connection: AsyncConnection, incident_id: str, places: Sequence[_Place]
) -> dict[_Place, Mapping[str, Any]]:
    here = spells.c.incident == incident_id
    named = spells.c.fingerprint.in_({place[1] for place in places}), spells.c.day.in_({place[2] for place in places})
    wanted = [column for column in spells.c if column.name != "incident"]
    found = await connection.execute(select(*wanted).where(here, *named))
    return {
        (row.source, row.fingerprint, row.day): {
            name: value for name, value in columns(row).items() if name not in _NAMED
        }
        for row in found
    }


def _place(row: Any, began: float) -> _Place:
    return row.source, row.fingerprint, int(began // _DAY_S)


def _with(before: Mapping[str, Any] | None, row: Any, began: float, ended: float) -> dict[str, Any]:
    """An alert may come back with the start it had: what was counted is not counted again."""
    pod = {"namespace": row.namespace, "pod": row.pod}
    if before is None:
        return {**pod, "began": began, "ended": ended, "fired_s": ended - began, "gpus": row.gpus}
    fired_s = before["fired_s"] + max(0.0, ended - max(began, before["ended"]))
    known = [gpus for gpus in (before["gpus"], row.gpus) if gpus is not None]
    return {
        **pod,
        "began": min(began, before["began"]),
        "ended": max(ended, before["ended"]),
        "fired_s": fired_s,
        "gpus": max(known, default=None),
    }


def _period(row: Any) -> tuple[float, float]:
    """What senders say of times counts within what was heard of the alert, and of the pod."""
    ended = {"firing": math.inf, "silent": row.heard_at}.get(row.status)
    if ended is None:
        ended = min(_seconds(row.ends_at, row.changed_at), row.changed_at)
    began = min(_seconds(row.starts_at, row.received_at), row.received_at)
    return max(began, row.pod_created_at), ended


def _seconds(text: str, otherwise: float) -> float:
    moment = parse_time(text)
    return moment.timestamp() if moment else otherwise
