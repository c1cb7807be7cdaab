"""What is wrong with a pod that has its node, and why no pod has a name: the order of the guides' decision tree. The
cause comes first: the node, why it was not placed by HAMi, the start, what happens inside, then what it led to.
"""

from collections.abc import Iterator

from bot.finding_codes import Code
from bot.hami.scheduler_logs.scheduling_events import REASONS
from bot.kube.models import Pod
from bot.report import Finding, Gap, step
from bot.texts import Text
from playbooks import quotes
from playbooks.attempt import last_attempt, placed_since
from playbooks.judgement.waiting import cannot_tell
from playbooks.quotes import kubectl
from playbooks.rule import FindingsSoFar, Stage, before, of_a_new_code, rule
from playbooks.rules.admission.before_scheduling import (
    given_nothing,
    no_such_pod,
    refused_at_creation,
    refused_by_known_words,
    webhook_unanswered,
)
from playbooks.rules.common.containers import statuses
from playbooks.rules.placed.container_faults import hidden_from_cuda, on_a_faulty_gpu
from playbooks.rules.placed.container_log_faults import own_log_fault
from playbooks.rules.placed.hami_core import segfault, unenforced_limit
from playbooks.rules.placed.not_started import failed, not_started, start_fault, unready
from playbooks.rules.placed.refused_by_node import node_behind_refusal, placed_without_hami, refused
from playbooks.rules.placed.running import node_down, running, succeeded, terminating
from playbooks.rules.waiting.cause_ranking import Rank, rank_words
from playbooks.rules.waiting.refusals import in_words
from playbooks.scenes.placed_pod import AbsentScene, PlacedScene

_REFUSED, _NOT_STARTED, _RUNNING = "allocate-failed", "image-or-start-failure", "running"
_OF_HAMI: set[Code] = {reason.finding for reason in REASONS}


@rule("not-enough-evidence")
def unexplained(scene: PlacedScene) -> Iterator[Finding]:
    """The finding that nothing that was read tells what became of the pod."""
    yield cannot_tell(scene.pod.namespace, scene.pod.name, [])


@rule("not-enough-evidence", "kubernetes-filter", *_OF_HAMI)
def unread(scene: AbsentScene) -> Iterator[Finding]:
    """The finding about a pod that cannot be read itself: what its events say."""
    if not isinstance(scene.absent, Gap):
        return
    kind, namespace, name = scene.wanted.kind, scene.wanted.namespace, scene.wanted.name
    attempt = last_attempt(Pod(), scene.events, ())
    if (placed := placed_since(scene.events, attempt)) is not None:
        yield cannot_tell(namespace, name, [quotes.of_event(placed)], kind)
        return
    ranked = [cause for cause in rank_words(attempt) if cause.rank < Rank.NORMAL]
    look = kubectl("-n", namespace or "NAMESPACE", "describe", "pod", name)
    for cause in ranked:
        yield in_words(attempt, cause, [step(Text("blocked-after-filter.look"), look)], sure=False)
    if not ranked:
        yield cannot_tell(namespace, name, [attempt.evidence] if attempt.evidence else [], kind)


def _may_lack_limits(scene: PlacedScene, told: FindingsSoFar) -> bool:
    """Whether it ever began, and nothing is known but how it stands, and what fails inside it."""
    return told.codes <= {_NOT_STARTED, *own_log_fault.codes} and not _never_began(scene, told)


def _explains(told: FindingsSoFar, _: Finding) -> bool:
    return told.codes <= {_NOT_STARTED}


def _nothing_told(_: object, told: FindingsSoFar) -> bool:
    return not told.findings


def _never_began(scene: PlacedScene, told: FindingsSoFar) -> bool:
    """Whether none of its containers was ever started: what it lacks then is why it fails."""
    began = (one.state.running or one.state.terminated or one.last_state.terminated for one in statuses(scene.pod))
    return _NOT_STARTED in told.codes and not any(began)


def _how_it_came_matters(scene: PlacedScene, told: FindingsSoFar) -> bool:
    """Whether it matters how the pod came there: a fault inside one that runs, and a deletion, say more."""
    return not told.codes.isdisjoint({_REFUSED, _NOT_STARTED, _RUNNING}) and not _never_began(scene, told)


PLACED: tuple[Stage[PlacedScene], ...] = (
    Stage("has ended well", succeeded, ends=True),
    Stage("how it stands", refused, failed, terminating, unready, not_started, either=True),
    Stage("its node refused its devices", node_behind_refusal, leads=before),
    Stage("was not started", start_fault, leads=before),
    Stage(
        "fails inside",
        *(hidden_from_cuda, own_log_fault, segfault, on_a_faulty_gpu),
        either=True,
        when=lambda _, told: told.codes <= {_NOT_STARTED},
        leads=before,
    ),
    Stage("its limits cannot hold", unenforced_limit, when=_may_lack_limits, keeps=of_a_new_code, leads=_explains),
    Stage("runs", running, when=_nothing_told),
    Stage(
        "was given nothing",
        *(placed_without_hami, given_nothing),
        either=True,
        when=_how_it_came_matters,
        leads=before,
    ),
    Stage("would be given nothing", given_nothing, when=_never_began),
    Stage("its node is down", node_down, leads=before),
    Stage("explained by nothing", unexplained, when=_nothing_told),
)
"""The stages about a pod that has its node. Each stage speaks before those whose findings it explains."""

ABSENT: tuple[Stage[AbsentScene], ...] = (
    Stage("could not be read", unread, ends=True),
    Stage("was refused at its creation", refused_by_known_words, webhook_unanswered, either=True),
    Stage("was never created", refused_at_creation),
    Stage("is not there", no_such_pod, when=_nothing_told),
)
