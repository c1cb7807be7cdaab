"""There is no such pod: why, and what could have been meant."""

from bot.report import Evidence, Finding, NextAction, Scope, Subject, one_line
from bot.texts import Texts
from playbooks._evidence import kubectl
from playbooks._rules import prose
from playbooks._rules.admission import denied
from playbooks._subject import Absent

_MAX_CANDIDATES = 3


def no_such_pod(absent: Absent, kind: str, name: str, say: Texts) -> Finding:
    """Refused at admission, unknown, or not the only one of that name. `kind` and `name` are what was asked for."""
    if (refusal := denied(absent, name, say)) is not None:
        return refusal
    names = [f"{one.namespace}/{one.name}" for one in absent.candidates]
    key = "candidates" if names else "claim" if kind == "Pod" else "owner"
    claim = say(f"not-found.{key}", answer=absent.answer, names=prose.names(say, names))
    return Finding(
        code="not-found",
        claim=one_line(claim, 400),
        severity="warning",
        confidence="suspected" if absent.gaps else "confirmed",
        scope=Scope(),
        evidence=tuple(
            Evidence(
                f"{one.kind.lower()}s",
                f"{one.kind} {full}",
                None,
                one.name,
                kubectl("-n", one.namespace, "get", f"{one.kind.lower()}s"),
            )
            for one, full in zip(absent.candidates[:_MAX_CANDIDATES], names, strict=False)
        ),
        next_actions=tuple(
            NextAction(say("not-found.ask", name=full), prose.command("why", _typed(one)))
            for one, full in zip(absent.candidates[:_MAX_CANDIDATES], names, strict=False)
        ),
    )


def _typed(subject: Subject) -> str:
    kind = "" if subject.kind == "Pod" else f"{subject.kind.lower()}/"
    return f"{subject.namespace}/{kind}{subject.name}"
