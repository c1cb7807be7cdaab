"""How every rule makes a finding."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from bot.finding_codes import Code
from bot.kube.recording.redact import masked
from bot.report import Confidence, Evidence, Finding, NextAction, Scope, Severity, one_line
from bot.texts import Prose, Text, kept

_LONGEST = 401
"""Characters of a value that are looked at: a claim has 400."""


class Part(NamedTuple):
    """What a rule's finding says beside its cause: a sentence behind the claim, proofs, and steps before its own."""

    text: Prose = ""
    proofs: Sequence[Evidence] = ()
    steps: Sequence[NextAction] = ()


def finding(
    code: Code,
    claim: Prose,
    confidence: Confidence,
    nodes: Sequence[str],
    proofs: Sequence[Evidence],
    *,
    severity: Severity,
    actions: Sequence[NextAction] = (),
) -> Finding:
    """The claim without credentials, for it may name what other programs wrote; each proof once."""
    made = Finding(
        code=code,
        claim="",
        severity=severity,
        confidence=confidence,
        scope=Scope(nodes=tuple(sorted(nodes))),
        evidence=tuple(dict.fromkeys(proofs)),
        next_actions=tuple(actions),
    )
    return made.saying(one_line(masked(claim, _LONGEST)) if isinstance(claim, str) else _masked(claim))


def _masked(text: Text) -> Text:
    return kept(text.key, {name: _value(value) for name, value in text.values.items()})


def _value(value: object) -> object:
    match value:
        case str():
            return masked(value, _LONGEST)
        case Text():
            return _masked(value)
        case {"key": str(key), "values": dict()}:
            return _masked(kept(key, cast("Mapping[str, Any]", value)["values"]))
        case tuple() | list() if type(cast("object", value)) in (tuple, list):
            return tuple(map(_value, cast("Sequence[object]", value)))
        case _:
            return value
