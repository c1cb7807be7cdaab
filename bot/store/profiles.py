"""Kept profiles in the store: their bytes as fetched, and what they were taken of, where and when."""

import contextlib
from itertools import accumulate

import msgspec
from sqlalchemy import delete, insert, or_, select

from bot.errors import NotFound
from bot.store.base import StoredRows, TakenError
from bot.store.tables import profiles
from bot.texts import Text

_DAY_S = 86400.0


class KeptProfile(msgspec.Struct, frozen=True):
    """A kept profile without its bytes. `target` is `scheme://namespace/pod:port`, `version` the image's or empty.
    `taken_at` is in unix seconds, `size` in bytes; `seconds` is how long it took, 0 for a snapshot of one moment.
    """

    id: str
    cluster: str
    target: str
    kind: str
    version: str
    taken_at: float
    seconds: float
    size: int


_ABOUT = [profiles.c[name] for name in KeptProfile.__struct_fields__]


class ProfileRows(StoredRows):
    """The kept profiles in the store. Every method is one transaction. Raises StoreError; `content` also NotFound."""

    async def keep(self, about: KeptProfile, content: bytes, *, most: int, days: float, most_bytes: int) -> None:
        """Keeps a profile, once, and drops old ones: the newest `most` stay, none older than `days`, all together in
        `most_bytes`. A larger profile is not kept, and drops none of the others.
        """
        if about.size > most_bytes:
            return
        row = {**msgspec.structs.asdict(about), "expires_at": about.taken_at + days * _DAY_S, "content": content}
        oldest = about.taken_at - days * _DAY_S
        known = select(profiles.c.id, profiles.c.size).where(profiles.c.taken_at >= oldest)
        newest = known.order_by(profiles.c.taken_at.desc(), profiles.c.id)
        with contextlib.suppress(TakenError):  # its id is made of what it holds
            async with self._writing("keeping a profile") as connection:
                others = [(profile.id, profile.size) for profile in await connection.execute(newest)]
                sums = accumulate((size for _, size in others), initial=about.size)
                next(sums)
                fitting = zip(others[: most - 1], sums, strict=False)
                stay = {about.id, *(other for (other, _), used in fitting if used <= most_bytes)}
                # Of those that were read: one that another process keeps at this moment is none of them.
                unfit = profiles.c.id.in_([other for other, _ in others if other not in stay])
                await connection.execute(delete(profiles).where(or_(unfit, profiles.c.taken_at < oldest)))
                await connection.execute(insert(profiles).values(**row))

    async def sweep(self, now: float) -> None:
        """Forgets profiles that are older than the `days` they were kept for; `now` is in unix seconds."""
        await self._write("sweeping the profiles", delete(profiles).where(profiles.c.expires_at <= now))

    async def listed(self) -> list[KeptProfile]:
        """What is known of all kept profiles, the newest first."""
        wanted = select(*_ABOUT).order_by(profiles.c.taken_at.desc(), profiles.c.id)
        return [KeptProfile(*row) for row in await self._read("listing the kept profiles", wanted)]

    async def content(self, profile_id: str) -> bytes:
        """The profile's bytes as they were fetched. Raises NotFound for one that is not kept, or not any more."""
        wanted = select(profiles.c.content).where(profiles.c.id == profile_id)
        found = await self._scalar("reading a kept profile", wanted)
        if found is None:
            raise NotFound(
                Text("error-profile.no-profile-is-kept", profile=repr(profile_id)),
                hint=Text("error-profile.kept-lists-kept"),
            )
        return bytes(found)
