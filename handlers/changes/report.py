"""What is set, what would be done, what was done: each as a report, the same in Slack and in a shell. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import UNSET, UnsetType

from bot.changes.durations import format_duration
from bot.changes.flags import Set, find_spot, last_set
from bot.changes.journal import Event
from bot.changes.kinds import KINDS, Kind, kind_of
from bot.changes.plan import NothingToDo, Plan, annotation
from bot.changes.record import Record
from bot.changes.refusal import Refusal
from bot.finding_codes import Code, as_code
from bot.kube.recording.redact import masked_arguments
from bot.kube.times import format_time
from bot.report import (
    SCHEMA,
    SEVERITIES,
    Change,
    ChangeTarget,
    Evidence,
    Finding,
    Impact,
    NextAction,
    Report,
    Scope,
    Severity,
    Subject,
    Table,
    one_line,
    worst,
)
from bot.texts import Texts
from handlers.changes.request import ChangeSnapshot, PlannedChange
from handlers.changes.words import Extend, Raise, Revert, Show, words_of
from playbooks.quotes import kubectl
from playbooks.rules.installation.open_change import described, of_record, open_change, undo

_COLUMNS = ("container", "flag", "value", "set by")


class MadeChange(NamedTuple):
    """A change that was made. `proofs` show that it took effect; `waits` is what its rollout still waits for."""

    record: Record
    proofs: tuple[Evidence, ...] = ()
    waits: str = ""


def shown_report(found: ChangeSnapshot, request: Show | Extend | Revert, say: Texts) -> Report:
    """What is set now and what is open."""
    finding = _open(found, say) or _of_record(
        found, "no-change-open", "info", say("changing.none-open", target=found.target)
    )
    return _report(found, request.verb, [finding], tables=(_flags(found),))


def planned_report(found: ChangeSnapshot, request: Raise, planned: PlannedChange, say: Texts) -> Report:
    """What would be done, or why nothing will."""
    outcome = planned.outcome
    if isinstance(outcome, Plan):
        claim = _planned(request, outcome, say)
        actions = (NextAction(say("changing.do-it"), words_of(request), changes_cluster=True),)
        severity = worst_of(planned.impacts)
        finding = _finding("change-planned", severity, claim, (_flag_shown(found, planned),), actions)
        return _report(found, request.verb, [finding], change=change_of(outcome, planned.impacts))
    if isinstance(outcome, NothingToDo):
        claim = say(
            "changing.enough",
            flag=planned.wanted.kind.flag.shown,
            value=outcome.value,
            container=request.container,
            target=found.target,
        )
        finding = _finding(
            "already-enough", "info", claim, (_flag_shown(found, planned),), (_see_log(found, request, say),)
        )
        return _report(found, request.verb, [finding])
    finding = _refused(found, planned, outcome, say)
    return _report(found, request.verb, [finding])


def raised_report(
    found: ChangeSnapshot, request: Raise, planned: PlannedChange, made: MadeChange, say: Texts
) -> Report:
    """The change that was made."""
    record, proofs, waits = made
    claim = say("changing.raised", **described(record, found.taken_at))
    if record.means == "patch":
        claim += " " + (say("changing.rolling", waits=waits) if waits else say("changing.effective"))
    actions = (*undo(record, say), _see_log(found, request, say))
    severity: Severity = "warning" if waits else "info"
    finding = _finding("change-open", severity, claim, proofs or (_record_shown(found, record.id),), actions)
    plan = planned.outcome
    change = change_of(plan, planned.impacts) if isinstance(plan, Plan) else UNSET
    return _report(found, request.verb, [finding], change=change)


def extended_report(found: ChangeSnapshot, request: Extend, outcome: Record | Refusal, say: Texts) -> Report:
    """The change with its new deadline, or why it has none."""
    if isinstance(outcome, Refusal):
        claim = say("changing.refused", why=_why(outcome, say))
        return _report(found, request.verb, [_of_record(found, "change-refused", "warning", claim)])
    longer = say("changing.extended", time=format_duration(request.seconds))
    claim = f"{longer} {say('changing.raised', **described(outcome, found.taken_at))}"
    return _report(found, request.verb, [_of_record(found, "change-open", "info", claim, undo(outcome, say))])


def ended_report(found: ChangeSnapshot, request: Revert, event: Event, say: Texts) -> Report:
    """How the change ended that was open when it was looked at."""
    finding = event_finding(event, say)
    return _report(found, request.verb, [finding])


def event_finding(event: Event, say: Texts) -> Finding:
    """How a change ended, under the code `change-<kind>`."""
    namespace, _, name = event.target.partition("/")
    record = event.record
    look = kubectl("-n", namespace, "get", "deployment", name, "-o", "yaml")
    quote = event.detail or (f"{masked_arguments(list(record.words_before))}" if record else event.target)
    proof = Evidence("deployment", f"Deployment {event.target}", None, quote, look)
    code = as_code("change-unreadable" if record is None else f"change-{event.kind}")
    restored = record is not None and event.kind in ("reverted", "reverted-by-another")
    return _finding(code, "info" if restored else "warning", event_claim(event, say), (proof,), ())


def event_claim(event: Event, say: Texts) -> str:
    """What became of a change, in one sentence."""
    record = event.record
    if record is None:
        return say("changing.unreadable", target=event.target, why=event.detail)
    values = {
        "target": event.target,
        "container": record.container,
        "flag": record.kind.flag.shown,
        "old": record.old or say("changing.unset"),
    }
    match event.kind:
        case "reverted":
            return say("changing.reverted", **values)
        case "reverted-by-another":
            return say("changing.reverted-by-another", **values)
        case "drifted":
            return say("changing.drifted", **values)
        case "container-gone":
            return say("changing.container-gone", **values)
        case "replaced":
            return say("changing.replaced", **values)
        case _:
            return f"{event.target}: {event.kind}: {event.detail}"


def open_one(found: ChangeSnapshot, request: Extend | Revert) -> Record | None:
    """The open change that is to be extended or undone; None where none is, or one of another flag."""
    record = found.open
    return record if isinstance(record, Record) and record.kind is kind_of(request.verb) else None


def change_of(plan: Plan, impacts: tuple[Impact, ...]) -> Change:
    """The plan as reports carry it."""
    record = plan.record
    namespace, _, name = record.target.partition("/")
    target = ChangeTarget("Deployment", namespace, name, record.container, record.flag, record.old, record.new)
    return Change(target, plan.patch, plan.revert_patch, impacts)


def worst_of(impacts: Sequence[Impact]) -> Severity:
    """The highest severity among them."""
    return SEVERITIES[max((SEVERITIES.index(impact.severity) for impact in impacts), default=0)]


# ---------------------------------------------------------------------------------------------------- the findings


def _open(found: ChangeSnapshot, say: Texts) -> Finding | None:
    text, deployment = annotation(found.deployment), found.install.deployment
    return None if text is None or deployment is None else open_change(deployment, text, found.taken_at, say)


def _planned(request: Raise, plan: Plan, say: Texts) -> str:
    record = plan.record
    return say(
        "changing.planned" if record.means == "patch" else "changing.planned-process",
        flag=record.kind.flag.shown,
        container=record.container,
        old=record.old or say("changing.unset"),
        new=record.new,
        time=format_duration(request.seconds),
        until=record.at,
    )


def _refused(found: ChangeSnapshot, planned: PlannedChange, refusal: Refusal, say: Texts) -> Finding:
    claim = say("changing.refused", why=_why(refusal, say))
    if refusal.record is not None:
        return _of_record(found, "change-refused", "warning", claim, undo(refusal.record, say))
    return _finding("change-refused", "warning", claim, (_flag_shown(found, planned),), ())


def _why(refusal: Refusal, say: Texts) -> str:
    return say("changing.refused-hint", why=refusal.why.in_words(say), hint=refusal.hint.in_words(say))


def _see_log(found: ChangeSnapshot, request: Raise, say: Texts) -> NextAction:
    if request.until_captured:
        return NextAction(say("changing.see-log"), f"logs {request.until_captured}")
    log = kubectl("-n", found.namespace, "logs", f"deploy/{found.name}", "-c", request.container, "--since=10m")
    return NextAction(say("changing.see-log"), log)


def _flag_shown(found: ChangeSnapshot, planned: PlannedChange) -> Evidence:
    """The word that sets the flag now, or else the container's name."""
    spot = find_spot(found.deployment, planned.wanted.container)
    now = last_set(spot, planned.wanted.kind.flag) if spot else None
    quote = spot.words(now.field)[now.at] if spot and now else planned.wanted.container
    field = now.field if now else "name"
    path = f'{{.spec.template.spec.containers[?(@.name=="{planned.wanted.container}")].{field}}}'
    return _shown(found, quote, path)


def _of_record(
    found: ChangeSnapshot, code: Code, severity: Severity, claim: str, actions: tuple[NextAction, ...] = ()
) -> Finding:
    text = annotation(found.deployment)
    return _finding(code, severity, claim, (_record_shown(found, text or found.name),), actions)


def _record_shown(found: ChangeSnapshot, quote: str) -> Evidence:
    if quote == found.name:
        return _shown(found, quote, "{.metadata.name}")
    return of_record(found.namespace, found.name, quote)


def _shown(found: ChangeSnapshot, quote: str, path: str) -> Evidence:
    command = kubectl("-n", found.namespace, "get", "deployment", found.name, "-o", f"jsonpath={path}")
    return Evidence("deployment", f"Deployment {found.target}", None, quote, command)


def _finding(
    code: Code, severity: Severity, claim: str, proofs: tuple[Evidence, ...], actions: tuple[NextAction, ...]
) -> Finding:
    return Finding(code, one_line(claim, 600), severity, "confirmed", Scope(), proofs, actions)


# ------------------------------------------------------------------------------------------------------- the report


def _flags(found: ChangeSnapshot) -> Table:
    names = dict.fromkeys(name for kind in KINDS.values() for name in kind.containers)
    asked = [(name, kind) for name in names for kind in KINDS.values() if name in kind.containers]
    rows = [row for name, kind in asked if (row := _row(found, name, kind))]
    return Table("flags", _COLUMNS, tuple(rows))


def _row(found: ChangeSnapshot, container: str, kind: Kind) -> tuple[str, ...] | None:
    spot = find_spot(found.deployment, container)
    if spot is None:
        return None
    now = last_set(spot, kind.flag)
    record = found.open
    if isinstance(record, Record) and (record.means, record.kind, record.container) == ("debug-flags", kind, container):
        return container, kind.flag.shown, record.new, "PUT /debug/flags/v"
    word = _word(spot.words(now.field), now) if now else ""
    return container, kind.flag.shown, now.value if now else kind.values.default, word


def _word(words: Sequence[str], now: Set) -> str:
    return words[now.at] if now.spelling else " ".join(words[now.at - 1 : now.at + 1])


def _report(
    found: ChangeSnapshot,
    verb: str,
    findings: list[Finding],
    *,
    tables: tuple[Table, ...] = (),
    change: Change | UnsetType = UNSET,
) -> Report:
    return Report(
        schema=SCHEMA,
        playbook=verb,
        cluster=found.cluster,
        taken_at=format_time(found.taken_at),
        subject=Subject("Deployment", found.namespace, found.name),
        verdict=one_line(findings[0].claim),
        severity=worst(tuple(findings)),
        findings=tuple(findings),
        tables=tables,
        gaps=found.gaps,
        change=change,
    )
