"""Rules about what was installed and how it was started: versions, log level, open profiles, roles, open changes."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import islice
from typing import NamedTuple

from bot.changes.kinds import PROFILING, VERBOSITY, ChangeKind
from bot.changes.record import KEY, Record, UnreadableRecord, read_record
from bot.hami.installation.install import (
    METRICS_CLOSED_SINCE,
    PROFILING_SINCE,
    Forbidden,
    container_of,
    extender_of,
    is_loopback,
    profiles_address,
    verbosity_of,
)
from bot.hami.version import Version, parse_version
from bot.kube.hami_pods import EXTENDER_CONTAINER, METRICS_FLAG, metrics_port
from bot.kube.models import Container, Pod, Resource, Service, Workload
from bot.kube.recording.redact import masked, masked_record
from bot.kube.times import roughly
from bot.report import Evidence, Finding, Gap, NextAction, Severity, act, step
from bot.texts import Text
from playbooks import quotes
from playbooks.gather.scheduling import PLUGIN_CONTAINER
from playbooks.quotes import kubectl, of_object
from playbooks.rule import rule
from playbooks.rules.common.findings import finding
from playbooks.scenes.cluster import InstallScene

_JSON_SINCE = Version(2, 8, 0)
_LOUD, _TELLTALE = 5, 8
_TRUE = ("true", "t", "1")
_OUTSIDE = ("NodePort", "LoadBalancer")


class Release(NamedTuple):
    """A version, the text that states it, and the evidence."""

    version: Version
    text: str
    proof: Evidence


def scheduler_release(scene: InstallScene) -> Release | None:
    """The version of the scheduler's Deployment; its pods may still be of an older rollout."""
    install = scene.install
    if install.deployment is not None:
        return _image("Deployment", install.deployment, extender_of(install.deployment.spec.template.spec))
    pod = install.pods[0] if install.pods else None
    extender = extender_of(pod.spec) if pod else None
    version = parse_version(extender.image) if extender else None
    if pod is None or extender is None or version is None:
        return None
    return Release(version, extender.image, quotes.of_pod(pod, extender.image, "{.spec.containers[*].image}"))


def chart_release(scene: InstallScene) -> Release | None:
    """The chart's version, by the label that Helm sets; None without the label."""
    deployment = scene.install.deployment
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


@rule("version-mismatch")
def mismatched(scene: InstallScene) -> Iterator[Finding]:
    """The findings about minor versions that differ: their annotations, flags and roles do not fit each other."""
    scheduler, chart = scheduler_release(scene), chart_release(scene)
    containers = ((plugin, container_of(plugin.spec.template.spec, PLUGIN_CONTAINER)) for plugin in scene.plugins)
    plugins = dict[Version, Release]()  # each version once
    for release in (_image("DaemonSet", *of) for of in containers):
        if release:
            plugins.setdefault(release.version, release)
    for other in (*plugins.values(), *([chart] if chart else [])):
        if scheduler is not None and other.version[:2] != scheduler.version[:2]:
            yield _mismatch(scene, scheduler, other, of_chart=other is chart)


def _mismatch(scene: InstallScene, scheduler: Release, other: Release, *, of_chart: bool) -> Finding:
    formats = not of_chart and (other.version < _JSON_SINCE) != (scheduler.version < _JSON_SINCE)
    key = "version-mismatch.chart" if of_chart else "version-mismatch.plugin"
    claim = Text("version-mismatch.formats" if formats else key, scheduler=scheduler.version, other=other.version)
    severity: Severity = "critical" if formats else "warning"
    proofs = [scheduler.proof, other.proof]
    look = kubectl("-n", scene.install.namespace, "get", "deployments,daemonsets", "-o", "wide")
    steps = [act(Text("version-mismatch.look"), look)]
    return finding("version-mismatch", claim, scene.seen.confidence, proofs=proofs, severity=severity, actions=steps)


@rule("verbosity-high")
def loud(scene: InstallScene) -> Iterator[Finding]:
    """The finding of a log level above the chart's: at 5 a busy scheduler writes MB a second, from 8 whole requests."""
    for pod, extender in _started(scene):
        level, quote = verbosity_of(extender)
        if level < _LOUD:
            return
        claim = Text("verbosity-high.secrets" if level >= _TELLTALE else "verbosity-high.claim", level=level)
        severity: Severity = "warning" if level > _LOUD else "info"
        proofs = [quotes.of_pod(pod, quote, "{.spec.containers[*].command}")]
        deployment = scene.install.deployment
        raised = open_for(deployment, VERBOSITY, scene.now)
        lower = how_to_revert(raised)[:1] if raised else [_edit(Text("verbosity-high.lower"), deployment)]
        yield finding("verbosity-high", claim, scene.seen.confidence, proofs=proofs, severity=severity, actions=lower)


def _started(scene: InstallScene) -> list[tuple[Pod, Container]]:
    """The first pod with an extender in it: all are started alike."""
    found = ((pod, extender) for pod in scene.install.pods if (extender := extender_of(pod.spec)))
    return list(islice(found, 1))


@rule("pprof-exposed")
def profiles(scene: InstallScene) -> Iterator[Finding]:
    """The findings about profiles that anybody who reaches the port may read, without a login."""
    install, version = scene.install, scene.version
    for pod, extender in _started(scene):
        bind = profiles_address(install.flags, version) or install.flags.get("http_bind", "?")
        if install.flags.get("profiling", "").lower() in _TRUE and not is_loopback(bind):
            # Profiling is wanted while a change that switched it on is open, which has a finding of its own.
            needed = open_for(install.deployment, PROFILING, scene.now)
            key = "pprof-exposed.needed" if needed else "pprof-exposed.flag"
            claim = Text(key, bind=bind, until=needed.at if needed else "")
            close = [] if needed else [_edit(Text("pprof-exposed.close"), install.deployment)]
            proofs = [quotes.of_pod(pod, "--profiling", "{.spec.containers[*].command}")]
            severity: Severity = "info" if needed else "warning"
            sure = scene.seen.confidence
            yield finding("pprof-exposed", claim, sure, proofs=proofs, severity=severity, actions=close)
        if version is not None and PROFILING_SINCE <= version < METRICS_CLOSED_SINCE:
            yield _on_metrics_port(scene, pod, extender, version)


def _on_metrics_port(scene: InstallScene, pod: Pod, extender: Container, version: Version) -> Finding:
    """Only suspected: the version, not a try, tells which port answers."""
    install = scene.install
    port = str(metrics_port(install.flags))
    # The Services that carry the port out of the cluster.
    services = () if isinstance(scene.webhook.services, Gap) else scene.webhook.services
    outside = [
        (of_object("Service", service, service.spec.type, "{.spec.type}"), listed.node_port or listed.port)
        for service in services
        if service.spec.type in _OUTSIDE and _selects(service, scene)
        for listed in service.spec.ports or ()
        if str(listed.target_port or listed.port) in (port, "metrics")
    ]
    bind = install.flags.get(METRICS_FLAG)
    proofs = [evidence for evidence, _ in outside]
    proofs += [quotes.of_word(pod, extender, bind)] if bind else []
    proofs += [quotes.of_pod(pod, extender.image, "{.spec.containers[*].image}")] if extender.image else []
    if outside:
        where = f"{outside[0][0].quote} {outside[0][1]}"
        claim = Text("pprof-exposed.outside", version=version, port=port, where=where)
    else:
        claim = Text("pprof-exposed.inside", version=version, port=port)
    severity: Severity = "warning" if outside else "info"
    look = step(Text("pprof-exposed.look"), kubectl("-n", install.namespace, "get", "services", "-o", "wide"))
    return finding("pprof-exposed", claim, "suspected", proofs=proofs, severity=severity, actions=[look])


def _edit(label: Text, deployment: Workload | None) -> NextAction:
    what = ("-n", deployment.namespace, "edit", "deployment", deployment.name) if deployment else ()
    return act(label, kubectl(*what) if what else "")


def _selects(service: Service, scene: InstallScene) -> bool:
    labels = [pod.metadata.labels or {} for pod in scene.install.pods]
    wanted = (service.spec.selector or {}).items()
    return bool(wanted) and any(wanted <= pod_labels.items() for pod_labels in labels)


@rule("scheduler-forbidden")
def refused(scene: InstallScene) -> Iterator[Finding]:
    """The finding that the API server refuses HAMi's scheduler something, by the scheduler's logs."""
    seen: dict[Forbidden, Evidence] = {}
    for pod, line, what in scene.components.refused:
        if masked(line) == line:
            seen.setdefault(
                what, quotes.of_logged(pod, EXTENDER_CONTAINER, line, None, "--since=10m", grep="forbidden")
            )
    if seen:
        yield forbidden(seen)


def forbidden(seen: Mapping[Forbidden, Evidence]) -> Finding:
    """The finding about what HAMi's scheduler may not do, with the API server's words; `seen` has at least one."""
    first = next(iter(seen))
    what = ", ".join(dict.fromkeys(f"{refusal.verb} {refusal.resource}" for refusal in seen))
    claim = Text("scheduler-forbidden.claim", account=first.account, what=what)
    look = kubectl("auth", "can-i", first.verb, first.resource, f"--as={first.account}")
    steps = [step(Text("scheduler-forbidden.look"), look)]
    proofs = list(seen.values())
    return finding("scheduler-forbidden", claim, proofs=proofs, severity="critical", actions=steps)


@rule("rollout-stuck")
def stuck(scene: InstallScene) -> Iterator[Finding]:
    """The finding about a rollout of the scheduler that the Deployment's controller gave up on."""
    deployment = scene.install.deployment
    conditions = deployment.status.conditions or () if deployment else ()
    found = next((one for one in conditions if (one.type, one.status) == ("Progressing", "False")), None)
    if deployment is None or found is None:
        return
    path = '{.status.conditions[?(@.type=="Progressing")].message}'
    proofs = [of_object("Deployment", deployment, found.message or found.reason, path)]
    for pod, why in ((pod, pod.condition("PodScheduled")) for pod in scene.install.pods):
        if why and why.status == "False" and why.message:
            proofs.append(quotes.of_condition(pod, why, quotes.clock(why.last_transition_time)))
    claim = Text("rollout-stuck.claim", name=deployment.name, why=proofs[-1].quote)
    look = kubectl("-n", deployment.namespace, "rollout", "status", f"deployment/{deployment.name}", "--timeout=1s")
    steps = [step(Text("rollout-stuck.look"), look)]
    yield finding("rollout-stuck", claim, scene.seen.confidence, proofs=proofs, actions=steps, of=scene.install)


LATE_S = 60.0
"""Seconds after its deadline from which on nobody is expected to revert an open change."""
_CLAIM, _QUOTE = 600, 4000


@rule("change-open", "change-unreadable")
def opened(scene: InstallScene) -> Iterator[Finding]:
    """The finding about the change that is open on the scheduler's Deployment; there is at most one."""
    deployment = scene.install.deployment
    text = deployment.metadata.annotation(KEY) if deployment else None
    if deployment and text is not None:
        yield open_change(deployment, text, scene.now)


def open_for(deployment: Workload | None, kind: ChangeKind, now: datetime) -> Record | None:
    """The record of the open change of that kind; None when there is none or its deadline is over."""
    text = deployment.metadata.annotation(KEY) if deployment else None
    record = read_record(text) if text is not None else None
    if not isinstance(record, Record) or record.kind.verb != kind.verb:
        return None
    return record if now.timestamp() - record.deadline <= LATE_S else None


def open_change(deployment: Workload, text: str, now: datetime) -> Finding:
    """The finding about an open change; `text` is the record in the Deployment's annotation."""
    record = read_record(text)
    proof = of_record(deployment.namespace, deployment.name, text)
    if isinstance(record, UnreadableRecord):
        claim = Text("changing.unreadable", target=f"{deployment.namespace}/{deployment.name}", why=record.why)
        look = kubectl("-n", deployment.namespace, "get", "deployment", deployment.name, "-o", "yaml")
        fix = act(Text("changing.compare"), look)
        return finding("change-unreadable", claim, proofs=[proof], actions=[fix])
    because = Text("changing.because", text=record.because) if record.because else ""
    values, late = {**described(record, now), "because": because}, now.timestamp() - record.deadline
    if late > LATE_S:
        claim = Text("changing.open-late", **values, late=roughly(late))
        return finding("change-open", claim, proofs=[proof], actions=how_to_revert(record)[:1])
    claim = Text("changing.open", **values)
    return finding("change-open", claim, proofs=[proof], severity="info", actions=how_to_revert(record))


def described(record: Record, now: datetime) -> dict[str, str]:
    return {
        "change": record.shown,
        "container": record.container,
        "until": record.at,
        "left": roughly(record.deadline - now.timestamp()),
        "by": record.by,
    }


def how_to_revert(record: Record) -> tuple[NextAction, ...]:
    """The steps that revert a change, or extend it."""
    kind = record.kind
    what = {"change": record.shown, "container": record.container}
    return (
        act(Text("changing.revert", **what), kind.reverting),
        act(Text("changing.longer"), f"{kind.verb} extend 10m"),
    )


def of_record(namespace: str, name: str, quote: str) -> Evidence:
    """The evidence of the record on the Deployment, or of a part; secrets in its command line are masked."""
    path = f"{{.metadata.annotations.{quotes.escape(KEY)}}}"
    command = kubectl("-n", namespace, "get", "deployment", name, "-o", f"jsonpath={path}")
    return Evidence("deployment", f"Deployment {namespace}/{name}", None, masked_record(quote)[:_QUOTE], command)
