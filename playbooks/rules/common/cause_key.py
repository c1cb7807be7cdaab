"""When two findings are the same cause: by structured facts, never by prose, so that language and wording do not count.

The same for the groups of `pending`, and for whatever tells an old finding from a new one.
"""

import hashlib

import msgspec

from bot.finding_codes import CODES
from bot.hami.scheduler_logs.scheduling_events import parse_unschedulable
from bot.report import Evidence, Finding
from playbooks.quotes import PodAsks, PodSays
from playbooks.rules.waiting.cause_ranking import family

_OF_THE_POD: dict[str, type[Evidence]] = {"says": PodSays, "asks": PodAsks}


def cause_signature(finding: Finding) -> str:
    """Sixteen hexadecimal digits that findings of one cause share, whichever pod and time they are about.

    Made of the code, the nodes in scope, the objects that it rests on other than pods and nodes (a quota, a lease, a
    deployment), for `kubernetes-filter` the kinds of filters that kube-scheduler named, and for causes that lie in the
    pod what the pod says, or asks for. Not of claims, severity, confidence, times, names of pods, or amounts else.
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
