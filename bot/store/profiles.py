"""Kept profiles: the bytes as they were fetched, and where, when and of what they are."""

from typing import NamedTuple

from sqlalchemy import RowMapping, delete, insert, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncEngine

from bot.errors import NotFound
from bot.store.engine import told
from bot.store.tables import profiles

_DAY_S = 86400.0


class Kept(NamedTuple):
    """What is known of a profile. `target` is `scheme://namespace/pod:port`, `version` that of the image or empty.

    `taken_at` is in unix seconds, `size` in bytes; `seconds` is 0 for what is so at one moment.
    """

    id: str
    cluster: str
    target: str
    kind: str
    version: str
    taken_at: float
    seconds: float
    size: int


_ABOUT = [profiles.c[name] for name in Kept._fields]


class ProfileRows:
    """Every method is one transaction and raises only StoreError, or the NotFound that it names."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def keep(self, about: Kept, content: bytes, *, most: int, days: float) -> None:
        """Adds one, unless it is kept already; then of all only the newest `most`, none older than `days`, stay."""
        with told("keeping a profile"):
            try:
                async with self._engine.begin() as connection:
                    await connection.execute(insert(profiles).values(**about._asdict(), content=content))
            except IntegrityError:  # its id is made of what it holds
                return
            newest = select(profiles.c.id).order_by(profiles.c.taken_at.desc(), profiles.c.id).limit(most)
            async with self._engine.begin() as connection:
                stay = list((await connection.scalars(newest)).all())
                too_old = profiles.c.taken_at < about.taken_at - days * _DAY_S
                await connection.execute(delete(profiles).where(profiles.c.id.not_in(stay) | too_old))

    async def listed(self) -> list[Kept]:
        """All, the newest first."""
        wanted = select(*_ABOUT).order_by(profiles.c.taken_at.desc(), profiles.c.id)
        with told("listing the kept profiles"):
            async with self._engine.connect() as connection:
                return [_kept(row) for row in (await connection.execute(wanted)).mappings()]

    async def content(self, profile_id: str) -> bytes:
        """The bytes as they were fetched. Raises NotFound for one that is not kept, or not any more."""
        wanted = select(profiles.c.content).where(profiles.c.id == profile_id)
        with told("reading a kept profile"):
            async with self._engine.connect() as connection:
                found = await connection.scalar(wanted)
        if found is None:
            raise NotFound(f"no profile {profile_id!r} is kept", hint="those that are: profile kept")
        return bytes(found)


def _kept(row: RowMapping) -> Kept:
    return Kept(*(row[name] for name in Kept._fields))
