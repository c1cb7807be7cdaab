"""Reads the schedulers' log lines: their parts, the pods that they are about, panics, and throttled requests.

Formats: k8s.io/klog/v2, and k8s.io/component-base's JSON (`--logging-format=json`, only kube-scheduler); messages of
HAMi pkg/scheduler/{scheduler,score,event}.go at v2.4 to v2.10. Pods interleave in the log, so lines belong together by
the pod's key, never because they are neighbours.

Panics: net/http survives one inside a request (`http2: panic serving`), and kube-scheduler sees a broken connection.
Any other panic, or a `fatal error`, ends the process with exit code 2.

Throttling: requests that a client delays by its own limits (--kube-qps, --kube-burst), in the words of client-go
(rest/request.go). A delay of over 1 s is logged twice with the same URL, and is one request.
"""

import re
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, cast

import msgspec

from bot.kube.times import parse_time, read_go_duration

_HEADER = re.compile(r"[IWEF](\d{2})(\d{2}) (\d{2}):(\d{2}):(\d{2})\.(\d{6})\s+\d+ [^:\]]+:\d+\] (.*)", re.DOTALL)
_MESSAGE = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"')
# Keys are bounded, so that a long line of words is not searched from each word to the line's end.
_PAIR = re.compile(r'(?:^| )(\w[\w ]{0,59}?)="([^"\\]*(?:\\.[^"\\]*)*)"')
_ESCAPE = re.compile(r"\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|.)", re.DOTALL)
_SHORT_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_SKEW = timedelta(minutes=1)
_STAMP = re.compile(r"(\d{4}-\d{2}-\d{2}T[\d:.]{8,18}(?:Z|[+-]\d{2}:\d{2})) (.*)", re.DOTALL)
_MENTION = re.compile(r"(?:([a-z0-9.-]+)/|namespace:([a-z0-9.-]+),name:|(?<![\w./-]))$")
_OTHERS_RUNS = ("Pod info", "usage: pod ")
"""How lines begin in which, at V5, each filter run lists all pods that hold GPUs: they are about other pods too."""

FILTER_STARTS = ("Starting schedule filter process", "begin schedule filter")
NODE_UNFIT = ("NodeUnfitPod", "calcScore:node not fit pod", "Init container does not fit")


RELEASED = ("Pod deleted", "Pod taken and deleted")
"""The extender's messages when it frees a pod's GPUs [HAMi pkg/scheduler/pods.go delPod up to 2.9, and at 2.10]."""


class LogLine(NamedTuple):
    """One klog line. `at` is None where its time, which klog writes without year and zone, cannot be placed."""

    raw: str
    at: datetime | None
    message: str
    values: dict[str, str]


def parse_line(raw: str, now: datetime) -> LogLine | None:
    """The parts of a structured klog line, None for other text. Its time is UTC, in the newest year up to `now`."""
    found = _HEADER.match(raw)
    if not found:
        return None
    body = found[7]
    message = _MESSAGE.match(body)
    text = _unquote(message[1]) if message else body
    rest = body[message.end() :] if message else ""
    values = {key: _unquote(value) for key, value in _PAIR.findall(rest)}
    return LogLine(raw, _moment(found, now), text, values)


def read_line(raw: str, now: datetime) -> LogLine | None:
    """The parts of a log line in klog's format or JSON; None for other text. The container runtime's time
    (`timestamps=true`) counts before klog's, which has no year and zone.
    """
    stamp = _STAMP.match(raw)
    text = stamp[2] if stamp else raw
    line = _json_line(text) if text.startswith("{") else parse_line(text, now)
    at = parse_time(stamp[1]) if stamp else None
    return line._replace(at=at) if line and at else line


def _json_line(raw: str) -> LogLine | None:
    """`ts` is in milliseconds since 1970; objects are {"name", "namespace"}."""
    try:
        fields = msgspec.json.decode(raw, type=dict[str, Any])
        at = datetime.fromtimestamp(float(fields["ts"]) / 1000, UTC)
    except (ValueError, TypeError, KeyError, OverflowError, OSError, RecursionError):
        return None
    values = {key: _json_value(value) for key, value in fields.items() if key not in ("ts", "msg", "caller", "v")}
    return LogLine(raw, at, str(fields.get("msg", "")), values)


def _json_value(value: object) -> str:
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        if isinstance(name := fields.get("name"), str):
            namespace = fields.get("namespace")
            return f"{namespace}/{name}" if namespace else name
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _unquote(text: str) -> str:
    def unescaped(found: re.Match[str]) -> str:
        kind, code = found[0][1], found[0][2:]
        number = int(code or "0", 16)
        return (chr(number) if number <= sys.maxunicode else "\ufffd") if code else _SHORT_ESCAPES.get(kind, kind)

    return _ESCAPE.sub(unescaped, text) if "\\" in text else text


def _moment(found: re.Match[str], now: datetime) -> datetime | None:
    month, day, hour, minute, second, micros = (int(found[group]) for group in range(1, 7))
    for year in (now.year, now.year - 1):
        try:
            moment = datetime(year, month, day, hour, minute, second, microsecond=micros, tzinfo=UTC)
        except ValueError:
            continue
        if moment <= now + _SKEW:
            return moment
    return None


def pod_key_of(line: LogLine) -> str:
    """NAMESPACE/NAME of the pod that a line is about, however HAMi's version writes it; empty for no pod."""
    pod = line.values.get("pod") or line.values.get("object") or line.values.get("podName") or ""
    named = (line.values.get(key) for key in ("namespace", "podNamespace", "namespaces"))  # the last one is 2.4's
    namespace = next(filter(None, named), "")
    return pod if "/" in pod or not namespace else f"{namespace}/{pod}"


def whose(line: LogLine, name: str) -> str | None:
    """The namespace of the pod called `name` that the line is about; None where it is about no such pod. Empty where
    the line has the bare name, which a pod in any namespace may have.
    """
    if line.message.startswith(_OTHERS_RUNS):
        return None
    if key := pod_key_of(line):
        namespace, _, own = key.rpartition("/")
        return namespace if own == name else None
    # Plain text names pods as `namespace/name`, kube-scheduler's traces as `namespace:ml,name:wl`, some bare.
    text = line.message
    at = text.find(name)
    while at >= 0:
        after = text[at + len(name) : at + len(name) + 2]
        ends = not re.match(r"[\w-]|\.\w", after)
        if ends and (found := _MENTION.search(text[:at])):
            return found[1] or found[2] or ""
        at = text.find(name, at + 1)
    return None


def lines_about(raws: Iterable[str], namespace: str, name: str, now: datetime) -> list[LogLine]:
    """The log lines about this pod alone, by the pod's key: a line of `wl-10` is none of `wl-1`."""
    parsed = (parse_line(raw, now) for raw in raws if name in raw)  # nearly all are of other pods, and this is cheap
    return [line for line in parsed if line is not None and pod_key_of(line) == f"{namespace}/{name}"]


_SERVING = re.compile(r"(?:(\d{4}/\d\d/\d\d \d\d:\d\d:\d\d)(?:\.\d+)? )?http2?: panic serving \S+: (.+)")
_ENDED = re.compile(r"(?:panic|fatal error): .+")
EXIT_CODE = 2
"""The exit code of a Go program that a panic ended."""
_BROKE_OFF = re.compile(r"INTERNAL_ERROR|\bEOF\b")
_REFUSED = re.compile(r"extender at URL \S+, code 4\d\d\b|\bunexpected EOF\b")
_FAILED = re.compile(r"\bcode 5\d\d\b")


class Panic(NamedTuple):
    """A log line that tells of a panic, and what went wrong; `at` is None where the line has no time."""

    raw: str
    what: str
    at: datetime | None


def says_answer_broke_off(message: str) -> bool:
    """Whether kube-scheduler says that an answer broke off, as after a panic: HTTP/2 and HTTP/1 say it differently."""
    return bool(_BROKE_OFF.search(message))


def says_nobody_listened(message: str) -> bool:
    """Whether kube-scheduler says that no process listened: a panic may have ended the extender."""
    return "connection refused" in message


def may_be_panic(message: str) -> bool:
    """Whether kube-scheduler's message about a call can come from a panic, or from a process that a panic ended."""
    return says_answer_broke_off(message) or says_nobody_listened(message) or bool(_FAILED.search(message))


def may_be_refused_request(message: str) -> bool:
    """Whether kube-scheduler's message may be the answer of an extender that could not read the request."""
    return bool(_REFUSED.search(message))


def read_panics(lines: Iterable[str]) -> list[Panic]:
    """The panics in the log, in order; the head line alone stands for a stack, which has `panic(` too."""
    panics: list[Panic] = []
    for line in (line.rstrip("\n") for line in lines):
        if found := _SERVING.search(line):
            at = datetime.strptime(found[1], "%Y/%m/%d %H:%M:%S").replace(tzinfo=UTC) if found[1] else None
            panics.append(Panic(line, found[2], at))
        elif _ENDED.match(line):
            panics.append(Panic(line, line, None))
    return panics


NEEDLE = "client-side throttling"
_NEW = re.compile(r'delay="(?P<delay>[^"]+)" reason="client-side throttling[^"]*" verb="\w+" URL="(?P<url>[^"]+)"')
_OLD = re.compile(r"Waited for (?P<delay>\S+) due to client-side throttling.*request: \w+:(?P<url>\S+)")
_FELT_S, _FELT_TOGETHER_S = 1.0, 60.0


class ThrottledRequest(NamedTuple):
    """One request to the API server that the client held back for `seconds`; `line` is the log's."""

    seconds: float
    line: str


def read_waits(lines: Iterable[str]) -> list[ThrottledRequest]:
    """The throttled requests in these log lines, each once, in the log's order."""
    waits: dict[tuple[str, str], ThrottledRequest] = {}
    for line in lines:
        if found := _NEW.search(line) or _OLD.search(line):
            delay = found["delay"]
            waits.setdefault((delay, found["url"]), ThrottledRequest(read_go_duration(delay) or 0.0, line))
    return list(waits.values())


def are_felt(waits: Sequence[ThrottledRequest]) -> bool:
    """Whether client-side throttling delays pods: one request waited over 1 s, or all together over 1 min."""
    return any(wait.seconds > _FELT_S for wait in waits) or sum(wait.seconds for wait in waits) > _FELT_TOGETHER_S
