"""How every rule makes a finding."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from bot.finding_codes import Code
from bot.hami.installation.install import Install
from bot.hami.installation.known_bugs import bug_behind
from bot.kube.recording.redact import masked
from bot.report import Confidence, Evidence, Finding, NextAction, Severity, new_finding, one_line, step
from bot.texts import LITERAL, Prose, Text, kept
from playbooks.quotes import kubectl

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
    of: Install | None = None,
) -> Finding:
    """The claim without credentials, for it may name what other programs wrote; each proof once.

    Where a bug of this install, `of`, can be behind it, the last step is to upgrade to a release without that bug.
    """
    told = one_line(masked(claim, _LONGEST)) if isinstance(claim, str) else _masked(claim)
    last = _upgrade(code, told, proofs, of) if of else ()
    steps = [*(action for action in actions if action not in last), *last]
    return new_finding(code, severity, told, proofs, steps, confidence=confidence, nodes=nodes)


def _upgrade(code: Code, claim: Prose, proofs: Sequence[Evidence], install: Install) -> tuple[NextAction, ...]:
    if install.version is None or install.deployment is None:
        return ()
    said = [*_facts(claim), *(proof.quote for proof in proofs)]
    if (bug := bug_behind(code, said, install.version.version)) is None:
        return ()
    threads = ", ".join(bug.threads)
    label = Text("known-bug.upgrade", fixed=bug.fixed, version=install.version.version, why=bug.why, threads=threads)
    path = "jsonpath={.spec.template.spec.containers[*].image}"
    return (step(label, kubectl("-n", install.namespace, "get", "deployment", install.deployment.name, "-o", path)),)


def _facts(value: object) -> Iterator[str]:
    """The keys and the words in a claim and its values; no text that is in a language already."""
    match value:
        case str():
            yield value
        case Text():
            yield value.key
            yield from _facts(() if value.key == LITERAL else tuple(value.values.values()))
        case list() | tuple():
            for part in cast("Sequence[object]", value):
                yield from _facts(part)
        case _:
            return


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
