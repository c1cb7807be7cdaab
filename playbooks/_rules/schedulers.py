"""HAMi's scheduler itself: whether there is one, whether it leads, whether it is well."""

from datetime import datetime, timedelta

from bot.hami.install import COMPONENT_LABEL, ROLE_LABEL, SCHEDULER_COMPONENT, Install, is_ready
from bot.hami.version import Version
from bot.kube.models import Pod
from bot.kube.times import format_time, parse_time
from bot.report import Evidence, Finding, NextAction, Scope
from bot.texts import Texts
from playbooks import _evidence

_LEADS_SINCE = Version(2, 8, 0)
_LEASE_GRACE = timedelta(seconds=60)
"""Beyond the lease's own duration: objects of one snapshot are not read at the same instant."""
_RESTART_WINDOW = timedelta(minutes=10)


def scheduler_trouble(install: Install, now: datetime, say: Texts) -> list[Finding]:
    """Down, leaderless or unwell; nothing when it is well, or when its pods could not be seen."""
    if (down := _down(install, say)) is not None:
        return [down]
    found = [_no_leader(install, now, say), _degraded(install, now, say)]
    return [one for one in found if one is not None]


def _down(install: Install, say: Texts) -> Finding | None:
    if install.ready_pods or not install.seen:
        return None
    proofs = [_evidence.of_pod(pod, pod.status.phase, "{.status.phase}") for pod in install.pods]
    deployment = install.deployment
    if not proofs and deployment is not None:
        if deployment.status.ready_replicas or deployment.status.replicas:
            return None
        proofs.append(
            Evidence(
                source="deployment",
                object=f"Deployment {deployment.namespace}/{deployment.name}",
                at=None,
                quote=deployment.name,
                command=f"kubectl -n {deployment.namespace} get deployment {deployment.name}",
            )
        )
    return Finding(
        code="scheduler-down",
        claim=say("scheduler-down.claim", namespace=install.namespace),
        severity="critical",
        confidence="confirmed",
        scope=Scope(),
        evidence=tuple(proofs),
        next_actions=(
            NextAction(
                say("scheduler-down.describe"),
                _kubectl(install, "describe pods"),
            ),
            NextAction(
                say("scheduler-down.logs"),
                _kubectl(install, "logs", "--all-containers --previous --tail=50"),
            ),
        ),
    )


def _no_leader(install: Install, now: datetime, say: Texts) -> Finding | None:
    needed = (
        install.version is not None
        and install.version.version >= _LEADS_SINCE
        and install.flags.get("leader-elect") == "true"
    )
    lease = install.lease
    if not needed or lease is None:
        return None
    renewed = parse_time(lease.spec.renew_time)
    duration = timedelta(seconds=lease.spec.lease_duration_seconds or 15)
    if lease.spec.holder_identity and (renewed is None or now - renewed <= duration + _LEASE_GRACE):
        return None
    return Finding(
        code="scheduler-no-leader",
        claim=say("scheduler-no-leader.claim", since=format_time(renewed) if renewed else "?"),
        severity="critical",
        confidence="confirmed",
        scope=Scope(),
        evidence=(
            Evidence(
                source="lease",
                object=f"Lease {lease.namespace}/{lease.name}",
                at=format_time(renewed) if renewed else None,
                quote=lease.spec.renew_time or lease.name,
                command=f"kubectl -n {lease.namespace} get lease {lease.name} -o jsonpath='{{.spec.renewTime}}'",
            ),
        ),
        next_actions=(
            NextAction(
                say("scheduler-no-leader.pods"),
                _kubectl(install, "get pods", f"-L {ROLE_LABEL}"),
            ),
        ),
    )


def _degraded(install: Install, now: datetime, say: Texts) -> Finding | None:
    for pod in install.pods:
        if (quote := _recent_crash(pod, now)) is not None:
            path = "{.status.containerStatuses[*].lastState.terminated.reason}"
            return Finding(
                code="scheduler-degraded",
                claim=say("scheduler-degraded.claim", pod=pod.name, why=quote),
                severity="warning",
                confidence="confirmed",
                scope=Scope(),
                evidence=(_evidence.of_pod(pod, quote, path),),
                next_actions=(
                    NextAction(
                        say("scheduler-degraded.logs"),
                        f"kubectl -n {pod.namespace} logs {pod.name} -c vgpu-scheduler-extender --previous --tail=50",
                    ),
                ),
            )
    unready = [pod for pod in install.pods if not is_ready(pod)]
    if not unready:
        return None
    pod = unready[0]
    return Finding(
        code="scheduler-degraded",
        claim=say("scheduler-degraded.unready", pod=pod.name),
        severity="info",
        confidence="confirmed",
        scope=Scope(),
        evidence=(_evidence.of_pod(pod, pod.status.phase, "{.status.phase}"),),
    )


def _kubectl(install: Install, verb: str, more: str = "") -> str:
    return f"kubectl -n {install.namespace} {verb} -l {COMPONENT_LABEL}={SCHEDULER_COMPONENT} {more}".rstrip()


def _recent_crash(pod: Pod, now: datetime) -> str | None:
    for status in pod.status.container_statuses or ():
        ended = status.last_state.terminated
        finished = parse_time(ended.finished_at) if ended else None
        if ended and status.restart_count and finished and now - finished <= _RESTART_WINDOW:
            return ended.reason or "Error"
    return None
