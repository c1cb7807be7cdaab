"""Whatever a stream does, the mirror that it feeds ends equal to a fresh list."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bot.kube.client.requests import StaleListError
from bot.kube.models import Holder, ObjectMeta
from bot.kube.models.pods import HolderSpec
from bot.kube.watch.mirror import Bookmark, EventReader, Mirror, key_of
from tests.sampling import examples

NAMES = st.sampled_from(["ml/a", "ml/b", "ml-x/a", "web/c", "web/d"])
BROKEN = "broken"


class Server:
    """Objects by key as (version, phase), and every change of them since `forgotten`."""

    def __init__(self) -> None:
        self.version = 10
        self.objects: dict[str, tuple[int, str]] = {}
        self.history: list[tuple[int, str, str, str]] = []
        self.forgotten = self.version

    def write(self, key: str, text: str) -> None:
        self.version += 1
        kind = "MODIFIED" if key in self.objects else "ADDED"
        self.objects[key] = self.version, text
        self.history.append((self.version, kind, key, text))

    def remove(self, key: str) -> None:
        self.version += 1
        _, text = self.objects.pop(key)
        self.history.append((self.version, "DELETED", key, text))

    def forget(self) -> None:
        self.history.clear()
        self.forgotten = self.version


def line_of(version: int, kind: str, key: str, text: str) -> bytes:
    namespace, name = key.split("/")
    metadata = {"namespace": namespace, "name": name, "resourceVersion": str(version)}
    item = {"metadata": metadata, "spec": 5 if text == BROKEN else {"nodeName": text}}
    return json.dumps({"type": kind, "object": item}).encode() + b"\n"


def bookmark_of(version: int) -> bytes:
    return line_of(version, "BOOKMARK", "/", "")


def holder(key: str, version: int, text: str) -> Holder:
    namespace, name = key.split("/")
    meta = ObjectMeta(name=name, namespace=namespace, resource_version=str(version))
    return Holder(meta, HolderSpec(node_name=text))


class AnyStream(RuleBasedStateMachine):
    """A server, a mirror, and the connection between them.

    When a connection breaks, what was not told is lost, and the next one begins where the mirror goes on from. A list
    may be read anew while it lasts: then it tells what the list has already.
    """

    def __init__(self) -> None:
        super().__init__()
        self.server = Server()
        self.mirror: Mirror[Holder] = Mirror()
        self.untold: list[bytes] = []
        self.sent = 0
        self.list_anew()

    # -------------------------------------------------------------------------------------------- the client's side

    def list_anew(self) -> None:
        self.read_again()
        self.connect()

    @rule()
    def read_again(self) -> None:
        objects = sorted(self.server.objects.items())
        items = [holder(key, *one) for key, one in objects if one[1] != BROKEN]
        self.mirror.replace(items, {key: "broken" for key, one in objects if one[1] == BROKEN}, self.server.version)

    def connect(self) -> None:
        """As the follower does it: a server that has forgotten is listed anew."""
        if self.mirror.version < self.server.forgotten:
            self.list_anew()
            return
        self.reader = EventReader(Holder)
        self.untold = []
        self.sent = self.mirror.version

    def pull(self) -> None:
        """What the server has done since goes on its way."""
        self.untold += [line_of(*event) for event in self.server.history if event[0] > self.sent]
        self.sent = self.server.version

    def feed(self, data: bytes) -> None:
        for event in self.reader.feed(data):
            if isinstance(event, Bookmark):
                self.mirror.bookmark(event.version)
            else:
                self.mirror.apply(event)

    # ------------------------------------------------------------------------------------------------------- rules

    @rule(key=NAMES, text=st.sampled_from(["n1", "n2", BROKEN]))
    def write(self, key, text):
        self.server.write(key, text)

    @precondition(lambda self: self.server.objects)
    @rule(data=st.data())
    def remove(self, data):
        self.server.remove(data.draw(st.sampled_from(sorted(self.server.objects))))

    @rule(data=st.data(), cuts=st.lists(st.integers(0, 400), max_size=3), keys=st.lists(NAMES, max_size=4))
    def tell_some(self, data, cuts, keys):
        for key in keys:
            self.server.write(key, "n3")
        self.pull()
        told = data.draw(st.integers(0, len(self.untold)))
        some, self.untold = self.untold[:told], self.untold[told:]
        stream = b"".join(some)
        edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
        for start, end in pairwise(edges):
            self.feed(stream[start:end])
        if data.draw(st.booleans()):
            self.connect()

    @rule()
    def tell_all_with_a_bookmark(self):
        self.pull()
        self.feed(b"".join(self.untold) + bookmark_of(self.sent))
        self.untold = []

    @rule()
    def break_off(self):
        self.connect()

    @rule(part=st.binary(max_size=30).filter(lambda part: b"\n" not in part))
    def break_off_within_a_line(self, part):
        self.feed(part)
        self.connect()

    @rule()
    def forget(self):
        self.server.forget()
        self.connect()

    @rule()
    def tell_of_a_410(self):
        status = {"kind": "Status", "status": "Failure", "code": 410, "message": "too old resource version"}
        with pytest.raises(StaleListError):
            self.feed(json.dumps({"type": "ERROR", "object": status}).encode() + b"\n")
        self.list_anew()

    @initialize(keys=st.lists(NAMES))
    def begin_with(self, keys):
        for key in keys:
            self.server.write(key, "n1")

    @invariant()
    def nothing_is_claimed_that_never_was(self):
        for item in self.mirror.items():
            assert int(item.metadata.resource_version) <= self.mirror.version

    def teardown(self):
        self.tell_all_with_a_bookmark()
        assert shown(self.mirror) == fresh(self.server)


def shown(mirror: Mirror[Holder]) -> tuple[Any, Any]:
    items = [(key_of(item), int(item.metadata.resource_version), item.spec.node_name) for item in mirror.items()]
    return items, sorted(mirror.bad)


def fresh(server: Server) -> tuple[Any, Any]:
    objects = sorted(server.objects.items())
    items = [(key, version, text) for key, (version, text) in objects if text != BROKEN]
    return items, [key for key, (_, text) in objects if text == BROKEN]


AnyStream.TestCase.settings = settings(
    max_examples=examples(200), stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestAnyStream = AnyStream.TestCase


def mirror_of(*lines: bytes) -> Mirror[Holder]:
    mirror: Mirror[Holder] = Mirror()
    mirror.replace([holder("ml/a", 5, "n1")], {}, 10)
    for event in EventReader(Holder).feed(b"".join(lines)):
        if isinstance(event, Bookmark):
            mirror.bookmark(event.version)
        else:
            mirror.apply(event)
    return mirror


def test_an_object_that_has_not_changed_stays_the_same_one_over_a_list():
    mirror = mirror_of()
    meta = ObjectMeta(name="a", namespace="ml", uid="u", resource_version="5")
    mirror.replace([Holder(meta)], {}, 11)
    (before,) = mirror.items()
    mirror.replace([Holder(ObjectMeta(name="a", namespace="ml", uid="u", resource_version="5"))], {}, 12)
    assert mirror.items()[0] is before


def test_an_object_that_can_be_read_again_is_no_longer_told_as_bad():
    mirror = mirror_of(line_of(11, "MODIFIED", "ml/a", BROKEN))
    assert (mirror.items(), list(mirror.bad)) == ([], ["ml/a"])
    mirror = mirror_of(line_of(11, "MODIFIED", "ml/a", BROKEN), line_of(12, "MODIFIED", "ml/a", "n2"))
    assert shown(mirror) == ([("ml/a", 12, "n2")], [])


def test_a_server_that_went_back_has_to_be_listed_anew():
    with pytest.raises(StaleListError, match="is at version 9 and was at 10"):
        mirror_of(bookmark_of(9))
