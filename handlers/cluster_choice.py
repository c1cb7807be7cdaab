"""Which cluster a shell command is about, and how it is opened. Typed options win over the settings."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bot.errors import BotError, NoSuchCluster, UsageError, WhichCluster
from bot.kube.cluster import PodPorts
from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.settings import load_settings
from bot.texts import Language
from playbooks.playbook import Sources

if TYPE_CHECKING:
    from bot.changes.journal import KnownChange
    from bot.kube.client.writer import Writer


class ClusterChoice(NamedTuple):
    """Which cluster a command is about, as typed."""

    cluster: str = ""
    kubeconfig: Path | None = None
    context: str = ""
    recording: Path | None = None
    config: Path | None = None


@asynccontextmanager
async def open_sources(where: ClusterChoice) -> AsyncGenerator[Sources]:
    """Opens the chosen cluster for reading. Raises SourceError or UsageError."""
    where, names = _with_settings(where)
    settings, asked = load_settings(where.config), None
    chosen = settings.clusters.get(where.cluster) if settings else None
    if chosen and (given := chosen.prometheus):
        from bot.prometheus.client import Address, PrometheusClient  # noqa: PLC0415  # httpx is slow to import

        token, password = given.token.get_secret_value(), given.password.get_secret_value()
        asked = PrometheusClient(Address(given.url.rstrip("/"), token, given.user, password, given.ca_file))
    if where.recording is not None:
        recorded = RecordedCluster.open(where.recording, name=where.cluster)
        yield Sources(recorded, *names, ports=recorded, workload_logs=True, prometheus=asked)
        return
    # The official client and aiohttp take 0.3 s, which a recording does without.
    from bot.kube.client.connect import open_cluster  # noqa: PLC0415

    async with await open_cluster(name=where.cluster, kubeconfig=where.kubeconfig, context=where.context) as cluster:
        ports: PodPorts = cluster  # through the API server
        if settings and settings.profiles.direct:
            from bot.kube.client.pod_http import DirectPodPorts  # noqa: PLC0415  # httpx too

            ports = DirectPodPorts(cluster, trust_any=settings.profiles.trust_any_certificate)
        allowed = settings is not None and settings.workload_logs
        yield Sources(cluster, *names, ports=ports, workload_logs=allowed, prometheus=asked)


@asynccontextmanager
async def open_writing(where: ClusterChoice) -> "AsyncGenerator[Writer | None]":
    """Opens the writer for the chosen cluster; None if that is a recording."""
    where, _ = _with_settings(where)
    if where.recording is not None:
        yield None
        return
    from bot.kube.client.connect import open_writer  # noqa: PLC0415  # as above

    async with await open_writer(name=where.cluster, kubeconfig=where.kubeconfig, context=where.context) as writer:
        yield writer


async def open_in_the_store(where: ClusterChoice) -> "Sequence[KnownChange] | None":
    """The cluster's changes that the store has as open; None if the settings name no store. Raises BotError."""
    settings = load_settings(where.config)
    if settings is None:
        return None
    from bot.store import NoStoreError, open_beside  # noqa: PLC0415  # half a second

    try:
        async with open_beside(settings.store.url.get_secret_value()) as store:
            return await store.changes(_with_settings(where)[0].cluster).opened()
    except NoStoreError:
        if "store" in settings.model_fields_set:
            raise
        return None  # nobody made one where it is by default


def playbooks_folder(where: ClusterChoice) -> Path | None:
    """The folder of a team's own playbooks in the settings; None also if the settings cannot be read."""
    try:
        settings = load_settings(where.config)
    except UsageError:
        return None
    return settings.playbooks.folder if settings else None


def language(where: ClusterChoice) -> Language:
    """The language that the settings choose; English without settings."""
    settings = load_settings(where.config)
    return settings.language if settings else "en"


def usual_language(where: ClusterChoice) -> Language:
    """The language of the settings; English if they cannot be read (the next reader of the settings reports why)."""
    try:
        return language(where)
    except BotError:
        return "en"


def _with_settings(where: ClusterChoice) -> tuple[ClusterChoice, tuple[str, str]]:
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
