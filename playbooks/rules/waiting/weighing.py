"""Nodes refuse the pod: what would have to change first, weighed by our own fit, or by the schedulers' words alone."""

from collections.abc import Iterator, Sequence

from msgspec import structs

from bot.finding_codes import CODES, Code
from bot.hami.fit.verdicts import NODE_UNREGISTERED
from bot.hami.scheduler_logs.scheduling_events import REASONS
from bot.report import Finding, NextAction
from bot.texts import Prose, Text, sentences, unstopped
from playbooks.rule import rule
from playbooks.rules.capacity.idle_holders import with_waited_for
from playbooks.rules.capacity.impossible_request import impossible
from playbooks.rules.capacity.large_request import why_large
from playbooks.rules.common import prose
from playbooks.rules.common.gaps import other_vendors
from playbooks.rules.nodes.node_causes import NODE_CODES
from playbooks.rules.waiting import refusals
from playbooks.rules.waiting.autoscaling import with_autoscaler
from playbooks.rules.waiting.cause_ranking import Cause, Rank, by_words, causes, needs_several, rank_causes, rank_words
from playbooks.rules.waiting.node_conditions import told_by_state
from playbooks.rules.waiting.nodes_at_fault import nodes_at_fault
from playbooks.rules.waiting.request_bugs import told_by_bug
from playbooks.rules.waiting.stale_scheduler import ghosts_suspected
from playbooks.rules.waiting.unregistered_nodes import unregistered, untrusted_nodes
from playbooks.scenes.waiting_pod import PodScene

_REFUSALS: tuple[Code, ...] = ("kubernetes-filter", *dict.fromkeys(reason.finding for reason in REASONS))
_REGISTRATION: tuple[Code, ...] = ("handshake-stale", "handshake-deleted", "registration-ignored")


@rule(*_REFUSALS, "scheduler-ledger-stale", "idle-holder")
def refused_by_words(scene: PodScene) -> list[Finding]:
    """Where our own fit cannot be asked: the schedulers' words, and no weighing of them."""
    if not scene.once(by_words):
        return []
    why = "vendor" if scene.nodes_seen and other_vendors(scene) else "unread"
    ranked = [cause for cause in rank_words(scene.attempt) if cause.rank < Rank.NORMAL]
    telling = [cause for cause in ranked if cause.code != "node-unfit-pod"] or ranked
    steps, attempt = prose.scheduler_log(scene.install, scene.pod.name), scene.attempt
    steps = [*steps, refusals.look_at_pod(scene.pod, "")]
    found = [refusals.in_words(attempt, cause, steps, sure=len(ranked) == 1, why=why) for cause in telling]
    if ghosts := ghosts_suspected(scene):
        found = [ghosts, *(structs.replace(finding, severity="info") for finding in found)]
    if not found and scene.nodes_seen:
        found = [refusals.refused(scene, cause) for cause in rank_causes(scene) if cause.of_kubernetes]
    return _with_more(scene, found)


@rule(
    *_REFUSALS,
    *NODE_CODES,
    *_REGISTRATION,
    "impossible-anywhere",
    "idle-holder",
    reads=("nodes",),
)
def refused_by_nodes(scene: PodScene) -> list[Finding]:
    """What would have to change for some node to take the pod, the most likely first."""
    untrusted, ranked = scene.once(untrusted_nodes), scene.once(causes)
    found = [untrusted] if untrusted is not None and untrusted.severity != "info" else []
    for cause in ranked:
        found += _of_cause(scene, cause)
    if too_large := impossible(scene, refusals.words(scene.attempt)):
        found.insert(0, too_large)
    if found and needs_several(ranked) and found[0].severity == "info":
        found[0] = found[0].saying(_with_others(found, ranked), severity="warning")
    if found and scene.advises:
        found[0] = structs.replace(found[0], next_actions=tuple(_steps(scene, found[0])))
    found += [untrusted] if untrusted is not None and untrusted not in found else []
    return _with_more(scene, found)


def _with_more(scene: PodScene, found: list[Finding]) -> list[Finding]:
    """The first finding with why the request is so large, whom the pod waits for, and what an autoscaler says."""
    if found and (large := why_large(scene, found[0].code)) is not None:
        first, *rest = found
        proofs, steps = (*first.evidence, *large.proofs), (*large.steps, *first.next_actions)
        found = [first.saying(sentences(first.text, large.text), evidence=proofs, next_actions=steps), *rest]
    return with_autoscaler(scene, with_waited_for(told_by_bug(found, scene), scene))


def _of_cause(scene: PodScene, cause: Cause) -> Iterator[Finding]:
    yield from nodes_at_fault(scene, cause)
    if cause.text == NODE_UNREGISTERED:
        yield from unregistered(scene, cause)
    elif cause.of_kubernetes:
        yield from told_by_state(scene, cause)
    else:
        yield refusals.refused(scene, cause)


def _with_others(found: Sequence[Finding], ranked: Sequence[Cause]) -> Prose:
    """The first finding's claim, and that more than this has to change: it waits all the same."""
    codes = (
        "kubernetes-filter" if cause.of_kubernetes else cause.code for cause in ranked if cause.rank is Rank.BACKGROUND
    )
    others = [code for code in dict.fromkeys(codes) if code != found[0].code]
    if not others:
        return found[0].text
    return Text("obstacles.several", claim=unstopped(found[0].text), others=", ".join(others))


def _steps(scene: PodScene, first: Finding) -> list[NextAction]:
    """What to do about the first finding: where that mends the cause itself, it comes before what gets round it."""
    if CODES[first.code].loses_node:
        return [*first.next_actions, *refusals.loosen_selection(scene)]
    if CODES[first.code].fix_first:
        return [*first.next_actions, *refusals.advise(scene)]
    return [*refusals.advise(scene), *first.next_actions]
