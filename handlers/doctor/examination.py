"""Proves every link between the bot and what it needs, one after the other."""

import asyncio

from bot.errors import UsageError
from bot.settings import load_settings
from bot.settings.schema import Settings
from bot.texts import Texts
from handlers.cluster_choice import ClusterChoice
from handlers.doctor.clusters import examine_cluster
from handlers.doctor.known_answer import wrong_answer
from handlers.doctor.links import Link, broken
from handlers.doctor.oncall import examine_oncall
from handlers.doctor.playbooks import examine_playbooks
from handlers.doctor.slack import examine_slack
from handlers.doctor.store import examine_store


async def examine(where: ClusterChoice, say: Texts) -> list[Link]:
    """Settings, Slack, the store, on-call, the bot's own reasoning, then each cluster of the settings, or the one that
    `where` names. Never raises.
    """
    try:
        settings = load_settings(where.config)
    except UsageError as error:
        return [broken("settings", error)]
    parts = await asyncio.gather(
        _bot(settings, say),
        _itself(say),
        *(examine_cluster(cluster, settings, say) for cluster in _clusters(where, settings)),
    )
    return [link for part in parts for link in part]


async def _bot(settings: Settings | None, say: Texts) -> list[Link]:
    if settings is None:
        return [Link("settings", "degraded", say("doctor.no-settings"), say("doctor.no-settings-fix"))]
    clusters = ", ".join(settings.clusters) or say("doctor.one-cluster")
    links = [Link("settings", "ok", say("doctor.settings", clusters=clusters))]
    if settings.slack is None:
        return [*links, Link("slack-token", "degraded", say("doctor.no-slack"), say("doctor.no-slack-fix"))]
    links += [*await examine_slack(settings, settings.slack, say), *await examine_store(settings, say)]
    return [*links, *await examine_oncall(settings, settings.oncall, say)] if settings.oncall else links


async def _itself(say: Texts) -> list[Link]:
    if wrong := await wrong_answer(say):
        known = Link("self-test", "failed", say("doctor.known-wrong", why=wrong), say("doctor.known-fix"))
    else:
        known = Link("self-test", "ok", say("doctor.known"))
    return [known, *examine_playbooks(say)]


def _clusters(where: ClusterChoice, settings: Settings | None) -> list[ClusterChoice]:
    typed = where.cluster or where.recording or where.kubeconfig or where.context
    if typed or settings is None or not settings.clusters:
        return [where]
    return [where._replace(cluster=name) for name in settings.clusters]
