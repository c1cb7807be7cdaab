"""Kept profiles: which one words mean, what they are read for, and the list of them. A kept profile is named by its id,
by the version of the program, or by the time that it was taken.
"""

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bot.errors import NotFound, UsageError
from bot.kube.times import format_time
from bot.pprof.listing import HAMI
from bot.report import Report, Subject, new_finding, new_report, prose_table, step
from bot.texts import Text
from handlers.profiles.answers_in_files import Load, Words, load, load_file
from handlers.profiles.studies import answer_study
from playbooks.profile.request import KINDS

if TYPE_CHECKING:
    from bot.store.profiles import KeptProfile, ProfileRows


_ID = re.compile(rf"({'|'.join(KINDS)})-[0-9a-f]{{8}}")
_VERSION = re.compile(r"v?\d+\.\d+(\.\d+)?([-+.][\w.]+)?")
_TIME = re.compile(r"(?:(\d{4}-\d\d-\d\d)[T ])?(\d\d:\d\d)(:\d\d)?Z?")
_SHOWN = 5


def is_reference(word: str) -> bool:
    """Whether the word can name a kept profile."""
    return any(form.fullmatch(word) for form in (_ID, _VERSION, _TIME))


def kind_meant(words: Sequence[str], kept: "Sequence[KeptProfile]") -> str:
    """The kind of profile that a version or time means: that of an id among the words, else cpu, or what is kept."""
    ids = (found[1] for found in map(_ID.fullmatch, words) if found)
    kinds = [profile.kind for profile in kept]
    return next(ids, "cpu" if "cpu" in kinds or not kinds else kinds[0])


def find_kept(word: str, kept: "Sequence[KeptProfile]", kind: str, now: float) -> "KeptProfile":
    """The newest kept profile that the word names; for a time, the last one taken by then (UTC). Raises NotFound.
    `kept` has the newest first; `now` is in unix seconds.
    """
    if _ID.fullmatch(word):
        found = [profile for profile in kept if profile.id == word]
    elif _VERSION.fullmatch(word):
        found = [profile for profile in kept if profile.kind == kind and profile.version == word.removeprefix("v")]
    else:
        until = _until(word, now)
        found = [profile for profile in kept if profile.kind == kind and until is not None and profile.taken_at < until]
    if not found:
        shown = ", ".join(
            f"{profile.id} ({profile.version or profile.target}, {_moment_of(profile.taken_at)})"
            for profile in kept[:_SHOWN]
        )
        hint = (
            Text("error-profile.kept-profiles", shown=shown) if shown else Text("error-profile.no-profile-is-kept-yet")
        )
        if _ID.fullmatch(word):
            raise NotFound(Text("error-profile.no-profile-is-kept", profile=repr(word)), hint=hint)
        raise NotFound(Text("error-profile.no-profile-is-kept-of-kind", profile=repr(word), kind=kind), hint=hint)
    return found[0]


def _until(word: str, now: float) -> float | None:
    """The end of the minute or second that is named; without a day the last time that it was so late."""
    found = _TIME.fullmatch(word)
    if not found:
        return None
    today = datetime.fromtimestamp(now, UTC)
    day = found[1] or today.date().isoformat()
    try:
        moment = datetime.fromisoformat(f"{day}T{found[2]}{found[3] or ':00'}+00:00")
    except ValueError:
        return None
    if not found[1] and moment > today:
        moment -= timedelta(days=1)
    return (moment + timedelta(seconds=1 if found[3] else 60)).timestamp()


_RELEASE = re.compile(r"\d+\.\d+\.\d+(-[\w.]+)?")

MOST = 4
"""How many profiles one question may name: each may take a hundred megabytes and more."""


class Content(NamedTuple):
    """The bytes of a kept profile, with its id and version as `KeptProfile` has them."""

    id: str
    content: bytes
    version: str


Contents = dict[str, Content]
"""Kept profiles by the words that name them."""


async def contents_of(words: Sequence[str], rows: "ProfileRows", now: float) -> Contents:
    """The kept profiles that words name (ids, versions, times), by these words; all other words are passed over. Raises
    NotFound for an id, version or time without a profile, UsageError for more than `MOST` of them.
    """
    wanted = [word for word in dict.fromkeys(words) if is_reference(word)]
    if not wanted:
        return {}
    if len(wanted) > MOST:
        hint = Text("error-profile.name-fewer", most=MOST - 2)
        raise UsageError(Text("error-profile.kept-profiles-are-too-many", count=len(wanted), most=MOST), hint=hint)
    kept = await rows.listed()
    kind = kind_meant(words, kept)
    named = {word: find_kept(word, kept, kind, now) for word in wanted}
    return {word: Content(kept.id, await rows.content(kept.id), kept.version) for word, kept in named.items()}


def answer_about(study: str, asked: Words, contents: Contents, config: Path | None = None) -> str:
    """The text that `answer_study` gives for kept profiles, by the words that name them."""
    known = [content.version for content in contents.values() if _RELEASE.fullmatch(content.version)]
    versions = {"versions": f"{HAMI}@v{known[0]}"} if study == "list" and len(known) == 1 else {}
    return answer_study(study, Words(asked.plain, versions | asked.options), config, loader(contents))


def loader(contents: Contents) -> Load:
    """Loads kept profiles by the words that name them, and files by all other words."""
    return lambda name: load(contents[name].content, contents[name].id) if name in contents else load_file(name)


def answer_beside_the_bot(study: str, asked: Words, missing: Sequence[str], config: Path | None) -> str:
    """The text of `answer_study` about profiles in the settings' store, which has those `missing` as files."""
    wanted = [word for word in missing if is_reference(word)]
    if not wanted:
        return answer_study(study, asked, config)

    async def read() -> Contents:
        async with _store(config) as rows:
            return await contents_of(wanted, rows, time.time())

    return answer_about(study, asked, asyncio.run(read()), config)


@asynccontextmanager
async def _store(config: Path | None) -> AsyncGenerator["ProfileRows"]:
    from bot.settings import load_settings  # noqa: PLC0415  # and what follows: half a second, where it is asked for
    from bot.settings.schema import StoreSettings  # noqa: PLC0415
    from bot.store import open_beside  # noqa: PLC0415

    settings = load_settings(config)
    store = settings.store if settings else StoreSettings()
    async with open_beside(store.url.get_secret_value()) as opened:
        yield opened.profiles


_COLUMNS = (
    *(Text("kept.id"), Text("kept.kind"), Text("kept.taken-at"), Text("kept.seconds"), Text("kept.version")),
    *(Text("kept.cluster"), Text("kept.target"), Text("kept.bytes")),
)


def kept_report(kept: "Sequence[KeptProfile]", now: float) -> Report:
    """The report that lists the kept profiles, newest first; `now` is in unix seconds."""
    claim = Text("profile.kept", count=len(kept)) if kept else Text("profile.kept-none")
    actions = () if kept else (step(Text("profile.take-one"), "profile cpu 30s"),)
    finding = new_finding("profiles-kept", "info", claim, next_actions=actions)
    rows = [_row(profile) for profile in kept]
    return new_report(
        playbook="profile",
        cluster="",
        taken_at=_moment_of(now),
        subject=Subject("Profiles", "", ""),
        findings=(finding,),
        tables=(prose_table(Text("kept.title"), _COLUMNS, rows),) if rows else (),
    )


async def kept_beside_the_bot(config: Path | None) -> Report:
    """The report that lists the profiles in the settings' store, for a shell. Raises StoreError."""
    async with _store(config) as rows:
        return kept_report(await rows.listed(), time.time())


def _row(profile: "KeptProfile") -> tuple[str, ...]:
    seconds = f"{profile.seconds:.0f}" if profile.seconds else ""
    moment, place = _moment_of(profile.taken_at), (profile.cluster, profile.target)
    return (profile.id, profile.kind, moment, seconds, profile.version, *place, str(profile.size))


def _moment_of(moment: float) -> str:
    return format_time(datetime.fromtimestamp(moment, UTC))
