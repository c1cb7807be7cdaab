"""The links to one cluster: its API server, the rights that the chart grants, clock, HAMi, and what serves figures."""

import asyncio
from typing import Literal, NamedTuple

from bot.changes.deadline import MOST_SKEW_S
from bot.errors import BotError, SourceError
from bot.hami.installation.install import Install
from bot.hami.metrics.gpu_usage import NAMES
from bot.kube.client.live import LiveCluster
from bot.kube.client.requests import Right
from bot.kube.times import roughly
from bot.report import Gap
from bot.settings.schema import Settings
from bot.texts import Prose, Text, clauses, listed
from handlers.cluster_choice import ClusterChoice, open_sources
from handlers.doctor.links import Link, broken
from playbooks.gather.scheduler_process import gather_memory
from playbooks.gather.scheduling import gather_install
from playbooks.playbook import Sources
from playbooks.profile.fetch import Off
from playbooks.profile.fetch import gather as fetch_profile
from playbooks.profile.request import Request

Place = Literal["everywhere", "hami", "home"]
Part = Literal["answers", "background", "logs", "metrics", "targets", "changes", "leading"]
"""What a right is for: without one of `answers` the bot answers nothing."""
WITHOUT: dict[Part, Text] = {
    "answers": Text("doctor.without-answers"),
    "background": Text("doctor.without-background"),
    "logs": Text("doctor.without-logs"),
    "metrics": Text("doctor.without-metrics"),
    "targets": Text("doctor.without-targets"),
    "changes": Text("doctor.without-changes"),
    "leading": Text("doctor.without-leading"),
}
"""What is missing without a right of that part."""


class NeededRights(NamedTuple):
    """Rights of the same place. `home` is the bot's own namespace, `hami` that of HAMi."""

    part: Part
    place: Place
    verbs: tuple[str, ...]
    resources: tuple[str, ...]
    name: str = ""


READING = (
    NeededRights("answers", "everywhere", ("get", "list", "watch"), ("pods",)),
    NeededRights("answers", "everywhere", ("list", "watch"), ("nodes",)),
    NeededRights("background", "everywhere", ("list",), ("events", "resourcequotas", "namespaces")),
    NeededRights(
        "background",
        "everywhere",
        ("list",),
        ("deployments.apps", "replicasets.apps", "statefulsets.apps", "daemonsets.apps", "jobs.batch"),
    ),
    NeededRights(
        "background", "everywhere", ("list",), ("mutatingwebhookconfigurations.admissionregistration.k8s.io",)
    ),
    NeededRights(
        "background",
        "everywhere",
        ("list",),
        tuple(f"{plural}.resource.k8s.io" for plural in ("resourceclaims", "resourceclaimtemplates", "resourceslices")),
    ),
    NeededRights("background", "everywhere", ("list",), ("workloads.kueue.x-k8s.io",)),
    NeededRights("background", "hami", ("list",), ("configmaps", "services", "endpointslices.discovery.k8s.io")),
    NeededRights("background", "hami", ("get", "list"), ("leases.coordination.k8s.io",)),
    NeededRights("logs", "hami", ("get",), ("pods/log",)),
)
PROXYING = NeededRights("metrics", "hami", ("get",), ("pods/proxy",))
DEPLOYMENT = "deployments.apps"
LEASE = "hami-bot"


def needed(settings: Settings | None) -> list[NeededRights]:
    """The rights that a bot with these settings asks for."""
    found = [*READING]
    if settings is None or not settings.profiles.direct:
        found.append(PROXYING)
    if settings and settings.access.operators:
        found += [
            NeededRights("changes", "hami", ("get", "patch"), (DEPLOYMENT,), "scheduler"),
            NeededRights("leading", "home", ("create",), ("leases.coordination.k8s.io",)),
            NeededRights("leading", "home", ("get", "update"), ("leases.coordination.k8s.io",), LEASE),
        ]
    return found


def of_targets(settings: Settings | None) -> list[Right]:
    """The rights that profiles of pods in other namespaces than HAMi's need."""
    if settings is None or settings.profiles.direct:
        return []
    return [Right("get", "pods/proxy", namespace) for namespace in settings.profiles.namespaces]


def spelled(entry: NeededRights, namespaces: dict[Place, str], deployment: str) -> list[Right]:
    """Each right of it; `deployment` is the name of HAMi's scheduler."""
    name = deployment if entry.part == "changes" else entry.name
    return [
        Right(verb, resource, namespaces[entry.place], name) for resource in entry.resources for verb in entry.verbs
    ]


_AT_ONCE = 8
_USUAL_NAMESPACE, _USUAL_DEPLOYMENT = "hami-system", "hami-scheduler"
_MOST_SHOWN = 3


async def examine_cluster(where: ClusterChoice, settings: Settings | None) -> list[Link]:
    """The links of the cluster that `where` names, in the order in which each needs those before it."""
    try:
        async with open_sources(where) as sources:
            return await examine_sources(sources, settings)
    except BotError as error:
        return [broken("cluster", error, where.cluster)]


async def examine_sources(sources: Sources, settings: Settings | None) -> list[Link]:
    """The links of a cluster that is open, in the order of `examine_cluster`."""
    cluster, about = sources.cluster, sources.cluster.name
    if not isinstance(cluster, LiveCluster):
        return [Link("cluster", "ok", Text("doctor.recording"), about=about)]
    try:
        version = await cluster.server_version()
    except SourceError as error:
        return [broken("cluster", error, about)]
    found = await gather_install(sources)
    install = found.install
    links = [
        Link("cluster", "ok", Text("doctor.server", version=version), about=about),
        _clock(cluster),
        *await _rights(cluster, sources, install, settings),
        _hami(install, found.gaps, about),
    ]
    if install.seen:
        links += await asyncio.gather(_metrics(sources, install), _profiles(sources))
    return [*links, *([await _prometheus(sources)] if sources.prometheus else [])]


def _clock(cluster: LiveCluster) -> Link:
    skew = cluster.clocks.skew_s if cluster.clocks else 0.0
    by = roughly(abs(skew))
    if abs(skew) <= MOST_SKEW_S:
        return Link("clock", "ok", Text("doctor.clock", by=by), about=cluster.name)
    seen = Text("doctor.clock-ahead" if skew > 0 else "doctor.clock-behind", by=by)
    return Link("clock", "degraded", seen, Text("doctor.clock-fix"), cluster.name)


def _hami(install: Install, gaps: tuple[Gap, ...], about: str) -> Link:
    if not install.seen:
        unread = [gap for gap in gaps if gap.source in ("deployments", "scheduler pods")]
        if not unread:
            return Link("hami", "failed", Text("doctor.no-hami"), Text("doctor.no-hami-fix"), about)
        return Link("hami", "failed", clauses(gap.text for gap in unread), unread[0].advice, about)
    where, ready = install.namespace, len(install.ready_pods)
    if install.version is None:
        return Link("hami", "degraded", Text("doctor.hami-unknown", where=where), Text("doctor.hami-version"), about)
    seen = Text("doctor.hami", version=install.version.version, where=where, ready=ready)
    return Link("hami", "ok" if ready else "degraded", seen, "" if ready else "hami-bot status", about)


async def _rights(cluster: LiveCluster, sources: Sources, install: Install, settings: Settings | None) -> list[Link]:
    """One link for each part that lacks a right, and one for all that are there."""
    hami = sources.hami_namespace or install.namespace or _USUAL_NAMESPACE
    scheduler = install.deployment.name if install.deployment else sources.scheduler_deployment or _USUAL_DEPLOYMENT
    chosen = settings.clusters.get(cluster.name) if settings else None
    home = (chosen.lease_namespace if chosen else "") or cluster.home or hami
    asked: list[tuple[Part, Right]] = [
        (entry.part, right)
        for entry in needed(settings)
        for right in spelled(entry, {"everywhere": "", "hami": hami, "home": home}, scheduler)
    ]
    asked.extend(("targets", right) for right in of_targets(settings))
    turn = asyncio.Semaphore(_AT_ONCE)

    async def allowed(right: Right) -> bool:
        async with turn:
            return await cluster.may(right)

    try:
        answers = await asyncio.gather(*(allowed(right) for _, right in asked))
    except SourceError as error:
        return [broken("rights", error, cluster.name, "degraded")]
    missing: dict[Part, list[Right]] = {}
    for (part, right), granted in zip(asked, answers, strict=True):
        if not granted:
            missing.setdefault(part, []).append(right)
    links = [_lacking(part, rights, cluster.name) for part, rights in missing.items()]
    granted = sum(answers)
    whole = Link("rights", "ok", Text("doctor.rights", granted=granted, asked=len(asked)), about=cluster.name)
    return [*links, *([whole] if granted else [])]


def _lacking(part: Part, rights: list[Right], about: str) -> Link:
    named: list[Prose] = [str(right) for right in rights[:_MOST_SHOWN]]
    named += [Text("doctor.more", count=len(rights) - _MOST_SHOWN)] if len(rights) > _MOST_SHOWN else []
    seen = Text("doctor.lacking", rights=listed(named), without=WITHOUT[part])
    fix = Text("doctor.grant", command=rights[0].command)
    return Link("rights", "failed" if part == "answers" else "degraded", seen, fix, about)


async def _metrics(sources: Sources, install: Install) -> Link:
    process = await gather_memory(sources, install)
    counted, about = process.counted, sources.cluster.name
    if isinstance(counted, Gap):
        return Link("scheduler-metrics", "degraded", counted.text, counted.advice or Text("doctor.metrics-fix"), about)
    if counted is None:
        return Link("scheduler-metrics", "degraded", Text("doctor.no-metrics"), Text("doctor.metrics-fix"), about)
    return Link("scheduler-metrics", "ok", Text("doctor.metrics", port=process.port), about=about)


async def _profiles(sources: Sources) -> Link:
    about = sources.cluster.name
    try:
        taken = await fetch_profile(Request("goroutine", 0), sources)
    except SourceError as error:
        return broken("profiles", error, about, "degraded")
    if isinstance(taken.outcome, Off):
        return Link("profiles", "degraded", Text("doctor.profiles-off"), Text("doctor.profiles-fix"), about)
    return Link("profiles", "ok", Text("doctor.profiles", address=taken.outcome.address), about=about)


async def _prometheus(sources: Sources) -> Link:
    """Whether it answers, and has HAMi's series."""
    prometheus, about = sources.prometheus, sources.cluster.name
    assert prometheus is not None
    names = "|".join(NAMES)
    try:
        series = await prometheus.query(f'count({{__name__=~"{names}"}})', sources.cluster.now())
    except SourceError as error:
        return broken("prometheus", error, about, "degraded")
    if not series:
        return Link("prometheus", "degraded", Text("doctor.no-series"), Text("doctor.series-fix"), about)
    return Link("prometheus", "ok", Text("doctor.series", count=f"{series[0].value:,.0f}"), about=about)
