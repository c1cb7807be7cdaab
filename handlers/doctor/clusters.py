"""The links to one cluster: its API server, rights, clock, HAMi, and what serves figures."""

import asyncio

from bot.changes.deadline import MOST_SKEW_S
from bot.changes.durations import roughly
from bot.errors import BotError, SourceError
from bot.hami.installation.install import Install
from bot.hami.metrics.gpu_usage import NAMES
from bot.kube.client.access_review import Right
from bot.kube.client.live import LiveCluster
from bot.report import Gap
from bot.settings.schema import Settings
from bot.texts import Texts, clauses
from handlers.cluster_choice import ClusterChoice, open_sources
from handlers.doctor.links import Link, broken
from handlers.doctor.rights import Part, needed, of_targets, spelled
from playbooks.gather.scheduler_process import gather_memory
from playbooks.gather.scheduling import gather_install
from playbooks.playbook import Sources
from playbooks.profile.fetch import Off
from playbooks.profile.fetch import gather as fetch_profile
from playbooks.profile.request import Request

_AT_ONCE = 8
_USUAL_NAMESPACE, _USUAL_DEPLOYMENT = "hami-system", "hami-scheduler"
_MOST_SHOWN = 3


async def examine_cluster(where: ClusterChoice, settings: Settings | None, say: Texts) -> list[Link]:
    """The links of the cluster that `where` names, in the order in which each needs those before it."""
    try:
        async with open_sources(where) as sources:
            return await examine_sources(sources, settings, say)
    except BotError as error:
        return [broken("cluster", error, where.cluster)]


async def examine_sources(sources: Sources, settings: Settings | None, say: Texts) -> list[Link]:
    """The links of a cluster that is open, in the order of `examine_cluster`."""
    cluster, about = sources.cluster, sources.cluster.name
    if not isinstance(cluster, LiveCluster):
        return [Link("cluster", "ok", say("doctor.recording"), about=about)]
    try:
        version = await cluster.server_version()
    except SourceError as error:
        return [broken("cluster", error, about)]
    found = await gather_install(sources)
    install = found.install
    links = [
        Link("cluster", "ok", say("doctor.server", version=version), about=about),
        _clock(cluster, say),
        *await _rights(cluster, sources, install, settings, say),
        _hami(install, found.gaps, about, say),
    ]
    if install.seen:
        links += await asyncio.gather(_metrics(sources, install, say), _profiles(sources, say))
    return [*links, *([await _prometheus(sources, say)] if sources.prometheus else [])]


def _clock(cluster: LiveCluster, say: Texts) -> Link:
    skew = cluster.clocks.skew_s if cluster.clocks else 0.0
    by = roughly(abs(skew))
    if abs(skew) <= MOST_SKEW_S:
        return Link("clock", "ok", say("doctor.clock", by=by), about=cluster.name)
    ahead = "ahead" if skew > 0 else "behind"
    return Link("clock", "degraded", say(f"doctor.clock-{ahead}", by=by), say("doctor.clock-fix"), cluster.name)


def _hami(install: Install, gaps: tuple[Gap, ...], about: str, say: Texts) -> Link:
    if not install.seen:
        unread = [gap for gap in gaps if gap.source in ("deployments", "scheduler pods")]
        why = clauses(gap.text for gap in unread) if unread else say("doctor.no-hami")
        return Link("hami", "failed", why, unread[0].advice if unread else say("doctor.no-hami-fix"), about)
    where, ready = install.namespace, len(install.ready_pods)
    if install.version is None:
        return Link("hami", "degraded", say("doctor.hami-unknown", where=where), say("doctor.hami-version"), about)
    seen = say("doctor.hami", version=install.version.version, where=where, ready=ready)
    return Link("hami", "ok" if ready else "degraded", seen, "" if ready else "hami-bot status", about)


async def _rights(
    cluster: LiveCluster, sources: Sources, install: Install, settings: Settings | None, say: Texts
) -> list[Link]:
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
    links = [_lacking(part, rights, cluster.name, say) for part, rights in missing.items()]
    granted = sum(answers)
    whole = Link("rights", "ok", say("doctor.rights", granted=granted, asked=len(asked)), about=cluster.name)
    return [*links, *([whole] if granted else [])]


def _lacking(part: Part, rights: list[Right], about: str, say: Texts) -> Link:
    shown = [str(right) for right in rights[:_MOST_SHOWN]]
    more = [say("doctor.more", count=len(rights) - _MOST_SHOWN)] if len(rights) > _MOST_SHOWN else []
    seen = say("doctor.lacking", rights=", ".join([*shown, *more]), without=say(f"doctor.without-{part}"))
    fix = say("doctor.grant", command=rights[0].command)
    return Link("rights", "failed" if part == "answers" else "degraded", seen, fix, about)


async def _metrics(sources: Sources, install: Install, say: Texts) -> Link:
    process = await gather_memory(sources, install)
    counted, about = process.counted, sources.cluster.name
    if isinstance(counted, Gap):
        return Link("scheduler-metrics", "degraded", counted.text, counted.advice or say("doctor.metrics-fix"), about)
    if counted is None:
        return Link("scheduler-metrics", "degraded", say("doctor.no-metrics"), say("doctor.metrics-fix"), about)
    return Link("scheduler-metrics", "ok", say("doctor.metrics", port=process.port), about=about)


async def _profiles(sources: Sources, say: Texts) -> Link:
    about = sources.cluster.name
    try:
        taken = await fetch_profile(Request("goroutine", 0), sources)
    except SourceError as error:
        return broken("profiles", error, about, "degraded")
    if isinstance(taken.outcome, Off):
        return Link("profiles", "degraded", say("doctor.profiles-off"), say("doctor.profiles-fix"), about)
    return Link("profiles", "ok", say("doctor.profiles", address=taken.outcome.address), about=about)


async def _prometheus(sources: Sources, say: Texts) -> Link:
    """Whether it answers, and has HAMi's series."""
    prometheus, about = sources.prometheus, sources.cluster.name
    assert prometheus is not None
    names = "|".join(NAMES)
    try:
        series = await prometheus.query(f'count({{__name__=~"{names}"}})', sources.cluster.now())
    except SourceError as error:
        return broken("prometheus", error, about, "degraded")
    if not series:
        return Link("prometheus", "degraded", say("doctor.no-series"), say("doctor.series-fix"), about)
    return Link("prometheus", "ok", say("doctor.series", count=f"{series[0].value:,.0f}"), about=about)
