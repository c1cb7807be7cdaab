"""When two pods, or two findings, are alike.

Pods that are alike in all that decides their cause are judged once. Findings of one cause are known by structured
facts, never by prose, so that language and wording do not count: `pending` groups by them, and on-call tells a new
cause from an old one.
"""

import hashlib
from collections.abc import Container, Hashable
from datetime import datetime
from itertools import chain

import msgspec

from bot.finding_codes import CODES
from bot.hami.nodes.cards import MIG_ALLOCATIONS_KEY
from bot.hami.pods.allocations import NODE_KEY
from bot.hami.pods.request_parsing import POLICY_KEY, WEIGHTS_KEY, pod_keys
from bot.hami.scheduler_logs.scheduling_events import chosen_node, parse_unschedulable
from bot.hami.vendors import NAMES
from bot.hami.webhook import OPT_OUT_LABEL
from bot.kube import models
from bot.kube.models import Pod
from bot.kube.times import parse_time
from bot.report import Evidence, Finding
from playbooks.attempt import Attempt
from playbooks.quotes import PodAsks, PodSays
from playbooks.rules.waiting.binding import FILTERED_GRACE, UNSCHEDULABLE_FLUSH
from playbooks.rules.waiting.cause_ranking import family

_RESERVATION = (NODE_KEY, MIG_ALLOCATIONS_KEY)
_DECIDING = frozenset((*_RESERVATION, POLICY_KEY, WEIGHTS_KEY, *chain.from_iterable(map(pod_keys, NAMES))))
_OF_A_CHIP = ("-uuid", "-devices-allocated")
_STEPS = (FILTERED_GRACE, UNSCHEDULABLE_FLUSH)


def request_key(pod: Pod, quotas: Container[str]) -> bytes:
    """A key equal for pods to which every node gives one verdict; `quotas` are the namespaces with a quota."""
    spec, texts = pod.spec, pod.metadata.annotations or {}
    own = [key for key in sorted(texts) if key.startswith("hami.io/") and key.endswith(_OF_A_CHIP)]
    wanted = (
        pod.namespace if pod.namespace in quotas else "",
        [_asked(container) for container in spec.init_containers or ()],
        [_asked(container) for container in spec.containers],
        spec.overhead,
        spec.node_selector,
        spec.affinity,
        spec.tolerations,
        spec.scheduler_name,
        spec.scheduling_gates,
        bool(spec.resource_claims),
        pod.metadata.label(OPT_OUT_LABEL),
        [(key, text) for key, text in sorted(texts.items()) if key in _DECIDING or key in own],
    )
    return msgspec.msgpack.encode(wanted)


def _asked(container: models.Container) -> tuple[object, ...]:
    return container.resources, container.restart_policy, container.security_context


def attempt_key(pod: Pod, attempt: Attempt, now: datetime) -> Hashable:
    """A key that is equal where the schedulers said the same, and so long ago that rules conclude the same."""
    chosen = chosen_node(attempt.evidence.quote) if attempt.stage == "filtered" and attempt.evidence else ""
    words = attempt.stage, attempt.unschedulable, attempt.lock, chosen, attempt.evidence is None
    codes = tuple(event for event, _ in attempt.code_events)
    refusals = tuple((refusal.node, refusal.reason) for refusal, _ in attempt.refusals)
    created = parse_time(pod.metadata.creation_timestamp)
    repeated = attempt.at if attempt.is_repeated else None  # what changed since then decides
    return words, codes, refusals, repeated, _steps(attempt.at, now), _steps(created, now)


def _steps(moment: datetime | None, now: datetime) -> tuple[bool, ...] | None:
    return None if moment is None else tuple(now - moment >= step for step in _STEPS)


_OF_THE_POD: dict[str, type[Evidence]] = {"says": PodSays, "asks": PodAsks}


def cause_signature(finding: Finding) -> str:
    """Sixteen hexadecimal digits that findings of one cause share, whichever pod and time they are about.

    Made of the code, the nodes in scope, the objects in evidence other than pods and nodes (a quota, a lease, a
    deployment), for `kubernetes-filter` the kinds of filters, and for causes in the pod what it says or asks for. Not
    of claims, severity, confidence, times, names of pods, or other amounts.
    """
    facts = sorted({fact for evidence in finding.evidence for fact in _facts(finding, evidence)})
    return hashlib.sha256(msgspec.json.encode((finding.code, finding.scope.nodes, facts))).hexdigest()[:16]


def _facts(finding: Finding, evidence: Evidence) -> list[str]:
    if evidence.kind not in ("Pod", "Node"):
        return [evidence.object]
    if finding.code == "kubernetes-filter" and (refusal := parse_unschedulable(evidence.quote)):
        return [family(reason.text) for reason in refusal.by_kubernetes]
    fact = _OF_THE_POD.get(CODES[finding.code].of_the_pod)
    return [evidence.quote] if fact is not None and isinstance(evidence, fact) else []
