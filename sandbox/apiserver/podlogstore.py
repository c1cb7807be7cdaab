"""Which log a container has: a recorded one, one that grows while it is served, or that of the simulated scheduler."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from sandbox.apiserver.schedulerlogs import scheduler_log, verbosity
from sandbox.apiserver.wakeups import Wakeups

LogKey = tuple[str, str, str]


class PodLogs:
    """Logs by namespace, pod and container. `grown` wakes those who follow one."""

    def __init__(
        self, logs: Mapping[LogKey, bytes], previous: Mapping[LogKey, bytes], uid_of: Callable[[str, str], str | None]
    ) -> None:
        self.grown = Wakeups()
        self.simulated = False
        self._logs = dict(logs)
        self._previous = dict(previous)
        self._uid_of = uid_of
        self._raised: dict[LogKey, int] = {}

    def append(self, key: LogKey, text: bytes) -> None:
        self._logs[key] = self._logs.get(key, b"") + text
        self.grown.wake()

    def previous(self, key: LogKey) -> bytes | None:
        """The log of the container's last run before this one."""
        return self._previous.get(key)

    def text(self, pod: Mapping[str, Any], container: str) -> bytes:
        """The container's log. The scheduler's own is made up when it is first read, and kept."""
        key = pod["metadata"].get("namespace", ""), pod["metadata"]["name"], container
        if key not in self._logs and self.simulated:
            spec = next((candidate for candidate in pod["spec"]["containers"] if candidate["name"] == container), {})
            self._simulate(key, self._raised.get(key, verbosity(spec)), _started(pod))
        return self._logs.get(key, b"")

    def set_verbosity(self, key: LogKey, level: int, now: datetime) -> None:
        """Does what `PUT /debug/flags/v` does to a running process: from now on it logs at that level."""
        self._raised[key] = level
        self._simulate(key, level, now)
        self.grown.wake()

    def _simulate(self, key: LogKey, level: int, newest: datetime | None) -> None:
        text = scheduler_log(key[2], level, newest, self._uid_of) if newest else None
        if text is not None:
            self._logs[key] = text


def _started(pod: Mapping[str, Any]) -> datetime | None:
    """When the pod's containers started, None while they have not."""
    for status in pod.get("status", {}).get("containerStatuses") or ():
        running = (status.get("state") or {}).get("running") or {}
        if running.get("startedAt"):
            return datetime.fromisoformat(running["startedAt"])
    return None
