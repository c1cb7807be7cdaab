"""The extender's klog lines about one pod: what the last filter run said of each node.

Formats: k8s.io/klog/v2; messages of HAMi pkg/scheduler/{scheduler,score,event}.go at v2.4 to v2.10. Pods interleave, so
lines are tied together by the pod's key, never by standing next to each other.
"""

import re
import sys
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

_HEADER = re.compile(
    r"([IWEF])(\d{2})(\d{2}) (\d{2}):(\d{2}):(\d{2})\.(\d{6})\s+(\d+) ([^:\]]+):(\d+)\] (.*)", re.DOTALL
)
_MESSAGE = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"')
# A key's length is bounded, or a long line of words would be tried from each of them to its end.
_PAIR = re.compile(r'(?:^| )(\w[\w ]{0,59}?)="([^"\\]*(?:\\.[^"\\]*)*)"')
_ESCAPE = re.compile(r"\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|.)", re.DOTALL)
_SHORT_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_SKEW = timedelta(minutes=1)

FILTER_STARTS = ("Starting schedule filter process", "begin schedule filter")
NODE_UNFIT = ("NodeUnfitPod", "calcScore:node not fit pod", "Init container does not fit")


class LogLine(NamedTuple):
    """One klog line. `at` is None when the line's time, which has neither year nor zone, cannot be placed."""

    raw: str
    level: str
    at: datetime | None
    where: str
    message: str
    values: dict[str, str]


class NodeRefusal(NamedTuple):
    """What the last filter run of a pod said about one node; `reason` is empty up to 2.5."""

    node: str
    reason: str
    line: LogLine


def parse_line(raw: str, now: datetime) -> LogLine | None:
    """A structured klog line, None for any other text. Times are taken as UTC in the year that `now` suggests."""
    found = _HEADER.match(raw)
    if not found:
        return None
    body = found[11]
    message = _MESSAGE.match(body)
    text = _unquote(message[1]) if message else body
    rest = body[message.end() :] if message else ""
    values = {key: _unquote(value) for key, value in _PAIR.findall(rest)}
    return LogLine(raw, found[1], _moment(found, now), f"{found[9]}:{found[10]}", text, values)


def _unquote(text: str) -> str:
    """What Go's strconv.Quote quoted."""
    return _ESCAPE.sub(_unescape, text) if "\\" in text else text


def _unescape(found: re.Match[str]) -> str:
    kind, code = found[0][1], found[0][2:]
    if not code:
        return _SHORT_ESCAPES.get(kind, kind)
    number = int(code, 16)
    return chr(number) if number <= sys.maxunicode else "\ufffd"


def _moment(found: re.Match[str], now: datetime) -> datetime | None:
    month, day, hour, minute, second, micros = (int(found[group]) for group in range(2, 8))
    for year in (now.year, now.year - 1):
        try:
            moment = datetime(year, month, day, hour, minute, second, micros, tzinfo=UTC)
        except ValueError:
            continue
        if moment <= now + _SKEW:
            return moment
    return None


def pod_key_of(line: LogLine) -> str:
    """`namespace/name` of the pod that a line is about, however that version writes it; empty when about none."""
    pod = line.values.get("pod") or line.values.get("object") or line.values.get("podName") or ""
    namespace = line.values.get("namespace") or line.values.get("podNamespace") or ""
    return pod if "/" in pod or not namespace else f"{namespace}/{pod}"


def lines_about(raws: Iterable[str], namespace: str, name: str, now: datetime) -> list[LogLine]:
    """The lines whose own pod key is this pod: `wl-1` is not `wl-10`."""
    parsed = (parse_line(raw, now) for raw in raws if name in raw)  # nearly all are of other pods, and this is cheap
    return [line for line in parsed if line is not None and pod_key_of(line) == f"{namespace}/{name}"]


def last_refusals(lines: Iterable[LogLine]) -> list[NodeRefusal]:
    """Per node what the pod's last filter run said; empty when that run is not in the log or refused nothing."""
    refusals: dict[str, NodeRefusal] = {}
    for line in lines:
        if line.message in FILTER_STARTS:
            refusals.clear()
        elif line.message in NODE_UNFIT and (node := line.values.get("node")):
            refusals[node] = NodeRefusal(node, line.values.get("reason", ""), line)
    return [refusals[node] for node in sorted(refusals)]
