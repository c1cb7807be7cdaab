"""What is fuzzed: for each the real inputs that are changed, and what an input has to get.

A target raises for an input that got neither an answer nor the refusal that its function promises.
"""

import asyncio
import gzip
import io
import json
import re
import tarfile
import tempfile
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, cast
from unicodedata import category
from zlib import crc32

import msgspec

from bot.endpoint import PostRefused
from bot.errors import SourceError, UsageError
from bot.hami.metrics.exposition import read_samples
from bot.hami.nodes.cards import read_cards, read_json, read_json_with_custom, read_strict_text
from bot.hami.nodes.node_lock import lock_complaint, parse_lock
from bot.hami.nodes.registration import parse_handshake
from bot.hami.pods.allocations import decode_allocations
from bot.hami.scheduler_logs.filter_runs import rebuild
from bot.hami.scheduler_logs.log_lines import lines_about, read_line, read_panics, read_waits
from bot.hami.scheduler_logs.scheduling_events import event_reason, parse_code_event, parse_unschedulable, read_reason
from bot.hami.version import parse_version
from bot.kube.lists import NotAListError, decode_list
from bot.kube.models import NODES, PODS
from bot.kube.quantities import canonical, parse_quantity
from bot.kube.recording.files import read_archive
from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.kube.times import parse_time
from bot.kube.watch.mirror import EventReader
from bot.pager import read_pagerduty
from bot.pprof.decode import read as read_profile
from bot.pprof.top import top
from bot.render.markdown import markdown
from bot.render.terminal import terminal
from bot.report import Report, as_json
from bot.safe_yaml import parse_documents
from bot.slack.render.report import render_report
from bot.texts import Texts
from bot.triage.hours import read_hours
from bot.triage.webhook import WrongBody, read_alerts
from handlers.parsing.question import normalise, split_words
from handlers.parsing.slack_grammar import understand
from playbooks.fit.manifest import Manifest, read_pods
from playbooks.own.discovery import find
from playbooks.playbook import Sources
from sandbox.slack.validate import validate_blocks

ROOT = Path(__file__).parents[2]
_CASES = ROOT / "tests" / "cases"
_NOW = datetime(2026, 11, 21, 6, 13, 30, tzinfo=UTC)
_VERSION = parse_version("v2.8.1")
assert _VERSION

_KEPT = {"schema", "code", "playbook", "severity", "confidence", "taken_at", "at", "columns", "verdict_key"}
"""What the bot alone writes."""
_HOSTILE_SHARE = 0.2
_UNSEEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Characters that move what a terminal shows, or hide it."""

Send = Callable[[bytes], None]


class Target(NamedTuple):
    """`weight`: how many inputs it gets beside the others. `seeds` are read when they are needed."""

    name: str
    weight: int
    seeds: Callable[[], list[bytes]]
    send: Send
    is_whole: bool = False
    """No window of a long seed is of any use."""


# ------------------------------------------------------------------------------------------------------- corpora


@cache
def _recording() -> dict[str, bytes]:
    """The files of a recorded cluster."""
    with tarfile.open(_CASES / "hami-2.10" / "recording.tar.gz") as archive:
        members = ((member, archive.extractfile(member)) for member in archive.getmembers() if member.isfile())
        return {member.name: file.read() for member, file in members if file}


def _objects(plural: str) -> list[bytes]:
    [document] = [data for name, data in _recording().items() if name.endswith(f"objects/{plural}.json")]
    items = json.loads(document)["items"]
    kind = {"pods": "PodList", "nodes": "NodeList"}[plural]
    return [json.dumps({"kind": kind, "apiVersion": "v1", "items": [item]}).encode() for item in items[:40]]


def _log_lines() -> list[bytes]:
    logs = [data for name, data in _recording().items() if name.endswith(".log")]
    return [line for log in logs for line in log.splitlines()[:300]] + [
        b"panic: runtime error: index out of range [3] with length 2",
        b"I1121 06:12:07.533331 1 request.go:752] Waited for 1.19s due to client-side throttling, request: GET:https://x",
    ]


def _annotations() -> list[bytes]:
    texts = re.findall(rb'"hami\.io/[\w.-]+": ?("(?:[^"\\]|\\.)*")', b"".join(_recording().values()))
    return sorted({json.loads(text).encode() for text in texts})[:400]


def _messages() -> list[bytes]:
    texts = re.findall(rb'"message": ?("(?:[^"\\]|\\.)*")', b"".join(_recording().values()))
    return sorted({json.loads(text).encode() for text in texts})[:400]


def _watch() -> list[bytes]:
    pods = [json.loads(text)["items"][0] for text in _objects("pods")]
    changes = [json.dumps({"type": kind, "object": pods[0]}).encode() for kind in ("ADDED", "MODIFIED", "DELETED")]
    bookmark = {"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": {"resourceVersion": "5"}}}
    gone = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old"}}
    return [event + b"\n" for event in (*changes, json.dumps(bookmark).encode(), json.dumps(gone).encode())]


def _profiles() -> list[bytes]:
    files = sorted((ROOT / "tests" / "pprof" / "data" / "profiles").glob("syn.*.pb.gz"))
    return [gzip.decompress(path.read_bytes()) for path in files] + [path.read_bytes() for path in files]


def _archives() -> list[bytes]:
    whole, small = _recording(), io.BytesIO()
    meta = next(name for name in whole if name.endswith("meta.json"))
    with tarfile.open(fileobj=small, mode="w") as archive:
        for name, data in ((meta, whole[meta]), ("objects/pods.json", _objects("pods")[0]), ("logs/a/b/c.log", b"x\n")):
            member = tarfile.TarInfo(name.rpartition("recording/")[2])
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    plain = small.getvalue()
    return [plain, gzip.compress(plain, 1)]


def _words() -> list[bytes]:
    said = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    typed = [
        re.sub(r"[\[\]]", "", command.removeprefix("hami-bot ")) for command in re.findall(r"`(hami-bot [^`]+)`", said)
    ]
    also = [
        "why trainer-0 -n ml",
        "why “ml/a”",
        "为什么 ml/trainer-0 在等待",
        "fit 2x16Gi —cores 30",
        "verbosity 5 for 10m because x",
    ]
    return [
        text.encode()
        for text in (*typed, *also, "", "help card-cordoned", "triage ack 3fa29c1b", "digest daily 09:00 UTC")
    ]


def _webhooks() -> list[bytes]:
    alert = {
        "status": "firing",
        "labels": {"alertname": "GPUPodPending", "namespace": "ml", "pod": "trainer-0", "severity": "critical"},
        "annotations": {"summary": "waits"},
        "startsAt": "2026-11-21T05:00:00Z",
        "endsAt": "0001-01-01T00:00:00Z",
        "fingerprint": "00112233aabbccdd",
        "generatorURL": "http://prometheus/graph?g0.expr=x",
    }
    four = {"version": "4", "groupKey": "{}", "status": "firing", "receiver": "x", "alerts": [alert, alert]}
    grafana = four | {"version": "1", "title": "x", "orgId": 1}
    pager = {"event": {"event_type": "incident.acknowledged", "data": {"id": "P", "incident_key": "3fa29c1b"}}}
    return [json.dumps(alert).encode() for alert in (four, grafana, pager)]


def _metrics() -> list[bytes]:
    found = [data for name, data in _recording().items() if name.endswith(".prom")]
    line = b'GPUDeviceMemoryLimit{deviceidx="0",deviceuuid="GPU-1",nodeid="n",devicetype="T4"} 1.6106127e+10\n'
    return [*found, b"# HELP x y\n# TYPE x gauge\n" + 20 * line]


def _manifests() -> list[bytes]:
    pod = (_CASES / "pod.yaml").read_bytes()
    return [
        pod,
        b"---\n".join([pod, pod]),
        json.dumps(parse_documents(pod.decode())[0]).encode(),
        b"a: &a [1]\nb: *a\n",
    ]


@cache
def _reports() -> list[Any]:
    """Answers about a recorded cluster, as JSON has them."""
    cluster = RecordedCluster.open(_CASES / "hami-2.10" / "recording.tar.gz")
    waiting = ("s03-card-insufficient-memory", "s06-wrong-gputype", "s17-slice-exhausted", "s26-cpu-too-big")
    asked = [("why", (f"ml/{pod}",)) for pod in waiting] + [
        (verb, ()) for verb in ("pending", "gpus", "quota", "status")
    ]

    async def answers() -> list[Report]:
        found: list[Report] = []
        for verb, words in asked:
            playbook = find(verb)
            snapshot = await playbook.gather(playbook.request(*words), Sources(cluster))
            found.append(playbook.report(snapshot, Texts("en")))
        return found

    return [json.loads(as_json(report)) for report in asyncio.run(answers())]


def _hostile() -> list[bytes]:
    texts = (
        "<!channel> <@U1|x> <http://x|y>",
        "```\n*a* _b_ ~c~ `d`",
        "\u202egpj.exe",
        "a" * 300,
        "卡" * 200,
        "| a | b |",
    )
    return [f"{number}{text}".encode() for number, text in enumerate(texts)] + _messages()[:100]


# ------------------------------------------------------------------------------------------------------- targets


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _to_words(data: bytes) -> None:
    with suppress(UsageError):
        words = split_words(normalise(_text(data)))
        assert all(isinstance(word, str) for word in words)


def _to_grammar(data: bytes) -> None:
    with suppress(UsageError):
        understand(split_words(normalise(_text(data))))


def _to_log(data: bytes) -> None:
    lines = _text(data).split("\n")
    found = [line for raw in lines if (line := read_line(raw, _NOW))]
    rebuild(found)
    lines_about(lines, "ml", "trainer-0", _NOW)
    read_panics(lines)
    read_waits(lines)


def _to_annotations(data: bytes) -> None:
    text = _text(data)
    for read in (read_cards, read_json, read_json_with_custom, read_strict_text):
        with suppress(ValueError):
            read(text)
    assert _VERSION
    decode_allocations(text, _VERSION)
    parse_lock(text, _VERSION)
    parse_handshake(text)


def _to_messages(data: bytes) -> None:
    text = _text(data)
    parse_unschedulable(text)
    parse_code_event(text)
    read_reason(text)
    event_reason(text)
    lock_complaint(text)
    parse_version(text)
    parse_time(text)
    if parse_quantity(text) is not None:
        canonical(text)


def _to_lists(data: bytes) -> None:
    with suppress(NotAListError):
        decode_list(PODS, data)
    with suppress(NotAListError):
        decode_list(NODES, data)


def _to_watch(data: bytes) -> None:
    with suppress(SourceError):
        reader = EventReader(PODS.type)
        for start in range(0, len(data), 1000):
            list(reader.feed(data[start : start + 1000]))


def _to_profile(data: bytes) -> None:
    with suppress(SourceError, UsageError):
        assert top(read_profile(data, limit=1 << 22))


def _to_archive(data: bytes) -> None:
    with tempfile.NamedTemporaryFile(suffix=".tar.gz", dir=_memory()) as file:
        file.write(data if data[:2] == b"\x1f\x8b" else gzip.compress(data, 1))
        file.flush()
        with suppress(SourceError):
            names = read_archive(Path(file.name))
            assert not [name for name in names if name.startswith("/") or ".." in name.split("/")]
            RecordedCluster.open(Path(file.name))


def _to_webhooks(data: bytes) -> None:
    with suppress(WrongBody):
        read_alerts(data)
    with suppress(PostRefused):
        read_pagerduty(data)


def _to_metrics(data: bytes) -> None:
    read_samples(_text(data), {"GPUDeviceMemoryLimit", "vGPUMemoryAllocated", "x"})


def _to_manifest(data: bytes) -> None:
    with suppress(UsageError):
        read_pods([Manifest("pod.yaml", _text(data))])


def _to_settings(data: bytes) -> None:
    with suppress(ValueError):
        read_hours(_text(data[:80]))
    with suppress(ValueError):
        parse_documents(_text(data))


def _to_render(data: bytes) -> None:
    """The first byte says which report, the rest stands in some of its texts."""
    reports, random = _reports(), Random(crc32(data))
    report = msgspec.convert(
        _with(reports[data[0] % len(reports)] if data else reports[0], _text(data[1:]), random), Report
    )
    for language in ("en", "zh"):
        say = Texts(language)
        printed = terminal(report, say, colour=False)
        assert not [char for char in printed if char != "\n" and category(char) in _UNSEEN]
        markdown(report, say)
        assert validate_blocks(list(render_report(report, say, channel_buttons=True, words="why x").blocks)) == []


def _with(value: Any, text: str, random: Random) -> Any:
    if isinstance(value, dict):
        items = cast(dict[str, Any], value)
        return {key: item if key in _KEPT else _with(item, text, random) for key, item in items.items()}
    if isinstance(value, list):
        return [_with(item, text, random) for item in cast(list[Any], value)]
    return text if isinstance(value, str) and random.random() < _HOSTILE_SHARE else value


@cache
def _memory() -> str | None:
    """A folder in memory, where there is one: a file for each input is much to write."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


TARGETS = (
    Target("typed words", 10, _words, _to_words),
    Target("grammar", 5, _words, _to_grammar),
    Target("log lines", 20, _log_lines, _to_log),
    Target("annotations", 20, _annotations, _to_annotations),
    Target("messages", 20, _messages, _to_messages),
    Target("lists of objects", 10, lambda: _objects("pods") + _objects("nodes"), _to_lists, is_whole=True),
    Target("watch events", 10, _watch, _to_watch, is_whole=True),
    Target("profiles", 6, _profiles, _to_profile, is_whole=True),
    Target("archives", 4, _archives, _to_archive, is_whole=True),
    Target("alerts and pagers", 10, _webhooks, _to_webhooks),
    Target("expositions", 8, _metrics, _to_metrics),
    Target("manifests", 2, _manifests, _to_manifest),
    Target("settings", 2, _manifests, _to_settings),
    Target("rendering", 1, _hostile, _to_render),
)
