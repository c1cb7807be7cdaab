"""What stores of early commits lack: revisions 0004, 0005 and 0006 were edited, and two were once called 0008.

Such a store says a revision that it is not at. A store of any other commit stays as it is.
"""

import json
from typing import Any

from alembic import op
from sqlalchemy import Column, Double, Integer, LargeBinary, String, Text, inspect, text

revision = "0014"
down_revision = "0013"

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_OUTBREAKS = "PARTITION BY source, fingerprint ORDER BY starts_at"


def upgrade() -> None:
    """Rows are kept. What an early program did not note is as if it was not known."""
    if "expires_at" not in _columns("profiles"):
        _remake("profiles", _profiles(), {"expires_at": "taken_at + 30 * 86400"})  # the setting's default
        op.create_index("profiles_by_time", "profiles", ["taken_at"])
    _remake_alerts()
    if "ended_at" not in _columns("incidents"):
        last = "CASE WHEN shown_at > created_at THEN shown_at ELSE created_at END"
        _remake("incidents", _incidents(), {"ended_at": f"CASE ended WHEN 0 THEN 0 ELSE {last} END"})
        op.create_index("incidents_by_end", "incidents", ["ended_at"])
        op.create_index("incidents_by_thread", "incidents", ["thread_ts", "channel"])
    _rewrite_machines()
    if "wall" not in _columns("digest_runs"):
        _remake("digest_runs", _digest_runs(), {"wall": "day"})
    _rewrite_schedules()


def _columns(table: str) -> set[str]:
    return {column["name"] for column in inspect(op.get_bind()).get_columns(table)}


def _remake(table: str, columns: list[Column[Any]], values: dict[str, str]) -> None:
    """With those columns. `values` are SQL expressions over the old ones for what they do not hold as it is."""
    before = f"{table}_before"
    op.execute(f"CREATE TABLE {before} AS SELECT * FROM {table}")  # noqa: S608  # ours
    op.drop_table(table)
    op.create_table(table, *columns)
    names = [column.name for column in columns]
    selected = ", ".join(values.get(name, name) for name in names)
    op.execute(f"INSERT INTO {table} ({', '.join(names)}) SELECT {selected} FROM {before}")  # noqa: S608  # ours
    op.drop_table(before)


def _remake_alerts() -> None:
    """Of an alert's outbreaks only the newest may fire. An outbreak was named by its start before it had a number."""
    known = _columns("alerts")
    unknown = {"ends_at": "''", "heard_at": "changed_at", "severity": "''", "runbook": "''", "cut": "0"}
    values = {name: value for name, value in unknown.items() if name not in known}
    if "number" not in known:
        newest = f"ROW_NUMBER() OVER ({_OUTBREAKS} DESC) = 1"
        values["number"] = f"ROW_NUMBER() OVER ({_OUTBREAKS})"
        values["status"] = f"CASE WHEN status = 'firing' AND {newest} THEN 'firing' ELSE 'resolved' END"
    if values:
        _remake("alerts", _alerts(), values)
        op.create_index("alerts_by_incident", "alerts", ["incident", "status"])
        op.create_index("alerts_by_status", "alerts", ["source", "status", "heard_at"])


def _rewrite_machines() -> None:
    """Until when an incident is muted was a time or null, and of those who were called only the number was kept."""
    bind = op.get_bind()
    for row in bind.execute(text("SELECT id, machine FROM incidents")).all():
        machine: dict[str, Any] = json.loads(row.machine)
        after = dict(machine)
        if not isinstance(machine.get("called", []), list):
            after["called"] = []
        if not isinstance(muted := machine.get("muted_until", {}), dict):
            after["muted_until"] = {"at": muted or 0.0}
        if after != machine:
            given = {"id": row.id, "machine": json.dumps(after)}
            bind.execute(text("UPDATE incidents SET machine = :machine WHERE id = :id"), given)


def _rewrite_schedules() -> None:
    """A schedule was hour, minute, zone and days of the week; its digests were named by the date alone."""
    bind = op.get_bind()
    for row in bind.execute(text("SELECT id, schedule FROM digests")).all():
        schedule: list[Any] = json.loads(row.schedule)
        if len(schedule) != 4:
            continue
        hour, minute, zone = schedule[:3]
        days: list[int] = schedule[3]
        which = "*" if len(days) == len(_DAYS) else ",".join(_DAYS[day] for day in days)
        given = {"id": row.id, "schedule": json.dumps([f"{minute} {hour} * * {which}", zone])}
        bind.execute(text("UPDATE digests SET schedule = :schedule WHERE id = :id"), given)
        given = {"id": row.id, "time": f" {hour:02}:{minute:02}"}
        bind.execute(text("UPDATE digest_runs SET wall = wall || :time WHERE digest = :id"), given)


def _profiles() -> list[Column[Any]]:
    return [
        Column("id", String(64), primary_key=True),
        Column("cluster", String(255), nullable=False),
        Column("target", String(1024), nullable=False),
        Column("kind", String(32), nullable=False),
        Column("version", String(255), nullable=False),
        Column("taken_at", Double, nullable=False),
        Column("expires_at", Double, nullable=False),
        Column("seconds", Double, nullable=False),
        Column("size", Integer, nullable=False),
        Column("content", LargeBinary, nullable=False),
    ]


def _alerts() -> list[Column[Any]]:
    return [
        Column("source", String(16), primary_key=True),
        Column("fingerprint", String(64), primary_key=True),
        Column("number", Integer, primary_key=True, autoincrement=False),
        Column("status", String(16), nullable=False),
        Column("starts_at", String(32), nullable=False),
        Column("ends_at", String(32), nullable=False),
        Column("name", String(255), nullable=False),
        Column("level", String(16), nullable=False),
        Column("cluster", String(255), nullable=False),
        Column("namespace", String(255), nullable=False),
        Column("pod", String(255), nullable=False),
        Column("node", String(255), nullable=False),
        Column("severity", String(64), nullable=False),
        Column("runbook", String(500), nullable=False),
        Column("labels", Text, nullable=False),
        Column("annotations", Text, nullable=False),
        Column("incident", String(32), nullable=False),
        Column("received_at", Double, nullable=False),
        Column("heard_at", Double, nullable=False),
        Column("changed_at", Double, nullable=False),
        Column("cut", Integer, nullable=False, server_default="0"),
        Column("gpus", Integer),
        Column("pod_created_at", Double, nullable=False, server_default="0"),
    ]


def _incidents() -> list[Column[Any]]:
    return [
        Column("id", String(32), primary_key=True),
        Column("open_key", String(320), unique=True),
        Column("cluster", String(255), nullable=False),
        Column("cause", Text, nullable=False),
        Column("machine", Text, nullable=False),
        Column("channel", String(64), nullable=False),
        Column("thread_ts", String(32), nullable=False),
        Column("proven", Integer, nullable=False),
        Column("shown", String(64), nullable=False),
        Column("shown_at", Double, nullable=False),
        Column("created_at", Double, nullable=False),
        Column("ended_at", Double, nullable=False),
    ]


def _digest_runs() -> list[Column[Any]]:
    return [
        Column("digest", String(32), primary_key=True),
        Column("wall", String(16), primary_key=True),
        Column("state", String(16), nullable=False),
        Column("at", Double, nullable=False),
        Column("claimed_until", Double, nullable=False),
        Column("figures", Text, nullable=False),
    ]
