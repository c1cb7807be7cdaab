"""When the alerts of incidents about pods fired, and how many GPUs these pods asked for."""

import math
from collections import defaultdict
from collections.abc import Collection
from typing import Any

from sqlalchemy import select, union_all
from sqlalchemy.ext.asyncio import AsyncEngine

from bot.kube.times import parse_time
from bot.store.engine import told
from bot.store.tables import alerts, outbreaks
from bot.triage.gputime import Spell

_COLUMNS = (
    "incident", "namespace", "pod", "status", "starts_at", "ends_at", "received_at", "heard_at", "changed_at", "gpus",
    "pod_created_at",
)  # fmt: skip


class SpellRows:
    """Every method raises only StoreError."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def of(self, incident_ids: Collection[str]) -> dict[str, list[Spell]]:
        """The spells of these incidents, none for one without pods. Of a spell that ended because nobody repeated the
        alert, the end is when that was last heard of.
        """
        found: defaultdict[str, list[Spell]] = defaultdict(list)
        each = [
            select(*(table.c[name] for name in _COLUMNS)).where(table.c.incident.in_(incident_ids), table.c.pod != "")
            for table in (alerts, outbreaks)
        ]
        with told("reading how long pods were affected"):
            async with self._engine.connect() as connection:
                for row in await connection.execute(union_all(*each)):
                    found[row.incident].append(_spell(row))
        return found


def _spell(row: Any) -> Spell:
    """What senders say of times counts within what was heard of the alert, and of the pod."""
    ended = {"firing": math.inf, "silent": row.heard_at}.get(row.status)
    if ended is None:
        ended = min(_seconds(row.ends_at, row.changed_at), row.changed_at)
    began = min(_seconds(row.starts_at, row.received_at), row.received_at)
    return Spell((row.namespace, row.pod), row.gpus, max(began, row.pod_created_at), ended)


def _seconds(text: str, otherwise: float) -> float:
    moment = parse_time(text)
    return moment.timestamp() if moment else otherwise
