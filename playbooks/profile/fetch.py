"""Fetches a Go profile of HAMi's scheduler, or of any pod that is named."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from bot.errors import NotAllowed, NotFound, SourceError, Unusable
from bot.hami.installation.install import METRICS_CLOSED_SINCE, PROFILING_SINCE, Install, is_ready, profiles_address
from bot.hami.version import Version
from bot.kube.cluster import Cluster, PodAnswer, PodGet, PodPorts, Scheme, TooSlow, nobody_listens
from bot.kube.hami_pods import metrics_port
from bot.kube.models import PODS, Pod
from bot.report import Gap, one_line
from bot.texts import Text, in_english
from playbooks.gather.scheduling import DEPLOYMENTS_SOURCE, gather_install, install_unread, nothing_read
from playbooks.playbook import Snapshot, Sources
from playbooks.profile.request import PodPort, Request

_MARGIN_S, _AT_ONCE_S = 20, 60
"""Seconds that an answer may take beyond the capture, and in all without one (pprof's own: driver/fetch.go)."""


class TriedPort(NamedTuple):
    """A port that serves no profiles, and what it answered."""

    address: PodPort
    quote: str


class FetchedProfile(NamedTuple):
    """A profile as fetched. `version`: its program's, by the image, empty if unknown; `leads`: the pod is leader."""

    wanted: PodGet
    content: bytes
    version: str
    leads: bool

    @property
    def address(self) -> PodPort:
        return PodPort(self.wanted.namespace, self.wanted.pod, self.wanted.scheme, self.wanted.port)


class Off(NamedTuple):
    """The outcome that no port serves profiles. `tried` is empty if this version of HAMi has none."""

    tried: tuple[TriedPort, ...]


class ProfileScene(NamedTuple):
    """What came of the request for a profile. `install` is None if a target was named."""

    install: Install | None
    outcome: FetchedProfile | Off
    gaps: tuple[Gap, ...]


ProfileSnapshot = Snapshot[Request, ProfileScene]


async def gather(wanted: Request, sources: Sources) -> ProfileSnapshot:
    """Fetches the profile; cancelled, it closes the request and so ends the capture.

    Raises SourceError for anything but a profile, or an answer that profiles are off; NotAllowed, before anything is
    asked, for a target in another namespace than those of `Request.namespaces`.
    """
    cluster, ports = sources.cluster, sources.ports
    if ports is None:
        hint = Text("error-profile.name-live-cluster-recording")
        raise SourceError(Text("error-profile.profiles-cannot-be-fetched-here"), hint=hint)
    if wanted.target is not None:
        named, others = wanted.target.namespace, wanted.namespaces
        if others is not None and named not in others:  # the bot reaches more than those who ask it
            ours = (await gather_install(sources)).install.namespace
            if named != ours:
                where = ", ".join(filter(None, (ours, *others))) or "no namespace, as HAMi's own was not found"
                hint = Text("error-profile.allowed-namespaces", where=where)
                raise NotAllowed(Text("error-profile.no-profiles-are-taken-pods", namespace=named), hint=hint)
        version = await _version_at(cluster, wanted.target)
        outcome = await _first_served(ports, wanted, [wanted.target], version, None)
        return Snapshot(wanted, cluster.name, cluster.now(), ProfileScene(None, outcome, ()))
    found = await gather_install(sources)
    if install_unread(found):
        raise nothing_read(next(gap for gap in found.gaps if gap.source == DEPLOYMENTS_SOURCE))
    install = found.install
    if not install.pods:
        if (absent := found.not_installed) is not None:
            raise NotFound(absent, hint=Text("hami-not-installed.fix"))
        hint = Text("error-profile.name-pod-with-target")
        raise NotFound(Text("error-profile.no-pod-hami-scheduler"), hint=hint)
    version = str(install.version.version) if install.version else ""
    leader = install.leader
    outcome = await _first_served(ports, wanted, addresses(install), version, leader)
    return Snapshot(wanted, cluster.name, cluster.now(), ProfileScene(install, outcome, found.gaps))


async def _first_served(
    ports: PodPorts, wanted: Request, places: Sequence[PodPort], version: str, leader: Pod | None
) -> FetchedProfile | Off:
    """The first that serves profiles. A place that cannot be reached counts where no other serves any."""
    tried: list[TriedPort] = []
    unreached: list[SourceError] = []
    for place in places:
        get = PodGet(
            namespace=place.namespace,
            pod=place.pod,
            scheme=place.scheme,
            port=place.port,
            path=f"debug/pprof/{'profile' if wanted.kind == 'cpu' else wanted.kind}",
            query=(("seconds", str(wanted.seconds)),) if wanted.seconds else (),
            within_s=wanted.seconds + _MARGIN_S if wanted.seconds else _AT_ONCE_S,
            limit_bytes=wanted.limit_bytes,
        )
        try:
            content = content_of(get, await ports.pod_get(get))
        except (TooSlow, Unusable):
            raise
        except NotFound:  # the pod is gone
            if wanted.target is not None:
                raise
            continue
        except SourceError as error:
            if nobody_listens(error):
                tried.append(TriedPort(place, in_english(error.message)))
            else:
                unreached.append(error)
            continue
        if not isinstance(content, NotServed):
            leads = leader is not None and (leader.namespace, leader.name) == (place.namespace, place.pod)
            return FetchedProfile(get, content, version, leads)
        tried.append(TriedPort(place, content.quote))
    if unreached:
        raise unreached[0]
    return Off(tuple(tried))


async def _version_at(cluster: Cluster, place: PodPort) -> str:
    try:
        pod = await cluster.get(PODS, place.pod, place.namespace)
    except NotFound:
        raise
    except SourceError:
        return ""
    images = [container.image for container in pod.spec.containers]
    tag = images[0].rsplit("/", 1)[-1].partition("@")[0].partition(":")[2] if len(images) == 1 else ""
    return tag.removeprefix("v")


_GO_PPROF = "x-go-pprof"
"""The header that net/http/pprof sets on its own errors."""
_IN_USE = "already in use"
_OTHER_PROTOCOL = "HTTP request to an HTTPS server"
_QUOTE = 300


class _Status(msgspec.Struct):
    """How Kubernetes' own programs tell what is wrong."""

    message: str = ""


class NotServed(NamedTuple):
    """An answer of a server that serves no profiles; `quote` is what it said."""

    quote: str


class AlreadyProfiling(SourceError):  # noqa: N818  # what the person is told
    """The program is taking a CPU profile that we did not ask for; it takes only one at a time."""


def content_of(wanted: PodGet, answer: PodAnswer) -> bytes | NotServed:
    """The profile's bytes from a server's answer, or that it serves none. Raises SourceError for any other answer."""
    if answer.cut:
        text = Text("error-profile.answer-is-longer", wanted=wanted, limit=f"{wanted.limit_bytes / 2**20:.0f}")
        raise SourceError(text, hint=Text("error-profile.ask-for-shorter-time-raise"))
    if answer.status == 200:
        return answer.body
    said, of_go = _said(answer), _GO_PPROF in answer.headers
    text = f"GET {wanted}: HTTP {answer.status}: {said}" if said else f"GET {wanted}: HTTP {answer.status}"
    if answer.status == 500 and _IN_USE in said:
        hint = Text("error-profile.program-takes-one-cpu-profile")
        raise AlreadyProfiling(text, hint=hint)
    if of_go:
        lacks_it = answer.status == 404 and wanted.path.endswith("/goroutineleak")
        raise SourceError(
            text, hint=Text("error-profile.no-leak-profile" if lacks_it else "error-profile.program-own-profiler-said")
        )
    if answer.status == 404 or (answer.status == 400 and _OTHER_PROTOCOL in said):
        return NotServed(f"HTTP {answer.status}: {said}" if said else f"HTTP {answer.status}")
    if answer.status in (401, 403):
        hint = Text("error-profile.program-itself-asks-who")
        raise SourceError(text, hint=hint)
    if 300 <= answer.status < 400:
        where = one_line(answer.headers.get("location", "elsewhere"), _QUOTE)
        raise SourceError(
            Text("error-profile.leads-to", text=text, where=where), hint=Text("error-profile.not-followed")
        )
    raise SourceError(text, hint=Text("error-profile.is-that-a-go-port"))


def _said(answer: PodAnswer) -> str:
    if "html" in answer.headers.get("content-type", ""):
        return "a web page"
    try:
        if message := msgspec.json.decode(answer.body, type=_Status).message:
            return one_line(message, _QUOTE)
    except (ValueError, RecursionError):
        pass  # it is plain text, as most of it is
    return one_line(answer.body[:4096].decode(errors="replace"), _QUOTE)


_MAIN = "127.0.0.1:8080"  # pflag default (cmd/scheduler/main.go)


def addresses(install: Install) -> list[PodPort]:
    """The ports where HAMi's scheduler may serve profiles, the likeliest first; none for a version without profiles."""
    version = install.version.version if install.version else None
    own = profiles_address(install.flags, version)
    ports: list[tuple[Scheme, int]] = [("http", _port(own))] if own else list(_ports(install.flags, version))
    running = [pod for pod in install.pods if pod.status.phase == "Running" and not pod.metadata.deletion_timestamp]
    # The leader first: the others hardly do anything.
    pods = sorted(running, key=lambda pod: (pod is not install.leader, not is_ready(pod), pod.name))
    return [PodPort(pod.namespace, pod.name, *port) for pod in pods for port in ports]


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
