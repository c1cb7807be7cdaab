"""pods/proxy: what the API server passes on of a pod's own ports, which here are recordings."""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from sandbox.apiserver.entries import Object
from sandbox.apiserver.statuses import unreachable

_PPROF = "debug/pprof/"
_CPU = "profile"
_VERBOSITY = "debug/flags/v"
_KUBE_SCHEDULER_PORT = "10259"
_TLS_PORTS = frozenset({_KUBE_SCHEDULER_PORT, "443"})
_PROFILE_PORTS = frozenset({"443", "9395"})  # HAMi's scheduler serves profiles beside its webhook and its metrics

Recorded = Mapping[tuple[str, str, str], bytes]


class Reply(NamedTuple):
    """The answer of the process in the pod."""

    status: int
    content_type: str
    body: bytes
    verbosity: int | None = None
    """The level that this request has set kube-scheduler to."""
    headers: Mapping[str, str] = {}


class Asked(NamedTuple):
    """The parts of a request that are passed on to a pod; `path` has no leading slash."""

    method: str
    path: str
    query: Mapping[str, str]
    body: bytes


class Address(NamedTuple):
    """A pod's address as the API server takes it in place of its name: `[scheme:]name[:port]`."""

    scheme: str
    name: str
    port: str


def parse_address(text: str) -> Address:
    match text.split(":"):
        case [scheme, name, port]:
            return Address(scheme or "http", name, port)
        case [name, port]:
            return Address("http", name, port)
        case _:
            return Address("http", text, "")


class PodPorts:
    """Recorded metrics (by namespace, pod, port) and profiles (by namespace, pod, profile) behind pods' ports.

    A profile takes the seconds that are asked for: `wait` lets them pass. `profiling` are the pods (namespace, name) of
    which a CPU profile is being taken; there is one at a time, and none any more once its client has gone.
    """

    def __init__(
        self, metrics: Recorded, profiles: Recorded, wait: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._metrics = dict(metrics)
        self._profiles = dict(profiles)
        self._wait = wait
        self._inherited: set[tuple[str, str]] = set()
        self._by_flag: set[tuple[str, str]] = set()
        """Pods that inherited profiles which `--profiling` served."""
        self.profiling: set[tuple[str, str]] = set()
        self._alternates: dict[str, bytes] = {}
        self._taken: Counter[tuple[str, str, str]] = Counter()

    def alternate(self, name: str, content: bytes) -> None:
        """Gives this content for every second profile of that name that a pod gives: there is something to compare."""
        self._alternates[name] = content

    def inherit(self, pod: Object, sibling: Object) -> None:
        """Lets a pod made from the same Deployment show what its sibling did. If the recorded pod served its profiles
        by `--profiling`, the new one shows them only while that is set.
        """
        here, there = _where(pod), _where(sibling)
        for recorded in (self._metrics, self._profiles):
            for (*owner, what), content in list(recorded.items()):
                if tuple(owner) == there:
                    recorded[*here, what] = content
        if there in self._by_flag or (there not in self._inherited and _has_profiling(sibling)):
            self._by_flag.add(here)
        self._inherited.add(here)

    async def answer(self, pod: Object, address: Address, asked: Asked) -> Reply:
        """The pod's answer. Raises the server's 503 if nothing listens there."""
        ip = pod.get("status", {}).get("podIP", "")
        port = address.port or self._first_port(pod)
        if not ip or port not in self._listening(pod):
            raise unreachable(f"{ip}:{port}")
        if port in _TLS_PORTS and address.scheme != "https":
            return _text(400, "Client sent an HTTP request to an HTTPS server.\n")
        where = _where(pod)
        path = asked.path
        if port == _KUBE_SCHEDULER_PORT and path == _VERBOSITY:
            return _set_verbosity(asked.method, asked.body.decode(errors="replace"))
        if port == _KUBE_SCHEDULER_PORT and path.startswith(_PPROF):
            return _anonymous(path)
        if path == "metrics" and (metrics := self._metrics.get((*where, port))) is not None:
            return Reply(200, "text/plain; version=0.0.4; charset=utf-8", metrics)
        has_profiles = any((namespace, name) == where for namespace, name, _ in self._profiles)
        serves_profiles = has_profiles and (where not in self._by_flag or _has_profiling(pod))
        if port in _PROFILE_PORTS and path.startswith(_PPROF) and serves_profiles:
            return await self._profile(where, path.removeprefix(_PPROF), asked.query.get("seconds", ""))
        return _text(404, "404 page not found\n")

    async def _profile(self, where: tuple[str, str], name: str, seconds: str) -> Reply:
        """As net/http/pprof answers. Without `seconds` a recorded CPU profile comes at once."""
        content = self._profiles.get((*where, name))
        if content is None:
            return _of_go(404, "Unknown profile\n")
        if seconds and (not seconds.isdecimal() or not int(seconds)):
            if name != _CPU:
                return _of_go(400, 'invalid value for "seconds" - must be a positive integer\n')
            seconds = "30"
        if name == _CPU:
            if where in self.profiling:
                return _of_go(500, "Could not enable CPU profiling: cpu profiling already in use\n")
            self.profiling.add(where)
        try:
            if seconds:
                await self._wait(float(seconds))
        finally:
            if name == _CPU:
                self.profiling.discard(where)
        if self._taken[*where, name] % 2:
            content = self._alternates.get(name, content)
        self._taken[*where, name] += 1
        headers = {"X-Content-Type-Options": "nosniff", "Content-Disposition": f'attachment; filename="{name}"'}
        return Reply(200, "application/octet-stream", content, headers=headers)

    def _listening(self, pod: Object) -> set[str]:
        """The ports that the pod's containers declare, those recorded, and kube-scheduler's own."""
        metadata, containers = pod["metadata"], pod["spec"]["containers"]
        ports = {str(port["containerPort"]) for container in containers for port in container.get("ports") or ()}
        where = metadata.get("namespace", ""), metadata["name"]
        ports |= {port for *pod_of, port in self._metrics if tuple(pod_of) == where}
        if any(container["name"] == "kube-scheduler" for container in containers):
            ports.add(_KUBE_SCHEDULER_PORT)
        return ports

    def _first_port(self, pod: Object) -> str:
        """The port of a proxy request that names none: the first that the pod declares, else 80."""
        ports = [port for container in pod["spec"]["containers"] for port in container.get("ports") or ()]
        return str(ports[0]["containerPort"]) if ports else "80"


def _where(pod: Object) -> tuple[str, str]:
    return pod["metadata"].get("namespace", ""), pod["metadata"]["name"]


def _has_profiling(pod: Object) -> bool:
    containers = pod["spec"]["containers"]
    words = {word for part in containers for word in [*part.get("command", ()), *part.get("args", ())]}
    return bool(words & {"--profiling", "--profiling=true"})


def _set_verbosity(method: str, value: str) -> Reply:
    """k8s.io/apiserver, pkg/server/routes/flags.go and pkg/util/logs."""
    if method != "PUT":
        return _text(406, "unsupported http method")
    if not value.removeprefix("-").isdecimal():
        problem = f'strconv.ParseInt: parsing "{value}": invalid syntax'
        return _text(400, f"failed set klog.logging.verbosity {value}: {problem}")
    return _text(200, f"successfully set klog.logging.verbosity to {value}")._replace(verbosity=int(value))


def _text(status: int, text: str) -> Reply:
    return Reply(status, "text/plain; charset=utf-8", text.encode())


def _of_go(status: int, text: str) -> Reply:
    """How net/http/pprof tells its own errors."""
    return _text(status, text)._replace(headers={"X-Go-Pprof": "1", "X-Content-Type-Options": "nosniff"})


def _anonymous(path: str) -> Reply:
    """kube-scheduler asks who is there; the proxy passes nobody's credentials on (recorded: 1.36.2)."""
    message = f'forbidden: User "system:anonymous" cannot get path "/{path}"'
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message}
    body = json.dumps({**status, "reason": "Forbidden", "details": {}, "code": 403}).encode()
    return Reply(403, "application/json", body)
