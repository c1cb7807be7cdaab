"""Who leads HAMi's scheduler: the lease's holder, the label on the pods and the Service's endpoints have to agree.

From 2.8 on the extender serves only where its own kube-scheduler holds the lease; from 2.9 on the leader's pod carries
a label that the Service selects, so that without a labelled pod the webhook has no endpoint (HAMi #1954).
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import structs

from bot.hami.installation.install import ROLE_LABEL, Install, is_ready
from bot.hami.installation.leader_election import (
    extender_waits_for_lease,
    kube_scheduler_waits_for_lease,
    lease_is_stale,
)
from bot.hami.version import Version
from bot.kube.models import Pod, Service
from bot.kube.times import parse_time
from bot.report import Evidence, Finding, Gap, NextAction, Severity, step
from bot.texts import Prose, Text
from playbooks import quotes
from playbooks.quotes import kubectl
from playbooks.rules.common.findings import finding
from playbooks.rules.common.hami_objects import Parts, of_object
from playbooks.rules.installation.schedulers import leaderless, never_led

_LABELS_SINCE = Version(2, 9, 0)
_LEADER = "leader"
_SETTLING = timedelta(seconds=30)


def leadership(parts: Parts, now: datetime) -> list[Finding]:
    """No lease where one is needed, or lease, label and endpoints that name different pods."""
    install = parts.install
    if not install.ready_pods or parts.seen.lease_unread:
        return []
    if not extender_waits_for_lease(install):
        return _kube_scheduler(parts, now)
    if install.lease is None:
        return never_led(parts.seen, parts.runs, ())
    acquired = parse_time(install.lease.spec.acquire_time)
    if lease_is_stale(install.lease, now) or (acquired is not None and now - acquired <= _SETTLING):
        return []  # told as scheduler-no-leader; or somebody has just begun to lead
    result = _labels(parts) if parts.version and parts.version >= _LABELS_SINCE else None
    result = result or _stranger(parts)
    return [result] if result else []


def labelled(install: Install) -> list[Pod]:
    """The pods that carry the leader's label and are to stay."""
    staying = (pod for pod in install.pods if not pod.metadata.deletion_timestamp)
    return [pod for pod in staying if pod.metadata.label(ROLE_LABEL) == _LEADER]


def _kube_scheduler(parts: Parts, now: datetime) -> list[Finding]:
    """Where the extender does not care who leads, its kube-scheduler may still wait for the lease."""
    install = parts.install
    if install.lease is None or not kube_scheduler_waits_for_lease(install):
        return []
    return [leaderless(install, install.lease, parts.runs)] if lease_is_stale(install.lease, now) else []


def _labels(parts: Parts) -> Finding | None:
    install = parts.install
    leads, marked = install.leader, labelled(install)
    service = _selecting(parts)
    if not marked:
        claim = Text("scheduler-leader-mismatch.unlabelled", holder=install.lease_holder)
        return _mismatch(parts, claim, [_lease(install), *_selector(service)], "critical")
    names = [pod.name for pod in marked]
    if leads is not None and names != [leads.name]:
        claim = Text("scheduler-leader-mismatch.label", holder=leads.name, labelled=", ".join(names))
        return _mismatch(parts, claim, [_lease(install), *map(_label, marked)], "warning")
    targets = parts.components.webhook.ready_targets(service.namespace, service.name) if service else None
    wrong = sorted({target for target in targets or () if target not in (*names, "?")})
    if service and wrong:
        claim = Text("scheduler-leader-mismatch.endpoints", labelled=", ".join(names), endpoints=", ".join(wrong))
        return _mismatch(parts, claim, [_lease(install), *_endpoints(parts, wrong)], "warning")
    return None


def _stranger(parts: Parts) -> Finding | None:
    """The lease is renewed by something that is no pod of the scheduler; as it should be while pods come and go."""
    install = parts.install
    deployment = install.deployment
    wanted = deployment.spec.replicas if deployment else None
    if deployment is None or install.leader or not all(map(is_ready, install.pods)):
        return None
    if not len(install.pods) == deployment.status.replicas == (1 if wanted is None else wanted):
        return None
    claim = Text("scheduler-leader-mismatch.stranger", holder=install.lease_holder)
    result = _mismatch(parts, claim, [_lease(install)], "warning")
    return structs.replace(result, confidence="suspected")


def _mismatch(parts: Parts, claim: Prose, proofs: Sequence[Evidence], severity: Severity) -> Finding:
    result = finding("scheduler-leader-mismatch", claim, parts.confidence, (), proofs, severity=severity)
    return structs.replace(result, next_actions=_look(parts.install))


def _look(install: Install) -> tuple[NextAction, ...]:
    pods = (pod.name for pod in install.pods)
    command = kubectl("-n", install.namespace, "get", "pods", *pods, "-L", ROLE_LABEL)
    return (step(Text("scheduler-no-leader.pods"), command),)


def _selecting(parts: Parts) -> Service | None:
    services = () if isinstance(parts.components.webhook.services, Gap) else parts.components.webhook.services
    return next((service for service in services if ROLE_LABEL in (service.spec.selector or {})), None)


def _lease(install: Install) -> Evidence:
    assert install.lease is not None
    return of_object("Lease", install.lease, install.lease.spec.holder_identity or "", "{.spec.holderIdentity}")


def _selector(service: Service | None) -> list[Evidence]:
    return [of_object("Service", service, ROLE_LABEL, "{.spec.selector}")] if service else []


def _label(pod: Pod) -> Evidence:
    return quotes.of_pod(pod, ROLE_LABEL, "{.metadata.labels}")


def _endpoints(parts: Parts, names: Sequence[str]) -> list[Evidence]:
    slices = () if isinstance(parts.components.webhook.slices, Gap) else parts.components.webhook.slices
    return [
        of_object("EndpointSlice", endpoint_slice, endpoint.target_ref.name, "{.endpoints[*].targetRef.name}")
        for endpoint_slice in slices
        for endpoint in endpoint_slice.endpoints or ()
        if endpoint.target_ref and endpoint.target_ref.name in names
    ]
