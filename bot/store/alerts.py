"""The store's alerts, a row for each outbreak: one time that an alert fires. An alert that was taken is sorted into an
incident later (`bot.store.incidents`), or a route of the settings ignores it: it is then in no incident, and only
counted. Of alerts that are over, the store keeps when those of pods fired, and how many GPUs these pods asked for. The
functions below the class work inside a transaction of the class or of `bot.store.incidents`.
"""

import json
import math
from collections import Counter, defaultdict
from collections.abc import Collection, Generator, Mapping, Sequence
from itertools import groupby
from typing import Any, TypeVar

import msgspec
from sqlalchemy import Row, and_, bindparam, delete, exists, func, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.kube.times import parse_time
from bot.store.base import OvertakenError, StoredRows, transaction
from bot.store.tables import alerts, incidents
from bot.store.timeline import note
from bot.triage.routes import Ignored
from bot.triage.state import News, Turn
from bot.triage.summary import Counts, FiringSpan, GpuRequest
from bot.triage.webhook import Alert, Outbreak, hear, last_moment

T = TypeVar("T")

OVER = "-"
"""Stands in place of an incident's id: the alert was over when it was first heard of, and nobody has to be told."""
IGNORED = "!"
"""Stands in place of an incident's id: a route of the settings ignores the alert."""
_AT_ONCE = 400
_SUBJECTS = 20
_PLACE = ("of_source", "of_fingerprint", "of_number")
_NEEDS = update(alerts).where(
    alerts.c.source == bindparam("of_source"),
    alerts.c.fingerprint == bindparam("of_fingerprint"),
    alerts.c.incident == bindparam("of_incident"),
)
_CHANGED = update(alerts).where(*(alerts.c[name.removeprefix("of_")] == bindparam(name) for name in _PLACE))


class AlertRows(StoredRows):
    """The alerts in the store. Each method is one transaction; `take` makes one for each few hundred alerts."""

    async def take(self, given: Sequence[Alert]) -> int:
        """Keeps the alerts and gives how many outbreaks began or ended; repeated or late alerts count none."""
        news = 0
        in_order = sorted(given, key=lambda alert: (name_of(alert), last_moment(alert), alert.status == "resolved"))
        for some in parts(in_order):
            news += await transaction(
                self._engine, "keeping alerts", lambda connection, some=some: keep_alerts(connection, some, self._now())
            )
        return news

    async def silence(self, source: str, before: float) -> None:
        """Ends the source's firing alerts that were not heard of since `before`; their incidents tell so."""
        await self._silence(and_(alerts.c.source == source, alerts.c.heard_at <= before), "unheard")

    async def unwatch(self, source: str, watched: Collection[str]) -> None:
        """Ends the source's firing alerts in clusters that are not `watched`; their incidents tell so."""
        await self._silence(and_(alerts.c.source == source, alerts.c.cluster.not_in(watched)), "unwatched")

    async def _silence(self, which: Any, turn: Turn) -> None:
        quiet = and_(which, alerts.c.status == "firing")
        ordered = select(alerts.c.incident).where(quiet).order_by(alerts.c.fingerprint, alerts.c.number)
        async with self._writing("ending alerts that nobody repeats") as connection:
            counted = Counter((await connection.scalars(ordered.with_for_update())).all())
            if not counted:
                return
            values = {"status": "silent", "changed_at": self._now()}
            await connection.execute(update(alerts).where(quiet).values(**values))
            here = select(incidents.c.id).where(incidents.c.id.in_(counted)).order_by(incidents.c.id)
            for found in (await connection.scalars(here.with_for_update())).all():
                await note(connection, found, (News(turn, detail=str(counted[found])),), self._now())

    async def unsorted_labels(self) -> set[str]:
        """The cluster names, as alerts have them, of alerts whose cause was not looked for yet."""
        query = select(alerts.c.cluster).where(alerts.c.incident == "").distinct()
        return set(await self._scalars("looking for new alerts", query))

    async def unsorted(self, most: int, label: str = "", but: Collection[str] | None = None) -> list[Alert]:
        """The oldest unsorted alerts, `most` at most, of the cluster `label`, with `but` also of any not in it."""
        named_so = alerts.c.cluster == label
        here = named_so if but is None else or_(named_so, alerts.c.cluster.not_in(but))
        query = select(alerts).where(alerts.c.incident == "", here).order_by(alerts.c.received_at).limit(most)
        return [alert_of(row) for row in await self._read("reading new alerts", query)]

    async def firing(self, **named: str) -> list[Alert]:
        """The alerts that fire now and whose columns are as `named`: of a source in a cluster, or of an incident."""
        here = (alerts.c[column] == value for column, value in named.items())
        query = select(alerts).where(alerts.c.status == "firing", *here)
        return [alert_of(row) for row in await self._read("reading alerts", query)]

    async def counts(self, incident_ids: Collection[str]) -> dict[str, Counts]:
        """Counts the alerts, pods and nodes of each of these incidents, by the incident's id."""
        here = alerts.c.incident.in_(incident_ids)
        said = [
            alerts.c[name]
            for name in ("incident", "status", "name", "namespace", "pod", "node", "severity", "runbook", "cut")
        ]
        grouped = select(*said, func.count().label("n")).where(here).group_by(*said)
        found = await self._read("counting alerts", grouped)
        by_incident: defaultdict[str, list[Any]] = defaultdict(list)
        for row in found:
            by_incident[row.incident].append(row)
        return {incident: counts_of(by_incident[incident]) for incident in incident_ids}

    async def ignore(self, given: Sequence[Alert]) -> None:
        """Ignores those of the alerts that are in no incident yet. Rows are locked in the order of their keys."""
        async with self._writing("ignoring alerts") as connection:
            for these in conditions_of(sorted(given, key=name_of)):
                fresh = and_(these, alerts.c.incident == "")
                ordered = select(alerts.c.number).where(fresh).order_by(alerts.c.fingerprint, alerts.c.number)
                await connection.execute(ordered.with_for_update())
                await connection.execute(update(alerts).where(fresh).values(incident=IGNORED))
                await count_once(connection, these, IGNORED)

    async def reconsider(self) -> None:
        """Lets ignored alerts that still fire be sorted again, because the routes may have changed."""
        firing = and_(alerts.c.incident == IGNORED, alerts.c.status == "firing")
        ordered = select(alerts.c.number).where(firing)
        ordered = ordered.order_by(alerts.c.source, alerts.c.fingerprint, alerts.c.number)
        async with self._writing("looking at ignored alerts again") as connection:
            await connection.execute(ordered.with_for_update())
            fresh = {"incident": "", "before_began": 0.0, "before_ended": 0.0, "before_s": 0.0}
            await connection.execute(update(alerts).where(firing).values(**fresh))

    async def ignored(self) -> Ignored:
        """How many alerts are ignored, how many of these fire, and the names of the firing ones."""
        query = select(alerts.c.name, alerts.c.status, func.count().label("n")).where(alerts.c.incident == IGNORED)
        rows = await self._read("counting ignored alerts", query.group_by(alerts.c.name, alerts.c.status))
        firing = [row for row in rows if row.status == "firing"]
        total = sum(row.n for row in rows)
        return Ignored(sum(row.n for row in firing), total, tuple(sorted(row.name for row in firing)))

    async def spells(self, incident_ids: Collection[str]) -> dict[str, list[FiringSpan]]:
        """When alerts about pods fired, by incident; one that is not repeated ended when it was last heard of."""
        found: defaultdict[str, list[FiringSpan]] = defaultdict(list)
        about_pods = select(alerts).where(alerts.c.incident.in_(incident_ids), alerts.c.pod != "")
        for row in await self._read("reading how long pods were affected", about_pods):
            span = FiringSpan((row.namespace, row.pod), row.gpus, *_period(row))
            found[row.incident].append(span)
            if row.before_s:
                share = row.before_s / (row.before_ended - row.before_began)
                before = span._replace(began=row.before_began, ended=row.before_ended, share=share)
                found[row.incident].append(before)
        return found


async def keep_alerts(connection: AsyncConnection, some: Sequence[Alert], at: float) -> int:
    """Keeps alerts, in the order of what they tell; gives how many outbreaks began or ended. Raises OvertakenError."""
    known = await _newest(connection, some)
    fresh: dict[tuple[str, str, int], dict[str, Any]] = {}
    changed: dict[tuple[str, str, int], dict[str, Any]] = {}
    news = 0
    for alert in some:
        name = name_of(alert)
        before, after = known.get(name), hear(known.get(name), alert, at)
        if after is None:
            continue
        place = (*name, after.number)
        if before is None or before.number != after.number:
            said = {"labels": json.dumps(dict(alert.labels)), "annotations": json.dumps(dict(alert.annotations))}
            fresh[place] = {**msgspec.structs.asdict(alert), **said, "received_at": at}
        if place not in fresh:
            changed[place] = dict(zip(_PLACE, place, strict=True)) | after._asdict()
        else:
            fresh[place] |= {**after._asdict(), "incident": "" if after.status == "firing" else OVER}
        news += before is None or (before.number, before.status) != (after.number, after.status)
        known[name] = after
    if fresh:
        await connection.execute(insert(alerts), list(fresh.values()))
    if changed:
        await connection.execute(_CHANGED, list(changed.values()))
    for cut in {alert.cut for alert in some}:
        for these in conditions_of([alert for alert in some if alert.cut == cut]):
            await connection.execute(update(alerts).where(these, alerts.c.cut != cut).values(cut=cut))
    return news


async def note_needs(
    connection: AsyncConnection, given: Sequence[Alert], incident: str, needs: Mapping[tuple[str, str], GpuRequest]
) -> None:
    """Notes at an incident's alerts how many GPUs their pods ask for; `given` is in order of `name_of`."""
    rows = [
        {"of_source": alert.source, "of_fingerprint": alert.fingerprint, "of_incident": incident}
        | {"gpus": need.gpus, "pod_created_at": need.created_at}
        for alert in given
        if (need := needs.get((alert.namespace, alert.pod))) is not None
    ]
    if rows:
        await connection.execute(_NEEDS, rows)


async def count_once(connection: AsyncConnection, these: Any, incident_id: str) -> None:
    """Merges an alert's outbreaks in one incident into the newest row, with when and how long it fired before."""
    other = alerts.alias()
    same = and_(other.c.source == alerts.c.source, other.c.fingerprint == alerts.c.fingerprint)
    same = and_(same, other.c.incident == incident_id)
    ours = and_(these, alerts.c.incident == incident_id)
    several = select(alerts).where(ours, exists(select(other.c.number).where(same, other.c.number != alerts.c.number)))
    in_order = several.order_by(alerts.c.source, alerts.c.fingerprint, alerts.c.number)
    rows = (await connection.execute(in_order)).all()
    if rows:
        known = [_with_those_before(list(outbreaks)) for _, outbreaks in groupby(rows, key=lambda row: row.fingerprint)]
        await connection.execute(_CHANGED, known)
        newer = exists(select(other.c.number).where(same, other.c.number > alerts.c.number))
        await connection.execute(delete(alerts).where(ours, newer))


def _with_those_before(outbreaks: Sequence[Any]) -> dict[str, Any]:
    """The newest outbreak's row with the time of those before; what two outbreaks share counts once."""
    newest = outbreaks[-1]
    spans = [(row.before_began, row.before_ended, row.before_s) for row in outbreaks if row.before_s]
    spans += [(began, ended, ended - began) for began, ended in map(_period, outbreaks[:-1]) if ended > began]
    last, fired_s = 0.0, 0.0
    for began, ended, some_s in sorted(spans):
        fired_s += min(some_s, max(0.0, ended - max(began, last)))
        last = max(last, ended)
    gpus = [row.gpus for row in outbreaks if row.gpus is not None]
    place = dict(zip(_PLACE, (newest.source, newest.fingerprint, newest.number), strict=True))
    before = {"before_began": min(spans)[0] if spans else 0.0, "before_ended": last, "before_s": fired_s}
    return {**place, **before, "gpus": gpus[-1] if gpus else None}


def counts_of(rows: Sequence[Any]) -> Counts:
    """Counts the grouped rows of one incident's alerts; `n` is how many alerts such a row stands for."""
    firing = [row for row in rows if row.status == "firing"]
    affected = {(row.namespace, row.pod) for row in firing if row.pod}
    pods = {(row.namespace, row.pod) for row in rows if row.pod}
    named = sorted(pods, key=lambda pod: (pod not in affected, pod))
    live, total = Counter[str](), Counter[str]()
    for row in rows:
        total[row.name] += row.n
        live[row.name] += row.n if row.status == "firing" else 0
    return Counts(
        sum(row.n for row in firing),
        sum(row.n for row in rows),
        len(affected),
        len(pods),
        subjects=tuple(map("/".join, named[:_SUBJECTS])),
        names=_each(rows, "name"),
        namespaces=_each(rows, "namespace"),
        severities=_each(rows, "severity"),
        runbooks=_each(rows, "runbook"),
        nodes_firing=len(_nodes(firing)),
        nodes=len(_nodes(rows)),
        cut=max((row.cut for row in firing), default=0),
        by_name=tuple((name, live[name], total[name]) for name in sorted(total, key=lambda name: (-live[name], name))),
    )


def name_of(alert: Alert) -> tuple[str, str]:
    """The source and fingerprint by which an alert is known, however often it is sent."""
    return alert.source, alert.fingerprint


def parts(given: Sequence[T]) -> Generator[Sequence[T]]:
    """Cuts values into parts that are small enough for one database statement."""
    return (given[start : start + _AT_ONCE] for start in range(0, len(given), _AT_ONCE))


def conditions_of(given: Sequence[Alert]) -> Generator[Any]:
    """The conditions that select these alerts' rows, each for one statement; `given` is in order of `name_of`."""
    for some in parts(given):
        for source, ours in groupby(some, key=lambda alert: alert.source):
            yield and_(alerts.c.source == source, alerts.c.fingerprint.in_({alert.fingerprint for alert in ours}))


def alert_of(row: Row[Any]) -> Alert:
    """The alert that a row of `alerts` holds, as it was when it began but for its status."""
    values = {name: getattr(row, name) for name in Alert.__struct_fields__}
    return Alert(**{**values, "labels": json.loads(row.labels), "annotations": json.loads(row.annotations)})


async def _newest(connection: AsyncConnection, some: Sequence[Alert]) -> dict[tuple[str, str], Outbreak]:
    """The newest outbreak of each, locked in the order of their keys as everywhere, or two would wait for ever. Raises
    OvertakenError where another replica began a newer one while this waited for the lock.
    """
    later = alerts.alias()
    same = and_(later.c.source == alerts.c.source, later.c.fingerprint == alerts.c.fingerprint)
    newest = ~exists(select(later.c.number).where(same, later.c.number > alerts.c.number))
    found: dict[tuple[str, str], Outbreak] = {}
    for these in conditions_of(some):
        query = select(alerts).where(these, newest).order_by(alerts.c.fingerprint).with_for_update()
        for row in await connection.execute(query):
            outbreak = Outbreak(**{name: getattr(row, name) for name in Outbreak._fields})
            found[row.source, row.fingerprint] = outbreak
        numbers = select(alerts.c.source, alerts.c.fingerprint, func.max(alerts.c.number)).where(these)
        for source, fingerprint, number in await connection.execute(numbers.group_by("source", "fingerprint")):
            known = found.get((source, fingerprint))
            if known is None or known.number < number:
                raise OvertakenError(f"alert {fingerprint} of {source} began anew meanwhile")
    return found


def _nodes(rows: Sequence[Any]) -> set[str]:
    return {row.node for row in rows if row.node and not row.pod}


def _each(rows: Sequence[Any], what: str) -> tuple[str, ...]:
    return tuple(sorted({str(getattr(row, what)) for row in rows} - {""}))


def _period(row: Any) -> tuple[float, float]:
    """When the alert fired, as its sender says, within what was heard of the alert and of its pod."""
    ended = {"firing": math.inf, "silent": row.heard_at}.get(row.status)
    if ended is None:
        ended = min(_seconds(row.ends_at, row.changed_at), row.changed_at)
    began = min(_seconds(row.starts_at, row.received_at), row.received_at)
    return max(began, row.pod_created_at), ended


def _seconds(text: str, otherwise: float) -> float:
    moment = parse_time(text)
    return moment.timestamp() if moment else otherwise
