"""pods/proxy: what the API server passes on of a pod's own ports, which here are recordings."""

from collections.abc import Mapping
from typing import NamedTuple

from sandbox.apiserver.entries import Object
from sandbox.apiserver.statuses import unreachable

_PPROF = "debug/pprof/"
_VERBOSITY = "debug/flags/v"
_KUBE_SCHEDULER_PORT = "10259"
_TLS_PORTS = frozenset({_KUBE_SCHEDULER_PORT, "443"})
_PROFILE_PORTS = frozenset({"443", "9395"})  # HAMi's scheduler serves profiles beside its webhook and its metrics

Recorded = Mapping[tuple[str, str, str], bytes]


class Reply(NamedTuple):
    """What the process in the pod answered."""

    status: int
    content_type: str
    body: bytes
    verbosity: int | None = None
    """The level that kube-scheduler has been set to by this request."""


class Address(NamedTuple):
    """`[scheme:]name[:port]`, which the API server takes in place of a pod's name."""

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
    """Recorded metrics (by namespace, pod, port) and profiles (by namespace, pod, profile) behind pods' ports."""

    def __init__(self, metrics: Recorded, profiles: Recorded) -> None:
        self._metrics = dict(metrics)
        self._profiles = dict(profiles)

    def inherit(self, pod: Object, namespace: str, sibling: str) -> None:
        """A pod made from the same Deployment shows what its sibling did; profiles only where `--profiling` is set."""
        name = pod["metadata"]["name"]
        words = [word for one in pod["spec"]["containers"] for word in [*one.get("command", ()), *one.get("args", ())]]
        profiling = "--profiling" in words or "--profiling=true" in words
        for recorded, wanted in ((self._metrics, True), (self._profiles, profiling)):
            for (where, which, what), content in list(recorded.items()):
                if wanted and (where, which) == (namespace, sibling):
                    recorded[namespace, name, what] = content

    def answer(self, pod: Object, address: Address, method: str, path: str, body: bytes) -> Reply:
        """What the pod answers. Raises the server's 503 when nothing listens there."""
        ip = pod.get("status", {}).get("podIP", "")
        port = address.port or self._first_port(pod)
        if not ip or port not in self._listening(pod):
            raise unreachable(f"{ip}:{port}")
        if port in _TLS_PORTS and address.scheme != "https":
            return _text(400, "Client sent an HTTP request to an HTTPS server.\n")
        where = pod["metadata"].get("namespace", ""), pod["metadata"]["name"]
        if port == _KUBE_SCHEDULER_PORT and path == _VERBOSITY:
            return _set_verbosity(method, body.decode(errors="replace"))
        if path == "metrics" and (metrics := self._metrics.get((*where, port))) is not None:
            return Reply(200, "text/plain; version=0.0.4; charset=utf-8", metrics)
        if port in _PROFILE_PORTS and path.startswith(_PPROF):
            profile = self._profiles.get((*where, path.removeprefix(_PPROF)))
            if profile is not None:
                return Reply(200, "application/octet-stream", profile)
        return _text(404, "404 page not found\n")

    def _listening(self, pod: Object) -> set[str]:
        """The ports that the pod's containers declare, those recorded, and kube-scheduler's own."""
        metadata, containers = pod["metadata"], pod["spec"]["containers"]
        ports = {str(port["containerPort"]) for one in containers for port in one.get("ports") or ()}
        where = metadata.get("namespace", ""), metadata["name"]
        ports |= {port for *pod_of, port in self._metrics if tuple(pod_of) == where}
        if any(one["name"] == "kube-scheduler" for one in containers):
            ports.add(_KUBE_SCHEDULER_PORT)
        return ports

    def _first_port(self, pod: Object) -> str:
        """The port of a proxy request that names none: the first that the pod declares, else 80."""
        ports = [port for one in pod["spec"]["containers"] for port in one.get("ports") or ()]
        return str(ports[0]["containerPort"]) if ports else "80"


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
