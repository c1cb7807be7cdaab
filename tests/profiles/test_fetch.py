"""Which ports are asked for a profile, with which rights, and what comes back: with the real client, or straight."""

import asyncio
import gzip
import json
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from msgspec import structs
from yarl import URL

from bot.errors import BotError, NotAllowed, NotFound, SourceError
from bot.hami.installation.install import Install, VersionSeen
from bot.hami.version import parse_version
from bot.kube.client.pod_http import DirectPodPorts
from bot.kube.cluster import PodAnswer, PodGet
from bot.kube.hami_pods import read_flags
from bot.kube.models import Lease, Pod
from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.report import Report, in_words
from bot.texts import Texts, in_english
from playbooks.playbook import Sources
from playbooks.profile.fetch import (
    AlreadyProfiling,
    FetchedProfile,
    NotServed,
    Off,
    ProfileSnapshot,
    addresses,
    content_of,
    gather,
)
from playbooks.profile.playbook import diagnose
from playbooks.profile.request import PodPort, Request
from sandbox.apiserver import ApiServer, Fault, Rule
from sandbox.apiserver.recordings import read_recording
from sandbox.serving import Served
from tests.cases_support import CASES
from tests.chart import BOT, granted, manifests
from tests.kube.live_servers import reached, tls
from tests.profiles.serving import CPU, HEAP, PROFILE, fetched, scheduler_of, serving


def told(snapshot: ProfileSnapshot) -> Report:
    return in_words(diagnose(snapshot), Texts("en"))


@pytest.mark.parametrize(
    ("version", "port"),
    [
        ("hami-2.7.1", ("https", 443)),
        ("hami-2.8.1", ("http", 9395)),
        ("hami-2.9.0", ("http", 9395)),
        ("hami-2.10", ("https", 443)),
    ],
)
def test_each_version_is_asked_where_it_serves_profiles(version: str, port: tuple[str, int], tmp_path: Path) -> None:
    """The 2.7.1 one declares no metrics port, so nothing listens there and its main port is asked next."""
    taken = fetched(tmp_path, HEAP, serving(version, "heap")).scene.outcome
    assert isinstance(taken, FetchedProfile)
    assert taken.content == PROFILE
    assert (taken.address.scheme, taken.address.port) == port
    assert taken.version == version.removeprefix("hami-").replace("2.10", "2.10.0")


def test_where_no_port_serves_them_it_says_so_with_what_was_said_and_offers_to_switch_them_on(tmp_path: Path) -> None:
    snapshot = fetched(tmp_path, CPU, serving("hami-2.9.0"))
    assert isinstance(snapshot.scene.outcome, Off)
    finding = told(snapshot).findings[0]
    assert finding.code == "profiling-off"
    assert [proof.quote for proof in finding.evidence] == ["HTTP 404: 404 page not found"] * 2
    assert "http:hami-scheduler" in finding.evidence[0].command
    assert [action.command for action in finding.next_actions] == ["profiling on for 15m"]


def test_a_version_that_has_none_is_not_offered_a_flag_that_would_crash_it(tmp_path: Path) -> None:
    finding = told(fetched(tmp_path, CPU, serving("hami-2.5.1", "profile"))).findings[0]
    assert "2.5.1 serves no profiles" in finding.claim
    assert [action.command for action in finding.next_actions] == ["status"]
    assert finding.evidence[0].quote.endswith("v2.5.1")


def test_what_the_api_server_does_not_allow_is_told_with_what_to_grant(tmp_path: Path) -> None:
    server = serving("hami-2.10", "heap", refused=[Rule(["get"], ["pods/proxy"])])
    with pytest.raises(SourceError, match="403") as error:
        fetched(tmp_path, HEAP, server)
    assert "pods/proxy" in in_english(error.value.hint)


def test_a_named_pod_and_port_is_asked_alone(tmp_path: Path) -> None:
    namespace, name = scheduler_of("hami-2.10")
    request = HEAP._replace(target=PodPort(namespace, name, "http", 9395))
    snapshot = fetched(tmp_path, request, serving("hami-2.10", "heap"))
    assert snapshot.scene.outcome.address == request.target
    assert told(snapshot).gaps[0].source == "version"  # which of its containers it is, nothing says


def test_in_slack_only_pods_in_hamis_namespace_and_those_of_the_setting_are_asked(tmp_path: Path) -> None:
    namespace, name = scheduler_of("hami-2.10")
    own = HEAP._replace(target=PodPort(namespace, name, "http", 9395), namespaces=())
    assert isinstance(fetched(tmp_path, own, serving("hami-2.10", "heap")).scene.outcome, FetchedProfile)
    server = serving("hami-2.10", "heap")
    other = own._replace(target=PodPort("payments", "api-0", "https", 8443))
    with pytest.raises(NotAllowed, match="namespace payments") as refused:
        fetched(tmp_path, other, server)
    assert "profiles.namespaces" in in_english(refused.value.hint)
    assert not any("payments" in request.path for request in server.requests)
    with pytest.raises(NotFound, match="api-0"):
        fetched(tmp_path, other._replace(namespaces=("payments",)), serving("hami-2.10", "heap"))


def test_a_kube_scheduler_that_asks_who_is_there_is_no_lack_of_the_bots_rights(tmp_path: Path) -> None:
    request = HEAP._replace(target=PodPort(*scheduler_of("hami-2.10"), "https", 10259))
    with pytest.raises(SourceError, match='"system:anonymous" cannot get path') as told_:
        fetched(tmp_path, request, serving("hami-2.10", "heap"))
    assert "grant" not in in_english(told_.value.hint)


def test_a_named_pod_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="nobody"):
        fetched(tmp_path, HEAP._replace(target=PodPort("ml", "nobody", "http", 1)), serving("hami-2.10"))


def test_an_answer_that_never_ends_is_given_up(tmp_path: Path) -> None:
    async def hurried(request: Request, sources: Sources) -> ProfileSnapshot:
        assert sources.ports

        class Hurried:
            async def pod_get(self, wanted: PodGet) -> PodAnswer:
                return await sources.ports.pod_get(structs.replace(wanted, within_s=0.3))

        return await gather(request, sources._replace(ports=Hurried()))

    with pytest.raises(SourceError, match="not finished within"):
        fetched(tmp_path, HEAP, serving("hami-2.10", "heap", faults=[Fault("/proxy/", "hang")]), hurried)


def test_cancelled_it_closes_the_request_and_the_scheduler_stops_profiling(tmp_path: Path) -> None:
    started = asyncio.Event()

    async def forever(_: float) -> None:
        started.set()
        await asyncio.Event().wait()

    server = serving("hami-2.10", "profile", profile_wait=forever)

    async def cancelled(request: Request, sources: Sources) -> None:
        task = asyncio.create_task(gather(request, sources))
        await started.wait()
        assert server.ports.profiling
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        async with asyncio.timeout(180):
            while server.ports.profiling:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    fetched(tmp_path, CPU, server, cancelled)


@pytest.mark.process
async def test_ctrl_c_in_a_shell_ends_the_capture(tmp_path: Path) -> None:
    started = asyncio.Event()

    async def forever(_: float) -> None:
        started.set()
        await asyncio.Event().wait()

    async with serving("hami-2.10", "profile", profile_wait=forever) as server:
        (tmp_path / "kubeconfig").write_text(server.kubeconfig())
        words = ["profile", "cpu", "60s", "--kubeconfig", str(tmp_path / "kubeconfig")]
        signal.signal(signal.SIGINT, signal.default_int_handler)  # tests in the background have it ignored
        shell = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "bot", *words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        await asyncio.wait_for(started.wait(), 60)
        shell.send_signal(signal.SIGINT)
        await shell.wait()
        async with asyncio.timeout(180):
            while server.ports.profiling:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert shell.returncode == 130


WANTED = PodGet("ns", "pod", "https", 443, "debug/pprof/heap")
GO = {"x-go-pprof": "1", "content-type": "text/plain; charset=utf-8"}


@pytest.mark.parametrize(
    ("answer", "error", "said"),
    [
        (
            PodAnswer(500, GO, b"Could not enable CPU profiling: cpu profiling already in use\n"),
            AlreadyProfiling,
            "in use",
        ),
        (PodAnswer(404, GO, b"Unknown profile\n"), SourceError, "Unknown profile"),
        (PodAnswer(400, GO, b'invalid value for "seconds"\n'), SourceError, "invalid value"),
        (PodAnswer(403, {}, b'{"kind":"other"}'), SourceError, "HTTP 403"),
        (PodAnswer(302, {"location": "http://evil.example/"}, b""), SourceError, "leads to http://evil.example/"),
        (PodAnswer(502, {"content-type": "text/html"}, b"<html>bad gateway"), SourceError, "HTTP 502: a web page"),
        (PodAnswer(200, {}, b"x" * 10, cut=True), SourceError, "longer than 64 MiB"),
    ],
)
def test_everything_else_is_an_error_with_what_to_do(answer: PodAnswer, error: type[BotError], said: str) -> None:
    with pytest.raises(error, match=said) as raised:
        content_of(WANTED, answer)
    assert in_english(raised.value.hint)


def test_a_program_without_the_profile_of_leaks_is_told_what_has_it_and_what_to_take_instead() -> None:
    wanted = structs.replace(WANTED, path="debug/pprof/goroutineleak")
    with pytest.raises(SourceError, match="Unknown profile") as raised:
        content_of(wanted, PodAnswer(404, GO, b"Unknown profile\n"))
    assert "Go 1.26" in in_english(raised.value.hint)


@pytest.mark.parametrize(
    "answer",
    [
        PodAnswer(404, {}, b"404 page not found\n"),
        PodAnswer(400, {}, b"Client sent an HTTP request to an HTTPS server.\n"),
    ],
)
def test_a_port_without_profiles_is_no_error(answer: PodAnswer) -> None:
    assert isinstance(content_of(WANTED, answer), NotServed)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"<!DOCTYPE html><html>Sign in", "a web page, not a profile"),
        (gzip.compress(b"nonsense"), "not a profile"),
        (PROFILE[: len(PROFILE) // 2], "cut short"),
        (b"", "empty"),
    ],
    ids=["a web page", "gzip", "cut short", "empty"],
)
def test_bytes_that_are_no_profile_are_told(body: bytes, said: str, tmp_path: Path) -> None:
    where = scheduler_of("hami-2.10")
    seed = read_recording(CASES / "hami-2.10" / "recording.tar.gz")
    snapshot = fetched(tmp_path, HEAP, ApiServer(seed.objects, profiles={(*where, "heap"): body}))
    with pytest.raises(SourceError, match=said):
        told(snapshot)


def pod_at(address: str) -> dict[str, Any]:
    containers = [{"name": "api", "image": "registry.example:5000/api:v1.2.3"}]
    metadata = {"namespace": "ml", "name": "api-0"}
    return {"metadata": metadata, "spec": {"containers": containers}, "status": {"podIP": address, "phase": "Running"}}


async def of_a_pod(folder: Path, talk: Callable[[ApiServer, int], Awaitable[Any]]) -> Any:
    """A Go program on loopback behind a certificate that nobody signed, and a cluster that has it as a pod."""

    async def heap(_: web.Request) -> web.Response:
        return web.Response(body=PROFILE)

    program = web.Application()
    program.router.add_get("/debug/pprof/heap", heap)
    async with Served(program, tls=tls(folder)) as served, ApiServer({"pods": [pod_at("127.0.0.1")]}) as server:
        (folder / "kubeconfig").write_text(server.kubeconfig())
        return await talk(server, URL(served.url).port or 0)


@pytest.mark.process
def test_the_shell_takes_it_straight_from_a_pod_whose_certificate_nobody_signed(tmp_path: Path) -> None:
    def hami_bot(port: int, over: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        words = [
            "profile",
            "heap",
            "--target",
            f"https://ml/api-0:{port}",
            "--kubeconfig",
            str(tmp_path / "kubeconfig"),
        ]
        command = [sys.executable, "-m", "bot", *words, "--out", str(tmp_path / "out"), "-o", "json"]
        return subprocess.run(command, env=over, capture_output=True, text=True, check=False)

    async def talk(_: ApiServer, port: int) -> list[subprocess.CompletedProcess[str]]:
        direct = {"HAMI_BOT_PROFILES__DIRECT": "true"}
        trusting = direct | {"HAMI_BOT_PROFILES__TRUST_ANY_CERTIFICATE": "true"}
        return [await asyncio.to_thread(hami_bot, port, over) for over in (direct, trusting)]

    refused, done = asyncio.run(of_a_pod(tmp_path, talk))
    assert refused.returncode == 3
    assert "profiles.trust_any_certificate" in refused.stderr
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert "Memory in use of api-0: 6.22MB" in report["verdict"]
    assert report["gaps"] == []
    (saved,) = (tmp_path / "out").glob("*.pb.gz")
    assert saved.read_bytes() == PROFILE
    assert {path.suffix for path in (tmp_path / "out").iterdir()} == {".gz", ".txt", ".png", ".html"}


def test_a_pod_without_an_address_is_told(tmp_path: Path) -> None:
    async def run() -> None:
        async with reached(ApiServer({"pods": [pod_at("")]}), tmp_path) as cluster:
            await DirectPodPorts(cluster, trust_any=True).pod_get(structs.replace(WANTED, namespace="ml", pod="api-0"))

    with pytest.raises(SourceError, match="has no IP yet"):
        asyncio.run(run())


def test_a_recording_replays_its_profiles_and_what_it_lacks_is_told() -> None:
    cluster = RecordedCluster.open(CASES / "hami-2.10" / "recording.tar.gz")
    sources = Sources(cluster, ports=cluster)
    taken = asyncio.run(gather(HEAP, sources)).scene.outcome
    assert isinstance(taken, FetchedProfile)
    assert taken.content == PROFILE
    other = RecordedCluster.open(CASES / "hami-2.9.0" / "recording.tar.gz")
    with pytest.raises(SourceError, match="is not in the recording"):
        asyncio.run(gather(HEAP, Sources(other, ports=other)))


def test_profiles_on_the_pods_loopback_come_with_the_command_that_forwards_the_port(tmp_path: Path) -> None:
    seed = read_recording(CASES / "hami-2.10" / "recording.tar.gz")
    text = json.dumps(seed.objects).replace('"--debug"', '"--profiling-bind-address=127.0.0.1:6060"')
    finding = told(fetched(tmp_path, HEAP, ApiServer(json.loads(text)))).findings[0]
    assert any(action.command.endswith(" 6060:6060") for action in finding.next_actions)


PROXY = {"podsProxy": {"enabled": True}}


def test_with_pods_proxy_a_bot_that_only_reads_can_take_profiles(tmp_path: Path) -> None:
    server = serving("hami-2.10", "heap", granted=granted(manifests(PROXY), BOT))
    assert isinstance(fetched(tmp_path, HEAP, server).scene.outcome, FetchedProfile)


def test_without_it_the_bot_says_what_is_lacking(tmp_path: Path) -> None:
    server = serving("hami-2.10", "heap", granted=granted(manifests(), BOT))
    with pytest.raises(SourceError, match="403") as told:
        fetched(tmp_path, HEAP, server)
    assert "grant get on pods/proxy in namespace hami-system" in in_english(told.value.hint)


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
