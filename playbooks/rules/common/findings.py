"""How every rule makes a finding."""

from collections.abc import Sequence
from typing import NamedTuple

from bot.finding_codes import Code
from bot.kube.recording.redact import masked
from bot.report import Confidence, Evidence, Finding, NextAction, Scope, Severity, one_line

_LONGEST_CLAIM = 400


class NodeCause(NamedTuple):
    """A finding about one node. Findings of one code with the same `why` are the same cause on several nodes.

    `why` is made of facts, as a signature's id, never of prose.
    """

    why: str
    finding: Finding


def finding(
    code: Code,
    claim: str,
    confidence: Confidence,
    nodes: Sequence[str],
    proofs: Sequence[Evidence],
    *,
    severity: Severity,
    actions: Sequence[NextAction] = (),
) -> Finding:
    """The claim on one line and without credentials, for it may name what other programs wrote; each proof once."""
    return Finding(
        code=code,
        claim=one_line(masked(claim, _LONGEST_CLAIM + 1), _LONGEST_CLAIM),
        severity=severity,
        confidence=confidence,
        scope=Scope(nodes=tuple(sorted(nodes))),
        evidence=tuple(dict.fromkeys(proofs)),
        next_actions=tuple(actions),
    )
