"""Bugs of HAMi that a newer release does not have, as data: `known_bugs.toml` beside this module."""

import tomllib
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files

import msgspec

from bot.finding_codes import Code
from bot.hami.version import Version, is_among, parse_version
from bot.texts import Text, literal


class KnownBug(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One bug; the file says what its fields mean."""

    id: str
    threads: tuple[str, ...]
    versions: str
    fixed: str
    codes: tuple[Code, ...]
    en: str
    zh: str
    words: tuple[str, ...] = ()
    plugin: bool = False

    @property
    def why(self) -> Text:
        """What goes wrong, without a capital or a full stop."""
        return literal(self.en, self.zh)


@cache
def known_bugs() -> Sequence[KnownBug]:
    """All of them, in the file's order."""
    text = files("bot.hami.installation").joinpath("known_bugs.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text)["bug"], tuple[KnownBug, ...])


def bug_behind(
    code: str, quotes: Iterable[str], version: Version | None, plugin: Version | None = None
) -> KnownBug | None:
    """The bug of this version that can be behind a finding of this code; None of a version that is not known.

    `plugin`: the version of the device plugin in question, where that is another.
    """
    listed = tuple(quotes)
    for bug in known_bugs():
        said = not bug.words or any(word in quote for word in bug.words for quote in listed)
        fixed, has = parse_version(bug.fixed), plugin if bug.plugin and plugin else version
        if code in bug.codes and said and has and is_among(has, bug.versions) and (fixed is None or has < fixed):
            return bug
    return None
