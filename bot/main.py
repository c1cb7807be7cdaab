"""The composition root: the only module that knows every other."""

import gc
import sys
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bot.errors import NoSuchCluster, SourceError, UsageError, WhichCluster
from bot.kube.podget import PodPorts
from bot.settings import load_settings
from bot.texts import Language
from handlers.shell import Where, Wiring
from handlers.shell import main as shell
from playbooks.playbook import Sources, find, load

if TYPE_CHECKING:
    from bot.kube.live import LiveCluster

COLLECT_EVERY = 50_000, 20, 20
"""Python's default looks for garbage after every 700 objects: a question about 5,000 nodes makes 100,000."""
TURN_S = 0.001
"""How long a thread that diagnoses keeps the event loop waiting. Python's 5 ms add up: an ack waits several times."""


def main() -> None:
    """The console command. It answers one question and ends: the collector is off, see `bot.__main__`."""
    wiring = Wiring(open_sources, language, open_writing, write_recording, write_capture, serve, demo, open_audit)
    sys.exit(shell(wiring, sys.argv[1:]))


@asynccontextmanager
async def open_sources(where: Where) -> AsyncGenerator[Sources]:
    """The cluster that is meant: what was typed counts before the settings. Raises SourceError or UsageError."""
    where, names = _with_settings(where)
    if where.recording is not None:
        from bot.kube.recordedports import RecordedPorts  # noqa: PLC0415
        from bot.kube.recording import RecordedCluster  # noqa: PLC0415

        recorded = RecordedCluster.open(where.recording, name=where.cluster)
        yield Sources(recorded, *names, ports=RecordedPorts(recorded))
        return
    from bot.kube.connect import open_cluster  # noqa: PLC0415  # importing the official client takes 0.4 s

    async with await open_cluster(name=where.cluster, kubeconfig=where.kubeconfig, context=where.context) as cluster:
        yield Sources(cluster, *names, ports=_ports(where, cluster))


def _ports(where: Where, cluster: "LiveCluster") -> PodPorts:
    """Through the API server, or straight where the settings say so."""
    settings = load_settings(where.config)
    if settings is None or not settings.profiles.direct:
        return cluster
    from bot.kube.podport import Straight  # noqa: PLC0415  # as above

    return Straight(cluster, trust_any=settings.profiles.trust_any_certificate)


@asynccontextmanager
async def open_writing(where: Where) -> AsyncGenerator[Any]:
    """The way to write to the same cluster; None where that is a recording."""
    where, _ = _with_settings(where)
    if where.recording is not None:
        yield None
        return
    from bot.kube.connect import open_writer  # noqa: PLC0415  # as above

    async with await open_writer(kubeconfig=where.kubeconfig, context=where.context) as writer:
        yield writer


@asynccontextmanager
async def open_watched(where: Where) -> AsyncGenerator[Sources]:
    """The same for a bot that stays: what every question reads of a live cluster is kept, and kept up to date."""
    from bot.kube.cache import CachedCluster, WatchCache  # noqa: PLC0415
    from bot.kube.live import LiveCluster  # noqa: PLC0415

    async with open_sources(where) as sources:
        if not isinstance(sources.cluster, LiveCluster):
            yield sources
            return
        async with WatchCache(sources.cluster) as cache:
            yield sources._replace(cluster=CachedCluster(cache))


async def serve(where: Where) -> None:
    """The bot, until it is told to stop."""
    from bot.kube.writer import Writer  # noqa: PLC0415
    from bot.serve import serve as run  # noqa: PLC0415  # slack-bolt and SQLAlchemy take half a second
    from handlers.changes.request import Seen  # noqa: PLC0415
    from handlers.changes.setup import Changing  # noqa: PLC0415

    settings = load_settings(where.config)
    for verb in load():
        find(verb)  # imported here, no first question holds up the acks of those that come with it
    gc.enable()
    gc.collect()
    gc.freeze()  # what is loaded now stays
    gc.set_threshold(*COLLECT_EVERY)
    sys.setswitchinterval(TURN_S)

    def named(cluster: str) -> Where:
        return where._replace(cluster=cluster or where.cluster)

    async def keep(cluster: str, found: Seen, out: Path) -> str:
        async with open_sources(named(cluster)) as sources:
            return await write_capture(sources, found, out)

    def writing(cluster: str) -> AbstractAsyncContextManager[Writer]:
        return open_writing(named(cluster))

    changing = Changing(writing, keep)
    await run(settings, lambda cluster: open_watched(named(cluster)), changing, where.cluster)


async def demo(port: int) -> None:
    """The bot beside a pretended Slack and a pretended cluster, until it is told to stop."""
    from sandbox.demo import run  # noqa: PLC0415  # the one command that knows the sandbox

    gc.enable()
    await run(port)


@asynccontextmanager
async def open_audit(config: Path | None) -> AsyncGenerator[Any]:
    """The audit log of the store that the settings name, or of the usual one."""
    from bot.settings.schema import StoreSettings  # noqa: PLC0415
    from bot.store import open_audit as opened  # noqa: PLC0415

    settings = load_settings(config)
    store = settings.store if settings else StoreSettings()
    async with opened(store.url.get_secret_value()) as audit:
        yield audit


def language(where: Where) -> Language:
    """The language of the settings."""
    settings = load_settings(where.config)
    return settings.language if settings else "en"


async def write_recording(sources: Sources, out: Path, pod: tuple[str, str] | None) -> str:
    """Record the cluster; what was written and what could not be, for a person."""
    from bot.kube.live import LiveCluster  # noqa: PLC0415
    from bot.kube.record import record  # noqa: PLC0415

    cluster = sources.cluster
    if not isinstance(cluster, LiveCluster):
        raise UsageError(
            "this cluster is itself a recording", hint="Name a live cluster with --kubeconfig or --context."
        )
    summary = await record(cluster, out, pod=pod, server_version=await cluster.server_version())
    lines = [f"wrote {summary.path}: {sum(summary.objects.values())} objects, {len(summary.logs)} logs"]
    lines += [f"left out {gap.source}: {gap.why}" for gap in summary.gaps]
    lines += [f"left out {one}" for one in cluster.undecodable]
    if not summary.objects:
        raise SourceError("nothing of the cluster could be read", hint="\n".join(lines[1:]))
    return "\n".join(lines)


async def write_capture(sources: Sources, found: Any, out: Path) -> str:
    """Record what ends with the scheduler's pods; what was written and what could not be, for a person."""
    from bot.kube.capture import capture  # noqa: PLC0415
    from bot.kube.live import LiveCluster  # noqa: PLC0415

    cluster = sources.cluster
    if not isinstance(cluster, LiveCluster):
        raise UsageError("only a live cluster can be captured")
    summary = await capture(cluster, found.namespace, found.around.pods or found.install.pods, out)
    lines = [f"captured what the restart destroys: {summary.path}"]
    return "\n".join([*lines, *(f"left out {gap.source}: {gap.why}" for gap in summary.gaps)])


def _with_settings(where: Where) -> tuple[Where, tuple[str, str]]:
    """The typed words completed by the settings of the cluster; and where HAMi is, if they say so."""
    settings = load_settings(where.config)
    clusters = settings.clusters if settings else {}
    typed = where.recording or where.kubeconfig or where.context
    if where.cluster and where.cluster not in clusters and (where.recording or not typed):
        raise NoSuchCluster(where.cluster, clusters)
    if len(clusters) > 1 and not (where.cluster or typed):
        raise WhichCluster(sorted(clusters))
    name = where.cluster or ("" if typed or not clusters else next(iter(clusters)))
    chosen = clusters.get(name)
    if chosen is None:
        return where, ("", "")
    where = where._replace(cluster=name)
    if not typed:
        where = where._replace(recording=chosen.recording, kubeconfig=chosen.kubeconfig, context=chosen.context)
    return where, (chosen.hami_namespace, chosen.scheduler_deployment)
