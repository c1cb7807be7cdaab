"""The node lock: `hami.io/mutex.lock`, taken between Bind and the device plugin's Allocate.

Forms and expiry per version: HAMi pkg/util/nodelock/nodelock.go at each tag.
"""

import re
from datetime import datetime, timedelta
from typing import NamedTuple

from bot.hami.version import Version
from bot.kube.times import parse_time

LOCK_KEY = "hami.io/mutex.lock"
CAMBRICON_LOCK_KEY = "cambricon.com/dsmlu.lock"
DEFAULT_EXPIRY = timedelta(minutes=5)
CAMBRICON_EXPIRY = timedelta(minutes=2)
_PARTS = 3

_CONTENTION = re.compile(
    r"node (?P<node>\S+) (?:has been locked within|is locked)"
    r"|waiting for node (?P<waited>\S+) to be unlocked"
)
_MALFORMED = re.compile(r"malformed lock annotation|parsing time \"")


class Lock(NamedTuple):
    """A lock value: since when, and for which pod where it says so."""

    taken_at: datetime
    namespace: str = ""
    pod: str = ""


def parse_lock(text: str, version: Version | None) -> Lock | None:
    """The lock, None when this version's scheduler cannot read the value.

    `<time>,<namespace>,<pod>` since 2.4; the bare time up to 2.7. With an unknown version both are read.
    """
    parts = text.split(",")
    taken_at = parse_time(parts[0])
    if taken_at is None or len(parts) not in (1, _PARTS):
        return None
    if len(parts) == 1:
        return None if version is not None and version >= (2, 8) else Lock(taken_at)
    return Lock(taken_at, parts[1], parts[2])


class LockComplaint(NamedTuple):
    """What a refused Bind said about a lock."""

    node: str
    malformed: bool


def lock_complaint(message: str) -> LockComplaint | None:
    """The complaint in a BindingFailed, FailedScheduling or condition text; None when it is about no lock."""
    if found := _CONTENTION.search(message):
        return LockComplaint((found["node"] or found["waited"]).rstrip(":,"), malformed=False)
    if _MALFORMED.search(message):
        return LockComplaint("", malformed=True)
    return None
