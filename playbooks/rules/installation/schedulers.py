"""HAMi's scheduler itself: whether there is one, whether it leads, whether it is well."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from bot.hami.installation.install import ROLE_LABEL, Install, is_ready
from bot.hami.installation.leader_election import extender_waits_for_lease, lease_is_stale
from bot.kube.hami_pods import COMPONENT_LABEL, EXTENDER_CONTAINER, SCHEDULER_COMPONENT
from bot.kube.models import Lease, Pod, StateTerminated
from bot.kube.times import format_time, parse_time
from bot.report import Evidence, Finding, NextAction, step
from bot.texts import Text
from playbooks import quotes
from playbooks.gather.node_side import LogSeen
from playbooks.gather.scheduling import InstallSeen, is_absent
from playbooks.quotes import kubectl
from playbooks.rule import rule
from playbooks.rules.common.findings import finding
from playbooks.rules.installation.scheduler_ends import why_it_ends, why_nobody_leads
from playbooks.scene import PodScene

_RESTART_WINDOW = timedelta(minutes=10)
_CRASH_WINDOW = timedelta(hours=24)
_OUT_OF_MEMORY = "OOMKilled"


def scheduler_trouble(install: Install, now: datetime, runs: Sequence[LogSeen] = ()) -> list[Finding]:
    """Down, leaderless or unwell; nothing when it is well, or when its pods could not be seen.

    `runs` are the logs of its containers that do not work, and of kube-scheduler where nobody leads.
    """
    if (down := _down(install, runs)) is not None:
        return [down]
    found = [_no_leader(install, now, runs), _degraded(install, now)]
    return [finding for finding in found if finding is not None]


@rule("scheduler-down")
def none_found(scene: PodScene) -> Iterator[Finding]:
    """Deployments and pods were read, and none of them is HAMi's scheduler, though something else of HAMi is there."""
    pod, seen = scene.pod, scene.cluster.seen
    if not is_absent(seen) or seen.presence != "found":
        return
    proofs = [quotes.of_pod(pod, pod.spec.scheduler_name or pod.name, "{.spec.schedulerName}")]
    search = kubectl("get", "deploy", "-A", "-l", f"{COMPONENT_LABEL}={SCHEDULER_COMPONENT}")
    steps, claim = [step(Text("scheduler-down.search"), search)], Text("scheduler-down.none")
    yield finding("scheduler-down", claim, "suspected", (), proofs, severity="critical", actions=steps)


@rule("scheduler-down", "scheduler-no-leader", "scheduler-degraded")
def unwell(scene: PodScene) -> list[Finding]:
    """HAMi's scheduler is down, leaderless or unwell, whoever waits for it."""
    if is_absent(scene.cluster.seen) and scene.cluster.seen.presence == "found":
        return []
    return scheduler_trouble(scene.install, scene.now, scene.cluster.process.runs)


def _down(install: Install, runs: Sequence[LogSeen]) -> Finding | None:
    if install.ready_pods or not install.seen:
        return None
    if install.pods:
        return _not_ready(install, runs)
    deployment = install.deployment
    if deployment is None or deployment.status.ready_replicas:
        return None
    what = "-n", deployment.namespace
    to_zero = deployment.spec.replicas == 0
    scale = step(
        Text("scheduler-down.scale"),
        kubectl(*what, "scale", "deployment", deployment.name, "--replicas=1"),
        changes_cluster=True,
    )
    describe = step(Text("scheduler-down.describe"), kubectl(*what, "describe", "deployment", deployment.name))
    return finding(
        "scheduler-down",
        Text(
            "scheduler-down.scaled" if to_zero else "scheduler-down.claim",
            namespace=install.namespace,
            name=deployment.name,
            why="",
        ),
        "confirmed",
        (),
        (
            Evidence(
                source="deployment",
                object=f"Deployment {deployment.namespace}/{deployment.name}",
                at=None,
                quote=str(deployment.spec.replicas) if to_zero else deployment.name,
                command=kubectl(*what, "get", "deployment", deployment.name, "-o", "jsonpath={.spec.replicas}"),
            ),
        ),
        severity="critical",
        actions=(scale,) if to_zero else (describe,),
    )


def _not_ready(install: Install, runs: Sequence[LogSeen]) -> Finding:
    """There are pods, none of them is ready: what they wait for, and how the last run of their containers ended."""
    worst = [what_ails(pod) for pod in install.pods]
    what = "-n", install.namespace
    reason = why_it_ends(install.pods, runs, install.version.version if install.version else None)
    said = {"namespace": install.namespace, "why": f" ({worst[0].quote})"}
    claim = Text("scheduler-down.ends", **said, means=reason.means) if reason else Text("scheduler-down.claim", **said)
    describe = step(
        Text("scheduler-down.describe"), kubectl(*what, "describe", "pods", *(pod.name for pod in install.pods))
    )
    logs = step(
        Text("scheduler-down.logs"),
        kubectl(*what, "logs", install.pods[0].name, "--all-containers", "--previous", "--tail=50"),
    )
    steps = [describe, logs] if _has_ended(install.pods[0]) else [describe]
    return finding(
        "scheduler-down",
        claim,
        "confirmed",
        (),
        (*(reason.proofs if reason else ()), *worst),
        severity="critical",
        actions=[*(reason.actions if reason else ()), *steps],
    )


def _has_ended(pod: Pod) -> bool:
    """Whether one of its containers was started and ended, so that it left a log."""
    return any(
        status.restart_count or status.state.terminated or status.last_state.terminated
        for status in pod.status.container_statuses or ()
    )


def what_ails(pod: Pod) -> Evidence:
    """What the pod's status says is wrong: a container that waits, else why it is not ready, else its phase.

    Of an image that does not come, the words name the image, and its reason alone does not.
    """
    waiting = [status.state.waiting for status in pod.status.container_statuses or () if status.state.waiting]
    if waiting and "Image" in waiting[0].reason and waiting[0].message.strip():
        return quotes.of_pod(pod, waiting[0].message, "{.status.containerStatuses[*].state.waiting.message}")
    if waiting and waiting[0].reason:
        return quotes.of_pod(pod, waiting[0].reason, "{.status.containerStatuses[*].state.waiting.reason}")
    for kind in ("Ready", "PodScheduled"):
        condition = pod.condition(kind)
        if condition is not None and condition.status == "False" and (condition.message or condition.reason):
            return quotes.of_condition(pod, condition, quotes.clock(condition.last_transition_time))
    return quotes.of_pod(pod, pod.status.phase or pod.name, "{.status.phase}")


def _no_leader(install: Install, now: datetime, runs: Sequence[LogSeen]) -> Finding | None:
    lease = install.lease
    if lease is None or not extender_waits_for_lease(install):
        return None
    return leaderless(install, lease, runs) if lease_is_stale(lease, now) else None


def never_led(seen: InstallSeen, runs: Sequence[LogSeen], proofs: Sequence[Evidence]) -> list[Finding]:
    """That there is no lease where the extender waits for one; `proofs` are quoted first."""
    install = seen.install
    if (
        install.lease is not None
        or seen.lease_unread
        or not install.ready_pods
        or not extender_waits_for_lease(install)
    ):
        return []
    name = install.flags.get("leader-elect-resource-name") or install.scheduler_name
    namespace = install.flags.get("leader-elect-resource-namespace") or install.namespace
    reason = why_nobody_leads(runs)
    claim = Text("scheduler-no-leader.never", lease=f"{namespace}/{name}")
    claim = Text("scheduler-no-leader.why", claim=claim, means=reason.means) if reason else claim
    flag = quotes.of_pod(install.pods[0], "--leader-elect=true", "{.spec.containers[*].command}")
    proofs = [*proofs, *(reason.proofs if reason else ()), flag]
    steps = [*(reason.actions if reason else ()), _show_roles(install)]
    return [finding("scheduler-no-leader", claim, seen.confidence, (), proofs, severity="critical", actions=steps)]


def _show_roles(install: Install) -> NextAction:
    """Which of the pods leads, by its label."""
    names = (pod.name for pod in install.pods)
    return step(
        Text("scheduler-no-leader.pods"), kubectl("-n", install.namespace, "get", "pods", *names, "-L", ROLE_LABEL)
    )


def leaderless(install: Install, lease: Lease, runs: Sequence[LogSeen]) -> Finding:
    """Nobody renews the lease."""
    renewed = parse_time(lease.spec.renew_time)
    reason = why_nobody_leads(runs)
    claim = Text("scheduler-no-leader.claim", since=format_time(renewed) if renewed else "?")
    return finding(
        "scheduler-no-leader",
        Text("scheduler-no-leader.why", claim=claim, means=reason.means) if reason else claim,
        "confirmed",
        (),
        (
            *(reason.proofs if reason else ()),
            Evidence(
                source="lease",
                object=f"Lease {lease.namespace}/{lease.name}",
                at=format_time(renewed) if renewed else None,
                quote=lease.spec.renew_time or lease.name,
                command=kubectl("-n", lease.namespace, "get", "lease", lease.name, "-o", "jsonpath={.spec.renewTime}"),
            ),
        ),
        severity="critical",
        actions=[*(reason.actions if reason else ()), _show_roles(install)],
    )


def past_crashes(install: Install, now: datetime) -> list[Finding]:
    """A container that crashed within a day, longer ago than what `scheduler_trouble` tells."""
    for pod in install.pods:
        for status in pod.status.container_statuses or ():
            ended = status.last_state.terminated
            finished = parse_time(ended.finished_at) if ended else None
            failed = ended is not None and bool(ended.exit_code or ended.reason == _OUT_OF_MEMORY)
            if not (ended and finished and failed and _RESTART_WINDOW < now - finished <= _CRASH_WINDOW):
                continue
            why = ended.reason or str(ended.exit_code)
            field = "reason" if ended.reason else "exitCode"
            path = f"{{.status.containerStatuses[*].lastState.terminated.{field}}}"
            claim = Text(
                "scheduler-degraded.crashed",
                container=status.name,
                pod=pod.name,
                count=status.restart_count,
                at=format_time(finished),
                why=why,
            )
            result = finding(
                "scheduler-degraded",
                claim,
                "confirmed",
                (),
                (quotes.of_pod(pod, why, path),),
                severity="warning",
                actions=(_last_words(pod, status.name),),
            )
            return [result]
    return []


def _last_words(pod: Pod, container: str) -> NextAction:
    """To read what a container logged before its restart."""
    command = kubectl("-n", pod.namespace, "logs", pod.name, "-c", container, "--previous", "--tail=50")
    return step(Text("scheduler-degraded.logs"), command)


def _degraded(install: Install, now: datetime) -> Finding | None:
    for pod in install.pods:
        if (ended := _recent_crash(pod, now)) is not None:
            field, quote = ("reason", ended.reason) if ended.reason else ("exitCode", str(ended.exit_code))
            path = f"{{.status.containerStatuses[*].lastState.terminated.{field}}}"
            return finding(
                "scheduler-degraded",
                Text("scheduler-degraded.claim", pod=pod.name, why=quote),
                "confirmed",
                (),
                (quotes.of_pod(pod, quote, path),),
                severity="warning",
                actions=(_last_words(pod, EXTENDER_CONTAINER),),
            )
    if not install.ready_pods:
        return None
    unready = [pod for pod in install.pods if not is_ready(pod)]
    if not unready:
        return None
    pod = unready[0]
    return finding(
        "scheduler-degraded",
        Text("scheduler-degraded.unready", pod=pod.name),
        "confirmed",
        (),
        (quotes.of_pod(pod, pod.status.phase, "{.status.phase}"),),
        severity="info",
    )


def _recent_crash(pod: Pod, now: datetime) -> StateTerminated | None:
    for status in pod.status.container_statuses or ():
        ended = status.last_state.terminated
        finished = parse_time(ended.finished_at) if ended else None
        if ended and status.restart_count and finished and now - finished <= _RESTART_WINDOW:
            return ended
    return None
