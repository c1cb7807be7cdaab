"""The list of the profiles that are kept, as a report."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from bot.kube.times import format_time
from bot.report import Finding, Report, Scope, Subject, new_report, prose_table, step
from bot.texts import Text

if TYPE_CHECKING:
    from bot.store.profiles import KeptProfile

_COLUMNS = (
    Text("kept.id"),
    Text("kept.kind"),
    Text("kept.taken-at"),
    Text("kept.seconds"),
    Text("kept.version"),
    Text("kept.cluster"),
    Text("kept.target"),
    Text("kept.bytes"),
)


def kept_report(kept: "Sequence[KeptProfile]", now: float) -> Report:
    """The newest first; `now` is in unix seconds."""
    claim = Text("profile.kept", count=len(kept)) if kept else Text("profile.kept-none")
    actions = () if kept else (step(Text("profile.take-one"), "profile cpu 30s"),)
    finding = Finding("profiles-kept", "", "info", "confirmed", Scope(), (), actions).saying(claim)
    rows = [_row(profile) for profile in kept]
    return new_report(
        playbook="profile",
        cluster="",
        taken_at=_time(now),
        subject=Subject("Profiles", "", ""),
        findings=(finding,),
        tables=(prose_table(Text("kept.title"), _COLUMNS, rows),) if rows else (),
    )


async def kept_beside_the_bot(config: Path | None) -> Report:
    """The list in the store that the settings name. Raises StoreError."""
    from bot.settings import load_settings  # noqa: PLC0415  # see `bot.settings`
    from bot.settings.schema import StoreSettings  # noqa: PLC0415
    from bot.store import open_profiles  # noqa: PLC0415  # half a second

    settings = load_settings(config)
    store = settings.store if settings else StoreSettings()
    async with open_profiles(store.url.get_secret_value()) as rows:
        return kept_report(await rows.listed(), time.time())


def _row(profile: "KeptProfile") -> tuple[str, ...]:
    seconds = f"{profile.seconds:.0f}" if profile.seconds else ""
    return (
        profile.id,
        profile.kind,
        _time(profile.taken_at),
        seconds,
        profile.version,
        profile.cluster,
        profile.target,
        str(profile.size),
    )


def _time(moment: float) -> str:
    return format_time(datetime.fromtimestamp(moment, UTC))
