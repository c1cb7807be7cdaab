"""The node lock `hami.io/mutex.lock`, held from HAMi's Bind to the device plugin's Allocate.

Forms and expiry per version: HAMi pkg/util/nodelock/nodelock.go at each tag.
"""

import re
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from bot.hami.version import Version
from bot.kube.times import parse_time, read_go_duration

LOCK_KEY = "hami.io/mutex.lock"
DEFAULT_EXPIRY = timedelta(minutes=5)
USUAL_ALLOCATION = timedelta(seconds=30)
"""Up to this age a node lock is no sign of trouble: kubelet and the device plugin are at work."""

_RELEASES_DANGLING = Version(2, 7, 0)
_KEEPS_EXPIRED = Version(2, 11, 0)
"""From this version on HAMi keeps an expired lock while its pod waits for devices (notes of HAMi PR 3127)."""
_PARTS = 3
_LONGEST_S = 10**9

_CONTENTION = re.compile(
    r"node (?P<node>\S+) (?:has been locked within|is locked|lock expired while)"
    r"|waiting for node (?P<waited>\S+) to be unlocked"
)
_MALFORMED = re.compile(r"malformed lock annotation|parsing time \"")


class Lock(NamedTuple):
    """A node lock: when it was taken, and for which pod where its value names one."""

    taken_at: datetime
    namespace: str = ""
    pod: str = ""


def parse_lock(text: str, version: Version | None) -> Lock | None:
    """The lock in the annotation's value; None when this version's scheduler cannot read it.

    `<time>,<namespace>,<pod>` since 2.4; the bare time up to 2.7. For an unknown version both are read.
    """
    parts = text.split(",")
    taken_at = parse_time(parts[0])
    if taken_at is None or len(parts) not in (1, _PARTS):
        return None
    if len(parts) == 1:
        return None if version is not None and version >= (2, 8) else Lock(taken_at)
    return Lock(taken_at, parts[1], parts[2])


Owner = Literal["there", "served", "finished", "gone", "unseen"]
"""The state of the pod that a lock names: "served" has its devices already, "unseen" could not be read."""


class LockState(NamedTuple):
    """What a node lock means. `lock` is None for a malformed one.

    "unseen": its pod could not be read, so the lock may be dangling. `passing`: the next bind on the node releases it.
    """

    phase: Literal["held", "dangling", "malformed"]
    why: Literal["claim", "unseen", "nameless", "kept", "ended", "served", "expired"]
    lock: Lock | None
    age: timedelta = timedelta()
    passing: bool = False


def judge_lock(text: str, version: Version | None, now: datetime, expiry: timedelta, owner: Owner) -> LockState:
    """What this version's scheduler makes of a node lock that it keeps for `expiry`; `owner` is the pod's state."""
    lock = parse_lock(text, version)
    if lock is None:
        return LockState("malformed", "claim", None)
    age = now - lock.taken_at
    if age > expiry and owner == "there" and version is not None and version >= _KEEPS_EXPIRED:
        return LockState("held", "expired", lock, age)
    if age > expiry:
        return LockState("dangling", "expired" if lock.pod else "nameless", lock, age, passing=True)
    if not lock.pod:
        return LockState("held", "nameless", lock, age)
    if owner == "gone" and version is not None and version >= _RELEASES_DANGLING:
        return LockState("dangling", "claim", lock, age, passing=True)
    if owner in ("gone", "finished"):
        return LockState("dangling", "kept" if owner == "gone" else "ended", lock, age)
    if owner == "served":
        return LockState("dangling", "served", lock, age)
    return LockState("held", "unseen" if owner == "unseen" else "claim", lock, age)


def read_timeout(flag: str) -> timedelta:
    """How long HAMi's scheduler with this --node-lock-timeout (2.7 and later) keeps a node lock; 5 min by default."""
    seconds = read_go_duration(flag)
    return timedelta(seconds=min(seconds, _LONGEST_S)) if seconds else DEFAULT_EXPIRY


class LockComplaint(NamedTuple):
    """What the message of a refused bind says about a node lock."""

    node: str
    malformed: bool


def lock_complaint(message: str) -> LockComplaint | None:
    """The complaint about a node lock in a BindingFailed, FailedScheduling or condition text; None without one."""
    if found := _CONTENTION.search(message):
        return LockComplaint((found["node"] or found["waited"]).rstrip(":,"), malformed=False)
    return LockComplaint("", malformed=True) if _MALFORMED.search(message) else None
