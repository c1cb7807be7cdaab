"""Rules about HAMi's scheduler itself: whether it exists, whether it is well, and which pod leads.

From 2.8 on the extender serves only where its own kube-scheduler holds the lease; from 2.9 on the leader's pod has a
label that the Service selects, so without it the webhook has no endpoint (HAMi #1954). Lease, label and endpoints have
to agree. How its last run ended, and what that run logged, tell about a container that does not serve.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice

from msgspec import structs

from bot.hami.installation.install import (
    ROLE_LABEL,
    Install,
    extender_waits_for_lease,
    is_ready,
    kube_scheduler_waits_for_lease,
    lease_is_stale,
)
from bot.hami.signatures import Hit
from bot.hami.version import Version
from bot.kube.hami_pods import COMPONENT_LABEL, EXTENDER_CONTAINER, KUBE_SCHEDULER_CONTAINER, SCHEDULER_COMPONENT
from bot.kube.models import ContainerStatus, Lease, Pod, StateTerminated
from bot.kube.recording.redact import NEVER_STARTED
from bot.kube.times import format_time, parse_time
from bot.report import Confidence, Evidence, Finding, Gap, NextAction, Severity, act, step
from bot.texts import Prose, Text, sentences
from playbooks import quotes
from playbooks.gather.node_side import LogSeen
from playbooks.gather.scheduling import LEASE_SOURCE, is_absent
from playbooks.quotes import kubectl, kubectl_logs, of_object
from playbooks.rule import rule
from playbooks.rules.common import prose
from playbooks.rules.common.containers import LastWords, last_of, of_end, statuses, stuck
from playbooks.rules.common.findings import Part, finding, fix_of, in_log, in_messages, log_line
from playbooks.scenes.cluster import InstallScene
from playbooks.scenes.waiting_pod import HamiScene, PodScene

_RESTART_WINDOW = timedelta(minutes=10)
_CRASH_WINDOW = timedelta(hours=24)
_OUT_OF_MEMORY, _KILLED = "OOMKilled", 137
_LABELS_SINCE = Version(2, 9, 0)
_LEADER = "leader"
_SETTLING = timedelta(seconds=30)


@rule("scheduler-down")
def none_found(scene: PodScene) -> Iterator[Finding]:
    """The finding that no Deployment or pod is HAMi's scheduler, though other parts of HAMi exist."""
    pod, seen = scene.pod, scene.seen
    if not is_absent(seen) or seen.presence != "found":
        return
    proofs = [quotes.of_pod(pod, pod.spec.scheduler_name or pod.name, "{.spec.schedulerName}")]
    claim, steps, of = Text("scheduler-down.none"), [search_for_scheduler()], scene.install
    yield finding("scheduler-down", claim, "suspected", proofs=proofs, severity="critical", actions=steps, of=of)


def search_for_scheduler() -> NextAction:
    look = kubectl("get", "deploy", "-A", "-l", f"{COMPONENT_LABEL}={SCHEDULER_COMPONENT}")
    return step(Text("scheduler-down.search"), look)


@rule("scheduler-down", "scheduler-no-leader", "scheduler-degraded")
def unwell(scene: HamiScene) -> list[Finding]:
    """The findings that HAMi's scheduler is down, has no leader or is unwell; none where its pods could not be read."""
    if down := _down(scene):
        return [down]
    lease, degraded = scene.install.lease, _degraded(scene.install, scene.now)
    awaited = lease is not None and extender_waits_for_lease(scene.install) and lease_is_stale(lease, scene.now)
    return [*([_leaderless(scene, lease)] if lease and awaited else []), *([degraded] if degraded else [])]


def _down(scene: HamiScene) -> Finding | None:
    install = scene.install
    if install.ready_pods or not install.seen:
        return None
    if install.pods:
        return _not_ready(install, scene.process.runs)
    deployment = install.deployment
    if deployment is None or deployment.status.ready_replicas:
        return None
    what, name = ("-n", deployment.namespace), deployment.name
    if deployment.spec.replicas == 0:
        quote, scale = "0", kubectl(*what, "scale", "deployment", name, "--replicas=1")
        fix = act(Text("scheduler-down.scale"), scale)
    else:
        quote = name
        fix = step(Text("scheduler-down.describe"), kubectl(*what, "describe", "deployment", name))
    key = "scheduler-down.scaled" if deployment.spec.replicas == 0 else "scheduler-down.claim"
    claim = Text(key, namespace=install.namespace, name=name, why="")
    proofs = [of_object("Deployment", deployment, quote, "{.spec.replicas}")]
    return finding("scheduler-down", claim, proofs=proofs, severity="critical", actions=[fix], of=install)


def _not_ready(install: Install, runs: Sequence[LogSeen]) -> Finding:
    """No pod is ready: what they wait for, and how the last run of their containers ended."""
    worst = [what_ails(pod) for pod in install.pods]
    what = "-n", install.namespace
    reason = why_it_ends(install.pods, runs, install.version.version if install.version else None)
    said = {"namespace": install.namespace, "why": f" ({worst[0].quote})"}
    claim = Text("scheduler-down.ends", **said, means=reason.text) if reason else Text("scheduler-down.claim", **said)
    names, first = (pod.name for pod in install.pods), install.pods[0]
    steps = [step(Text("scheduler-down.describe"), kubectl(*what, "describe", "pods", *names))]
    own = first.status.container_statuses or ()
    if any(one.restart_count or one.state.terminated or one.last_state.terminated for one in own):  # it left a log
        logs = kubectl(*what, "logs", first.name, "--all-containers", "--previous", "--tail=50")
        steps.append(step(Text("scheduler-down.logs"), logs))
    proofs, steps = ([*reason.proofs, *worst], [*reason.steps, *steps]) if reason else (worst, steps)
    return finding("scheduler-down", claim, proofs=proofs, severity="critical", actions=steps, of=install)


def what_ails(pod: Pod) -> Evidence:
    """The evidence of what is wrong with a pod: a container that waits, why it is not ready, or its phase."""
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


def never_led(scene: HamiScene, proofs: Sequence[Evidence] = ()) -> list[Finding]:
    """The finding that there is no lease where the extender waits for one; `proofs` are quoted first."""
    seen, install = scene.seen, scene.install
    awaited = install.ready_pods and extender_waits_for_lease(install)
    if install.lease is not None or seen.lease_unread or not awaited:
        return []
    name = install.flags.get("leader-elect-resource-name") or install.scheduler_name
    namespace = install.flags.get("leader-elect-resource-namespace") or install.namespace
    reason = why_nobody_leads(scene.process.runs)
    claim = Text("scheduler-no-leader.never", lease=f"{namespace}/{name}")
    claim = sentences(claim, reason.text) if reason else claim
    flag = quotes.of_pod(install.pods[0], "--leader-elect=true", "{.spec.containers[*].command}")
    proofs = [*proofs, *(reason.proofs if reason else ()), flag]
    steps = [*(reason.steps if reason else ()), _show_roles(install)]
    return [finding("scheduler-no-leader", claim, seen.confidence, proofs=proofs, severity="critical", actions=steps)]


def _show_roles(install: Install) -> NextAction:
    names = (pod.name for pod in install.pods)
    look = kubectl("-n", install.namespace, "get", "pods", *names, "-L", ROLE_LABEL)
    return step(Text("scheduler-no-leader.pods"), look)


def _leaderless(scene: HamiScene, lease: Lease) -> Finding:
    renewed, install = parse_time(lease.spec.renew_time), scene.install
    reason = why_nobody_leads(scene.process.runs)
    claim = Text("scheduler-no-leader.claim", since=format_time(renewed) if renewed else "?")
    proof, steps = of_object("Lease", lease, lease.spec.renew_time or "", "{.spec.renewTime}"), [_show_roles(install)]
    proofs = [structs.replace(proof, at=quotes.clock(lease.spec.renew_time))]
    if reason:
        claim = sentences(claim, reason.text)
        proofs, steps = [*reason.proofs, *proofs], [*reason.steps, *steps]
    return finding("scheduler-no-leader", claim, proofs=proofs, severity="critical", actions=steps)


@rule("scheduler-degraded")
def past_crashes(scene: HamiScene) -> Iterator[Finding]:
    """The findings that a scheduler's container crashed within a day but is well now, or that a pod was evicted."""
    since = format_time(scene.now - _CRASH_WINDOW)
    evicted = (pod for pod in scene.install.pods if pod.status.reason == "Evicted")
    for pod in evicted:
        changes = [change.last_transition_time or "" for change in pod.status.conditions or ()]
        if changes and max(changes) < since:
            continue
        claim = Text("scheduler-degraded.evicted", pod=pod.name, why=quotes.shown(pod.status.message).rstrip(" ."))
        proofs = [quotes.of_pod(pod, pod.status.message or "Evicted", "{.status.message}")]
        look = step(Text("scheduler-degraded.pods"), quotes.kubectl_pod(pod, "describe"))
        steps = [*([HEAP] if "memory" in pod.status.message else []), look]
        yield finding("scheduler-degraded", claim, proofs=proofs, actions=steps, of=scene.install)
        break
    ends = (
        (pod, status, ended, finished)
        for pod, status in _statuses(scene.install)
        if (ended := status.last_state.terminated) and (finished := parse_time(ended.finished_at))
        if ended.exit_code or ended.reason == _OUT_OF_MEMORY
        if _RESTART_WINDOW < scene.now - finished <= _CRASH_WINDOW
    )
    for pod, status, ended, finished in islice(ends, 1):
        values = {"container": status.name, "pod": pod.name, "count": status.restart_count}
        claim = Text("scheduler-degraded.crashed", **values, at=format_time(finished), why=how_it_ended(ended))
        yield _crashed(scene.install, pod, status, ended, claim)


def _crashed(install: Install, pod: Pod, status: ContainerStatus, ended: StateTerminated, claim: Prose) -> Finding:
    """A container whose last run crashed; if memory explains it, the step looks at the heap."""
    logs = kubectl_logs(pod, status.name, "--previous", "--tail=50")
    look = [step(Text("scheduler-degraded.logs"), logs)]
    if ended.exit_code == _KILLED or ended.reason == _OUT_OF_MEMORY:
        key = "scheduler-degraded.memory" if ended.reason == _OUT_OF_MEMORY else "scheduler-degraded.killed"
        claim = sentences(claim, Text(key))
        look = [*([HEAP] if status.name == EXTENDER_CONTAINER else []), *look]
    proofs = [of_end(pod, status, ended)]
    return finding("scheduler-degraded", claim, proofs=proofs, actions=look, of=install)


def _degraded(install: Install, now: datetime) -> Finding | None:
    for pod, status in _statuses(install):
        ended = status.last_state.terminated
        finished = parse_time(ended.finished_at) if ended else None
        if ended and status.restart_count and finished and now - finished <= _RESTART_WINDOW:
            claim = Text("scheduler-degraded.claim", pod=pod.name, container=status.name, why=how_it_ended(ended))
            return _crashed(install, pod, status, ended, claim)
    unready = (pod for pod in install.pods if not is_ready(pod) and pod.status.reason != "Evicted")
    for pod in unready if install.ready_pods else ():
        proofs = [quotes.of_pod(pod, pod.status.phase, "{.status.phase}")]
        claim = Text("scheduler-degraded.unready", pod=pod.name)
        return finding("scheduler-degraded", claim, proofs=proofs, severity="info")
    return None


def _statuses(install: Install) -> Iterator[tuple[Pod, ContainerStatus]]:
    return ((pod, status) for pod in install.pods for status in pod.status.container_statuses or ())


@rule("scheduler-no-leader", "scheduler-leader-mismatch", reads=(LEASE_SOURCE,))
def leadership(scene: InstallScene) -> Iterator[Finding]:
    """The findings that a lease is missing, or that lease, label and endpoints name different pods."""
    install, lease, now = scene.install, scene.install.lease, scene.now
    if not install.ready_pods:
        return
    if not extender_waits_for_lease(install):  # where it does not care who leads, its kube-scheduler may still wait
        if lease is not None and kube_scheduler_waits_for_lease(install) and lease_is_stale(lease, now):
            yield _leaderless(scene, lease)
        return
    if lease is None:
        yield from never_led(scene)
        return
    acquired = parse_time(lease.spec.acquire_time)
    if lease_is_stale(lease, now) or (acquired is not None and now - acquired <= _SETTLING):
        return  # told as scheduler-no-leader; or somebody has just begun to lead
    by_label = _labels(scene) if scene.version and scene.version >= _LABELS_SINCE else None
    if wrong := by_label or _stranger(scene):
        yield wrong


def _labels(scene: InstallScene) -> Finding | None:
    install = scene.install
    leads, staying = install.leader, (pod for pod in install.pods if not pod.metadata.deletion_timestamp)
    marked = [pod for pod in staying if pod.metadata.label(ROLE_LABEL) == _LEADER]
    services = () if isinstance(scene.webhook.services, Gap) else scene.webhook.services
    service = next((service for service in services if ROLE_LABEL in (service.spec.selector or {})), None)
    if not marked:
        claim = Text("scheduler-leader-mismatch.unlabelled", holder=install.lease_holder)
        selector = [of_object("Service", service, ROLE_LABEL, "{.spec.selector}")] if service else []
        return _mismatch(scene, claim, [_lease(install), *selector], "critical")
    names = [pod.name for pod in marked]
    if leads is not None and names != [leads.name]:
        claim = Text("scheduler-leader-mismatch.label", holder=leads.name, labelled=", ".join(names))
        labels = [quotes.of_pod(pod, ROLE_LABEL, "{.metadata.labels}") for pod in marked]
        return _mismatch(scene, claim, [_lease(install), *labels], "warning")
    targets = scene.webhook.ready_targets(service.namespace, service.name) if service else None
    wrong = sorted({target for target in targets or () if target not in (*names, "?")})
    if service and wrong:
        claim = Text("scheduler-leader-mismatch.endpoints", labelled=", ".join(names), endpoints=", ".join(wrong))
        slices = () if isinstance(scene.webhook.slices, Gap) else scene.webhook.slices
        targets = ((some, point.target_ref) for some in slices for point in some.endpoints or ())
        path = "{.endpoints[*].targetRef.name}"
        found = [of_object("EndpointSlice", some, to.name, path) for some, to in targets if to and to.name in wrong]
        return _mismatch(scene, claim, [_lease(install), *found], "warning")
    return None


def _stranger(scene: InstallScene) -> Finding | None:
    """Something that is no pod of the scheduler renews the lease, as it may for a moment while pods come and go."""
    install = scene.install
    deployment = install.deployment
    wanted = deployment.spec.replicas if deployment else None
    if deployment is None or install.leader or not all(map(is_ready, install.pods)):
        return None
    if not len(install.pods) == deployment.status.replicas == (1 if wanted is None else wanted):
        return None
    claim = Text("scheduler-leader-mismatch.stranger", holder=install.lease_holder)
    return _mismatch(scene, claim, [_lease(install)], "warning", "suspected")


def _mismatch(
    scene: InstallScene, claim: Prose, proofs: Sequence[Evidence], severity: Severity, sure: Confidence | None = None
) -> Finding:
    sure, look = sure or scene.seen.confidence, [_show_roles(scene.install)]
    return finding("scheduler-leader-mismatch", claim, sure, proofs=proofs, severity=severity, actions=look)


def _lease(install: Install) -> Evidence:
    assert install.lease is not None
    return of_object("Lease", install.lease, install.lease.spec.holder_identity or "", "{.spec.holderIdentity}")


_LEASE = re.compile(r"^[EF]\d{4} .*(leaderelection|[Ll]ease|resource lock)")
HEAP = step(Text("scheduler-degraded.heap"), prose.command("profile", "heap"))
Proven = tuple[Hit, Sequence[Evidence]]


def why_it_ends(pods: Iterable[Pod], runs: Sequence[LogSeen], version: Version | None) -> Part | None:
    """Why the first container that does not run ended, by a signature where one is known; None without any end."""
    # Containers that are down, or up again after an end; not those that start for the first time.
    ill = ((pod, status) for pod in pods for status in statuses(pod) if not status.ready)
    sick = [(pod, status) for pod, status in ill if stuck(status) or _end(status)]
    for pod, status in sick:
        if known := _signed(pod, status, runs, version):
            (hit, proofs), end = known, _end(status)
            ended = [of_end(pod, status, end)] if end and "scheduler-log" in hit.signature.where else []
            return Part(hit.means, (*proofs, *ended), (fix_of(hit),))
    told = (_told(pod, status, end, runs) for pod, status in sick if (end := _end(status)))
    return next(told, None)


def why_nobody_leads(runs: Sequence[LogSeen]) -> Part | None:
    """Why no scheduler leads, by kube-scheduler's last log line about the lease; None without an error."""
    logs = [log for log in runs if log.container == KUBE_SCHEDULER_CONTAINER]
    for hit, proof in (found for log in logs for found in in_log("scheduler-log", log, None)):
        if hit.signature.code == "scheduler-no-leader":
            return Part(hit.means, (proof,), (fix_of(hit),))
    for log in logs:
        if line := next((line for line in reversed(log.lines) if _LEASE.match(line)), ""):
            words = LastWords(log, line, error=True)
            return Part(Text("scheduler-down.error", line=_unstopped(words.text)), (log_line(log, line),))
    return None


def _end(status: ContainerStatus) -> StateTerminated | None:
    """How the last run ended. An init container that is done has not failed."""
    end = status.state.terminated or status.last_state.terminated
    return end if end and (end.exit_code or end.reason in (*NEVER_STARTED, "OOMKilled")) else None


def _signed(pod: Pod, status: ContainerStatus, runs: Sequence[LogSeen], version: Version | None) -> Proven | None:
    """The runtime's words about the start come first, then the container's own."""
    for hit, proof, _ in in_messages(pod, [status], version, "scheduler-message"):
        return hit, [proof]
    for log in _logs(pod, status, runs):
        for hit, proof in in_log("scheduler-log", log, version):
            return hit, [proof, *_continued(log, hit.quote)]
    return None


def _logs(pod: Pod, status: ContainerStatus, runs: Sequence[LogSeen]) -> list[LogSeen]:
    """The container's logs, that of the run that ended last first: while none runs, it is what the log shows."""
    own = [log for log in runs if log.pod.metadata.uid == pod.metadata.uid and log.container == status.name]
    return sorted(own, key=lambda log: log.previous != (status.state.running is not None))


def _told(pod: Pod, status: ContainerStatus, end: StateTerminated, runs: Sequence[LogSeen]) -> Part:
    never = end.reason in NEVER_STARTED and end.message
    said = f"{end.reason}: {quotes.shown(end.message)}" if never else how_it_ended(end)
    means, proofs = Text("scheduler-down.ended", container=status.name, how=said), [of_end(pod, status, end)]
    words = last_of(_logs(pod, status, runs), end, running=status.state.running is not None)
    if words and not never:
        key = "scheduler-down.error" if words.error else "scheduler-down.last"
        means = sentences(means, Text(key, line=_unstopped(words.text)))
        proofs = [log_line(words.log, words.line), *_continued(words.log, words.line), *proofs]
    memory = act(Text("scheduler-down.memory", container=status.name))
    heap = [HEAP] if status.name == EXTENDER_CONTAINER else []
    return Part(means, tuple(proofs), (memory, *heap) if end.reason == "OOMKilled" else ())


def _unstopped(line: str) -> str:
    return line.rstrip(" .:。")


def how_it_ended(end: StateTerminated) -> Text:
    if end.reason and end.reason != "Error":
        return Text("scheduler-down.how", reason=end.reason, code=end.exit_code)
    return Text("device-plugin-crash.other", code=end.exit_code)


def _continued(log: LogSeen, line: str) -> list[Evidence]:
    """The line after one that ends with a colon: an error in a file has its place there."""
    if not line.rstrip().endswith(":"):
        return []
    at = len(log.lines) - 1 - log.lines[::-1].index(line)
    return [log_line(log, more) for more in log.lines[at + 1 : at + 2] if more[:1].isspace() and more.strip()]
