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
    """One bug of HAMi; `known_bugs.toml` says what its fields mean."""

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
        """What the bug makes go wrong, without a capital or a full stop."""
        return literal(self.en, self.zh)


@cache
def known_bugs() -> Sequence[KnownBug]:
    """All known bugs of HAMi, in the order of `known_bugs.toml`."""
    text = files("bot.hami.installation").joinpath("known_bugs.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text)["bug"], tuple[KnownBug, ...])


def bug_behind(
    code: str, quotes: Iterable[str], version: Version | None, plugin: Version | None = None
) -> KnownBug | None:
    """The known bug of this HAMi version that can cause a finding of this code with these quotes; None without one.

    `plugin`: the version of the device plugin, where it differs. None too where the version is not known.
    """
    listed = tuple(quotes)
    for bug in known_bugs():
        said = not bug.words or any(word in quote for word in bug.words for quote in listed)
        fixed, has = parse_version(bug.fixed), plugin if bug.plugin and plugin else version
        if code in bug.codes and said and has and is_among(has, bug.versions) and (fixed is None or has < fixed):
            return bug
    return None
