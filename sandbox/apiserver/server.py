"""The HTTP side of the sandbox's API server: routes, credentials, faults, encodings."""

import asyncio
import gzip
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
import yaml
from aiohttp import web

from sandbox.apiserver.faults import Fault, spoil
from sandbox.apiserver.podlogs import log_window
from sandbox.apiserver.recordings import read_recording
from sandbox.apiserver.statuses import (
    ApiError,
    Target,
    bad_request,
    method_not_allowed,
    no_such_resource,
    not_acceptable,
    not_found,
    unauthorized,
)
from sandbox.apiserver.store import Collection, ListQuery, Store

_GZIP_FROM_BYTES = 128 * 1024  # k8s.io/apiserver, responsewriters/writers.go
_GZIP_LEVEL = 1
_HEADERS = {"Cache-Control": "no-cache, private"}


@dataclass(frozen=True, slots=True)
class Request:
    """A request as the server saw it; `path` is decoded, of a repeated query key the last value stands."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]


class ApiServer:
    """A Kubernetes-API-compatible server on 127.0.0.1, seeded with plain API objects. It only reads so far.

    `objects` is keyed as recordings name files: "pods", "deployments.apps". `logs` is keyed by namespace, pod and
    container. With a `token`, requests that do not carry it get a 401; it may be changed while running, as may
    `faults`. `requests` holds every request in the order of arrival. Used as a context manager; `url` is set inside.
    """

    def __init__(
        self,
        objects: Mapping[str, Iterable[Mapping[str, Any]]],
        *,
        logs: Mapping[tuple[str, str, str], bytes] | None = None,
        token: str = "",
        faults: Sequence[Fault] = (),
        server_version: str = "v1.34.1",
        port: int = 0,
    ) -> None:
        self.url = ""
        self.token = token
        self.requests: list[Request] = []
        self.faults = list(faults)
        self._store = Store(objects)
        self._logs = dict(logs or {})
        self._server_version = server_version
        self._port = port
        self._closing = asyncio.Event()
        self._compressed_page = lru_cache(maxsize=512)(_compressed_page)

    @classmethod
    def from_recording(cls, path: Path, **options: Any) -> Self:
        """A server seeded from a recording of ours (a folder or .tar.gz); `options` as for the constructor."""
        seed = read_recording(path)
        if seed.server_version:
            options = {"server_version": seed.server_version, **options}
        return cls(seed.objects, logs=seed.logs, **options)

    async def __aenter__(self) -> Self:
        app = web.Application(middlewares=[self._middleware])
        group_version = "/{api:api/v1|apis/[^/]+/[^/]+}"
        namespaced = group_version + "/namespaces/{namespace}/{plural}"
        app.add_routes(
            [
                web.get("/{probe:livez|readyz|healthz}", self._probe),
                web.get("/version", self._version),
                web.get(namespaced + "/{name}/{subresource:log}", self._log),
                web.get(namespaced + "/{name}", self._get),
                web.get(namespaced, self._list),
                web.get(group_version + "/{plural}/{name}", self._get),
                web.get(group_version + "/{plural}", self._list),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port)
        await site.start()
        port = self._runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        await self._runner.cleanup()

    def kubeconfig(self, *, token: str | None = None, namespace: str = "default") -> str:
        """The text of a kubeconfig for this server; `token` in place of the server's own."""
        token = self.token if token is None else token
        name = "sandbox"
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": {"server": self.url}}],
            "users": [{"name": name, "user": {"token": token} if token else {}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": namespace}}],
            "current-context": name,
        }
        return yaml.safe_dump(content, sort_keys=False)

    @web.middleware
    async def _middleware(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.requests.append(Request(request.method, request.path, dict(request.query), request.headers))

        async def answer() -> web.Response:
            try:
                return await self._answer(request, handler)
            except ApiError as error:
                return error.response()

        fault = next((fault for fault in self.faults if fault.fires(request.path)), None)
        if fault:
            return await spoil(fault, request, _target(request), answer, self._closing)
        return await answer()

    async def _answer(self, request: web.Request, handler: Any) -> web.Response:
        if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            raise unauthorized()
        try:
            return await handler(request)
        except web.HTTPMethodNotAllowed as error:
            raise method_not_allowed() from error
        except web.HTTPNotFound as error:
            if any(self._store.serves(api) for api in _apis_of(request.path)):
                raise no_such_resource() from error
            return web.Response(status=404, text="404 page not found\n")

    async def _probe(self, _: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def _version(self, _: web.Request) -> web.Response:
        major, minor = self._server_version.removeprefix("v").split(".")[:2]
        version = {"major": major, "minor": minor, "gitVersion": self._server_version, "gitTreeState": "clean"}
        return web.json_response(version | {"compiler": "gc", "platform": "linux/amd64"}, headers=_HEADERS)

    async def _list(self, request: web.Request) -> web.Response:
        collection = self._collection(request)
        wanted = request.query.get
        if wanted("watch", "") in {"1", "true"}:
            message = f'watch is not supported on resources of kind "{request.match_info["plural"]}"'
            raise ApiError(405, "MethodNotAllowed", message, details={"kind": request.match_info["plural"]})
        token = wanted("continue", "")
        # The watch cache, which answers resourceVersion=0, does not page.
        limit = 0 if wanted("resourceVersion") == "0" and not token else _whole(request, "limit") or 0
        query = ListQuery(
            namespace=request.match_info.get("namespace", ""),
            labels=wanted("labelSelector", ""),
            fields=wanted("fieldSelector", ""),
            limit=limit,
            continue_token=token,
            metadata_only=_metadata_only(request, f"{collection.kind}List", "PartialObjectMetadataList"),
        )
        if not _accepts_gzip(request):
            return _json(collection.page(query))
        body, compressed = self._compressed_page(collection, query)
        return _json(body, compressed=compressed)

    async def _get(self, request: web.Request) -> web.Response:
        collection = self._collection(request)
        target = _target(request)
        metadata_only = _metadata_only(request, collection.kind, "PartialObjectMetadata")
        body = collection.get(target.namespace, target.name, metadata_only=metadata_only)
        if body is None:
            raise not_found(target)
        return _json(body)

    async def _log(self, request: web.Request) -> web.Response:
        target = _target(request)
        pods = self._store.collection(target.api, target.plural)
        if pods is None or pods.kind != "Pod":
            raise no_such_resource()
        body = pods.get(target.namespace, target.name)
        if body is None:
            raise not_found(target)
        container = _container(target.name, msgspec.json.decode(body)["spec"], request.query.get("container", ""))
        if request.query.get("previous") in {"1", "true"}:
            raise bad_request(f'previous terminated container "{container}" in pod "{target.name}" not found')
        log = self._logs.get((target.namespace, target.name, container), b"")
        limits = (_whole(request, name) for name in ("sinceSeconds", "tailLines", "limitBytes"))
        return web.Response(body=log_window(log, *limits), content_type="text/plain", headers=_HEADERS)

    def _collection(self, request: web.Request) -> Collection:
        """The collection that the path is about. Raises the server's 404 when it serves no such resource."""
        target = _target(request)
        collection = self._store.collection(target.api, target.plural)
        if collection is None:
            raise (no_such_resource() if self._store.serves(target.api) else web.HTTPNotFound())
        if target.namespace and not collection.namespaced:
            raise no_such_resource()
        if target.name and collection.namespaced and not target.namespace:
            raise no_such_resource()
        return collection


def _target(request: web.Request) -> Target:
    return Target(**{name: request.match_info.get(name, "") for name in Target._fields})


def _apis_of(path: str) -> Iterable[str]:
    """The group-and-version paths that the request path may begin with."""
    parts = path.strip("/").split("/")
    return "/".join(parts[:2]), "/".join(parts[:3])


def _whole(request: web.Request, name: str) -> int | None:
    """A number of the query. Raises the server's 400 for one that is none."""
    text = request.query.get(name)
    if not text:
        return None
    try:
        return max(int(text), 0)
    except ValueError as error:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from error


def _metadata_only(request: web.Request, kind: str, wanted: str) -> bool:
    """Whether the first media type that is acceptable asks for metadata.

    Raises the server's 406 for metadata of a list where one object is the answer, and the other way round.
    """
    first = request.headers.get("Accept", "").split(",")[0].replace(" ", "")
    if "as=PartialObjectMetadata" not in first:
        return False
    if f"as={wanted};" in first + ";":
        return True
    asked = "PartialObjectMetadataList" if wanted == "PartialObjectMetadata" else "PartialObjectMetadata"
    package = _target(request).group.split(".")[0] or "core"
    found = "is not a list" if wanted == "PartialObjectMetadata" else "is a list"
    raise not_acceptable(f"you requested {asked}, but the requested object {found} (*{package}.{kind})")


def _accepts_gzip(request: web.Request) -> bool:
    return "gzip" in request.headers.get("Accept-Encoding", "")


def _compressed_page(collection: Collection, query: ListQuery) -> tuple[bytes, bool]:
    """The body of a page for a client that takes gzip, and whether it is compressed."""
    body = collection.page(query)
    if len(body) <= _GZIP_FROM_BYTES:
        return body, False
    return gzip.compress(body, _GZIP_LEVEL), True


def _json(body: bytes, *, compressed: bool = False) -> web.Response:
    encoding = {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"} if compressed else {}
    return web.Response(body=body, content_type="application/json", headers=_HEADERS | encoding)


def _container(pod: str, spec: Mapping[str, Any], asked: str) -> str:
    """The container whose log is meant. Raises the server's 400 when that is unclear or there is no such."""
    names = [container["name"] for container in spec["containers"]]
    init_names = [container["name"] for container in spec.get("initContainers") or ()]
    if asked:
        if asked not in names + init_names:
            raise bad_request(f"container {asked} is not valid for pod {pod}")
        return asked
    if len(names) > 1:
        message = f"a container name must be specified for pod {pod}, choose one of: [{' '.join(names)}]"
        also = f" or one of the init containers: [{' '.join(init_names)}]" if init_names else ""
        raise bad_request(message + also)
    return names[0]
