"""When threads open too fast: which causes are gathered in one, inside a transaction of `bot.store.incidents`."""

from typing import NamedTuple

import msgspec
from sqlalchemy import and_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.report import SEVERITIES, Severity
from bot.store.tables import incidents
from bot.triage.cause import STORM, Cause

MINUTE_S = 60.0


class Limit(NamedTuple):
    """So many threads may open in a channel in a minute; alerts of further causes are those of the incident
    `gathered`.
    """

    most: int
    gathered: Cause


async def is_crowded(connection: AsyncConnection, channel: str, severity: Severity, limit: Limit, now: float) -> bool:
    """Whether as many threads opened in the last minute that are as severe, or more: what is worse never waits for
    what is not.
    """
    recent = and_(incidents.c.channel == channel, incidents.c.created_at > now - MINUTE_S)
    texts = (await connection.scalars(select(incidents.c.cause).where(recent))).all()
    causes = [msgspec.json.decode(text, type=Cause) for text in texts]
    least = SEVERITIES.index(severity)
    opened = [cause for cause in causes if cause.code != STORM and SEVERITIES.index(cause.severity) >= least]
    return len(opened) >= limit.most
