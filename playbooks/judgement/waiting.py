"""What keeps a pending pod from its node: the decision tree of the debugging guide, and what a real cluster adds. `why`
uses it for one pod, `pending`, `quota` and the watcher for all of them.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from bot.hami.installation.install import went_past_hami
from bot.hami.pods.request_parsing import DeviceConfig, asked_resources
from bot.kube.models import Pod
from bot.kube.times import parse_time
from bot.report import Confidence, Evidence, Finding, Gap, gap, step
from bot.texts import Text
from playbooks.quotes import kubectl
from playbooks.rule import FindingsSoFar, Stage, before, rule, run
from playbooks.rules.admission.before_scheduling import amounts_unread, anothers, gated, nothing_asked, policies_unread
from playbooks.rules.admission.webhook_bypassed import went_past, why_left_alone
from playbooks.rules.common.findings import finding, fit_gaps, scene_gaps
from playbooks.rules.dra import claims_alone, claims_decide, unclaimed
from playbooks.rules.installation.extender import never_asked_about
from playbooks.rules.installation.schedulers import none_found, unwell
from playbooks.rules.installation.surroundings import perhaps_without_hami, predecessors, without_hami
from playbooks.rules.waiting.alike import attempt_key, cause_signature, request_key
from playbooks.rules.waiting.binding import blocked, extender_silent, locked, refused_with_error, waits_for_retry
from playbooks.rules.waiting.panics import extender_ended, panicked
from playbooks.rules.waiting.refusals import lost_to_kubernetes
from playbooks.rules.waiting.refused_requests import offered_nowhere, request_refused
from playbooks.rules.waiting.stale_scheduler import disagrees, unknown_since_restart
from playbooks.rules.waiting.volcano import placed_by_volcano
from playbooks.rules.waiting.weighing import refused_by_nodes, refused_by_words
from playbooks.scenes.cluster import ClusterScene
from playbooks.scenes.waiting_pod import PodScene

_MOST_VERDICTS = 300_000
"""The most verdicts (one request on one node each) for all requests that differ: three seconds on one core of 2026."""
_MOST_RUNS = 12_000
"""The most filter runs, on nodes that differ in what decides the verdict: two seconds on one core of 2026."""

_NOT_OURS, _PAST_HAMI, _NOWHERE = "not HAMi's to place", "went past HAMi", "offered by no node"
_CLAIMS_ALONE, _NOBODY_TRIED = "asks through claims alone", "asks for nothing, and nobody tried"


def cannot_tell(namespace: str, name: str, proofs: Sequence[Evidence], kind: str = "Pod") -> Finding:
    """The finding that nothing that was read explains the pod, or its owner (`kind`); `namespace` may be empty."""
    full = f"{namespace}/{name}" if namespace else name
    claim = Text("not-enough-evidence.claim", pod=full if kind == "Pod" else f"{kind} {full}")
    command = kubectl("-n", namespace or "NAMESPACE", "describe", kind.lower(), name)
    label = Text("not-enough-evidence.describe") if kind == "Pod" else Text("not-enough-evidence.owner", kind=kind)
    look = step(label, command)
    return finding("not-enough-evidence", claim, "suspected", proofs=proofs, actions=[look])


@rule("not-enough-evidence")
def unexplained(scene: PodScene) -> Iterator[Finding]:
    """The finding that nothing that was read explains why the pod is pending."""
    yield cannot_tell(scene.pod.namespace, scene.pod.name, scene.words)


def _nodes_count(_: PodScene, told: FindingsSoFar) -> bool:
    return told.ended not in (_NOT_OURS, _PAST_HAMI, _NOWHERE, _CLAIMS_ALONE)


def _also_asks_for_nothing(scene: PodScene, told: FindingsSoFar) -> bool:
    return _nodes_count(scene, told) and told.ended != _NOBODY_TRIED


def _asks_for_something(scene: PodScene, told: FindingsSoFar) -> bool:
    return _nodes_count(scene, told) and "no-device-request" not in told.codes


def _is_of_its_scheduler(scene: PodScene, told: FindingsSoFar) -> bool:
    """Whether trouble of HAMi's scheduler can hold the pod: it has it, and is asked about it."""
    if told.ended == _CLAIMS_ALONE or "no-device-request" in told.codes:
        return scene.pod.spec.scheduler_name == scene.install.scheduler_name
    return told.ended != _NOT_OURS


def _concerns(told: FindingsSoFar, trouble: Finding) -> bool:
    """A pod that went past HAMi misses its scheduler only where that is why the webhook does not answer."""
    return told.ended != _PAST_HAMI or (trouble.code == "scheduler-down" and "webhook-unreachable" in told.codes)


def _explains(told: FindingsSoFar, trouble: Finding) -> bool:
    """A scheduler that does not work comes first; one that is unwell only where nothing else explains the pod."""
    unexplained = bool(told.findings) and told.findings[0].code == "waiting-for-retry"
    return trouble.severity == "critical" or (unexplained and trouble.severity == "warning")


WAITING: tuple[Stage[PodScene], ...] = (
    Stage(
        _NOT_OURS,
        *(gated, placed_by_volcano, predecessors, unclaimed, without_hami, anothers, perhaps_without_hami),
        either=True,
        ends=True,
    ),
    Stage(_PAST_HAMI, went_past, ends=True),
    Stage(_NOWHERE, offered_nowhere, ends=True, beside=True, when=lambda _, told: told.ended in ("", _PAST_HAMI)),
    Stage(_CLAIMS_ALONE, claims_alone, ends=True),
    Stage(_NOBODY_TRIED, nothing_asked, ends=True, when=lambda scene, _: scene.attempt.stage == "nothing"),
    Stage("HAMi gave no answer", request_refused, panicked, never_asked_about, extender_silent, either=True, ends=True),
    Stage(
        "let through by the filter, or by the objects",
        *(lost_to_kubernetes, locked, refused_with_error, blocked, unknown_since_restart, disagrees),
        either=True,
        ends=True,
    ),
    Stage("refused, and only words tell why", refused_by_words, ends=True),
    Stage("would fit now", waits_for_retry, ends=True),
    Stage("refused by every node", refused_by_nodes, ends=True),
    Stage("asks for nothing", nothing_asked, beside=True, when=_also_asks_for_nothing),
    Stage("asks in part for nothing", amounts_unread, beside=True, when=_asks_for_something),
    Stage("policies that HAMi does not know", policies_unread, beside=True, when=_asks_for_something),
    Stage("explained by nothing", unexplained, beside=True, when=lambda _, told: not told.findings),
    Stage("its claims", claims_decide, beside=True, when=_nodes_count, leads=before),
    Stage("there is no scheduler of HAMi's", none_found, beside=True, when=_is_of_its_scheduler, leads=before),
    Stage(
        "HAMi's scheduler itself",
        extender_ended,
        unwell,
        beside=True,
        when=_is_of_its_scheduler,
        keeps=_concerns,
        leads=_explains,
    ),
)
"""The stages about a pending pod. The first stage that speaks and `ends`, ends the search."""


class Judgement(NamedTuple):
    """The findings about a pending pod, at least one, the cause first. `of_nodes`: they may depend on the nodes."""

    findings: list[Finding]
    of_nodes: bool


def judge(scene: PodScene) -> Judgement:
    """What the rules in `WAITING` find about a pending pod, its devices called as people call them."""
    told = run(WAITING, scene)
    of_nodes = told.ended not in (_NOT_OURS, _PAST_HAMI, _CLAIMS_ALONE)
    return Judgement([finding.about(scene.noun) for finding in told.findings], of_nodes)


class Judge:
    """Judges the pods of one cluster; pods that are alike and of which the schedulers said the same, only once.

    No new request is judged after `most_verdicts` verdicts (one request on one node each), or `most_runs` runs of the
    filter for them: nodes that are alike share one. Both are counted and not timed, so that the same cluster gives the
    same answer.
    """

    def __init__(
        self, cluster: ClusterScene, *, most_verdicts: int = _MOST_VERDICTS, most_runs: int = _MOST_RUNS
    ) -> None:
        self._cluster = cluster
        self._runs_end = cluster.runs + most_runs
        self._most_scenes = max(1, most_verdicts // max(1, len(cluster.facts.nodes)))
        self._quotas = {quota.namespace for quota in cluster.facts.quotas or ()}
        self._scenes: dict[bytes, PodScene] = {}
        self._causes: dict[Hashable, Finding] = {}
        self._gaps: dict[Gap, None] = {}

    def cause(self, pod: Pod) -> Finding | None:
        """The first finding about the pod, or about one like it; None after the most verdicts or runs."""
        cluster, request = self._cluster, request_key(pod, self._quotas)
        scene = PodScene(cluster, pod, advises=False)
        attempt = scene.attempt
        key = request, attempt_key(pod, attempt, cluster.now), _left_alone(scene)
        if key in self._causes:
            return self._causes[key]
        if request in self._scenes:
            scene = self._scenes[request].twin(pod, attempt)
        elif len(self._scenes) < self._most_scenes and cluster.runs < self._runs_end:
            self._scenes[request] = scene
        else:
            return None
        judged = judge(scene)
        if judged.of_nodes:
            self._gaps |= dict.fromkeys(fit_gaps(scene))
        self._causes[key] = judged.findings[0]
        return judged.findings[0]

    @property
    def gaps(self) -> list[Gap]:
        """The gaps for judged pods whose fit is not known."""
        return list(self._gaps)


def _left_alone(scene: PodScene) -> Hashable:
    """What of the pod and its namespace decides why HAMi did not see it."""
    if not went_past_hami(scene.pod, scene.install, scene.config):
        return None
    reason = why_left_alone(scene)
    return reason, scene.pod.namespace if reason and reason.how == "namespace" else ""


class WaitingRow(NamedTuple):
    """A row for a pending pod, with what it asks for as written, without the domain: `gpu 1, gpumem 20k`."""

    namespace: str
    pod: str
    waiting_since: datetime | None
    minutes: int | None
    asks: str


class JudgedPod(NamedTuple):
    """A pod with the first finding about it; None if it was not judged, after the most verdicts or runs."""

    pod: Pod
    cause: Finding | None


class WaitingGroup(NamedTuple):
    """The pods of one cause, and the finding about each, both in the same order."""

    pods: list[Pod]
    causes: list[Finding]

    @property
    def oldest(self) -> str:
        return f"{self.pods[0].namespace}/{self.pods[0].name}"

    @property
    def cause(self) -> Finding:
        return self.causes[0]

    @property
    def confidence(self) -> Confidence:
        """`suspected` if the finding about any of the pods is."""
        return "suspected" if any(cause.confidence == "suspected" for cause in self.causes) else "confirmed"


def judge_all(
    scene: ClusterScene, pods: Iterable[Pod], undecodable: Sequence[str]
) -> tuple[list[JudgedPod], list[Gap]]:
    """The cause of each pod, in the pods' order, and the gaps in what decides it."""
    judge = Judge(scene)
    judged = [JudgedPod(pod, judge.cause(pod)) for pod in pods]
    gaps = [*scene_gaps(scene, undecodable), *judge.gaps]
    if left := sum(1 for judged_pod in judged if judged_pod.cause is None):
        gaps.append(gap("fit", Text("pending.not-judged", count=left), Text("pending.not-judged-hint")))
    return judged, gaps


def by_cause(judged: Iterable[JudgedPod]) -> list[WaitingGroup]:
    """The judged pods by cause (`cause_signature`) and who has to act; pods without a finding are in no group."""
    groups: dict[tuple[str, str], WaitingGroup] = {}
    signatures: dict[int, str] = {}  # thousands of pods share a finding, and it may name thousands of nodes
    for pod, cause in judged:
        if cause is not None:
            signature = signatures.get(id(cause)) or cause_signature(cause)
            signatures[id(cause)] = signature
            group = groups.setdefault((signature, cause.pending_class), WaitingGroup([], []))
            group.pods.append(pod)
            group.causes.append(cause)
    return list(groups.values())


def waiting_row(pod: Pod, config: DeviceConfig, now: datetime) -> WaitingRow:
    """The row for a pending pod."""
    since = parse_time(pod.metadata.creation_timestamp)
    minutes = max(0, int((now - since).total_seconds() // 60)) if since else None
    asks = ", ".join(f"{_short(name, config)} {value}" for name, value in asked_resources(pod, config).items())
    return WaitingRow(pod.namespace, pod.name, since, minutes, asks)


def _short(resource: str, config: DeviceConfig) -> str:
    """Without its domain, but for another vendor's that would then read as the first one's: `metax-tech.com/gpu`."""
    local = resource.rpartition("/")[2]
    of_first = {name.rpartition("/")[2] for name in config.gpus.all}
    return resource if local in of_first and resource not in config.gpus.all else local
