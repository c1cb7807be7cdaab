"""All objects of one kind: pages of lists, and what changed since a version."""

import base64
import json
import re
from bisect import bisect_left
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from sandbox.apiserver.entries import (
    Change,
    ChangeType,
    Entry,
    Object,
    at_version,
    decoded,
    entry_of,
    list_item,
    partial,
)
from sandbox.apiserver.kinds import Kind
from sandbox.apiserver.selectors import Test, field_tests, label_tests
from sandbox.apiserver.statuses import bad_request, expired, list_too_old, version_too_large
from sandbox.apiserver.wakeups import Wakeups

HISTORY = 4096
"""How many changes of a kind a watch may go back; a client that is further behind gets a 410."""

_TOKEN_VERSION = "meta.k8s.io/v1"  # noqa: S105  # the version of the continue token's format
_ANY_VERSION = -1
_SNAPSHOTS = 8  # lists being paged through while objects change
_KEY = attrgetter("key")


class Versions:
    """The one counter behind every resourceVersion. `changed` wakes those who wait for any change at all."""

    def __init__(self, newest: int) -> None:
        self.newest = newest
        self.changed = Wakeups()

    def next(self) -> int:
        self.newest += 1
        return self.newest


class ListQuery(NamedTuple):
    """The request for one page of a list: `continue_token` as the client sent it, `limit` 0 for everything. `exactly`
    and `not_before` are resourceVersions that the list must be at, or have reached; 0 for any.
    """

    namespace: str = ""
    labels: str = ""
    fields: str = ""
    limit: int = 0
    continue_token: str = ""
    metadata_only: bool = False
    exactly: int = 0
    not_before: int = 0


class Page(NamedTuple):
    """The entries of one page, and the list's metadata."""

    entries: Sequence[Entry]
    metadata: Mapping[str, Any]


class Collection:
    """All objects of one kind. `changes` is the bounded past. A watch cannot start before version `forgotten`; the
    newest change that is no longer in `changes` was at `lost`.
    """

    def __init__(self, kind: Kind, versions: Versions, items: Iterable[Mapping[str, Any]] = ()) -> None:
        self.kind = kind
        self.versions = versions
        self.forgotten = 0
        self.lost = 0
        self.changes: deque[Change] = deque(maxlen=HISTORY)
        self.changed = Wakeups()
        self._changed_at = 0
        self._entries = sorted((entry_of(kind.name, item) for item in items), key=_KEY)
        self._by_key = {entry.key: entry for entry in self._entries}
        self._snapshots: OrderedDict[int, Sequence[Entry]] = OrderedDict()
        self._selected = lru_cache(maxsize=128)(self._select_now)

    def key(self, namespace: str, name: str) -> str:
        return f"{namespace}/{name}" if self.kind.namespaced else name

    def entry(self, namespace: str, name: str) -> Entry | None:
        return self._by_key.get(self.key(namespace, name))

    def object(self, namespace: str, name: str) -> Object | None:
        """A copy of one object; None if there is none of that name."""
        entry = self.entry(namespace, name)
        return decoded(entry, self.kind) if entry else None

    def select(self, namespace: str = "", labels: str = "", fields: str = "") -> Sequence[Entry]:
        """The entries that pass the selectors, in the order of their keys. Raises the server's 400."""
        return self._selected(namespace, labels, fields)

    def page(self, query: ListQuery) -> Page:
        """One page of a list. Raises the server's 400, 410 or 504."""
        version, start_key = self.versions.newest, ""
        if query.not_before > version:
            raise version_too_large(query.not_before, version)
        if query.exactly:
            version = query.exactly
        if query.continue_token:
            version, start_key = self._continued(query.continue_token)
        entries = self._entries_at(version, query)
        start = bisect_left(entries, start_key, key=_KEY)
        end = start + query.limit if query.limit else len(entries)
        metadata: dict[str, Any] = {"resourceVersion": str(version)}
        if end < len(entries):
            self._keep(version)
            metadata["continue"] = _token(version, "/" + entries[end - 1].key + "\0")
            if not (query.labels or query.fields):
                metadata["remainingItemCount"] = len(entries) - end
        return Page(entries[start:end], metadata)

    def body(self, query: ListQuery) -> bytes:
        """The body of one page of a list. Raises as `page` does."""
        page = self.page(query)
        kind, api_version = f"{self.kind.name}List", self.kind.api_version
        if query.metadata_only:
            kind, api_version = "PartialObjectMetadataList", "meta.k8s.io/v1"
        head = {"kind": kind, "apiVersion": api_version, "metadata": page.metadata}
        items = b",".join(map(partial if query.metadata_only else list_item, page.entries))
        return msgspec.json.encode(head)[:-1] + b',"items":[' + items + b"]}\n"

    def write(self, item: Object) -> Change:
        """Stores an object at a new version, which is set in it."""
        version = self.versions.next()
        item["metadata"]["resourceVersion"] = str(version)
        entry = entry_of(self.kind.name, item)
        before = self._by_key.get(entry.key)
        return self._apply(Change(version, "MODIFIED" if before else "ADDED", entry, before))

    def since(self, version: int) -> list[Change]:
        """The changes after that version that are still kept, oldest first."""
        unseen: list[Change] = []
        for change in reversed(self.changes):
            if change.version <= version:
                break
            unseen.append(change)
        return unseen[::-1]

    def remove(self, namespace: str, name: str) -> Change:
        """Removes an object. Raises KeyError if there is none of that name."""
        before = self._by_key[self.key(namespace, name)]
        version = self.versions.next()
        return self._apply(Change(version, "DELETED", at_version(before, version), before))

    def forget(self) -> None:
        """Drops the past, as etcd's compaction does: older watches and continue tokens are answered with a 410."""
        if self.changes:
            self.lost = self.changes[-1].version
        self.changes.clear()
        self._snapshots.clear()
        self.forgotten = self.versions.newest

    def _apply(self, change: Change) -> Change:
        entries = list(self._entries)  # those being paged through keep the old list
        place = bisect_left(entries, change.entry.key, key=_KEY)
        end = place + 1 if change.before else place
        gone = change.type == "DELETED"
        entries[place:end] = [] if gone else [change.entry]
        if gone:
            del self._by_key[change.entry.key]
        else:
            self._by_key[change.entry.key] = change.entry
        self._entries, self._changed_at = entries, change.version
        self._selected.cache_clear()
        if len(self.changes) == self.changes.maxlen:
            self.forgotten = self.lost = self.changes[0].version
        self.changes.append(change)
        self.changed.wake()
        self.versions.changed.wake()
        return change

    def _keep(self, version: int) -> None:
        """Remembers the list at that version for the pages that follow."""
        if version >= self._changed_at:
            self._snapshots[version] = self._entries
        while len(self._snapshots) > _SNAPSHOTS:
            self._snapshots.popitem(last=False)

    def _entries_at(self, version: int, query: ListQuery) -> Sequence[Entry]:
        wanted = query.namespace, query.labels, query.fields
        if self._changed_at <= version <= self.versions.newest and version >= self.forgotten:
            return self._selected(*wanted)
        if version not in self._snapshots:
            raise list_too_old()
        return self._select(self._snapshots[version], *wanted)

    def _select_now(self, namespace: str, labels: str, fields: str) -> Sequence[Entry]:
        return self._select(self._entries, namespace, labels, fields)

    def _select(self, entries: Sequence[Entry], namespace: str, labels: str, fields: str) -> Sequence[Entry]:
        if namespace:  # '0' is what follows '/'
            first, last = (bisect_left(entries, namespace + end, key=_KEY) for end in "/0")
            entries = entries[first:last]
        for passes in field_tests(self.kind.name, fields):
            entries = [entry for entry in entries if passes(entry.fields)]
        for passes in label_tests(labels):
            entries = [entry for entry in entries if passes(entry.labels)]
        return entries

    def _continued(self, token: str) -> tuple[int, str]:
        """The version that a list is paged at, and the key that the page starts behind."""
        problem = "invalid continue token: continue key is not valid"
        try:
            text = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True).decode("latin-1")
        except ValueError as error:
            good = re.match(r"[\w-]*", token, re.ASCII)
            raise bad_request(f"{problem}: illegal base64 data at input byte {good.end() if good else 0}") from error
        try:
            content = json.loads(text)
            version, start = int(content["rv"]), str(content["start"]).removeprefix("/")
        except (ValueError, KeyError, TypeError) as error:
            first = json.dumps(text[:1])[1:-1]
            raise bad_request(f"{problem}: invalid character '{first}' looking for beginning of value") from error
        if version == _ANY_VERSION:
            return self.versions.newest, start
        kept = max(self._changed_at, self.forgotten) <= version <= self.versions.newest
        if not kept and version not in self._snapshots:
            raise expired(_token(_ANY_VERSION, start))
        return version, start


def matcher(kind: Kind, namespace: str, labels: str, fields: str) -> Callable[[Entry], bool]:
    """A test whether an entry belongs to such a list. Raises the server's 400 for a selector that it does not take."""
    of_fields: list[Test] = field_tests(kind.name, fields)
    of_labels: list[Test] = label_tests(labels)

    def matches(entry: Entry) -> bool:
        return (
            (not namespace or entry.key.startswith(namespace + "/"))
            and all(passes(entry.fields) for passes in of_fields)
            and all(passes(entry.labels) for passes in of_labels)
        )

    return matches


def change_for(change: Change, matches: Callable[[Entry], bool]) -> tuple[ChangeType, Entry] | None:
    """The event that a watch with such selectors gets of a change: an object may enter its view, or leave it."""
    was = change.before is not None and matches(change.before)
    now = change.type != "DELETED" and matches(change.entry)
    if now:
        return ("MODIFIED" if was else "ADDED"), change.entry
    if not was or change.before is None:
        return None
    return "DELETED", change.entry if change.type == "DELETED" else at_version(change.before, change.version)


def _token(version: int, start: str) -> str:
    content = json.dumps({"v": _TOKEN_VERSION, "rv": version, "start": start}, separators=(",", ":"))
    return base64.urlsafe_b64encode(content.encode()).decode().rstrip("=")
