"""The HTTP side of the sandbox's API server: its life, its routes, credentials, rights and faults."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml
from aiohttp import web

from sandbox.apiserver import discovery, reviewproto
from sandbox.apiserver.access import REVIEWS, Access, Rule
from sandbox.apiserver.controllers import Controllers, Timing
from sandbox.apiserver.entries import Object
from sandbox.apiserver.faults import WATCH_FAULTS, Fault, spoil
from sandbox.apiserver.kinds import Kind
from sandbox.apiserver.paths import FAULT, GROUP_VERSION, HEADERS, NAMESPACED, apis_of, sent_object, target_of, verb_of
from sandbox.apiserver.podhandlers import PodHandlers
from sandbox.apiserver.podlogstore import LogKey, PodLogs
from sandbox.apiserver.proxy import PodPorts, parse_address
from sandbox.apiserver.recordings import read_recording
from sandbox.apiserver.resources import Resources
from sandbox.apiserver.statuses import (
    ApiError,
    Target,
    forbidden,
    method_not_allowed,
    no_such_resource,
    unauthorized,
)
from sandbox.apiserver.store import Store
from sandbox.apiserver.writes import Writer
from sandbox.serving import Served, stranger

Handler = Callable[[web.Request], Any]


@dataclass(frozen=True, slots=True)
class Request:
    """A request as the server saw it; `path` is decoded, of a repeated query key the last value stands."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes = b""


class ApiServer:
    """A Kubernetes-API-compatible server on 127.0.0.1, seeded with plain API objects.

    `objects` is keyed as recordings name files: "pods", "deployments.apps". `logs` and `previous_logs` are keyed by
    namespace, pod and container, `metrics` by namespace, pod and port, `profiles` by namespace, pod and profile. With a
    `token`, requests that do not carry it get a 401; it may be changed while running, as may `faults` and `access`,
    which starts from `granted` and `refused`. `requests` holds every request in the order of arrival.

    `clock` is the server's: every answer has its Date. With `timing` the controllers of a cluster run: changed
    Deployments roll out, and the scheduler's pods have the logs of their verbosity. `controllers` may be stepped by
    hand, whether or not they run by themselves. `profile_wait` lets the seconds of a profile pass; `ports` tells which
    are being taken. Used as a context manager; `url` is set inside.
    """

    def __init__(
        self,
        objects: Mapping[str, Iterable[Mapping[str, Any]]],
        *,
        logs: Mapping[LogKey, bytes] | None = None,
        previous_logs: Mapping[LogKey, bytes] | None = None,
        metrics: Mapping[tuple[str, str, str], bytes] | None = None,
        profiles: Mapping[tuple[str, str, str], bytes] | None = None,
        token: str = "",
        faults: Sequence[Fault] = (),
        granted: Sequence[Rule] | None = None,
        refused: Sequence[Rule] = (),
        server_version: str = "v1.34.1",
        port: int = 0,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),  # noqa: TID251  # a server's clock
        bookmark_every_s: float = 60,
        timing: Timing | None = None,
        profile_wait: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.url = ""
        self.token = token
        self.requests: list[Request] = []
        self.faults = list(faults)
        self.access = Access(granted, refused)
        self._store = Store(objects)
        pods = self._store.of("pods")
        self._logs = PodLogs(
            logs or {}, previous_logs or {}, lambda *pod: (pods.object(*pod) or _NO_POD)["metadata"]["uid"]
        )
        self._logs.simulated = timing is not None
        ports = self.ports = PodPorts(metrics or {}, profiles or {}, profile_wait)
        self._server_version = server_version
        self._port = port
        self._clock = clock
        self._closing = asyncio.Event()
        writer = Writer(clock)
        self.controllers = Controllers(self._store, writer, timing or Timing(), ports)
        self._runs_controllers = timing is not None
        self._resources = Resources(
            self._store, writer, clock, self._closing, bookmark_every_s=bookmark_every_s, delete_pod=self._end_pod
        )
        self._pods = PodHandlers(pods, self._logs, ports, clock, self._closing)
        self._background: set[asyncio.Task[None]] = set()

    @classmethod
    def from_recording(cls, path: Path, *, shift_to: datetime | None = None, **options: Any) -> Self:
        """A server seeded from a recording of ours (a folder or .tar.gz); `options` as for the constructor. `shift_to`
        moves every time in it by one offset, as if it had been taken then.
        """
        seed = read_recording(path, shift_to)
        if seed.server_version:
            options = {"server_version": seed.server_version, **options}
        return cls(
            seed.objects,
            logs=seed.logs,
            previous_logs=seed.previous_logs,
            metrics=seed.metrics,
            profiles=seed.profiles,
            **options,
        )

    async def __aenter__(self) -> Self:
        app = web.Application(middlewares=[self._middleware])
        app.on_response_prepare.append(self._stamp)
        pod = NAMESPACED + "/{name}"
        routes: list[tuple[str, Handler]] = [
            ("/{probe:livez|readyz|healthz}", self._probe),
            ("/version", self._version),
            ("/api", self._discovery),
            ("/apis", self._discovery),
            ("/apis/{group}", self._discovery),
            (GROUP_VERSION, self._discovery),
            ("/openapi/v3", self._discovery),
            ("/openapi/v3/{document:.+}", self._discovery),
            ("/" + REVIEWS + "/{review}", self._review),
            (pod + "/{subresource:log}", self._pods.log),
            (pod + "/{subresource:proxy}{path:(?:/.*)?}", self._pods.proxy),
            (pod + "/{subresource}", self._resources.handle),
            (pod, self._resources.handle),
            (NAMESPACED, self._resources.handle),
            (GROUP_VERSION + "/{plural}/{name}/{subresource}", self._resources.handle),
            (GROUP_VERSION + "/{plural}/{name}", self._resources.handle),
            (GROUP_VERSION + "/{plural}", self._resources.handle),
        ]
        app.add_routes([web.route("*", path, handler) for path, handler in routes])
        self._served = Served(app, self._port, handler_cancellation=True)
        await self._served.start()
        self.url = self._served.url
        self._start(self._end_follows())
        if self._runs_controllers:
            self._start(self.controllers.run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        for collection in self._store:
            collection.changed.wake()
        self._logs.grown.wake()
        for task in self._background:
            task.cancel()
        ends = await asyncio.gather(*self._background, return_exceptions=True)
        await self._served.stop()
        for end in ends:
            if isinstance(end, Exception):  # the controllers stopped: what was seen of them since is wrong
                raise end

    def write(self, resource: str, item: Object) -> Object:
        """Stores an object as another client might have, creating or replacing it; `resource` such as "pods"."""
        self._store.of(resource).write(item)
        return item

    def remove(self, resource: str, namespace: str, name: str) -> None:
        """Removes an object. Raises KeyError if there is none."""
        self._store.of(resource).remove(namespace, name)

    def object(self, resource: str, namespace: str, name: str) -> Object | None:
        """A copy of an object; None if there is none of that name."""
        return self._store.of(resource).object(namespace, name)

    def forget(self) -> None:
        """Forgets the past, as etcd's compaction does: older watches and continue tokens get a 410."""
        for collection in self._store:
            collection.forget()

    def cut_connections(self) -> None:
        """Closes every open connection, watches included, as an outage does."""
        self._served.cut()

    def append_log(self, namespace: str, pod: str, container: str, text: bytes) -> None:
        """Appends to a container's log, as the container does."""
        self._logs.append((namespace, pod, container), text)

    def kubeconfig(self, *, token: str | None = None, namespace: str = "default", name: str = "sandbox") -> str:
        """The text of a kubeconfig for this server, with `token` or else the server's own."""
        token = self.token if token is None else token
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": {"server": self.url}}],
            "users": [{"name": name, "user": {"token": token} if token else {}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": namespace}}],
            "current-context": name,
        }
        return yaml.safe_dump(content, sort_keys=False)

    async def _stamp(self, _: web.Request, answer: web.StreamResponse) -> None:
        answer.headers["Date"] = format_datetime(self._clock().astimezone(UTC), usegmt=True)

    @web.middleware
    async def _middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if why := stranger(request):
            return web.Response(status=403, text=f"{why}\n")
        body = await request.read()
        self.requests.append(Request(request.method, request.path, dict(request.query), request.headers, body))
        target = target_of(request)
        verb = verb_of(request, target)

        async def answer() -> web.StreamResponse:
            try:
                return await self._answer(request, handler, target, verb)
            except ApiError as error:
                return error.response()

        fault = next((fault for fault in self.faults if fault.fires(request.path, verb)), None)
        if fault and fault.kind not in WATCH_FAULTS:
            return await spoil(fault, request, target, verb, answer=answer, closing=self._closing)
        request[FAULT] = fault
        return await answer()

    async def _answer(self, request: web.Request, handler: Handler, target: Target, verb: str) -> web.StreamResponse:
        if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            raise unauthorized()
        if target.plural:
            meant = target._replace(name=parse_address(target.name).name) if target.subresource == "proxy" else target
            if not self.access.allows(meant, verb):
                raise forbidden(meant, verb)
        try:
            return await handler(request)
        except web.HTTPNotFound as error:
            if any(self._store.serves(api) for api in apis_of(request.path)):
                raise no_such_resource() from error
            return web.Response(status=404, text="404 page not found\n")

    async def _probe(self, _: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def _version(self, _: web.Request) -> web.Response:
        major, minor = self._server_version.removeprefix("v").split(".")[:2]
        version = {"major": major, "minor": minor, "gitVersion": self._server_version, "gitTreeState": "clean"}
        return web.json_response(version | {"compiler": "gc", "platform": "linux/amd64"}, headers=HEADERS)

    async def _discovery(self, request: web.Request) -> web.Response:
        kinds: list[Kind] = [collection.kind for collection in self._store]
        path, named = request.path.strip("/"), request.match_info
        if path == "api":
            found: Object | None = discovery.api_versions(self.url.removeprefix("http://"))
        elif path == "apis":
            found = discovery.group_list(kinds)
        elif path == "openapi/v3":
            found = discovery.openapi_index(kinds)
        elif "document" in named:
            found = discovery.openapi(kinds, named["document"])
        elif "group" in named:
            found = discovery.group(kinds, named["group"])
        else:
            found = discovery.resource_list(kinds, named["api"])
        if found is None:
            raise web.HTTPNotFound
        return web.json_response(found, headers=HEADERS)

    async def _review(self, request: web.Request) -> web.Response:
        if request.method != "POST":
            raise method_not_allowed()
        plural = request.match_info["review"]
        if request.content_type == reviewproto.MEDIA_TYPE:
            asked = reviewproto.read_review(plural, await request.read())
        else:
            asked = await sent_object(request)
        answer = self.access.review(plural, asked)
        if answer is None:
            raise no_such_resource()
        return web.json_response(answer, status=201, headers=HEADERS)

    def _end_pod(self, pod: Object, grace_s: int) -> Object | None:
        """Pods end gracefully where a node's agent is simulated; elsewhere they go at once."""
        return self.controllers.end_pod(pod, grace_s) if self._runs_controllers else None

    async def _end_follows(self) -> None:
        """Tells those who follow logs whenever a pod may have gone."""
        while True:
            await self._store.of("pods").changed.wait()
            self._logs.grown.wake()

    def _start(self, work: Any) -> None:
        self._background.add(asyncio.get_running_loop().create_task(work))


_NO_POD: Object = {"metadata": {"uid": None}}
