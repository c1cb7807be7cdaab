"""Which pods and ports of HAMi's scheduler are asked, and in which order."""

from typing import Any

import msgspec
import pytest

from bot.hami.installation.install import Install, VersionSeen
from bot.hami.version import parse_version
from bot.kube.hami_pods import read_flags
from bot.kube.models import Lease, Pod
from playbooks.profile.fetch import addresses

TLS = ("--cert_file=/tls/tls.crt", "--key_file=/tls/tls.key")
FLAGS = ("--http_bind=0.0.0.0:443", *TLS, "--metrics-bind-address=:9395")


def pod(name: str, *, ready: bool = True, **metadata: Any) -> Pod:
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    status = {"phase": "Running", "conditions": conditions}
    return msgspec.convert({"metadata": {"namespace": "kube", "name": name, **metadata}, "status": status}, Pod)


def install(version: str, *pods: Pod, flags: tuple[str, ...] = FLAGS, leader: str = "") -> Install:
    found = parse_version(version)
    lease = msgspec.convert({"metadata": {}, "spec": {"holderIdentity": f"{leader}_1"}}, Lease) if leader else None
    seen = VersionSeen(found, "x", version) if found else None
    return Install("kube", None, pods or (pod("a"),), read_flags(flags), seen, lease)


def shown(found: Install) -> list[str]:
    return list(map(str, addresses(found)))


@pytest.mark.parametrize(
    ("version", "ports"),
    [
        ("2.5.1", []),
        ("2.6.0", ["http://kube/a:9395", "https://kube/a:443"]),
        ("2.9.0", ["http://kube/a:9395", "https://kube/a:443"]),
        ("2.10.0", ["https://kube/a:443"]),
        ("2.11.0", ["http://kube/a:6060"]),
        ("unknown", ["http://kube/a:9395", "https://kube/a:443"]),
    ],
)
def test_the_version_says_which_ports_may_serve_profiles(version: str, ports: list[str]) -> None:
    assert shown(install(version)) == ports


def test_the_ports_are_those_that_the_flags_set() -> None:
    flags = ("--http_bind=:8443", "--metrics-bind-address=127.0.0.1:9999")
    assert shown(install("2.9.0", flags=flags)) == ["http://kube/a:9999", "http://kube/a:8443"]
    assert shown(install("2.9.0", flags=())) == ["http://kube/a:9395", "http://kube/a:8080"]


def test_the_profiles_own_address_is_the_only_one_asked() -> None:
    flags = (*FLAGS, "--profiling-bind-address=0.0.0.0:7070")
    assert shown(install("2.11.0", flags=flags)) == ["http://kube/a:7070"]


def test_the_leader_is_asked_first_then_those_that_are_ready_and_none_that_ends() -> None:
    pods = (pod("a"), pod("b", ready=False), pod("c"), pod("d", deletionTimestamp="2026-11-21T06:00:00Z"))
    found = addresses(install("2.10.0", *pods, leader="c"))
    assert [question.pod for question in found] == ["c", "a", "b"]
