"""Kept profiles as files for a while, so that whatever reads files reads them as well."""

import asyncio
import re
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bot.errors import UsageError
from bot.pprof.links import HAMI
from bot.texts import Text
from handlers.profiles.file_answers import answer_to
from handlers.profiles.kept_lookup import find_kept, is_reference, kind_meant
from handlers.profiles.options import Words, with_paths

if TYPE_CHECKING:
    from bot.store.profiles import ProfileRows

_RELEASE = re.compile(r"\d+\.\d+\.\d+(-[\w.]+)?")

MOST = 4
"""Profiles that one question may name: each may take a hundred megabytes and more."""


class Content(NamedTuple):
    """A kept profile. `version` is as `Kept` has it."""

    id: str
    content: bytes
    version: str


Contents = dict[str, Content]
"""By the word that names it."""


async def contents_of(words: Sequence[str], rows: "ProfileRows", now: float) -> Contents:
    """The kept profiles that are among the words. Raises NotFound for a word that could name one and does not,
    UsageError for more than `MOST` of them.
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
    """What `file_answers.answer_to` says, with kept profiles in the place of the words that name them."""
    with tempfile.TemporaryDirectory(prefix="hami-bot-") as folder:
        paths: dict[str, str] = {}
        for word, content in contents.items():
            path = Path(folder) / content.id
            path.write_bytes(content.content)
            paths[word] = str(path)
        options = {**_versions(study, contents), **asked.options}
        text = answer_to(study, with_paths(study, Words(asked.plain, options), paths), config)
    return text.replace(f"{folder}/", "")


def _versions(study: str, contents: Contents) -> dict[str, str]:
    """For links to the lines of HAMi: the profile does not have its version, but it is known of which image it was."""
    known = [content.version for content in contents.values() if _RELEASE.fullmatch(content.version)]
    return {"versions": f"{HAMI}@v{known[0]}"} if study == "list" and len(known) == 1 else {}


def answer_beside_the_bot(study: str, asked: Words, missing: Sequence[str], config: Path | None) -> str:
    """The same from the store that the settings name; `missing` are the names of profiles that are no files."""
    wanted = [word for word in missing if is_reference(word)]
    if not wanted:
        return answer_to(study, asked, config)
    return answer_about(study, asked, asyncio.run(_from_store(wanted, config)), config)


async def _from_store(words: Sequence[str], config: Path | None) -> Contents:
    from bot.settings import load_settings  # noqa: PLC0415  # and what follows: only where a kept one is asked for
    from bot.settings.schema import StoreSettings  # noqa: PLC0415
    from bot.store import open_profiles  # noqa: PLC0415

    settings = load_settings(config)
    store = settings.store if settings else StoreSettings()
    async with open_profiles(store.url.get_secret_value()) as rows:
        return await contents_of(words, rows, time.time())
