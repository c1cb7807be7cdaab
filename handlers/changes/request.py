"""Reads the cluster for a requested change (`look`) and plans the change (`prepare`). Nothing here writes."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import cast

import msgspec

from bot.changes.effects import blast_radius, needs_nodes
from bot.changes.flags import Object
from bot.changes.kinds import DeploymentContext
from bot.changes.plan import NothingToDo, Plan, Raise, annotation, plan_raise
from bot.changes.record import Means, Record, Refusal, UnreadableRecord, read_record
from bot.errors import NotFound, SourceError
from bot.hami.installation.install import Install
from bot.kube.client.writer import Writer
from bot.kube.cluster import Cluster, seen
from bot.kube.hami_pods import KUBE_SCHEDULER_CONTAINER
from bot.kube.models import DEPLOYMENTS, NODES, SERVICES, WEBHOOKS, Node, Pod
from bot.kube.selectors import label_matcher
from bot.report import Gap
from bot.texts import Text
from handlers.changes.words import Request
from playbooks.gather.scheduling import PODS_SOURCE, InstallSeen, gather_install
from playbooks.gather.webhook import WEBHOOK_NAME
from playbooks.playbook import Sources

DRY_RUN_ID = "dry-run"
_ENDED = ("Succeeded", "Failed")


class ChangeSnapshot(msgspec.Struct, frozen=True):
    """The scheduler's Deployment and what a change of it depends on, at one moment.

    `taken_at` is by the API server's clock, and this machine's is `skew_s` seconds ahead of it. `means` is how a log
    level of kube-scheduler would be set. `gaps` tell what could not be read. `copy` is the store's record of an open
    change that the Deployment does not carry.
    """

    cluster: str
    taken_at: datetime
    deployment: Object
    install: Install
    around: DeploymentContext
    means: Means
    gaps: tuple[Gap, ...]
    skew_s: float = 0.0
    copy: Record | None = None

    @property
    def namespace(self) -> str:
        return str(self.deployment["metadata"].get("namespace", ""))

    @property
    def name(self) -> str:
        return str(self.deployment["metadata"].get("name", ""))

    @property
    def target(self) -> str:
        """The `namespace/name` of the Deployment."""
        return f"{self.namespace}/{self.name}"

    @property
    def open(self) -> Record | UnreadableRecord | None:
        """The change that is open on the Deployment, or None."""
        text = annotation(self.deployment)
        return self.copy or (None if text is None else read_record(text))


async def look(sources: Sources, request: Request, writer: Writer | None = None) -> ChangeSnapshot:
    """Reads what the request is about. Raises SourceError, and NotFound if HAMi has no scheduler. Asks the `writer`, if
    given, whether kube-scheduler's level can be set without a restart; nothing is written.
    """
    cluster = sources.cluster
    found = await gather_install(sources)
    if found.install.deployment is None:  # none is there, or it could not be read
        for gap in found.gaps:
            if gap.source == "deployments":
                raise SourceError(gap.text, hint=gap.advice)
        if (absent := found.not_installed) is not None:
            raise NotFound(absent, hint=Text("hami-not-installed.fix"))
        text = Text("error-change.no-deployment-hami-scheduler")
        raise NotFound(text, hint=Text("error-change.none-in-dra-mode"))
    meta = found.install.deployment.metadata
    deployment = await cluster.raw(DEPLOYMENTS, meta.name, meta.namespace)
    raises = isinstance(request, Raise)
    around, gaps = await _around(cluster, deployment, found) if raises else (DeploymentContext(), ())
    return ChangeSnapshot(
        cluster=cluster.name,
        taken_at=cluster.now(),
        deployment=deployment,
        install=found.install,
        around=around._replace(version=found.install.version.version if found.install.version else None),
        means=await _means(request, around.pods or (), writer) if raises and writer else "patch",
        gaps=(*found.gaps, *gaps),
        skew_s=cluster.clocks.skew_s if cluster.clocks else 0.0,
    )


def prepare(
    found: ChangeSnapshot, request: Raise, change_id: str, *, by: str, channel: str = ""
) -> Plan | NothingToDo | Refusal:
    """Plans the change, or says why there is none. Pure. `by` is who asks; `channel` is Slack's, empty in a shell."""
    wanted = msgspec.structs.replace(request, by=by, channel=channel, means=found.means)
    now = found.taken_at.timestamp()
    plan = partial(plan_raise, now=now, change_id=change_id, version=found.around.version, skew_s=found.skew_s)
    outcome = plan(found.deployment, wanted)
    if isinstance(outcome, Refusal) and outcome.code == "unsuitable" and wanted.means == "debug-flags":
        outcome = plan(found.deployment, msgspec.structs.replace(wanted, means="patch"))
    if not isinstance(outcome, Plan):
        return outcome
    return msgspec.structs.replace(outcome, impacts=blast_radius(found.deployment, outcome, found.around))


async def _around(
    cluster: Cluster, deployment: Object, found: InstallSeen
) -> tuple[DeploymentContext, tuple[Gap, ...]]:
    namespace = str(deployment["metadata"].get("namespace", ""))

    async def nodes_if_needed() -> list[Node]:  # there may be thousands
        return await cluster.list(NODES) if needs_nodes(deployment) else []

    hooks, services, nodes = await asyncio.gather(
        seen("webhooks", cluster.list(WEBHOOKS)),
        seen("services", cluster.list(SERVICES, namespace)),
        seen("nodes", nodes_if_needed()),
    )
    unread = any(gap.source == PODS_SOURCE for gap in found.gaps)
    selector = cast(dict[str, str], deployment["spec"].get("selector", {}).get("matchLabels") or {})
    matches = label_matcher(",".join(f"{key}={value}" for key, value in selector.items()))
    own = [pod for pod in found.install.pods if pod.status.phase not in _ENDED and matches(pod.metadata.labels)]
    around = DeploymentContext(
        pods=None if unread else own,
        nodes=None if isinstance(nodes, Gap) else nodes,
        webhooks=None
        if isinstance(hooks, Gap)
        else [webhook for hook in hooks for webhook in hook.webhooks or () if webhook.name == WEBHOOK_NAME],
        services=None if isinstance(services, Gap) else services,
    )
    return around, tuple(gap for gap in (hooks, services, nodes) if isinstance(gap, Gap))


async def _means(request: Request, pods: Sequence[Pod], writer: Writer) -> Means:
    """Prefers the running process where all of them take it: a restart costs scheduling and what only the pods hold."""
    if not (isinstance(request, Raise) and request.kind.is_log_level and request.container == KUBE_SCHEDULER_CONTAINER):
        return "patch"
    running = [pod for pod in pods if pod.status.phase == "Running"]
    try:
        takes = [await writer.takes_verbosity(pod.namespace, pod.name) for pod in running]
    except SourceError:
        return "patch"
    return "debug-flags" if takes and all(takes) else "patch"
