"""Bugs of HAMi that a pod meets by what it asks for: HAMi refuses nodes that have what it wants."""

from msgspec import structs

from bot.finding_codes import Code
from bot.hami.installation.known_bugs import KnownBug, bug_behind
from bot.hami.scheduler_logs.scheduling_events import finding_code
from bot.report import Evidence, Finding
from bot.texts import Text
from playbooks import quotes
from playbooks.attempt import Attempt
from playbooks.rules.common import prose
from playbooks.rules.common.findings import finding
from playbooks.scenes.waiting_pod import PodScene

_CONTAINERS = "HAMi#798"
_MIG_DEVICES = "HAMi#2403"


def told_by_bug(found: list[Finding], scene: PodScene) -> list[Finding]:
    """The findings behind the bug of this version that the first of them shows; the same where it shows none."""
    if not found or (shown := _shown(found[0], scene)) is None:
        return found
    code, bug, signs = shown
    first = found[0]
    nodes = first.scope.nodes or tuple(scene.candidates)
    why, threads = bug.why, ", ".join(bug.threads)
    claim = Text("known-bug.refused", version=scene.version, nodes=prose.names(nodes), why=why, threads=threads)
    proofs = [*first.evidence, *signs]
    result = finding(code, claim, "suspected", nodes, proofs, severity="warning", actions=first.next_actions[:1])
    return [result, *(structs.replace(finding, severity="info") for finding in found if finding.code != code)]


def _shown(first: Finding, scene: PodScene) -> tuple[Code, KnownBug, list[Evidence]] | None:
    """The code, the bug, and what of the pod and the nodes makes HAMi meet it."""
    if _refuses_without_reason(first, scene.attempt) and len(scene.request.containers) > 1:
        code, thread, signs = "node-unfit-pod", _CONTAINERS, _asking(scene)
    elif first.code == "custom-filter-rule" and (several := _several(scene)):
        code, thread, signs = "custom-filter-rule", _MIG_DEVICES, several
    else:
        return None
    bug = bug_behind(code, [thread], scene.version)
    return (code, bug, signs) if bug else None


def _refuses_without_reason(first: Finding, attempt: Attempt) -> bool:
    """Whether HAMi gives no reason for refusing what the objects allow, and its own figures prove no other."""
    reasons = attempt.unschedulable.by_hami if attempt.unschedulable else ()
    codes = {finding_code(card.code) for reason in reasons for card in reason.cards}
    return first.code == "scheduler-ledger-stale" and first.confidence == "suspected" and codes == {"node-unfit-pod"}


def _asking(scene: PodScene) -> list[Evidence]:
    """The containers that ask for GPUs."""
    return [quotes.of_pod(scene.pod, container.container, "{.spec..name}") for container in scene.request.containers]


def _several(scene: PodScene) -> list[Evidence]:
    """That a container asks for several devices, and as many idle GPUs in MIG mode; empty where either is not so."""
    asked = next((container for container in scene.request.containers if container.count > 1), None)
    if asked is None or scene.request.constraints.mode == "hami-core":
        return []
    for name in scene.candidates:
        idle = [card.card for card in scene.view.cards(name) if card.card.mode == "mig" and not card.slots]
        if len(idle) >= asked.count:
            count = quotes.of_resource(scene.pod, scene.config.of(asked.word).count, str(asked.count))
            return [count, *(quotes.of_card(scene.nodes[name], card.uuid, whole=True) for card in idle[: asked.count])]
    return []
