"""Where HAMi's profiles are: the pod of its scheduler that leads first, and which of its ports serves them."""

from collections.abc import Iterator, Mapping, Sequence

from bot.hami.installation.install import METRICS_CLOSED_SINCE, PROFILING_SINCE, Install, is_ready
from bot.hami.version import Version
from bot.kube.cluster import Scheme
from bot.kube.hami_pods import metrics_port
from bot.kube.models import Pod
from playbooks.profile.request import Address

_MAIN = "127.0.0.1:8080"  # pflag default (cmd/scheduler/main.go)


def addresses(install: Install) -> list[Address]:
    """Where HAMi's own profiles may be, the likeliest first; none for a version that has none."""
    ports = list(_ports(install.flags, install.version.version if install.version else None))
    return [Address(pod.namespace, pod.name, *port) for pod in _pods(install) for port in ports]


def _pods(install: Install) -> Sequence[Pod]:
    """Those that run, the leader first: the others hardly do anything."""
    leader = install.leader
    running = [pod for pod in install.pods if pod.status.phase == "Running" and not pod.metadata.deletion_timestamp]
    return sorted(running, key=lambda pod: (pod is not leader, not is_ready(pod), pod.name))


def _ports(flags: Mapping[str, str], version: Version | None) -> Iterator[tuple[Scheme, int]]:
    if version is not None and version < PROFILING_SINCE:
        return
    if version is None or version < METRICS_CLOSED_SINCE:
        yield "http", metrics_port(flags)
    encrypted = bool(flags.get("cert_file") and flags.get("key_file"))
    yield "https" if encrypted else "http", _port(flags.get("http_bind") or _MAIN)


def _port(bind: str) -> int:
    text = bind.rpartition(":")[2]
    return int(text) if text.isdecimal() else 0
