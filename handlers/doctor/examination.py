"""Proves every link between the bot and what it needs, one after the other."""

import asyncio

from bot.errors import UsageError
from bot.settings import load_settings
from bot.settings.schema import Settings
from bot.texts import Prose, Text
from handlers.cluster_choice import ClusterChoice
from handlers.doctor.clusters import examine_cluster
from handlers.doctor.known_answer import wrong_answer
from handlers.doctor.links import Link, broken
from handlers.doctor.oncall import examine_oncall
from handlers.doctor.playbooks import examine_playbooks
from handlers.doctor.slack import examine_slack
from handlers.doctor.store import examine_store


async def examine(where: ClusterChoice) -> list[Link]:
    """Settings, Slack, the store, on-call, the bot's own reasoning, then each cluster of the settings, or the one that
    `where` names. Never raises.
    """
    try:
        settings = load_settings(where.config)
    except UsageError as error:
        return [broken("settings", error)]
    parts = await asyncio.gather(
        _bot(settings),
        _itself(),
        *(examine_cluster(cluster, settings) for cluster in _clusters(where, settings)),
    )
    return [link for part in parts for link in part]


async def _bot(settings: Settings | None) -> list[Link]:
    if settings is None:
        return [Link("settings", "degraded", Text("doctor.no-settings"), Text("doctor.no-settings-fix"))]
    clusters: Prose = ", ".join(settings.clusters) or Text("doctor.one-cluster")
    links = [Link("settings", "ok", Text("doctor.settings", clusters=clusters))]
    if settings.slack is None:
        return [*links, Link("slack-token", "degraded", Text("doctor.no-slack"), Text("doctor.no-slack-fix"))]
    links += [*await examine_slack(settings, settings.slack), *await examine_store(settings)]
    return [*links, *await examine_oncall(settings, settings.oncall)] if settings.oncall else links


async def _itself() -> list[Link]:
    if wrong := await wrong_answer():
        known = Link("self-test", "failed", Text("doctor.known-wrong", why=wrong), Text("doctor.known-fix"))
    else:
        known = Link("self-test", "ok", Text("doctor.known"))
    return [known, *examine_playbooks()]


def _clusters(where: ClusterChoice, settings: Settings | None) -> list[ClusterChoice]:
    typed = where.cluster or where.recording or where.kubeconfig or where.context
    if typed or settings is None or not settings.clusters:
        return [where]
    return [where._replace(cluster=name) for name in settings.clusters]
