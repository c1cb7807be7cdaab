"""Reads HAMi's version from an image tag, a chart label or a metric, and knows what each version decides differently.

Source of `Rules`: pkg/scheduler/score.go, pkg/scheduler/policy/gpu_policy.go and pkg/device/nvidia/device.go at v2.5.1,
v2.6.1, v2.7.1, v2.8.0, v2.9.0 and v2.10.0.
"""

import re
import tomllib
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import Literal, NamedTuple

import msgspec

from bot.finding_codes import Code
from bot.texts import Text, literal

_VERSION = re.compile(r"(?<![\d.])(\d{1,3})\.(\d{1,3})(?:\.(\d{1,3}))?(?![\d.])", re.ASCII)
_BOUND = re.compile(r"(>=|<=)(\d+\.\d+(?:\.\d+)?)")


class Version(NamedTuple):
    """A version of HAMi. Versions compare by number: `Version(2, 9, 0) < Version(2, 10, 0)`."""

    major: int
    minor: int
    patch: int = 0

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


def parse_version(text: str) -> Version | None:
    """The version in `v2.7.1`, `2.10`, `hami-2.7.1` or the tag of `projecthami/hami:v2.7.1`; None for other text."""
    tag = text.rsplit("/", 1)[-1].split("@", 1)[0]
    tag = tag.rsplit(":", 1)[-1] if ":" in tag else tag
    found = _VERSION.search(tag)
    return Version(int(found[1]), int(found[2]), int(found[3] or 0)) if found else None


def is_among(version: Version, versions: str) -> bool:
    """Whether the version is in `>=2.5 <=2.9`, or in `all`; `<=2.7` holds for 2.7.1, `<=2.7.1` not for 2.7.2."""
    for sign, bound in _BOUND.findall(versions):
        limit = parse_version(bound) or Version(0, 0)
        mine = version if bound.count(".") == 2 else Version(version.major, version.minor)
        if mine < limit if sign == ">=" else mine > limit:
            return False
    return True


NEWEST_READ = Version(2, 10, 0)


class Rules(msgspec.Struct, frozen=True):
    """What the filter of one HAMi version does; a field's docstring says what is so when the field is set."""

    only_own_type: bool
    """GPUs of other vendors are left out of the scan and of the denominator (2.7)."""
    health: bool
    """Unhealthy GPUs are refused (2.7)."""
    quota: Literal["none", "container", "pod"]
    """A quota limits nothing, each container alone (2.7), or the containers of the pod so far together (2.8)."""
    topology: bool
    """The filter knows the policy topology-aware (2.7)."""
    score_includes_request: bool
    """The order of GPUs depends on the request too (up to 2.8)."""
    merges_quotas: bool
    """The smallest limit of a namespace's quotas holds; a quota with scopes limits nothing (2.11, by its notes)."""
    modern: bool
    """The filter is that of 2.10: cordon, mutex, weights, lists of policies, MIG by profiles, init containers apart,
    trimmed lists in annotations, counts of GPUs (not of reasons), parts sorted, quota 0 blocks.
    """


@lru_cache(maxsize=32)
def rules_of(version: Version) -> Rules:
    """The filter's rules in this version; a version newer than `NEWEST_READ` is taken to be like that one."""
    return Rules(
        only_own_type=version >= (2, 7),
        health=version >= (2, 7),
        quota="none" if version < (2, 7) else "container" if version < (2, 8) else "pod",
        topology=version >= (2, 7),
        score_includes_request=version < (2, 9),
        merges_quotas=version >= (2, 11),
        modern=version >= (2, 10),
    )


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
    text = files("bot.hami").joinpath("known_bugs.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text)["bug"], tuple[KnownBug, ...])


def bug_behind(
    code: str, quotes: Iterable[str], version: Version | None, plugin: Version | None = None
) -> KnownBug | None:
    """The bug of this version that can cause a finding of this code with these quotes; None without one or a version.
    `plugin`: the version of the device plugin, where it differs.
    """
    listed = tuple(quotes)
    for bug in known_bugs():
        said = not bug.words or any(word in quote for word in bug.words for quote in listed)
        fixed, has = parse_version(bug.fixed), plugin if bug.plugin and plugin else version
        if code in bug.codes and said and has and is_among(has, bug.versions) and (fixed is None or has < fixed):
            return bug
    return None
