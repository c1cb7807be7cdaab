"""The logs of HAMi's scheduler at the verbosity that its containers were started with.

Cut from a recorded cluster (HAMi 2.10.0): of every pod of the recorded scenario the last attempt to schedule it, at
`-v` 0, 2, 4 and 5. Pods are the same under every verbosity, their uids are not, so those of the cluster that is served
are put in. kube-scheduler was recorded once; what it says at a lower verbosity is chosen by the levels in its source.
"""

import gzip
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

from sandbox.apiserver.timeshift import shift_log

_FOLDER = Path(__file__).parent / "data" / "scheduler-logs"
_RECORDED = (0, 2, 4, 5)
_RECORDED_YEAR = 2026
_NAMES = {"vgpu-scheduler-extender": "extender", "kube-scheduler": "kube-scheduler"}
_FLAG = re.compile(r"--?v=(\d+)")
_HEADER = re.compile(rb"^[IWEF](\d{4} \d{2}:\d{2}:\d{2})\.\d{6} ", re.MULTILINE)
_UID = re.compile(rb'pod="(?P<name>[^"/]+)" uuid="(?P<uid>[0-9a-f-]{36})" namespace="(?P<namespace>[^"]+)"')


def verbosity(container: Mapping[str, Any]) -> int:
    """The `-v` of a container's command and args; the last one counts, and 0 if there is none."""
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    level = 0
    for index, word in enumerate(words):
        found = _FLAG.fullmatch(word)
        following = words[index + 1] if index + 1 < len(words) else ""
        if found:
            level = int(found[1])
        elif word in {"-v", "--v"} and following.isdecimal():
            level = int(following)
    return level


def scheduler_log(
    container: str, level: int, newest: datetime, uid_of: Callable[[str, str], str | None]
) -> bytes | None:
    """The log of that container of HAMi's scheduler, its newest line at `newest`; None for any other container.
    `uid_of` gives the uid of a pod by namespace and name, None if there is no such pod.
    """
    if container not in _NAMES:
        return None
    recorded = max(known for known in _RECORDED if known <= max(level, 0))
    text = _bundled(_NAMES[container], recorded)
    last = _HEADER.findall(text)[-1].decode()
    then = datetime.strptime(f"{_RECORDED_YEAR}{last}", "%Y%m%d %H:%M:%S").replace(tzinfo=UTC)
    whole_seconds = timedelta(seconds=round((newest - then).total_seconds()))
    return shift_log(_with_uids(text, uid_of), whole_seconds, _RECORDED_YEAR)


@lru_cache
def _bundled(name: str, level: int) -> bytes:
    return gzip.decompress((_FOLDER / f"{name}-v{level}.log.gz").read_bytes())


def _with_uids(text: bytes, uid_of: Callable[[str, str], str | None]) -> bytes:
    """The log as it would be about the pods of this cluster."""
    served = ((uid, uid_of(namespace, name)) for uid, namespace, name in _told_about(text))
    return _renamed(text, tuple((uid, other.encode()) for uid, other in served if other))


@lru_cache
def _told_about(text: bytes) -> list[tuple[bytes, str, str]]:
    """The pods of a recorded log: uid, namespace and name."""
    named = {match["uid"]: (match["namespace"].decode(), match["name"].decode()) for match in _UID.finditer(text)}
    return [(uid, *name) for uid, name in named.items()]


@lru_cache(maxsize=16)
def _renamed(text: bytes, uids: tuple[tuple[bytes, bytes], ...]) -> bytes:
    for uid, served in uids:
        text = text.replace(uid, served)
    return text
