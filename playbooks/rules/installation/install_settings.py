"""What was installed and how it was started: versions that do not belong together, log level, open profiles, roles."""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from msgspec import structs

from bot.changes.kinds import PROFILING
from bot.hami.installation.forbidden import Forbidden
from bot.hami.installation.install import METRICS_CLOSED_SINCE, PROFILING_SINCE, container_of, extender_of, verbosity_of
from bot.hami.version import Version, parse_version
from bot.kube.hami_pods import METRICS_FLAG, metrics_port
from bot.kube.models import Condition, Container, Pod, Resource, Service
from bot.kube.recording.redact import masked
from bot.report import Evidence, Finding, Gap, Severity, step
from bot.texts import Text
from playbooks import quotes
from playbooks.gather.components import PLUGIN_CONTAINER, RefusedLine
from playbooks.quotes import kubectl
from playbooks.rules.common.findings import finding
from playbooks.rules.common.hami_objects import Parts, of_object
from playbooks.rules.installation import open_change

_JSON_SINCE = Version(2, 8, 0)
_LOUD, _TELLTALE = 5, 8
_TRUE = ("true", "t", "1")
_OUTSIDE = ("NodePort", "LoadBalancer")


class Release(NamedTuple):
    """A version as an object states it."""

    version: Version
    text: str
    proof: Evidence


def scheduler_release(parts: Parts) -> Release | None:
    """What the Deployment would run; its pods may still be of an older rollout."""
    install = parts.install
    if install.deployment is not None:
        return _image("Deployment", install.deployment, extender_of(install.deployment.spec.template.spec))
    pod = install.pods[0] if install.pods else None
    extender = extender_of(pod.spec) if pod else None
    version = parse_version(extender.image) if extender else None
    if pod is None or extender is None or version is None:
        return None
    return Release(version, extender.image, quotes.of_pod(pod, extender.image, "{.spec.containers[*].image}"))


def plugin_releases(parts: Parts) -> list[Release]:
    """What the device plugin's DaemonSets would run, each version once."""
    plugins = () if isinstance(parts.components.plugins, Gap) else parts.components.plugins
    found = (
        _image("DaemonSet", plugin, container_of(plugin.spec.template.spec, PLUGIN_CONTAINER)) for plugin in plugins
    )
    by_version = {release.version: release for release in reversed([release for release in found if release])}
    return list(reversed(by_version.values()))


def chart_release(parts: Parts) -> Release | None:
    """The chart's version by the label that Helm sets."""
    deployment = parts.install.deployment
    text = deployment.metadata.label("helm.sh/chart") if deployment else None
    version = parse_version(text) if text else None
    if deployment is None or not text or version is None:
        return None
    path = "{.metadata.labels.helm\\.sh/chart}"
    return Release(version, text, of_object("Deployment", deployment, text, path))


def _image(kind: str, owner: Resource, container: Container | None) -> Release | None:
    version = parse_version(container.image) if container else None
    if container is None or version is None:
        return None
    path = f'{{.spec.template.spec.containers[?(@.name=="{container.name}")].image}}'
    return Release(version, container.image, of_object(kind, owner, container.image, path))


def versions(parts: Parts) -> list[Finding]:
    """Minor versions that differ: their annotations, flags and roles were not made for one another."""
    scheduler, chart = scheduler_release(parts), chart_release(parts)
    if scheduler is None:
        return []
    others = [*plugin_releases(parts), *([chart] if chart else [])]
    return [
        _mismatch(parts, scheduler, other, of_chart=other is chart)
        for other in others
        if other.version[:2] != scheduler.version[:2]
    ]


def _mismatch(parts: Parts, scheduler: Release, other: Release, *, of_chart: bool) -> Finding:
    formats = not of_chart and (other.version < _JSON_SINCE) != (scheduler.version < _JSON_SINCE)
    key = "version-mismatch.chart" if of_chart else "version-mismatch.plugin"
    claim = Text("version-mismatch.formats" if formats else key, scheduler=scheduler.version, other=other.version)
    severity: Severity = "critical" if formats else "warning"
    return finding("version-mismatch", claim, parts.confidence, (), [scheduler.proof, other.proof], severity=severity)


def loud(parts: Parts) -> list[Finding]:
    """A log level above the chart's: at 5 a busy scheduler writes megabytes a second, from 8 on requests in full."""
    pod = next((pod for pod in parts.install.pods if extender_of(pod.spec)), None)
    extender = extender_of(pod.spec) if pod else None
    if pod is None or extender is None:
        return []
    level, quote = verbosity_of(extender)
    if level < _LOUD:
        return []
    key = "verbosity-high.secrets" if level >= _TELLTALE else "verbosity-high.claim"
    severity: Severity = "warning" if level > _LOUD else "info"
    proofs = [quotes.of_pod(pod, quote, "{.spec.containers[*].command}")]
    return [
        finding(
            "verbosity-high",
            Text(key, level=level),
            parts.confidence,
            (),
            proofs,
            severity=severity,
        )
    ]


def profiles(parts: Parts, now: datetime) -> list[Finding]:
    """Profiles that anybody who reaches the port may read, without a login."""
    install, version = parts.install, parts.version
    pod = next((pod for pod in install.pods if extender_of(pod.spec)), None)
    if pod is None:
        return []
    findings: list[Finding] = []
    if install.flags.get("profiling", "").lower() in _TRUE:
        findings.append(_profiling(parts, pod, now))
    if version is None or not PROFILING_SINCE <= version < METRICS_CLOSED_SINCE or install.version is None:
        return findings
    port = str(metrics_port(install.flags))
    bind, outside = install.flags.get(METRICS_FLAG), _outside(parts, port)
    proofs = [quotes.of_pod(pod, bind, "{.spec.containers[*].command}")] if bind else []
    images = [container.image for container in (extender_of(pod.spec),) if container and container.image]
    proofs += [quotes.of_pod(pod, image, "{.spec.containers[*].image}") for image in images]
    proofs += [evidence for evidence, _ in outside]
    if outside:
        claim = Text("pprof-exposed.outside", version=version, port=port, where=outside[0][1])
    else:
        claim = Text("pprof-exposed.inside", version=version, port=port)
    # Which port answers was not tried: it follows from the version.
    severity: Severity = "warning" if outside else "info"
    exposed = finding("pprof-exposed", claim, "suspected", (), proofs, severity=severity)
    look = kubectl("-n", install.namespace, "get", "services", "-o", "wide")
    return [*findings, structs.replace(exposed, next_actions=(step(Text("pprof-exposed.look"), look),))]


def _profiling(parts: Parts, pod: Pod, now: datetime) -> Finding:
    """Meant for as long as a change that switched it on is open: that change is told by itself."""
    needed = open_change.open_for(parts.install.deployment, PROFILING, now)
    bind = parts.install.flags.get("http_bind", "?")
    key = "pprof-exposed.needed" if needed else "pprof-exposed.flag"
    proofs = [quotes.of_pod(pod, "--profiling", "{.spec.containers[*].command}")]
    claim = Text(key, bind=bind, until=needed.at if needed else "")
    severity: Severity = "info" if needed else "warning"
    deployment = parts.install.deployment
    edit = [
        kubectl("-n", workload.namespace, "edit", "deployment", workload.name)
        for workload in (deployment,)
        if workload and not needed
    ]
    close = [step(Text("pprof-exposed.close"), command, changes_cluster=True) for command in edit]
    return finding("pprof-exposed", claim, parts.confidence, (), proofs, severity=severity, actions=close)


def _outside(parts: Parts, port: str) -> list[tuple[Evidence, str]]:
    """The Services that carry the port out of the cluster."""
    services = () if isinstance(parts.components.webhook.services, Gap) else parts.components.webhook.services
    return [
        (
            of_object("Service", service, service.spec.type, "{.spec.type}"),
            f"{service.spec.type} {listed.node_port or listed.port}",
        )
        for service in services
        if service.spec.type in _OUTSIDE and _selects(service, parts)
        for listed in service.spec.ports or ()
        if str(listed.target_port or listed.port) in (port, "metrics")
    ]


def _selects(service: Service, parts: Parts) -> bool:
    labels = [pod.metadata.labels or {} for pod in parts.install.pods]
    wanted = (service.spec.selector or {}).items()
    return bool(wanted) and any(wanted <= label.items() for label in labels)


def refused(parts: Parts) -> list[Finding]:
    """What the API server refuses HAMi's scheduler."""
    lines = [
        refused_line for refused_line in parts.components.refused if masked(refused_line.line) == refused_line.line
    ]
    if not lines:
        return []
    seen: dict[Forbidden, Evidence] = {}
    for line in lines:
        seen.setdefault(line.what, _line(line))
    return [forbidden(seen)]


def forbidden(seen: Mapping[Forbidden, Evidence]) -> Finding:
    """What HAMi's scheduler may not do, with where the API server says so; there is at least one."""
    first = next(iter(seen))
    what = ", ".join(dict.fromkeys(f"{refusal.verb} {refusal.resource}" for refusal in seen))
    claim = Text("scheduler-forbidden.claim", account=first.account, what=what)
    look = kubectl("auth", "can-i", first.verb, first.resource, f"--as={first.account}")
    steps = [step(Text("scheduler-forbidden.look"), look)]
    proofs = list(seen.values())
    return finding("scheduler-forbidden", claim, "confirmed", (), proofs, severity="critical", actions=steps)


def _line(line: RefusedLine) -> Evidence:
    log = kubectl("-n", line.pod.namespace, "logs", line.pod.name, "-c", line.container, "--since=10m")
    return Evidence(
        source="scheduler log",
        object=f"Pod {line.pod.namespace}/{line.pod.name} container {line.container}",
        at=None,
        quote=line.line,
        command=f"{log} | grep forbidden",
    )


def stuck(parts: Parts) -> list[Finding]:
    """A rollout of the scheduler that the Deployment's controller gave up on."""
    deployment = parts.install.deployment
    conditions = deployment.status.conditions or () if deployment else ()
    found = next(
        (condition for condition in conditions if condition.type == "Progressing" and condition.status == "False"), None
    )
    if deployment is None or found is None:
        return []
    proofs = [
        of_object(
            "Deployment",
            deployment,
            found.message or found.reason,
            '{.status.conditions[?(@.type=="Progressing")].message}',
        ),
        *(
            quotes.of_condition(pod, condition, quotes.clock(condition.last_transition_time))
            for pod in parts.install.pods
            if (condition := _unscheduled(pod.condition("PodScheduled")))
        ),
    ]
    claim = Text("rollout-stuck.claim", name=deployment.name, why=proofs[-1].quote)
    result = finding("rollout-stuck", claim, parts.confidence, (), proofs, severity="warning")
    look = kubectl("-n", deployment.namespace, "rollout", "status", f"deployment/{deployment.name}", "--timeout=1s")
    return [structs.replace(result, next_actions=(step(Text("rollout-stuck.look"), look),))]


def _unscheduled(condition: Condition | None) -> Condition | None:
    return condition if condition and condition.status == "False" and condition.message else None
