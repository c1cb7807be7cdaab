"""The schedulers' log lines about one pod, and what the extender's last filter run said of each node.

Formats: k8s.io/klog/v2, and k8s.io/component-base's JSON (`--logging-format=json`, kube-scheduler only); messages of
HAMi pkg/scheduler/{scheduler,score,event}.go at v2.4 to v2.10. Pods interleave, so lines are tied together by the pod's
key, never by standing next to each other.
"""

import re
import sys
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, cast

import msgspec

from bot.kube.times import parse_time

_HEADER = re.compile(
    r"([IWEF])(\d{2})(\d{2}) (\d{2}):(\d{2}):(\d{2})\.(\d{6})\s+(\d+) ([^:\]]+):(\d+)\] (.*)", re.DOTALL
)
_MESSAGE = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"')
# A key's length is bounded, or a long line of words would be tried from each of them to its end.
_PAIR = re.compile(r'(?:^| )(\w[\w ]{0,59}?)="([^"\\]*(?:\\.[^"\\]*)*)"')
_ESCAPE = re.compile(r"\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|.)", re.DOTALL)
_SHORT_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_SKEW = timedelta(minutes=1)
_STAMP = re.compile(r"(\d{4}-\d{2}-\d{2}T[\d:.]{8,18}(?:Z|[+-]\d{2}:\d{2})) (.*)", re.DOTALL)
_MENTION = re.compile(r"(?:([a-z0-9.-]+)/|namespace:([a-z0-9.-]+),name:|(?<![\w./-]))$")
_OTHERS_RUNS = ("Pod info", "usage: pod ")
"""At V5 every filter run lists the pods that hold cards: such a line is part of another pod's run."""

FILTER_STARTS = ("Starting schedule filter process", "begin schedule filter")
NODE_UNFIT = ("NodeUnfitPod", "calcScore:node not fit pod", "Init container does not fit")


RELEASED = ("Pod deleted", "Pod taken and deleted")
"""The extender took a pod's GPUs back [HAMi pkg/scheduler/pods.go delPod up to 2.9, and at 2.10]."""


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


def read_line(raw: str, now: datetime) -> LogLine | None:
    """A line of either format, without the time that the container runtime put in front (`timestamps=true`).

    That time has a year and a zone, so it counts before klog's own, which has neither.
    """
    stamp = _STAMP.match(raw)
    text = stamp[2] if stamp else raw
    line = _json_line(text) if text.startswith("{") else parse_line(text, now)
    at = parse_time(stamp[1]) if stamp else None
    return line._replace(at=at) if line and at else line


def _json_line(raw: str) -> LogLine | None:
    """`ts` is in milliseconds since 1970; an error has `err` and no `v`; objects are {"name", "namespace"}."""
    try:
        fields = msgspec.json.decode(raw, type=dict[str, Any])
        at = datetime.fromtimestamp(float(fields["ts"]) / 1000, UTC)
    except (ValueError, TypeError, KeyError, OverflowError, OSError, RecursionError):
        return None
    values = {key: _json_value(value) for key, value in fields.items() if key not in ("ts", "msg", "caller", "v")}
    level = "E" if "err" in fields and "v" not in fields else "I"
    return LogLine(raw, level, at, str(fields.get("caller", "")), str(fields.get("msg", "")), values)


def _json_value(value: object) -> str:
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        if isinstance(name := fields.get("name"), str):
            namespace = fields.get("namespace")
            return f"{namespace}/{name}" if namespace else name
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


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
    named = (line.values.get(key) for key in ("namespace", "podNamespace", "namespaces"))  # the last one is 2.4's
    namespace = next(filter(None, named), "")
    return pod if "/" in pod or not namespace else f"{namespace}/{pod}"


def whose(line: LogLine, name: str) -> str | None:
    """The namespace of the pod of that name that the line is about.

    Empty where the line has the bare name, which a pod in any namespace may have; None when it is about no such pod.
    """
    if line.message.startswith(_OTHERS_RUNS):
        return None
    if key := pod_key_of(line):
        namespace, _, own = key.rpartition("/")
        return namespace if own == name else None
    return _mentioned(line.message, name)


def _mentioned(text: str, name: str) -> str | None:
    """Plain text names pods as `namespace/name`, kube-scheduler's traces as `namespace:ml,name:wl`, some bare."""
    at = text.find(name)
    while at >= 0:
        after = text[at + len(name) : at + len(name) + 2]
        ends = not re.match(r"[\w-]|\.\w", after)
        if ends and (found := _MENTION.search(text[:at])):
            return found[1] or found[2] or ""
        at = text.find(name, at + 1)
    return None


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
