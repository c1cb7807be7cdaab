"""What keeps one waiting pod from its node, as every question judges it: `why` about one pod, `pending` about all."""

from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

from msgspec import structs

from bot.finding_codes import CODES
from bot.hami.fit.verdicts import NODE_UNREGISTERED
from bot.hami.pods.request_parsing import asked_resources
from bot.hami.scheduler_logs.log_lines import LogLine
from bot.kube.models import Event, Pod
from bot.kube.times import parse_time
from bot.report import Evidence, Finding, Gap, NextAction, step
from bot.texts import Prose, Text, unstopped
from playbooks.gather.dra import ClaimsSeen
from playbooks.gather.node_side import LogSeen
from playbooks.gather.nodes_in_question import NodesInQuestion
from playbooks.gather.scheduler_process import SchedulerProcess
from playbooks.gather.scheduling import InstallSeen
from playbooks.gather.webhook import WebhookSeen, went_past_hami
from playbooks.quotes import kubectl
from playbooks.rules.admission import before_scheduling
from playbooks.rules.admission.unread_request import unread_containers
from playbooks.rules.admission.webhook_bypassed import BypassFacts, missed, why_left_alone
from playbooks.rules.capacity.impossible_request import impossible
from playbooks.rules.common.findings import finding
from playbooks.rules.common.gaps import fit_gaps, other_vendors
from playbooks.rules.dra import claims, devices
from playbooks.rules.installation import extender, not_installed, schedulers
from playbooks.rules.waiting import (
    after_restart,
    binding,
    panics,
    refusals,
    unknown_resource,
    unregistered_nodes,
    volcano,
)
from playbooks.rules.waiting.attempt import Attempt, last_attempt
from playbooks.rules.waiting.cause_ranking import Cause, Rank, behind, needs_several, rank_causes, rank_words
from playbooks.rules.waiting.grouping import attempt_key, request_key
from playbooks.rules.waiting.locks import Owners
from playbooks.rules.waiting.node_conditions import told_by_state
from playbooks.rules.waiting.nodes_at_fault import nodes_at_fault, nodes_behind
from playbooks.rules.waiting.refused_requests import request_refused
from playbooks.rules.waiting.request_bugs import told_by_bug
from playbooks.rules.waiting.stale_scheduler import disagrees, ghosts_suspected
from playbooks.rules.waiting.waiting_pod import Case, World

_MOST_VERDICTS = 300_000
"""Nodes looked at, for all requests that differ: three seconds' worth on one core of 2026."""
_MOST_RUNS = 12_000
"""Filter runs on nodes that differ in what the verdict depends on: two seconds' worth."""


_WRONG_SETUP = {"nothing": ("schedulerName",), "extender": ("urlPrefix", "filterVerb")}
"""By how far a pod came: what in kube-scheduler's configuration explains that it came no further."""


class ClusterContext(NamedTuple):
    """What is the same for every waiting pod of a cluster."""

    install: InstallSeen
    world: World
    lock_owners: Owners
    questioned: NodesInQuestion
    process: SchedulerProcess = SchedulerProcess()
    webhook: WebhookSeen | None = None
    """Read where a pod went past HAMi."""
    claims: ClaimsSeen | None = None
    """Read where the one pod in question asks for devices through ResourceClaims."""
    group_words: Sequence[Evidence] = ()
    """What Volcano says of the PodGroup of the one pod in question."""
    volcano_logs: Sequence[LogSeen] = ()
    """Of Volcano's device plugin, where the one pod in question asks for its vGPUs."""


class Judgement(NamedTuple):
    """At least one finding, the cause first. `case` is None where the nodes had no say in it."""

    findings: list[Finding]
    case: Case | None


def last_own_attempt(pod: Pod, events: Iterable[Event], lines: Iterable[tuple[Pod, LogLine]]) -> Attempt:
    """What the schedulers said of this pod; log lines about an earlier pod of the same name do not count."""
    created = parse_time(pod.metadata.creation_timestamp)
    own = [line for line in lines if created is None or line[1].at is None or line[1].at >= created]
    return last_attempt(pod, events, own)


def judge(case: Case, attempt: Attempt, around: ClusterContext, *, advise: bool = True) -> Judgement:
    """The findings about a pod that waits for a node. `advise`: with what would make it fit, and what hides behind."""
    judged = _judge(case, attempt, around, advise=advise)
    return judged._replace(findings=[finding.about(case.noun) for finding in judged.findings])


def _judge(case: Case, attempt: Attempt, around: ClusterContext, *, advise: bool) -> Judgement:
    pod, install = case.pod, around.install.install
    if (gated := before_scheduling.gated(pod)) is not None:
        return Judgement([gated], None)
    quoted = [*([attempt.evidence] if attempt.evidence else []), *around.group_words]
    if (of_volcano := volcano.scheduled_by_volcano(pod, install, case.config, quoted)) is not None:
        return Judgement([volcano.with_plugin(of_volcano, around.volcano_logs)], None)
    if (unclaimed := devices.unclaimed(pod, asked_resources(pod, case.config), around.install)) is not None:
        return Judgement([unclaimed], None)
    if (elsewhere := _of_no_hami(case, attempt, around, quoted)) is not None:
        return Judgement([elsewhere], None)
    no_hami = schedulers.none_found(pod, around.install)
    trouble = [no_hami] if no_hami else schedulers.scheduler_trouble(install, case.now, around.process.runs)
    trouble = [*panics.ended(install, around.process.panics, case.now), *trouble]
    unknown = unknown_resource.offered_nowhere(case, attempt, around.install)
    lacking = [unknown] if unknown else []
    if other := _past_hami(case, attempt, around):
        lost = [
            finding
            for finding in trouble
            if finding.code == "scheduler-down" and other[0].code == "webhook-unreachable"
        ]
        return Judgement([*(lost or ([no_hami] if no_hami else [])), *other, *lacking], None)
    if lacking:
        return Judgement(_with_trouble(lacking, trouble), case)
    claimed = claims.told_by_claims(pod, around.claims)
    if claimed is not None and not asked_resources(pod, case.config):
        own = trouble if pod.spec.scheduler_name == install.scheduler_name else []
        return Judgement(_with_trouble(_with_kubernetes(claimed, attempt), own), None)
    nothing = before_scheduling.nothing_asked(case)
    if nothing is not None and pod.spec.scheduler_name != install.scheduler_name:
        trouble = []
    findings = told_by_bug(_why_waiting(case, attempt, around, advise=advise), case, attempt)
    if nothing is not None:
        findings = [nothing] if attempt.stage == "nothing" else [*findings, nothing]
    elif case.request.containers:
        findings += unread_containers(pod, case.config, case.version)
    findings = findings or [cannot_tell(pod.namespace, pod.name, [attempt.evidence] if attempt.evidence else [])]
    if claimed is not None and claimed.decides:
        findings = [claimed.finding, *findings]
    return Judgement(_with_trouble(findings, trouble), case)


def _of_no_hami(case: Case, attempt: Attempt, around: ClusterContext, quoted: Sequence[Evidence]) -> Finding | None:
    """That HAMi has no part in the pod: it is not installed, or somebody else's scheduler has the pod."""
    pod, asks, words = case.pod, asked_resources(case.pod, case.config), attempt.evidence
    absent = asks or not pod.spec.resource_claims
    return (
        (not_installed.pod_without_hami(pod, words, around.install) if absent else None)
        or before_scheduling.anothers(pod, case.install, quoted)
        or (not_installed.perhaps_without_hami(pod, words, around.install) if asks else None)
    )


def _with_kubernetes(claimed: claims.ClaimTold, attempt: Attempt) -> list[Finding]:
    """HAMi's scheduler has no say in it: beside the claims only what Kubernetes itself says of the nodes."""
    causes = [cause for cause in rank_words(attempt) if cause.of_kubernetes]
    words = [(claims.is_about(cause.text), refusals.in_words(attempt, cause, sure=True)) for cause in causes]
    others = [] if claimed.decides else [evidence for about, evidence in words if not about]
    said = (attempt.evidence,) if attempt.evidence and not words else ()
    told_of_claims = structs.replace(claimed.finding, evidence=(*claimed.finding.evidence, *said))
    return [*others, told_of_claims, *(evidence for _, evidence in words if evidence not in others)]


def _past_hami(case: Case, attempt: Attempt, around: ClusterContext) -> list[Finding]:
    """Why another scheduler has a pod that asks for HAMi's resources; nothing where HAMi's own has it."""
    unknown = unknown_resource.unknown_resources(case)
    asked = {name: resource for name, resource in asked_resources(case.pod, case.config).items() if name not in unknown}
    words = (attempt.evidence,) if attempt.evidence else ()
    return missed(BypassFacts(case.pod, asked, case.install, case.config, around.webhook, words, case.now))


def cannot_tell(namespace: str, name: str, proofs: Sequence[Evidence], kind: str = "Pod") -> Finding:
    """Nothing that was seen explains the pod, or what owns it; `namespace` may be unknown."""
    full = f"{namespace}/{name}" if namespace else name
    claim = Text("not-enough-evidence.claim", pod=full if kind == "Pod" else f"{kind} {full}")
    command = kubectl("-n", namespace or "NAMESPACE", "describe", kind.lower(), name)
    label = Text("not-enough-evidence.describe") if kind == "Pod" else Text("not-enough-evidence.owner", kind=kind)
    look = step(label, command)
    return finding("not-enough-evidence", claim, "suspected", (), proofs, severity="warning", actions=[look])


def _with_trouble(findings: list[Finding], trouble: Sequence[Finding]) -> list[Finding]:
    """A scheduler that does not work comes first; one that is unwell does so only where nothing else explains it."""
    unexplained = findings[0].code == "waiting-for-retry"
    first = [
        finding
        for finding in trouble
        if finding.severity == "critical" or (unexplained and finding.severity == "warning")
    ]
    return [*first, *findings, *(finding for finding in trouble if finding not in first)]


def _why_waiting(case: Case, attempt: Attempt, around: ClusterContext, *, advise: bool) -> list[Finding]:
    if (refused := request_refused(case, attempt, around.process.refused)) is not None:
        return [refused]
    if (broken := panics.panicked(attempt, around.process.panics)) is not None:
        return [broken]
    if setup := _never_asked(case, attempt, around):
        return setup
    if (silent := binding.extender_silent(case, attempt)) is not None:
        return [silent, *panics.panicked_elsewhen(case.install, attempt, around.process.panics)]
    if not case.nodes_seen or _words_know_better(case, attempt):
        return _from_words(case, attempt, around)
    if other_vendors(case):
        kubernetes = (cause for cause in rank_causes(case, attempt) if cause.of_kubernetes)
        ours = [refusals.refused(case, attempt, cause) for cause in kubernetes]
        return _from_words(case, attempt, around, of_vendor=True) or ours
    untrusted = unregistered_nodes.untrusted(case, attempt)
    if (passed := _past_the_filter(case, attempt, around, untrusted)) is not None:
        return passed
    found = [untrusted] if untrusted is not None and untrusted.severity != "info" else []
    causes = rank_causes(case, attempt)
    if advise:
        causes += behind(case, causes)
    for cause in causes:
        found += nodes_at_fault(case, cause, around.questioned)
        if cause.text == NODE_UNREGISTERED:
            found += unregistered_nodes.unregistered(
                case, attempt, cause, around.questioned.plugins_of(case.device.vendor)
            )
        elif cause.of_kubernetes:
            found += told_by_state(case, attempt, cause)
        else:
            found.append(refusals.refused(case, attempt, cause))
    if too_large := impossible(case, attempt, refusals.words(attempt)):
        found.insert(0, too_large)
    if needs_several(causes) and found and found[0].severity == "info":
        found[0] = found[0].saying(_with_others(found, causes), severity="warning")
    if advise and found:
        found[0] = structs.replace(found[0], next_actions=_steps(case, found[0]))
    return found + ([untrusted] if untrusted is not None and untrusted not in found else [])


def _never_asked(case: Case, attempt: Attempt, around: ClusterContext) -> list[Finding]:
    """What keeps kube-scheduler from asking HAMi about the pod, where nobody tried it or HAMi gave no answer."""
    words = _WRONG_SETUP.get(attempt.stage, ())
    if not words or case.pod.spec.scheduler_name != case.install.scheduler_name:
        return []
    quoted = [attempt.evidence] if attempt.evidence else []
    return extender.never_asked(around.install, words, quoted) or (
        schedulers.never_led(around.install, around.process.runs, quoted) if attempt.stage == "extender" else []
    )


def _with_others(found: Sequence[Finding], causes: Sequence[Cause]) -> Prose:
    """The first finding's claim, and that more than this has to change: it waits all the same."""
    codes = (
        "kubernetes-filter" if cause.of_kubernetes else cause.code for cause in causes if cause.rank is Rank.BACKGROUND
    )
    others = [code for code in dict.fromkeys(codes) if code != found[0].code]
    if not others:
        return found[0].text
    return Text("obstacles.several", claim=unstopped(found[0].text), others=", ".join(others))


def _steps(case: Case, first: Finding) -> tuple[NextAction, ...]:
    """What to do about the first finding: where that mends the cause itself, it comes before what gets round it."""
    if CODES[first.code].loses_node:
        return (*first.next_actions, *refusals.loosen_selection(case))
    if CODES[first.code].fix_first:
        return (*first.next_actions, *refusals.advise(case))
    return (*refusals.advise(case), *first.next_actions)


def _past_the_filter(
    case: Case, attempt: Attempt, around: ClusterContext, untrusted: Finding | None
) -> list[Finding] | None:
    """What holds a pod that some node would take, or that the filter let through; None when there is no such node."""
    owners = around.lock_owners
    if (lost := refusals.lost_to_kubernetes(case, attempt)) is not None:
        return [lost]
    for result in (
        binding.locked(case, attempt, owners),
        binding.refused_with_error(case, attempt),
        binding.blocked(case, attempt) if case.fitting else None,
    ):
        if result is not None:
            return [*nodes_behind(case, result, around.questioned), result]
    blamed = untrusted is not None and untrusted.severity != "info"
    plugins = around.questioned.plugins_of(case.device.vendor)
    if (unknown := after_restart.unknown_since_restart(case, attempt, plugins)) is not None:
        return [*nodes_behind(case, unknown, around.questioned), unknown]
    stale = None if blamed else disagrees(case, attempt, around.process, plugins)
    if stale is not None:
        return [stale, *([untrusted] if untrusted is not None else [])]
    retry = binding.waits_for_retry(case, attempt) if case.request.containers and not blamed else None
    if retry is None:
        return None
    noise = (binding.passing_lock(case, owners), untrusted)
    return [retry, *(finding for finding in noise if finding is not None)]


def _words_know_better(case: Case, attempt: Attempt) -> bool:
    """Whether HAMi gave reasons for nodes that our own fit cannot judge: weighing the rest would miss the cause."""
    unknown = [name for name, verdict in case.verdicts.items() if verdict.fits is None and not attempt.cards_on(name)]
    reasons = attempt.unschedulable.by_hami if attempt.unschedulable else ()
    return bool(unknown) and any(card.of for reason in reasons for card in reason.cards)


def _from_words(case: Case, attempt: Attempt, around: ClusterContext, *, of_vendor: bool = False) -> list[Finding]:
    """Where our own fit cannot be asked: the schedulers' words, and no weighing of them."""
    for result in (
        binding.locked(case, attempt, around.lock_owners),
        binding.refused_with_error(case, attempt),
        binding.blocked(case, attempt),
        disagrees(case, attempt, around.process, around.questioned.plugins_of(case.device.vendor)),
    ):
        if result is not None:
            return [*nodes_behind(case, result, around.questioned), result]
    causes = [cause for cause in rank_words(attempt) if cause.rank < Rank.NORMAL]
    telling = [cause for cause in causes if cause.code != "node-unfit-pod"] or causes
    found = [refusals.in_words(attempt, cause, sure=len(causes) == 1, of_vendor=of_vendor) for cause in telling]
    ghosts = ghosts_suspected(case.install, attempt, around.process)
    return [ghosts, *(structs.replace(finding, severity="info") for finding in found)] if ghosts else found


class Judge:
    """Judges the pods of one cluster; those that are alike, and of which the same was said, once.

    No new request is judged after `most_verdicts` verdicts, a request on a node each, or `most_runs` runs of the filter
    for them: nodes that are alike share one. Both are counted and not timed, so that the same cluster gives the same
    answer.
    """

    def __init__(
        self, around: ClusterContext, *, most_verdicts: int = _MOST_VERDICTS, most_runs: int = _MOST_RUNS
    ) -> None:
        self._around = around
        self._runs_end = around.world.runs + most_runs
        self._most_cases = max(1, most_verdicts // max(1, len(around.world.facts.nodes)))
        self._quotas = {quota.namespace for quota in around.world.facts.quotas or ()}
        self._cases: dict[bytes, Case] = {}
        self._causes: dict[Hashable, Finding] = {}
        self._gaps: dict[Gap, None] = {}

    def cause(self, pod: Pod, attempt: Attempt) -> Finding | None:
        """The first finding about the pod, or about the first one like it; None when there is no room for its case."""
        world = self._around.world
        request = request_key(pod, self._quotas)
        key = request, attempt_key(pod, attempt, world.facts.now), self._left_alone(pod)
        if key in self._causes:
            return self._causes[key]
        if request in self._cases:
            case = self._cases[request].twin(pod)
        elif len(self._cases) < self._most_cases and world.runs < self._runs_end:
            case = self._cases[request] = Case(pod, world)
        else:
            return None
        judged = judge(case, attempt, self._around, advise=False)
        if judged.case is not None:
            self._gaps |= dict.fromkeys(fit_gaps(judged.case))
        self._causes[key] = judged.findings[0]
        return judged.findings[0]

    def _left_alone(self, pod: Pod) -> Hashable:
        """What of the pod and its namespace decides why HAMi did not see it."""
        install, config = self._around.world.install, self._around.world.config
        if not went_past_hami(pod, install, config):
            return None
        reason = why_left_alone(pod, install, config, self._around.webhook)
        return reason, pod.namespace if reason and reason.how == "namespace" else ""

    @property
    def gaps(self) -> list[Gap]:
        """Where the fit of the pods that were judged is not known."""
        return list(self._gaps)
