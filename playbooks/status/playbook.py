"""HAMi itself: is every part of the installation there, do they agree, is something open that should not be?

What follows from the parts stands in `_rules`, where `why` finds the same about the scheduler.
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple

from bot.finding_codes import CODES
from bot.hami.pods.request_parsing import DeviceConfig
from bot.kube.cluster import Clocks, Cluster
from bot.kube.hami_pods import PANIC
from bot.kube.times import format_time
from bot.report import SEVERITIES, Evidence, Finding, Gap, Report, Severity, Subject, gap, new_report
from bot.texts import Text
from playbooks import quotes
from playbooks.gather.components import NEEDLES, Components, gather_components
from playbooks.gather.node_side import MOST_NODES, gather_plugin_sets
from playbooks.gather.nodes_in_question import NodesInQuestion, gather_questioned, seem_ill
from playbooks.gather.scheduler_logs import gather_extender_lines
from playbooks.gather.scheduling import (
    DEPLOYMENTS_SOURCE,
    gather_install,
    install_unread,
    nothing_read,
    times_shown,
)
from playbooks.gather.webhook import WEBHOOK_NAME
from playbooks.playbook import ALL, Playbook, Sources
from playbooks.rules.admission import webhook_health
from playbooks.rules.admission.webhook_configuration import KIND, service_of
from playbooks.rules.common import prose
from playbooks.rules.common.findings import finding
from playbooks.rules.common.hami_objects import Parts, of_object
from playbooks.rules.dra import devices
from playbooks.rules.installation import (
    bot_rights,
    clock_skew,
    extender,
    install_settings,
    kubernetes_version,
    leadership,
    open_change,
    plugin_coverage,
    schedulers,
)
from playbooks.rules.installation.not_installed import answer_without_hami
from playbooks.status.process import ProcessSeen, gather_process, process_table, process_told
from playbooks.status.tables import tables

Rule = Callable[[Parts, datetime], list[Finding]]


class Request(NamedTuple):
    """The whole installation. `all`: everything instead of an overview."""

    all: bool


class Snapshot(NamedTuple):
    """The installation, the moment that ages are judged by, and the clocks where a live cluster answered."""

    request: Request
    cluster: str
    taken_at: datetime
    as_of: datetime
    parts: Parts
    process: ProcessSeen
    undecodable: tuple[str, ...]
    clocks: Clocks | None = None


def request(all: bool = False) -> Request:  # noqa: A002, FBT001, FBT002  # the option's name
    """The whole installation."""
    return Request(all)


async def gather(wanted: Request, sources: Sources) -> Snapshot:
    """Read every part. Raises SourceError when neither the scheduler's Deployment nor its pods could be read."""
    cluster = sources.cluster
    seen = await gather_install(sources)
    if install_unread(seen):
        raise nothing_read(next(gap for gap in seen.gaps if gap.source == DEPLOYMENTS_SOURCE))
    log = await gather_extender_lines(cluster, seen.install, [PANIC, *NEEDLES])
    components, process = await asyncio.gather(
        gather_components(cluster, seen.install, log), gather_process(sources, seen, log)
    )
    nodes = [] if isinstance(components.nodes, Gap) else components.nodes
    as_of = cluster.as_of(times_shown(cluster, nodes, seen.install))
    parts = Parts(seen, components, await _questioned(cluster, components, seen.config, as_of), process.process.runs)
    undecodable = tuple(cluster.undecodable)
    return Snapshot(wanted, cluster.name, cluster.now(), as_of, parts, process, undecodable, cluster.clocks)


async def _questioned(cluster: Cluster, components: Components, config: DeviceConfig, now: datetime) -> NodesInQuestion:
    """The first nodes whose device plugin is down, or runs and hands out too few GPUs.

    With the DaemonSets where some of their pods are missing.
    """
    pods, sets = components.plugin_pods, components.plugins
    if isinstance(pods, Gap) or isinstance(sets, Gap) or not sets:
        return NodesInQuestion({})
    names = sorted({pod.spec.node_name for pod in plugin_coverage.plugins_down(pods, now) if pod.spec.node_name})
    nodes = [] if isinstance(components.nodes, Gap) else components.nodes
    covered = {pod.spec.node_name for pod in pods}
    names += [name for name in seem_ill(cluster, nodes, config) if name in covered and name not in names]
    found = await gather_questioned(cluster, names[:MOST_NODES])
    wanted = sum(workload.status.desired_number_scheduled for workload in sets)
    return found._replace(sets=await gather_plugin_sets(cluster)) if wanted == 0 or wanted > len(pods) else found


def diagnose(snapshot: Snapshot) -> Report:
    """The worst first; one finding when everything is well."""
    if (without := answer_without_hami("status", snapshot, snapshot.parts.seen)) is not None:
        return without
    parts = snapshot.parts
    gaps = [*_gaps(snapshot), *snapshot.process.gaps]
    findings = _findings(snapshot, gaps)
    deployment = parts.install.deployment
    subject = Subject("HAMi", parts.install.namespace, deployment.name if deployment else "")
    brief = not snapshot.request.all
    return new_report(
        playbook="status",
        cluster=snapshot.cluster,
        taken_at=format_time(snapshot.taken_at),
        subject=subject,
        findings=prose.few_actions(findings, parts.install),
        tables=(
            *tables(parts, snapshot.as_of, brief=brief),
            *process_table(snapshot.process, parts, brief=brief),
        ),
        gaps=gaps,
    )


# ------------------------------------------------------------------------------------------------------- rules


def _scheduler(parts: Parts, now: datetime) -> list[Finding]:
    trouble = schedulers.scheduler_trouble(parts.install, now, parts.runs)
    return trouble or schedulers.past_crashes(parts.install, now)


_RULES: tuple[Rule, ...] = (
    _scheduler,
    leadership.leadership,
    webhook_health.webhook,
    devices.mode,
    lambda parts, _: extender.misconfigured(parts),
    lambda parts, _: install_settings.refused(parts),
    lambda parts, _: install_settings.versions(parts),
    lambda parts, _: kubernetes_version.of_installation(parts),
    plugin_coverage.coverage,
    lambda parts, _: install_settings.stuck(parts),
    install_settings.profiles,
    lambda parts, _: install_settings.loud(parts),
    open_change.open_changes,
)
"""In the order of what a reader should know first; the worst comes before all."""


def _findings(snapshot: Snapshot, gaps: Sequence[Gap]) -> list[Finding]:
    parts, skew = snapshot.parts, clock_skew.wrong_clock(snapshot.clocks)
    unread = bot_rights.blind(gaps)
    if not parts.install.seen:
        hidden = any(gap.source in bot_rights.HIDES_HAMI for gap in gaps)
        absent = [] if hidden else [_not_found(parts)]
        return [*(devices.mode(parts, snapshot.as_of) or absent), *unread, *skew]
    found = process_told(snapshot.process, parts, snapshot.as_of)  # why a scheduler is down comes before that
    found += [finding for rule in _RULES for finding in rule(parts, snapshot.as_of)] + unread + skew
    found.sort(key=lambda finding: -SEVERITIES.index(finding.severity))
    faults = [finding for finding in found if finding.severity != _INFO]
    if any(not CODES[fault.code].harmless for fault in faults):
        return found
    # HAMi works, even if it is open: that is told too, behind what should be closed.
    infos = [finding for finding in found if finding.severity == _INFO]
    return [*faults, _healthy(parts, gaps), *infos]


_INFO: Severity = "info"


def _not_found(parts: Parts) -> Finding:
    """No scheduler, and all that would show one was read."""
    proofs = _traces(parts.components)
    return finding("not-found", Text("status.not-found"), "confirmed", (), proofs, severity="warning")


def _traces(components: Components) -> list[Evidence]:
    """What else there is of HAMi."""
    hook = components.webhook.hook
    found = [of_object(KIND, hook.config, WEBHOOK_NAME, "{.webhooks[*].name}")] if hook else []
    plugins = () if isinstance(components.plugins, Gap) else components.plugins
    return found + [of_object("DaemonSet", plugin, plugin.name, "{.metadata.name}") for plugin in plugins]


def _healthy(parts: Parts, gaps: Sequence[Gap]) -> Finding:
    """What works, counted."""
    install, plugins = parts.install, parts.components.plugins
    deployment = install.deployment
    wanted = len(install.pods) if deployment is None or deployment.spec.replicas is None else deployment.spec.replicas
    ready = len(install.ready_pods) if install.pods else deployment.status.ready_replicas if deployment else 0
    pieces = [Text("status.pods", ready=ready, wanted=wanted)]
    proofs = _version_proof(parts)
    leader = install.leader
    if leader is not None and install.lease is not None:
        pieces.append(Text("status.leader", pod=leader.name))
        identity = install.lease.spec.holder_identity or ""
        proofs.append(of_object("Lease", install.lease, identity, "{.spec.holderIdentity}"))
    if not isinstance(plugins, Gap) and plugins:
        ready = sum(plugin.status.number_ready for plugin in plugins)
        pieces.append(
            Text(
                "status.plugins", ready=ready, wanted=sum(plugin.status.desired_number_scheduled for plugin in plugins)
            )
        )
        proofs += [
            of_object("DaemonSet", plugin, str(plugin.status.number_ready), "{.status.numberReady}")
            for plugin in plugins
        ]
    text = pieces[0]
    for more in pieces[1:]:
        text = Text("status.list", some=text, more=more)
    claim = Text("healthy.partly" if gaps else "healthy.claim", version=str(parts.version or "?"), parts=text)
    return finding("healthy", claim, "suspected" if gaps else "confirmed", (), proofs, severity="info")


def _version_proof(parts: Parts) -> list[Evidence]:
    release = install_settings.scheduler_release(parts)
    if release is not None:
        return [release.proof]
    pods = parts.install.pods
    return [quotes.of_pod_name(pods[0])] if pods else []


# -------------------------------------------------------------------------------------------------------- gaps


def _gaps(snapshot: Snapshot) -> list[Gap]:
    parts = snapshot.parts
    seen, components = parts.seen, parts.components
    gaps = [*seen.gaps, *components.gaps, *parts.questioned.gaps]
    if not parts.install.seen:
        by_dra = devices.mode(parts, snapshot.as_of)
        return [*gaps, gap("HAMi-DRA", Text("dra-mode.unjudged"))] if by_dra else gaps
    if parts.version is None:
        gaps.append(gap("HAMi version", Text("gap.version"), Text("gap.version-hint")))
    hook = components.webhook.hook
    if hook is not None and service_of(hook) is None:
        gaps.append(gap("webhook", Text("status.url")))
    if components.scheduler_config is None and not _told(gaps, "config maps", "kube-scheduler config"):
        why = Text("status.no-config", namespace=parts.install.namespace)
        gaps.append(gap("kube-scheduler config", why, Text("status.no-config-hint")))
    if components.plugins == []:
        gaps.append(gap("device plugin", Text("status.no-plugins"), Text("status.no-plugins-hint")))
    return gaps + [gap("objects", name, Text("gap.undecodable")) for name in snapshot.undecodable]


def _told(gaps: Sequence[Gap], *sources: str) -> bool:
    return any(gap.source in sources for gap in gaps)


PLAYBOOK = Playbook(
    verb="status",
    summary="Is HAMi itself healthy: scheduler, leader, webhook, configuration, device plugins, versions?",
    example="status",
    parameters=(ALL,),
    request=request,
    gather=gather,
    diagnose=diagnose,
)
