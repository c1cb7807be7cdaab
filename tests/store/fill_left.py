"""Run by `update_left` with the code of an older commit: a row in every table that its store has and nothing is in."""

import asyncio
import sys
from typing import Any

import msgspec
from sqlalchemy import func, insert, inspect, select

from bot.changes.record import Record, write_record
from bot.store import open_store
from bot.store.engine import open_engine
from bot.store.tables import metadata

NOW = 1_795_237_200.0  # 2026-11-21 05:00 UTC
RECORD = Record(
    v=1,
    id="c1",
    target="hami-system/hami-scheduler",
    flag="v",
    container="vgpu-scheduler-extender",
    field="command",
    words_before=("scheduler", "-v=4"),
    words_after=("scheduler", "-v=5"),
    old="4",
    new="5",
    means="patch",
    raised_at="2026-11-21T05:00:00Z",
    at="2026-11-21T05:10:00Z",
    by="U1",
)
ROWS: dict[str, list[dict[str, Any]]] = {
    "seen": [{"key": "Ev1", "state": "done", "expires_at": 4e9, "payload": "", "tries": 1}],
    "threads": [{"channel": "C1", "thread_ts": "1.0", "words": "gpus", "cluster": "lab", "at": 4e9}],
    "outbox": [
        dict.fromkeys(("thread_ts", "update_ts", "owner", "posted_channel", "posted_ts", "reason"), "")
        | dict.fromkeys(("severity", "version", "tried_version", "sent_version"), 1)
        | dict.fromkeys(("queued_at", "lease_until", "claimed_at", "sent_at"), NOW)
        | {"id": 7000, "channel": "C1", "key": "a", "content": '{"text": "kept"}', "state": "done"}
    ],
    "outbox_files": [
        {"row_id": 7000, "digest": "d", "position": 0, "about": "{}", "content": b"\x00kept'", "state": "new"}
        | {"file_id": "", "reason": ""}
    ],
    "changes": [
        {"id": "c1", "cluster": "lab", "target": RECORD.target, "uid": "u", "state": "raised", "trouble": ""}
        | {"record": write_record(RECORD), "created_at": NOW, "updated_at": NOW}
    ],
    "approvals": [
        {"id": "a1", "cluster": "lab", "target": RECORD.target, "digest": "d", "requester": "U1", "channel": "C1"}
        | {"request": "{}", "state": "pending", "decided_by": "", "reason": "", "created_at": NOW}
        | {"expires_at": 4e9, "decided_at": 0.0}
    ],
    "profiles": [
        {"id": "p1", "cluster": "lab", "target": "http://hami-system/hami-scheduler-0:6060", "kind": "cpu"}
        | {"version": "v2.7.1", "taken_at": NOW, "expires_at": NOW + 30 * 86400, "seconds": 10.0, "size": 3}
        | {"content": b"\x1f\x8b'"}
    ],
    "facts": [{"key": "k", "value": "v", "at": NOW}],
    "marks": [{"name": "m", "at": NOW, "text": "t"}],
    "duties": [{"name": "oncall", "owner": "one", "until": NOW}],
    "digests": [
        {"id": "g1", "channel": "C1", "cluster": "lab", "by": "U1", "since": NOW, "stopped": 0, "kind": "digest"},
        {"id": "g2", "channel": "C1", "cluster": "lab", "by": "U1", "since": NOW, "stopped": 0, "kind": "digest"},
    ],
    "digest_runs": [
        {"digest": "g1", "day": "2026-11-20", "wall": "2026-11-20 09:05", "state": "posted", "at": NOW}
        | {"claimed_until": NOW, "figures": '{"pending": "3"}'}
    ],
    "pages": [
        {"id": 7000, "incident": "i1", "service": "pagerduty", "key": "k", "action": "trigger", "by": "", "told": 0}
        | {"state": "done", "queued_at": NOW, "tries": 1, "next_try_at": NOW}
    ],
    "incident_events": [
        {"incident": "i1", "seq": 1, "at": NOW, "turn": "opened", "by": "", "detail": "", "told": 1},
    ],
    "outbreaks": [
        {"incident": "i1", "source": "alertmanager", "fingerprint": "f1", "number": 1, "status": "resolved"}
        | {"starts_at": "2026-11-20T01:00:00Z", "ends_at": "2026-11-20T02:00:00Z", "namespace": "ml", "pod": "p"}
        | {"received_at": NOW - 9000, "heard_at": NOW - 8000, "changed_at": NOW - 6000, "gpus": 2}
        | {"pod_created_at": 0.0}
    ],
    "spells": [
        {"incident": "i1", "source": "alertmanager", "fingerprint": "f0", "day": 20777, "namespace": "ml", "pod": "p"}
        | {"began": NOW - 9000, "ended": NOW - 6000, "fired_s": 3000.0, "gpus": 2}
    ],
}


def alerts() -> list[dict[str, Any]]:
    """Two outbreaks of one alert, and another alert."""
    some = {"source": "alertmanager", "name": "HamiPodPending", "level": "pod", "cluster": "lab", "namespace": "ml"}
    some |= {"pod": "p", "node": "", "labels": '{"pod": "p"}', "annotations": "{}", "severity": "critical"}
    some |= {"runbook": "https://runbooks.example/p", "received_at": NOW, "heard_at": NOW, "cut": 0, "gpus": 2}
    some |= {"pod_created_at": 0.0, "incident": "i1", "changed_at": NOW}
    return [
        {"fingerprint": fingerprint, "number": number, "starts_at": starts_at, "ends_at": ends_at, "status": status}
        | some
        for fingerprint, number, starts_at, ends_at, status in (
            ("f1", 1, "2026-11-21T03:00:00Z", "2026-11-21T03:30:00Z", "resolved"),
            ("f1", 2, "2026-11-21T04:00:00Z", "", "firing"),
            ("f2", 1, "2026-11-21T04:00:00Z", "2026-11-21T04:30:00Z", "resolved"),
        )
    ]


def incidents() -> list[dict[str, Any]]:
    """One that is open and muted, and one that ended, as the code writes them."""
    from bot.triage.cause import Cause
    from bot.triage.state import WHILE_IT_LASTS, opened

    cause = Cause(signature="s", code="node-cordoned", claim="kept", severity="critical", subject="ml/p")
    begun = opened(NOW - 100)
    called = type(begun.called)
    muted = msgspec.structs.replace(begun, state="muted", muted_until=WHILE_IT_LASTS, owner="U1")
    over = msgspec.structs.replace(begun, state="resolved", since=NOW - 50, ended=True)
    over = msgspec.structs.replace(over, called=called(("U1",)) if called is tuple else 1)
    some = {"cluster": "lab", "cause": _json(cause), "channel": "C1", "proven": 1, "shown": "d", "shown_at": NOW}
    return [
        some
        | {"id": "i1", "open_key": "lab s", "machine": _json(muted), "thread_ts": "1.1", "created_at": NOW - 100}
        | {"ended": 0, "ended_at": 0.0},
        some
        | {"id": "i2", "open_key": None, "machine": _json(over), "thread_ts": "1.2", "created_at": NOW - 100}
        | {"ended": 1, "ended_at": NOW - 50},
    ]


def schedules() -> list[str]:
    """Of the two digests: on weekdays, and daily."""
    from bot.digest.schedule import read_schedule

    return [_json(tuple(read_schedule(days, "09:05", "Asia/Shanghai"))) for days in ("weekdays", "daily")]


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


async def fill(store: str) -> None:
    address = f"sqlite:///{store}"
    async with open_store(address, now=lambda: NOW) as opened:
        if not await opened.audit.read(1):
            await opened.audit.append(actor="U1", action="raise", target="a/b", outcome="allowed", detail={"n": 1})
    async with open_engine(address, 1.0) as engine, engine.begin() as connection:
        made = await connection.run_sync(lambda sync: inspect(sync).get_table_names())
        for table in metadata.sorted_tables:
            if (
                table.name == "audit"
                or table.name not in made
                or await connection.scalar(select(func.count()).select_from(table))
            ):
                continue
            given = {"alerts": alerts, "incidents": incidents}.get(table.name, lambda name=table.name: ROWS[name])()
            if table.name == "digests":
                given = [row | {"schedule": text} for row, text in zip(given, schedules(), strict=True)]
            rows = [{name: row[name] for name in (column.name for column in table.columns)} for row in given]
            await connection.execute(insert(table), rows)


if __name__ == "__main__":
    asyncio.run(fill(sys.argv[1]))
