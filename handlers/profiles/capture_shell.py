"""`hami-bot profile cpu 30s` in a terminal: takes the profile, saves it, answers with its report."""

import asyncio
import tempfile
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from bot.errors import UsageError, of_system
from bot.report import Report
from bot.settings import load_settings
from bot.slack.message import File
from bot.texts import Text, Texts
from handlers.profiles.files import profile_files
from handlers.shell_output import progress
from playbooks.playbook import Sources
from playbooks.profile.fetch import FetchedProfile, gather
from playbooks.profile.playbook import diagnose, view_of
from playbooks.profile.request import Request, name_of

OpenSources = Callable[[], AbstractAsyncContextManager[Sources]]

_SUFFIX = ".pb.gz"
_LONGEST_S, _MOST_BYTES = 120, 32 * 1024 * 1024
"""The defaults of the settings: importing the settings takes half a second."""


async def take(
    open_sources: OpenSources, asked: Request, say: Texts, *, out: Path | None, config: Path | None
) -> tuple[Report, list[Path]]:
    """Takes a profile; returns the report, whose commands read the saved profile, and the files that were written.

    The files are in the folder `out`, which is made if need be; without it only the profile is saved, in a new
    temporary folder. Raises SourceError for anything else than a profile, UsageError for a folder that cannot be
    written.
    """
    settings = load_settings(config)
    longest_s = settings.profiles.longest_s if settings else _LONGEST_S
    limit_bytes = settings.profiles.most_bytes if settings else _MOST_BYTES
    request = asked.within(longest_s=longest_s, limit_bytes=limit_bytes)
    taking = "profile.taking-for" if asked.seconds else "profile.taking"
    async with progress(say, say(taking, seconds=asked.seconds, kind=asked.kind)), open_sources() as sources:
        snapshot = await gather(request, sources)
    seen = await asyncio.to_thread(view_of, snapshot)
    taken = snapshot.scene.outcome
    if seen is None or not isinstance(taken, FetchedProfile):
        return await asyncio.to_thread(diagnose, snapshot, seen), []
    name = name_of(asked.kind, taken.content)
    if out is None:
        files = (File(f"{name}{_SUFFIX}", taken.content, ""),)
    else:
        files = profile_files(name, asked.kind, taken.wanted.pod, taken.content, seen.profile, say)
    folder = out or Path(tempfile.mkdtemp(prefix="hami-bot-"))
    written = await asyncio.to_thread(_written, folder, files)
    file = str(folder / f"{name}{_SUFFIX}")
    return await asyncio.to_thread(diagnose, snapshot, seen, file), written


def _written(folder: Path, files: tuple[File, ...]) -> list[Path]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file in files:
            (folder / file.name).write_bytes(file.content)
    except OSError as error:
        raise UsageError(
            Text("error-profile.cannot-be-written", folder=folder, why=of_system(error)),
            hint=Text("error-profile.name-folder-with-out"),
        ) from error
    return [folder / file.name for file in files]
