"""Requests for what a pod itself has: its containers' logs, and its ports through the API server."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from aiohttp import web

from sandbox.apiserver.collection import Collection
from sandbox.apiserver.entries import Object
from sandbox.apiserver.paths import HEADERS, is_set, target_of, whole_number
from sandbox.apiserver.podlogs import LogWanted, log_part, stamped
from sandbox.apiserver.podlogstore import PodLogs
from sandbox.apiserver.proxy import Asked, PodPorts, parse_address
from sandbox.apiserver.statuses import (
    ApiError,
    Cause,
    Target,
    bad_request,
    method_not_allowed,
    no_such_resource,
    not_found,
)

_PODS = ("api/v1", "pods")


class PodHandlers:
    """Answers `pods/log` and `pods/proxy`."""

    def __init__(
        self, pods: Collection, logs: PodLogs, ports: PodPorts, clock: Callable[[], datetime], closing: asyncio.Event
    ) -> None:
        self._pods = pods
        self._logs = logs
        self._ports = ports
        self._clock = clock
        self._closing = closing

    async def log(self, request: web.Request) -> web.StreamResponse:
        target = target_of(request)
        if request.method != "GET":
            raise method_not_allowed()
        pod = self._pod(target)
        container = _container(target.name, pod["spec"], request.query.get("container", ""))
        wanted = self._wanted(request, target)
        if is_set(request, "previous"):
            text = self._logs.previous((target.namespace, target.name, container))
            if text is None:
                raise bad_request(f'previous terminated container "{container}" in pod "{target.name}" not found')
            return _plain(log_part(text, wanted))
        if not is_set(request, "follow"):
            return _plain(log_part(self._logs.text(pod, container), wanted))
        return await self._follow(request, pod, container, wanted)

    async def proxy(self, request: web.Request) -> web.Response:
        target = target_of(request)
        address = parse_address(target.name)
        pod = self._pod(target._replace(name=address.name))
        path = request.match_info["path"].lstrip("/")
        asked = Asked(request.method, path, request.query, await request.read())
        reply = await self._ports.answer(pod, address, asked)
        if reply.verbosity is not None:
            key = target.namespace, address.name, "kube-scheduler"
            self._logs.set_verbosity(key, reply.verbosity, self._clock())
        headers = {**reply.headers, "Content-Type": reply.content_type}
        return web.Response(body=reply.body, status=reply.status, headers=headers)

    def _pod(self, target: Target) -> Object:
        if (target.api, target.plural) != _PODS:
            raise no_such_resource()
        pod = self._pods.object(target.namespace, target.name)
        if pod is None:
            raise not_found(target)
        return pod

    def _wanted(self, request: web.Request, target: Target) -> LogWanted:
        since_s, text = whole_number(request, "sinceSeconds"), request.query.get("sinceTime", "")
        if text and since_s is not None:
            problem = "Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified"
            cause = Cause("FieldValueForbidden", problem, "sinceSeconds")
            details = {"name": target.name, "kind": "PodLogOptions", "causes": [cause._asdict()]}
            message = f'PodLogOptions "{target.name}" is invalid: sinceSeconds: {problem}'
            raise ApiError(422, "Invalid", message, details=details)
        try:
            since_time = datetime.fromisoformat(text) if text else None
        except ValueError as error:
            raise bad_request(f'parsing time "{text}" as "2006-01-02T15:04:05Z07:00": cannot parse "{text}"') from error
        return LogWanted(
            since_s=since_s,
            since_time=since_time,
            tail_lines=whole_number(request, "tailLines"),
            limit_bytes=whole_number(request, "limitBytes"),
            timestamps=is_set(request, "timestamps"),
            year=self._clock().year,
        )

    async def _follow(self, request: web.Request, pod: Object, container: str, wanted: LogWanted) -> web.StreamResponse:
        """Streams the log as it grows, until its pod is deleted, the client goes or the server closes."""
        response = web.StreamResponse(headers=HEADERS)
        response.content_type = "text/plain"
        response.enable_chunked_encoding()
        await response.prepare(request)
        left = wanted.limit_bytes
        text = self._logs.text(pod, container)
        sent, part = len(text), log_part(text, wanted)
        while True:
            if part:
                await response.write(part[:left])
                left = None if left is None else left - len(part)
            if left is not None and left <= 0:
                break
            text = self._logs.text(pod, container)
            part = text[sent:] if len(text) >= sent else text
            part = stamped(part, wanted.year) if wanted.timestamps else part
            sent = len(text)
            if part:
                continue
            if self._closing.is_set() or not self._lives(pod):
                break
            await self._logs.grown.wait()
        return response

    def _lives(self, pod: Object) -> bool:
        metadata = pod["metadata"]
        now = self._pods.object(metadata.get("namespace", ""), metadata["name"])
        return now is not None and now["metadata"].get("uid") == metadata.get("uid")


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


def _plain(text: bytes) -> web.Response:
    return web.Response(body=text, content_type="text/plain", headers=HEADERS)
