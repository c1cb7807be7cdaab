"""What the log of a container that ended says last."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from bot.kube.models import StateTerminated
from playbooks.gather.node_side import LogSeen
from playbooks.quotes import shown

_ERROR = re.compile(r"^[EF]\d{4} |^panic: |^fatal error: ")
_HEADER = re.compile(r"^[IWEF]\d{4} [^\]\n]*\] ")
"""Of klog; a panic has none, and brackets of its own."""
_KLOG = re.compile(r"^[IWEF]\d{4} ")
_KILLED = (0, 137, 143)


class LastWords(NamedTuple):
    """A line of a log, verbatim. `error`: it says of itself that it is an error; else it is only the last one."""

    log: LogSeen
    line: str
    error: bool

    @property
    def text(self) -> str:
        """The line without klog's header."""
        return shown(_HEADER.sub("", self.line))


def _last_error(log: LogSeen) -> str:
    """The last line of an error, fatal error or panic; goroutine dumps may follow it. Empty when there is none."""
    return next((line for line in reversed(log.lines) if _ERROR.match(line)), "")


def last_of(logs: Iterable[LogSeen], end: StateTerminated, *, running: bool) -> LastWords | None:
    """Of a container's logs the first that tells an error, else the first that tells anything."""
    found = [words for log in logs if (words := _last_words(log, end, over=log.previous or not running))]
    return next((words for words in found if words.error), found[0] if found else None)


def _last_words(log: LogSeen, end: StateTerminated, *, over: bool) -> LastWords | None:
    """The last error of a run; of one that is `over`, and that nobody killed, else its last line, if not klog's.

    What is no program of Go's, such as the runtime or a shell, prints plain text.
    """
    if line := _last_error(log):
        return LastWords(log, line, error=True)
    if not over or end.exit_code in _KILLED or end.reason == "OOMKilled":
        return None
    line = next((line for line in reversed(log.lines) if line.strip()), "")
    return LastWords(log, line, error=False) if line and not _KLOG.match(line) else None
