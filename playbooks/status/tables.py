"""The tables of `status`: every component with its state, and the flags with which components were started."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bot.hami.fit.allocated_totals import build_ledger
from bot.hami.installation.install import (
    ROLE_LABEL,
    SchedulerConfig,
    container_of,
    extender_of,
    is_ready,
    kube_scheduler_of,
    lease_is_stale,
)
from bot.hami.nodes.node_state import wants_own_plugin
from bot.hami.version import NEWEST_READ, Version
from bot.kube.hami_pods import read_flags
from bot.kube.models import Container, ContainerStatus, Pod, Resource, Workload
from bot.kube.recording.redact import masked, masked_arguments
from bot.kube.times import format_time, parse_time
from bot.report import Gap, Sheet, Table
from bot.texts import Prose, Text
from playbooks.gather.scheduling import PLUGIN_CONTAINER
from playbooks.rules.admission.webhook import policy, selectors, serves_webhook, service_of
from playbooks.rules.installation.install_settings import chart_release
from playbooks.rules.waiting.stale_scheduler import ledger_table
from playbooks.scenes.cluster import InstallScene

_EXTENDER, _KUBE_SCHEDULER, _PLUGIN = "scheduler", "kube-scheduler", "device plugin"
_NEEDLESS = frozenset(
    {
        *("cert_file", "key_file", "config", "config-file", "device-config-file", "debug"),
        *("leader-elect-resource-name", "leader-elect-resource-namespace"),
    }
)
"""Flags that are not shown: paths inside the containers, names in the other table, and one that nothing reads."""

_UNSET: tuple[tuple[str, str, Version], ...] = (
    ("node-lock-timeout", "5m0s", Version(2, 7, 0)),
    ("kube-qps", "5", Version(2, 6, 0)),
    ("kube-burst", "10", Version(2, 6, 0)),
    ("profiling", "false", Version(2, 6, 0)),
)
"""Flags that decide something although nobody sets them: default and first version (HAMi cmd/scheduler/main.go)."""


class ComponentRow(NamedTuple):
    """A row for a part of HAMi. `object` is `ns/name`, or what stands in its place."""

    component: str
    object: str
    state: str
    version: str
    details: str


class FlagRow(NamedTuple):
    """A row for a flag of one of HAMi's components, with the value that takes effect."""

    of: str
    flag: str
    value: Prose


COMPONENTS = Sheet(
    "components",
    ComponentRow,
    brief="component state version object",
)
FLAGS = Sheet("flags", FlagRow, brief="of flag value")


def tables(scene: InstallScene) -> tuple[Table, ...]:
    """The tables of components and flags, then of nodes whose GPUs the scheduler counts otherwise than pods have."""
    components, flags = list(_components(scene)), list(_flags(scene))
    both = COMPONENTS.table(components, brief=components), FLAGS.table(flags, brief=flags)
    counted: tuple[Table, ...] = ()
    if not isinstance(scene.held, Gap):
        ledger = build_ledger(scene.held, scene.version or NEWEST_READ)
        counted = ledger_table(scene.process, ledger, {node.name for node in scene.nodes})
    return (*(table for table in both if table.rows), *counted)


def _components(scene: InstallScene) -> Iterator[ComponentRow]:
    deployment = scene.install.deployment
    if deployment is not None:
        wanted = 1 if deployment.spec.replicas is None else deployment.spec.replicas
        chart = chart_release(scene)
        state = f"{deployment.status.ready_replicas} of {wanted} ready"
        yield ComponentRow("scheduler", _name(deployment), state, chart.text if chart else "", "")
    yield from (_pod(scene, pod) for pod in scene.install.pods)
    kube = kube_scheduler_of(scene.install)
    config = scene.components.scheduler_config
    if kube is not None:
        name = _name(config.config_map) if config else ""
        details = _asks(config, scene.config.gpus.count) if config else ""
        yield ComponentRow(_KUBE_SCHEDULER, name, "", _tag(kube), details)
    yield from _lease(scene)
    yield from _webhook(scene)
    yield from map(_plugin_row, scene.plugins)
    # Of the nodes with GPUs, how many have a pod of the plugin, ready or not.
    components = scene.components
    nodes, pods = components.nodes, components.plugin_pods
    if isinstance(components.plugins, Gap) or not components.plugins or isinstance(nodes, Gap) or isinstance(pods, Gap):
        return
    with_gpus = {node.name for node in nodes if wants_own_plugin(node, scene.config)}
    covered = with_gpus & {pod.spec.node_name for pod in pods}
    read = sum(bool(side.logs) for side in scene.questioned.sides.values())
    have = f"{len(covered)} of {len(with_gpus)} have a plugin pod, logs read of {read}"
    yield ComponentRow(_PLUGIN, "nodes with GPUs", have, "", "")


def _asks(config: SchedulerConfig, resource: str) -> str:
    """`config.yaml, profile hami-scheduler, asks https://127.0.0.1:443, waits 30s`."""
    extender = config.extender(resource)
    details = [config.key, *(f"profile {masked(name)}" for name in config.names)]
    if extender is not None:
        details.append(f"asks {masked(extender.url_prefix)}")
        details += [] if extender.timeout_s is None else [f"waits {extender.timeout_s:g}s"]
    return ", ".join(details)


def _pod(scene: InstallScene, pod: Pod) -> ComponentRow:
    statuses = pod.status.container_statuses or []
    waiting = next((status.state.waiting.reason for status in statuses if status.state.waiting), "")
    details = [f"on {pod.spec.node_name}"] if pod.spec.node_name else []
    details += [restarts for status in statuses if (restarts := _restarts(status))]
    if scene.install.leader is pod:
        details.append("holds the lease")
    if role := pod.metadata.label(ROLE_LABEL):
        details.append(f"{ROLE_LABEL}={role}")
    state = "ready" if is_ready(pod) else waiting or f"not ready ({pod.status.phase or 'unknown'})"
    extender = extender_of(pod.spec)
    return ComponentRow("scheduler pod", _name(pod), state, _tag(extender) if extender else "", ", ".join(details))


def _restarts(status: ContainerStatus) -> str:
    """`kube-scheduler restarts: 2, last OOMKilled at 2026-11-21T05:00:00Z`; empty when there was none."""
    if not status.restart_count:
        return ""
    ended = status.last_state.terminated
    finished = parse_time(ended.finished_at) if ended else None
    why = f", last {ended.reason or f'exit {ended.exit_code}'}" if ended else ""
    return f"{status.name} restarts: {status.restart_count}{why}{f' at {format_time(finished)}' if finished else ''}"


def _lease(scene: InstallScene) -> Iterator[ComponentRow]:
    lease = scene.install.lease
    if lease is None:
        return
    renewed = parse_time(lease.spec.renew_time)
    held = lease.spec.holder_identity
    state = "not held" if not held else "stale" if lease_is_stale(lease, scene.now) else "held"
    details = ", ".join(filter(None, (held, f"renewed {format_time(renewed)}" if renewed else "")))
    yield ComponentRow("lease", _name(lease), state, "", details)


def _webhook(scene: InstallScene) -> Iterator[ComponentRow]:
    webhook = scene.webhook
    if isinstance(webhook.hooks, Gap):
        return
    hook = webhook.hook
    if hook is None:
        yield ComponentRow("webhook", "", "not registered" if serves_webhook(scene.install) else "switched off", "", "")
        return
    service = service_of(hook)
    address = hook.webhook.client_config.url if hook.webhook.client_config else None
    details = [f"failurePolicy {policy(hook)}", *selectors(hook)]
    if service is None:
        yield ComponentRow("webhook", hook.config.name, "by URL", "", ", ".join([masked(address or "?"), *details]))
        return
    ready = webhook.ready_targets(service.namespace, service.name)
    state = "endpoints not seen" if ready is None else f"ready endpoints: {len(ready)}"
    trusted = hook.webhook.client_config and hook.webhook.client_config.ca_bundle
    asked = [f"Service {service.namespace}/{service.name}", *([f"answered by {', '.join(ready)}"] if ready else [])]
    details = [*asked, "caBundle set" if trusted else "no caBundle", *details]
    yield ComponentRow("webhook", hook.config.name, state, "", ", ".join(details))


def _plugin_row(daemon_set: Workload) -> ComponentRow:
    status, spec = daemon_set.status, daemon_set.spec.template.spec
    container = container_of(spec, PLUGIN_CONTAINER)
    selector = ", ".join(f"{key}={value}" for key, value in (spec.node_selector or {}).items())
    state = f"{status.number_ready} of {status.desired_number_scheduled} ready"
    updated = status.updated_number_scheduled
    details = [f"on nodes with {selector}"] if selector else []
    if 0 < updated < status.desired_number_scheduled:
        details.append(f"rolling out: {updated} of {status.desired_number_scheduled} updated")
    return ComponentRow(_PLUGIN, _name(daemon_set), state, _tag(container) if container else "", ", ".join(details))


def _flags(scene: InstallScene) -> Iterator[FlagRow]:
    install = scene.install
    pod = next(iter(install.pods), None)
    spec = pod.spec if pod else install.deployment.spec.template.spec if install.deployment else None
    extender = extender_of(spec) if spec else None
    if extender is not None:
        given = _given(extender)
        yield from (FlagRow(_EXTENDER, name, value) for name, value in given)
        known = {name for name, _ in given}
        for name, value, since in _UNSET:
            if f"--{name}" not in known and scene.version is not None and scene.version >= since:
                yield FlagRow(_EXTENDER, f"--{name}", Text("tune.default", value=value))
    plugins = (container_of(plugin.spec.template.spec, PLUGIN_CONTAINER) for plugin in scene.plugins)
    for of, container in ((_KUBE_SCHEDULER, kube_scheduler_of(install)), *((_PLUGIN, plugin) for plugin in plugins)):
        yield from (FlagRow(of, *flag) for flag in (_given(container) if container else ()))


def _given(container: Container) -> Sequence[tuple[str, str]]:
    words = masked_arguments([*(container.command or ()), *(container.args or ())])
    flags = {name: value for name, value in read_flags(words).items() if name not in _NEEDLESS}
    return [(f"-{name}" if len(name) == 1 else f"--{name}", value) for name, value in flags.items()]


def _name(resource: Resource) -> str:
    return f"{resource.namespace}/{resource.name}"


def _tag(container: Container) -> str:
    return container.image.rsplit("/", 1)[-1]
