"""A cluster in memory for many cases a second: the sandbox's objects and rules behind the bot's own writer, no sockets.

Every write of a bot is checked when it is done: it may be a raise, an extension, an exact undoing or a forgetting of
the record, and nothing else. Time is `now`, true seconds since 1970, which the server tells in its answers.
"""

import asyncio
import copy
import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any, Literal, Self

import aiohttp
import msgspec

from bot.changes.changer import Changer
from bot.changes.flags import find_spot
from bot.changes.journal import ENDS, ChangeEvent, KnownChange
from bot.changes.plan import annotation
from bot.changes.record import KEY, FlagChange, Record, read_record, same_way_back, with_times_of, write_record
from bot.errors import BotError
from bot.kube.client.requests import ApiRequest
from bot.kube.client.responses import ServerClock
from bot.kube.client.writer import Writer
from bot.kube.times import format_time
from sandbox.apiserver.collection import ListQuery
from sandbox.apiserver.statuses import ApiError, Target
from sandbox.apiserver.store import Store
from sandbox.apiserver.writes import JSON_PATCH
from sandbox.apiserver.writes import Writer as Rules
from tests.changes.deployments import KUBE_SCHEDULER, LABELS, NOW, rolled_out
from tests.changes.rig import NAME, NAMESPACE, Steps

DEPLOYMENTS, PODS, LEASES = "deployments.apps", "pods", "leases.coordination.k8s.io"
Trouble = Literal["down", "lost, done", "lost, not done", "500, done", "500, not done"]


class Forbidden(BaseException):
    """A bot did what no bot may do. Nothing in the code under test catches it."""


def scheduler() -> dict[str, Any]:
    """A rolled out Deployment of two replicas."""
    made = rolled_out()
    made["metadata"]["annotations"] = {"meta.helm.sh/release-name": "hami"}
    made["spec"]["replicas"] = 2
    made["status"] = {"observedGeneration": 9**9, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2}
    return made


def _pod(name: str) -> dict[str, Any]:
    return {
        "metadata": {"namespace": NAMESPACE, "name": name, "uid": name, "resourceVersion": "2", "labels": LABELS},
        "spec": {"containers": [{"name": KUBE_SCHEDULER}]},
        "status": {"phase": "Running"},
    }


class Cluster:
    """The API server and its objects. `levels` is -v of each pod's running kube-scheduler, `silent` pods answer 503.

    `storm` is how many of the next patches come just after an edit elsewhere in the object. `done` counts what bots
    did by kind and change; `asked_early` are the changes that somebody asked to end before their deadline.
    """

    def __init__(self, pods: tuple[str, ...] = ("pod-1", "pod-2")) -> None:
        self.now = NOW
        self.store = Store({DEPLOYMENTS: [scheduler()], PODS: [_pod(pod) for pod in pods], LEASES: []})
        self.rules = Rules(lambda: datetime.fromtimestamp(self.now, UTC))
        self.levels = dict.fromkeys(pods, "3")
        self.silent: set[str] = set()
        self.storm = 0
        self.done: Counter[tuple[str, str]] = Counter()
        self.asked_early: set[str] = set()
        self.raised: list[tuple[str, Record]] = []
        self._once: set[tuple[str, str, str]] = set()
        self.foreign_edits = 0
        self.original = json.dumps(self.live()["spec"])

    def live(self) -> dict[str, Any]:
        found = self.store.of(DEPLOYMENTS).object(NAMESPACE, NAME)
        assert found
        return found

    def found(self) -> dict[str, Any] | None:
        return self.store.of(DEPLOYMENTS).object(NAMESPACE, NAME)

    def record(self) -> Record | None:
        """The open change as it stands on the object."""
        live = self.found()
        found = read_record(annotation(live) or "") if live else None
        return found if isinstance(found, Record) and self._is_genuine(found) else None

    def edit(self, change: Callable[[dict[str, Any]], None]) -> None:
        """Somebody else's edit."""
        live = self.found()
        if live:
            change(live)
            self.foreign_edits += 1
            self.store.of(DEPLOYMENTS).write(live)

    def misdate(self, record: Record, ahead_s: float) -> None:
        """The record as a process would have written it whose clock is so far ahead."""
        times = {"raised_at": _time(record.since + ahead_s), "at": _time(record.deadline + ahead_s)}
        live = self.live()
        live["metadata"]["annotations"][KEY] = write_record(msgspec.structs.replace(record, **times))
        self.store.of(DEPLOYMENTS).write(live)

    def damage(self, text: str | None) -> None:
        """Somebody writes this under our key, or (None) removes what stands there."""
        live = self.live()
        live["metadata"]["annotations"].pop(KEY, None)
        live["metadata"]["annotations"] |= {} if text is None else {KEY: text}
        self.store.of(DEPLOYMENTS).write(live)

    def remove(self) -> None:
        if self.found():
            self.foreign_edits += 1
            self.store.of(DEPLOYMENTS).remove(NAMESPACE, NAME)

    def create(self, uid: str, keep: dict[str, Any] | None = None) -> None:
        """The Deployment anew; with `keep` as a backup of that object would bring it back."""
        self.remove()
        made = copy.deepcopy(keep) if keep else scheduler()
        made["metadata"]["uid"] = uid
        self.foreign_edits += 1
        self.store.of(DEPLOYMENTS).write(made)

    def restart_pod(self, name: str, new: str) -> None:
        self.store.of(PODS).remove(NAMESPACE, name)
        del self.levels[name]
        self.store.of(PODS).write(_pod(new))
        self.levels[new] = "3"

    def answer(self, request: ApiRequest) -> tuple[int, bytes]:
        try:
            return 200, self._answer(request)
        except ApiError as error:
            return error.code, json.dumps(error.body).encode()
        except AssertionError as error:
            raise Forbidden(*error.args) from error

    def _answer(self, request: ApiRequest) -> bytes:
        if request.path == "/version":
            return b"{}"
        parts = request.path.strip("/").split("/")
        at = parts.index("namespaces") if "namespaces" in parts else None
        namespace = parts[at + 1] if at is not None else ""
        plural, name, *rest = [*parts[at + 2 :], "", ""] if at is not None else [parts[-1], "", ""]
        if rest[:1] == ["proxy"]:
            return self._set_level(name.split(":")[1], str(request.content))
        resource = {"deployments": DEPLOYMENTS, "pods": PODS, "leases": LEASES}[plural]
        collection = self.store.of(resource)
        target = Target(collection.kind.api, plural, namespace, name)
        match request.method:
            case "GET" if not name:
                query = dict(request.query)
                labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
                return collection.body(ListQuery(namespace, labels, fields))
            case "GET":
                found = collection.object(namespace, name)
                if found is None:
                    raise ApiError(404, "NotFound", f"{name} not found")
                return json.dumps(found).encode()
            case "PATCH":
                return json.dumps(self._patch(collection, target, request.content)).encode()
            case "POST":
                made = self.rules.create(collection, target, json.loads(json.dumps(request.content)))
            case _:
                made = self.rules.replace(collection, target, json.loads(json.dumps(request.content)))
        return json.dumps(made).encode()

    def _patch(self, collection: Any, target: Target, patch: Any) -> dict[str, Any]:
        before = self.found()
        if self.storm and before:
            self.storm -= 1
            before["metadata"]["annotations"]["storm"] = str(self.storm)
            collection.write(before)
        after = self.rules.patch(collection, target, JSON_PATCH, msgspec.json.encode(patch))
        assert before
        self._check(before, after)
        return after

    def _set_level(self, pod: str, level: str) -> bytes:
        if pod not in self.levels:
            raise ApiError(404, "NotFound", f'pods "{pod}" not found', details={"name": pod})
        if pod in self.silent:
            raise ApiError(503, "ServiceUnavailable", "error trying to reach service")
        if not level.isdecimal():
            raise ApiError(400, "BadRequest", "failed set klog.logging.verbosity")
        self.levels[pod] = level
        return b"successfully set"

    def _check(self, before: dict[str, Any], after: dict[str, Any]) -> None:
        """That a bot's write is one that a bot may do."""
        texts = annotation(before), annotation(after)
        records = [read_record(text) if text is not None else None for text in texts]
        found, now = records[0] or records[1], records[1]
        assert _others(before) == _others(after)
        same_spec = before["spec"] == after["spec"]
        if not self._is_genuine(found) and same_spec:
            assert now is None or (isinstance(now, Record) and isinstance(found, Record) and now.id == found.id)
            return
        by_copy = not self._is_genuine(found) or (texts[0] == texts[1] and not same_spec)
        ours = self._not_carried(before) if by_copy else found
        assert isinstance(ours, Record)
        if records[0] is None and not by_copy:
            did = "raise"
            _assert_words(before, after, ours, ours.words_before, ours.words_after)
            self.raised.append((after["metadata"]["uid"], ours))
        elif not by_copy and isinstance(now, Record) and now.since < ours.since:
            did = "extend"
            assert before["spec"] == after["spec"]
            assert self.now - 2 < now.since <= self.now < ours.since
            assert now.deadline - now.since <= ours.deadline - ours.since
        elif not by_copy and isinstance(now, Record):
            did = "extend"
            assert before["spec"] == after["spec"]
            assert (now.id, now.words_before, now.words_after) == (ours.id, ours.words_before, ours.words_after)
            assert now.deadline > ours.deadline
        elif before["spec"] != after["spec"]:
            did = "revert"
            _assert_only_ours(before, after, ours)
            assert self.now >= ours.deadline - 1 or ours.id in self.asked_early, "undone too early"
        else:
            did = "forget"
            spot = find_spot(before, ours.container)
            words = list(spot.words(ours.field)) if spot else []
            assert ours.means == "debug-flags" or not standing(words, ours), "lost"
        self.done[did, ours.id] += 1
        once = (did, ours.id, after["metadata"]["uid"])
        assert did == "extend" or once not in self._once, f"a second {did}"
        self._once.add(once)

    def _is_genuine(self, record: object) -> bool:
        """Whether a bot wrote it so."""
        known = {raised.id: raised for _, raised in self.raised}
        return isinstance(record, Record) and same_way_back(record, known.get(record.id, record))

    def _not_carried(self, before: dict[str, Any]) -> Record:
        """The change that was raised on this very object, and stands there without its record."""
        carried = read_record(annotation(before) or "")
        for uid, record in reversed(self.raised):
            if isinstance(carried, Record) and same_way_back(carried, record):
                continue
            spot = find_spot(before, record.container)
            if uid == before["metadata"]["uid"] and spot and standing(list(spot.words(record.field)), record):
                return record
        raise AssertionError(f"written over what is no record: {annotation(before)}")


def _others(deployment: dict[str, Any]) -> dict[str, str]:
    return {key: value for key, value in (deployment["metadata"]["annotations"] or {}).items() if key != KEY}


def _assert_words(before: Any, after: Any, record: Record, old: tuple[str, ...], new: tuple[str, ...]) -> None:
    expected = copy.deepcopy(before["spec"])
    spot = find_spot(before, record.container)
    assert spot
    assert spot.words(record.field) == old, "what somebody else wrote was overwritten"
    expected["template"]["spec"]["containers"][spot.place][record.field] = list(new)
    assert json.dumps(after["spec"]) == json.dumps(expected)


def standing(words: list[str], record: Record | FlagChange) -> list[tuple[int, list[str]]]:
    """Where the flag has our value, and in which words, of the spellings that these tests use."""
    dashes = "-" if len(record.flag) == 1 else "--"
    forms = [[f"{dashes}{record.flag}={record.new}"], [f"--{record.flag}", record.new]]
    return [(at, form) for at in range(len(words)) for form in forms if words[at : at + len(form)] == form]


def _assert_only_ours(before: Any, after: Any, record: Record) -> None:
    """Our element has its old value, or is gone where there was none, and nothing else changed."""
    expected = copy.deepcopy(before["spec"])
    spot = find_spot(before, record.container)
    assert spot
    words = list(spot.words(record.field))
    for each in record.flags:
        [(at, form)] = standing(words, each)
        words[at : at + len(form)] = [*form[:-1], form[-1].replace(each.new, each.old)] if each.old else []
    expected["template"]["spec"]["containers"][spot.place][record.field] = words
    assert json.dumps(after["spec"]) == json.dumps(expected), "what somebody else wrote was overwritten"


def _time(seconds: float) -> str:
    return format_time(datetime.fromtimestamp(seconds, UTC))


class Way:
    """One replica's way to the server (`bot.kube.client.live.ServerLink`). `next` is what befalls its next write, once;
    `down` all requests. `failed` counts what did not come through.
    """

    server, credentials, namespace = "memory", "the test", ""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.down = False
        self.next: Trouble | None = None
        self.failed = 0

    async def send(self, request: ApiRequest, limits: aiohttp.ClientTimeout) -> Any:
        await asyncio.sleep(0)  # others have their turn
        trouble = None
        if request.method != "GET":
            trouble, self.next = self.next, None
        self.failed += self.down or trouble is not None
        if self.down or trouble == "down":
            raise aiohttp.ConnectionTimeoutError
        status, body = (503, b"{}") if trouble and "not done" in trouble else self._cluster.answer(request)
        if trouble and trouble.startswith("lost"):
            raise aiohttp.ServerDisconnectedError
        return _Answer(500, b"{}", self._cluster.now) if trouble else _Answer(status, body, self._cluster.now)

    async def aclose(self) -> None:
        return


class _Answer:
    def __init__(self, status: int, body: bytes, now: float) -> None:
        self.status = status
        self.headers = {"Date": format_datetime(datetime.fromtimestamp(now, UTC), usegmt=True)}
        self._body = body

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return

    async def read(self) -> bytes:
        return self._body


class MemoryJournal:
    """As the store's rows behave (see test_model.py), without a database. `down`: it raises; `rows` may be emptied."""

    def __init__(self) -> None:
        self.down = False
        self.rows: dict[str, KnownChange | ChangeEvent] = {}
        self.told: list[ChangeEvent] = []

    def _reach(self) -> None:
        if self.down:
            raise BotError("the database is down")

    async def planned(self, record: Record, uid: str) -> None:
        self._reach()
        row = self.rows.get(record.id)
        if row is not None and not (isinstance(row, KnownChange) and row.state == "planned"):
            raise BotError("it is known already")
        self.rows[record.id] = KnownChange(record, uid, "planned")

    async def note(self, event: ChangeEvent) -> None:
        self._reach()
        record = event.record
        if record is None:
            return
        self.told.append(event)
        row = self.rows.get(record.id)
        if isinstance(row, ChangeEvent):
            if row.kind != "never-raised" or event.kind == "never-raised" or event.kind not in (*ENDS, *_STATES):
                return
            row = None
        if event.kind in ENDS:
            self.rows[record.id] = event
            return
        row = row or KnownChange(record, "", "planned")
        record = with_times_of(row.record, record)
        if event.kind in _STATES and _STATES.index(event.kind) > _STATES.index(row.state):
            row = KnownChange(record, event.uid or row.uid, event.kind)  # type: ignore[arg-type]
        elif event.kind in ("extended", "retimed"):
            row = row._replace(record=record)
        self.rows[record.id] = row

    async def opened(self) -> list[KnownChange]:
        self._reach()
        return [row for row in self.rows.values() if isinstance(row, KnownChange)]

    def ends(self) -> dict[str, str]:
        """How each change that ended did, by id."""
        return {id_: one.kind for id_, one in self.rows.items() if isinstance(one, ChangeEvent)}


_STATES = ("planned", "raised", "effective")


class Replica:
    """One bot, its clock wrong by `skew_s`; `changer` makes a process of it, which may be killed or interrupted."""

    def __init__(self, cluster: Cluster, journal: Any, skew_s: float = 0) -> None:
        self.cluster, self.journal, self.skew_s = cluster, journal, skew_s
        self.way = Way(cluster)
        self._writer = self.writer()

    def writer(self) -> Writer:
        async def reconnect() -> Way:
            return self.way

        made = Writer(self.way, reconnect, aiohttp.ClientTimeout(total=1, sock_connect=1))  # type: ignore[arg-type]
        made.clock = ServerClock(lambda: self.cluster.now)
        return made

    def now(self) -> float:
        return self.cluster.now + self.skew_s

    def changer(self, steps: Steps | None = None) -> Changer:
        steps = steps or Steps()
        return Changer(steps.of(self._writer), steps.of(self.journal), now=self.now)
