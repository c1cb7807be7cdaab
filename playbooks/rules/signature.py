"""When two findings are the same cause: by structured facts, never by prose, so that language and wording do not count.

The same for the groups of `pending`, and for whatever tells an old finding from a new one.
"""

import hashlib

import msgspec

from bot.hami.messages import parse_unschedulable
from bot.report import Evidence, Finding
from playbooks.rules.causes import family

_OF_THE_POD = frozenset(
    {
        "card-type-mismatch",
        "card-uuid-mismatch",
        "mode-not-fit",
        "scheduling-gated",
        "webhook-bypassed",
        "wrong-scheduler",
    }
)
"""Causes that lie in what the pod itself says: pods that say the same have the same cause."""
_OF_THE_AMOUNTS = "impossible-anywhere"
_NO_FACTS = (".resources", "{.metadata.name}", "{.metadata.creationTimestamp}")
"""Paths of quotes that differ from pod to pod: names, ages, and amounts, of which the nodes tell what they do."""


def cause_signature(finding: Finding) -> str:
    """Sixteen hexadecimal digits that findings of one cause share, whichever pod and time they are about.

    Made of the code, the nodes in scope, the objects that it rests on other than pods and nodes (a quota, a lease, a
    deployment), for `kubernetes-filter` the kinds of filters that kube-scheduler named, and for causes that lie in the
    pod what the pod says, or asks for. Not of claims, severity, confidence, times, names of pods, or amounts else.
    """
    facts = sorted({fact for one in finding.evidence for fact in _facts(finding.code, one)})
    return hashlib.sha256(msgspec.json.encode((finding.code, finding.scope.nodes, facts))).hexdigest()[:16]


def _facts(code: str, evidence: Evidence) -> list[str]:
    kind = evidence.object.partition(" ")[0]
    if kind not in ("Pod", "Node"):
        return [evidence.object]
    if code == "kubernetes-filter" and (told := parse_unschedulable(evidence.quote)):
        return [family(reason.text) for reason in told.by_kubernetes]
    if evidence.source != "pod":
        return []
    of_the_pod = code in _OF_THE_POD and not any(path in evidence.command for path in _NO_FACTS)
    return [evidence.quote] if of_the_pod or code == _OF_THE_AMOUNTS else []
