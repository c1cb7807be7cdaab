"""The links to one cluster: its API server, the rights that the chart grants, its clock, HAMi, metrics and profiles."""

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from bot.changes.deadline import MOST_SKEW_S
from bot.hami.metrics.gpu_usage import NAMES
from bot.kube.client.live import LiveCluster
from bot.kube.client.requests import Right
from bot.kube.models import NODES, PODS
from bot.kube.times import roughly
from bot.report import NEWER_HAMI, Gap
from bot.settings.schema import Settings
from bot.texts import Prose, Text, clauses, listed, sentences
from handlers.doctor.links import Link
from playbooks.gather.scheduler_process import gather_memory
from playbooks.gather.scheduling import InstallSeen
from playbooks.playbook import Sources
from playbooks.profile.fetch import Off
from playbooks.profile.fetch import gather as fetch_profile
from playbooks.profile.request import Request


class NeededRights(NamedTuple):
    """Kubernetes rights in one place, and what the bot cannot do without them. The place `<home>` is the bot's own
    namespace, `<hami>` that of HAMi, `<everywhere>` all; others are called by name.
    """

    without: Text
    place: str
    verbs: tuple[str, ...]
    resources: tuple[str, ...]
    name: str = ""


_ANSWERS, _BACKGROUND = Text("doctor.without-answers"), Text("doctor.without-background")
_CHANGES, _LEADING = Text("doctor.without-changes"), Text("doctor.without-leading")
READING = (
    NeededRights(_ANSWERS, "<everywhere>", ("get", "list", "watch"), ("pods",)),
    NeededRights(_ANSWERS, "<everywhere>", ("list", "watch"), ("nodes",)),
    NeededRights(
        _BACKGROUND,
        "<everywhere>",
        ("list",),
        (
            *("events", "resourcequotas", "namespaces"),
            *("deployments.apps", "replicasets.apps", "statefulsets.apps", "daemonsets.apps", "jobs.batch"),
            "mutatingwebhookconfigurations.admissionregistration.k8s.io",
            *(f"{kind}.resource.k8s.io" for kind in ("resourceclaims", "resourceclaimtemplates", "resourceslices")),
        ),
    ),
    NeededRights(_BACKGROUND, "<everywhere>", ("list",), ("workloads.kueue.x-k8s.io",)),
    NeededRights(_BACKGROUND, "<hami>", ("list",), ("configmaps", "services", "endpointslices.discovery.k8s.io")),
    NeededRights(_BACKGROUND, "<hami>", ("get", "list"), ("leases.coordination.k8s.io",)),
    NeededRights(Text("doctor.without-logs"), "<hami>", ("get",), ("pods/log",)),
)
DEPLOYMENT = "deployments.apps"
LEASE = "hami-bot"


def needed(settings: Settings | None) -> list[NeededRights]:
    """The Kubernetes rights that a bot with these settings needs."""
    found = [*READING]
    if settings is None or not settings.profiles.direct:
        others = settings.profiles.namespaces if settings else ()
        places = {"<hami>": Text("doctor.without-metrics"), **dict.fromkeys(others, Text("doctor.without-targets"))}
        found += [NeededRights(without, place, ("get",), ("pods/proxy",)) for place, without in places.items()]
    if settings and settings.access.operators:
        found += [
            NeededRights(_CHANGES, "<hami>", ("get", "patch"), (DEPLOYMENT,), "scheduler"),
            NeededRights(_LEADING, "<home>", ("create",), ("leases.coordination.k8s.io",)),
            NeededRights(_LEADING, "<home>", ("get", "update"), ("leases.coordination.k8s.io",), LEASE),
        ]
    return found


def spelled(entry: NeededRights, namespaces: Mapping[str, str], deployment: str) -> list[Right]:
    """Each single right of the entry; `deployment` is the name of HAMi's scheduler."""
    name = deployment if entry.without == _CHANGES else entry.name
    namespace = namespaces.get(entry.place, entry.place)
    return [Right(verb, resource, namespace, name) for resource in entry.resources for verb in entry.verbs]


_AT_ONCE = 8
_USUAL_NAMESPACE, _USUAL_DEPLOYMENT = "hami-system", "hami-scheduler"
_MOST_SHOWN = 3


class ClusterSeen(msgspec.Struct, frozen=True):
    """An open cluster, as the checks of a cluster need it."""

    sources: Sources
    settings: Settings | None = None

    @property
    def about(self) -> str:
        return self.sources.cluster.name


class Installed(ClusterSeen, frozen=True, kw_only=True):
    """An open cluster, with what was read of HAMi there."""

    seen: InstallSeen


async def answers(place: ClusterSeen) -> list[Link]:
    """A link that tells whether the API server answers, with its version."""
    version = await place.sources.cluster.server_version()
    return [Link("cluster", "ok", Text("doctor.server", version=version), about=place.about)]


async def lists(place: ClusterSeen) -> list[Link]:
    """Raises an error unless pods and nodes can be listed. A pod is always read; watched nodes come from memory."""
    await place.sources.cluster.list(PODS, metadata_only=True, most=1)
    await place.sources.cluster.list(NODES)
    return []


async def clock(place: ClusterSeen) -> list[Link]:
    """A link that tells how far the API server's clock is from this machine's."""
    cluster = place.sources.cluster
    skew = cluster.clocks.skew_s if cluster.clocks else 0.0
    by = roughly(abs(skew))
    if abs(skew) <= MOST_SKEW_S:
        return [Link("clock", "ok", Text("doctor.clock", by=by), about=place.about)]
    seen = Text("doctor.clock-ahead" if skew > 0 else "doctor.clock-behind", by=by)
    return [Link("clock", "degraded", seen, Text("doctor.clock-fix"), place.about)]


async def hami(place: Installed) -> list[Link]:
    """Links that tell whether HAMi's scheduler is installed, of a known version and ready."""
    install, about = place.seen.install, place.about
    if not install.seen:
        unread = [gap for gap in place.seen.gaps if gap.source in ("deployments", "scheduler pods")]
        if not unread:
            return [Link("hami", "failed", Text("doctor.no-hami"), Text("doctor.no-hami-fix"), about)]
        return [Link("hami", "failed", clauses(gap.text for gap in unread), unread[0].advice, about)]
    where, ready = install.namespace, len(install.ready_pods)
    if install.version is None:
        return [Link("hami", "degraded", Text("doctor.hami-unknown", where=where), Text("doctor.hami-version"), about)]
    seen = Text("doctor.hami", version=install.version.version, where=where, ready=ready)
    if newer := next((gap for gap in place.seen.gaps if gap.source == NEWER_HAMI), None):
        return [Link("hami", "degraded", sentences(seen, newer.text), newer.advice, about)]
    return [Link("hami", "ok" if ready else "degraded", seen, "" if ready else "hami-bot status", about)]


async def rights(place: Installed) -> list[Link]:
    """A link for each part that lacks a right, and one for all rights that are granted; none for a recording."""
    sources, settings, cluster = place.sources, place.settings, place.sources.cluster
    if not isinstance(cluster, LiveCluster):
        return []
    install = place.seen.install
    hami = sources.hami_namespace or install.namespace or _USUAL_NAMESPACE
    scheduler = install.deployment.name if install.deployment else sources.scheduler_deployment or _USUAL_DEPLOYMENT
    chosen = settings.clusters.get(cluster.name) if settings else None
    home = (chosen.lease_namespace if chosen else "") or cluster.home or hami
    asked: list[tuple[Text, Right]] = [
        (entry.without, right)
        for entry in needed(settings)
        for right in spelled(entry, {"<everywhere>": "", "<hami>": hami, "<home>": home}, scheduler)
    ]
    turn = asyncio.Semaphore(_AT_ONCE)

    async def allowed(right: Right) -> bool:
        async with turn:
            return await cluster.may(right)

    answers = await asyncio.gather(*(allowed(right) for _, right in asked))
    missing: dict[Text, list[Right]] = {}
    for (without, right), granted in zip(asked, answers, strict=True):
        if not granted:
            missing.setdefault(without, []).append(right)
    links: list[Link] = []
    for without, lacking in missing.items():
        named: list[Prose] = [str(right) for right in lacking[:_MOST_SHOWN]]
        named += [Text("doctor.more", count=len(lacking) - _MOST_SHOWN)] if len(lacking) > _MOST_SHOWN else []
        seen = Text("doctor.lacking", rights=listed(named), without=without)
        fix, state = Text("doctor.grant", command=lacking[0].command), "failed" if without == _ANSWERS else "degraded"
        links.append(Link("rights", state, seen, fix, cluster.name))
    granted = sum(answers)
    whole = Link("rights", "ok", Text("doctor.rights", granted=granted, asked=len(asked)), about=cluster.name)
    return [*links, *([whole] if granted else [])]


async def metrics(place: Installed) -> list[Link]:
    """A link that tells whether HAMi's scheduler serves metrics about itself."""
    if not place.seen.install.seen:
        return []
    process = await gather_memory(place.sources, place.seen.install)
    counted, about = process.counted, place.about
    if counted is not None and not isinstance(counted, Gap):
        return [Link("scheduler-metrics", "ok", Text("doctor.metrics", port=process.port), about=about)]
    seen, fix = (counted.text, counted.advice) if counted else (Text("doctor.no-metrics"), "")
    return [Link("scheduler-metrics", "degraded", seen, fix or Text("doctor.metrics-fix"), about)]


async def profiles(place: Installed) -> list[Link]:
    """A link that tells whether HAMi's scheduler serves pprof profiles."""
    if not place.seen.install.seen:
        return []
    taken = await fetch_profile(Request("goroutine", 0), place.sources)
    if isinstance(taken.scene.outcome, Off):
        return [Link("profiles", "degraded", Text("doctor.profiles-off"), Text("doctor.profiles-fix"), place.about)]
    return [Link("profiles", "ok", Text("doctor.profiles", address=taken.scene.outcome.address), about=place.about)]


async def prometheus(place: Installed) -> list[Link]:
    """Links that tell whether Prometheus answers, and has HAMi's series; none if the settings name no Prometheus."""
    server, about = place.sources.prometheus, place.about
    if server is None:
        return []
    series = await server.query(f'count({{__name__=~"{"|".join(NAMES)}"}})', place.sources.cluster.now())
    if not series:
        return [Link("prometheus", "degraded", Text("doctor.no-series"), Text("doctor.series-fix"), about)]
    return [Link("prometheus", "ok", Text("doctor.series", count=f"{series[0].value:,.0f}"), about=about)]
