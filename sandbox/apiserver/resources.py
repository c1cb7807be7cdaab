"""Requests about objects and lists of them: reading, watching, writing."""

import asyncio
import gzip
from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from typing import Any

import msgspec
from aiohttp import web

from sandbox.apiserver.collection import Collection, ListQuery
from sandbox.apiserver.encodings import Shape, list_body, one_body, shape_of, watch_encoding
from sandbox.apiserver.entries import Object
from sandbox.apiserver.kinds import SCALED, STATUS
from sandbox.apiserver.paths import (
    FAULT,
    is_dry_run,
    is_set,
    json_response,
    sent_object,
    target_of,
    verb_of,
    whole_number,
)
from sandbox.apiserver.statuses import Target, conflict, method_not_allowed, no_such_resource, not_found
from sandbox.apiserver.store import Store
from sandbox.apiserver.watches import Watch, WatchQuery
from sandbox.apiserver.writes import Writer, patcher

_GZIP_FROM_BYTES = 128 * 1024  # k8s.io/apiserver, responsewriters/writers.go
_GZIP_LEVEL = 1
_WATCH_S = 1800  # between this and twice as much is the server's own choice

DeletePod = Callable[[Object, int], Object | None]
"""Begins to delete a pod that runs, with that grace period; None if it can go at once."""


class Resources:
    """Answers requests about one store. `delete_pod` is asked first where pods end gracefully."""

    def __init__(
        self,
        store: Store,
        writer: Writer,
        clock: Callable[[], datetime],
        closing: asyncio.Event,
        *,
        bookmark_every_s: float,
        delete_pod: DeletePod,
    ) -> None:
        self._store = store
        self._writer = writer
        self._clock = clock
        self._closing = closing
        self._bookmark_every_s = bookmark_every_s
        self._delete_pod = delete_pod
        self._compressed = lru_cache(maxsize=512)(_compressed)

    def collection(self, target: Target) -> Collection:
        """The collection that a path is about. Raises the server's 404 if it serves no such resource."""
        collection = self._store.collection(target.api, target.plural)
        if collection is None:
            raise (no_such_resource() if self._store.serves(target.api) else web.HTTPNotFound())
        if target.namespace and not collection.kind.namespaced:
            raise no_such_resource()
        if target.name and collection.kind.namespaced and not target.namespace:
            raise no_such_resource()
        return collection

    async def handle(self, request: web.Request) -> web.StreamResponse:
        target = target_of(request)
        collection = self.collection(target)
        if target.subresource:
            return await self._subresource(request, collection, target)
        match verb_of(request, target):
            case "list":
                return self._list(request, collection)
            case "watch":
                return await self._watch(request, collection)
            case "get":
                return self._get(request, collection, target)
            case "create" if not target.name and (target.namespace or not collection.kind.namespaced):
                self._need_namespace(target.namespace)
                item = self._writer.create(collection, target, await sent_object(request), dry_run=is_dry_run(request))
                return json_response(msgspec.json.encode(item), status=201)
            case "update" if target.name:
                return await self._update(request, collection, target)
            case "patch" if target.name:
                return await self._patch(request, collection, target)
            case "delete":
                return await self._delete(request, collection, target)
            case _:
                raise method_not_allowed()

    def _need_namespace(self, name: str) -> None:
        """Raises the server's 404 for a namespace that is not there; `name` is empty for what has none."""
        if name and not self._store.of("namespaces").entry("", name):
            raise not_found(Target(api="api/v1", plural="namespaces", name=name))

    def _list(self, request: web.Request, collection: Collection) -> web.Response:
        wanted = request.query.get
        token, exact = wanted("continue", ""), wanted("resourceVersionMatch") == "Exact"
        version = whole_number(request, "resourceVersion") or 0
        shape = shape_of(request.headers.get("Accept", ""), collection.kind, is_list=True)
        # The watch cache, which answers resourceVersion=0, does not page.
        limit = 0 if wanted("resourceVersion") == "0" and not token else whole_number(request, "limit") or 0
        query = ListQuery(
            namespace=request.match_info.get("namespace", ""),
            labels=wanted("labelSelector", ""),
            fields=wanted("fieldSelector", ""),
            limit=limit,
            continue_token=token,
            metadata_only=shape == "metadata",
            exactly=version if exact else 0,
            not_before=version,
        )
        if shape == "table" or "gzip" not in request.headers.get("Accept-Encoding", ""):
            return json_response(list_body(collection, query, shape, self._clock()))
        body, compressed = self._compressed(collection, query, (collection.versions.newest, collection.forgotten))
        return json_response(body, compressed=compressed)

    async def _watch(self, request: web.Request, collection: Collection) -> web.StreamResponse:
        wanted = request.query.get
        with_state, bookmarks = is_set(request, "sendInitialEvents"), is_set(request, "allowWatchBookmarks")
        query = WatchQuery(
            namespace=request.match_info.get("namespace", ""),
            labels=wanted("labelSelector", ""),
            fields=wanted("fieldSelector", ""),
            version=whole_number(request, "resourceVersion") or 0,
            initial=wanted("resourceVersion", "") in {"", "0"} or with_state,
            bookmarks=bookmarks,
            tell_initial_end=with_state and bookmarks,
            timeout_s=whole_number(request, "timeoutSeconds") or _WATCH_S,
        )
        shape: Shape = shape_of(request.headers.get("Accept", ""), collection.kind, is_list=False)
        encoding = watch_encoding(collection.kind, shape, self._clock)
        fault = request.get(FAULT)
        watch = Watch(collection, query, encoding, bookmark_every_s=self._bookmark_every_s, fault=fault)
        return await watch.serve(request, self._closing)

    def _get(self, request: web.Request, collection: Collection, target: Target) -> web.Response:
        shape = shape_of(request.headers.get("Accept", ""), collection.kind, is_list=False)
        entry = collection.entry(target.namespace, target.name)
        if entry is None:
            raise not_found(target)
        return json_response(one_body(collection.kind, entry, shape, self._clock()))

    async def _update(self, request: web.Request, collection: Collection, target: Target) -> web.Response:
        item = self._writer.replace(
            collection,
            target,
            await sent_object(request),
            subresource=target.subresource,
            dry_run=is_dry_run(request),
        )
        return json_response(msgspec.json.encode(item))

    async def _patch(self, request: web.Request, collection: Collection, target: Target) -> web.Response:
        item = self._writer.patch(
            collection,
            target,
            _media_type(request),
            await request.read(),
            subresource=target.subresource,
            dry_run=is_dry_run(request),
        )
        return json_response(msgspec.json.encode(item))

    async def _delete(self, request: web.Request, collection: Collection, target: Target) -> web.Response:
        options = await sent_object(request) if await request.read() else {}
        grace_s = options.get("gracePeriodSeconds", whole_number(request, "gracePeriodSeconds"))
        dry_run = is_dry_run(request) or options.get("dryRun") == ["All"]
        if collection.kind.name != "Pod":
            item = self._writer.delete(collection, target, options, dry_run=dry_run)
            return json_response(msgspec.json.encode(_success(target, item)))
        item = self._writer.delete(collection, target, options, dry_run=True)
        if not dry_run:
            ending = self._delete_pod(item, 30 if grace_s is None else grace_s)
            item = ending or self._writer.delete(collection, target, options)
        return json_response(msgspec.json.encode(item))

    async def _subresource(self, request: web.Request, collection: Collection, target: Target) -> web.Response:
        kind, verb = collection.kind.name, verb_of(request, target)
        if target.subresource == "status" and kind in STATUS:
            match verb:
                case "get":
                    return self._get(request, collection, target)
                case "update":
                    return await self._update(request, collection, target)
                case "patch":
                    return await self._patch(request, collection, target)
                case _:
                    raise method_not_allowed()
        if target.subresource == "scale" and kind in SCALED:
            return await self._scale(request, collection, target, verb)
        raise no_such_resource()

    async def _scale(self, request: web.Request, collection: Collection, target: Target, verb: str) -> web.Response:
        item = collection.object(target.namespace, target.name)
        if item is None:
            raise not_found(target)
        scale = _scale_of(item)
        if verb == "get":
            return json_response(msgspec.json.encode(scale))
        if verb == "update":
            wanted = await sent_object(request)
        elif verb == "patch":
            wanted = patcher(_media_type(request), await request.read())(scale)
        else:
            raise method_not_allowed()
        seen = (wanted.get("metadata") or {}).get("resourceVersion", "")
        if seen not in {"", item["metadata"].get("resourceVersion")}:
            raise conflict(target)
        item["spec"] = item["spec"] | {"replicas": (wanted.get("spec") or {}).get("replicas", 0)}
        stored = self._writer.replace(collection, target, item, dry_run=is_dry_run(request))
        return json_response(msgspec.json.encode(_scale_of(stored)))


def _media_type(request: web.Request) -> str:
    return request.headers.get("Content-Type", "").partition(";")[0]


def _compressed(collection: Collection, query: ListQuery, _: tuple[int, int]) -> tuple[bytes, bool]:
    """The body of a page for a client that takes gzip, and whether it is compressed; the last argument is the state."""
    body = collection.body(query)
    if len(body) <= _GZIP_FROM_BYTES:
        return body, False
    return gzip.compress(body, _GZIP_LEVEL), True


def _success(target: Target, item: Object) -> Object:
    """What the deletion of anything but a pod is answered with."""
    details = {**target.details(), "uid": item["metadata"].get("uid", "")}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def _scale_of(item: Object) -> dict[str, Any]:
    metadata, spec, status = item["metadata"], item.get("spec", {}), item.get("status", {})
    copied = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    shown = {key: metadata[key] for key in copied if key in metadata}
    labels = (spec.get("selector") or {}).get("matchLabels") or {}
    selector = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": shown,
        "spec": {"replicas": spec.get("replicas", 1)},
        "status": {"replicas": status.get("replicas", 0), "selector": selector},
    }
