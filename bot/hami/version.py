"""HAMi's version, read from an image tag, a chart label or a metric."""

import re
from typing import NamedTuple

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
    """The version of HAMi in `v2.7.1`, `2.10`, `hami-2.7.1` or `projecthami/hami:v2.7.1`; None for other text.

    In an image reference only the tag counts: a registry's host may hold numbers too.
    """
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
