"""Reports about changes, for Slack and a shell alike: present values, a planned change, one that was made. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import UNSET, UnsetType

from bot.changes.flags import find_spot, last_set
from bot.changes.journal import ChangeEvent
from bot.changes.kinds import VERBS, ChangeKind, kind_of
from bot.changes.plan import NothingToDo, Plan, Raise, annotation
from bot.changes.record import Record, Refusal, UnreadableRecord
from bot.finding_codes import Code, as_code
from bot.kube.recording.redact import masked_arguments
from bot.kube.times import format_duration, format_time
from bot.report import (
    SEVERITIES,
    Change,
    ChangeTarget,
    Evidence,
    Finding,
    NextAction,
    Report,
    Severity,
    Subject,
    Table,
    act,
    new_finding,
    new_report,
    step,
)
from bot.texts import Prose, Text, listed, literal, sentences
from handlers.changes.request import ChangeSnapshot
from handlers.changes.words import HOW_TO_REVERT, Extend, Revert, Show, words_of
from playbooks.quotes import kubectl
from playbooks.rules.installation.install_settings import described, how_to_revert, of_record, open_change

_COLUMNS = ("container", "flag", "value", "set by")
_ENDED = {
    "reverted": "changing.reverted",
    "reverted-by-another": "changing.reverted-by-another",
    "drifted": "changing.drifted",
    "container-gone": "changing.container-gone",
    "replaced": "changing.replaced",
}


def shown_report(found: ChangeSnapshot, request: Show, program: str) -> Report:
    """The report on present values and the open change; `program` is what commands begin with."""
    if not request.verb:
        verb, record = HOW_TO_REVERT[0], found.open
        claim = Text("changing.none-to-revert", target=found.target)
        finding = _open(found) or _of_record(found, "no-change-open", "info", claim)
        if not isinstance(record, Record):
            return _report(found, verb, [finding])
        command = f"{program} {record.kind.reverting}".strip()
        verdict = Text("changing.how-to-revert", command=command, **described(record, found.taken_at))
        return _report(found, verb, [finding], verdict=verdict)
    kinds = VERBS[request.verb]
    asked = [(kind, name) for kind in kinds for name in kind.containers]
    settings = [shown for kind, name in asked if (shown := _setting(found, name, kind))]
    table = Table("flags", _COLUMNS, tuple(map(tuple, settings)))
    state = _state(settings, kinds)
    finding = _open(found)
    if finding is None:
        claim = Text("changing.shown", state=state) if state else Text("changing.none-open", target=found.target)
        proof = _flag_shown(found, *asked[0])
        finding = new_finding("no-change-open", "info", claim, (proof,))
    elif finding.severity == "info" and state:
        verdict = Text("changing.shown-open", state=state)
        return _report(found, request.verb, [finding], verdict=verdict, tables=(table,))
    return _report(found, request.verb, [finding], tables=(table,))


def not_open_report(found: ChangeSnapshot, request: Extend | Revert, program: str) -> Report:
    """The report that `open_one` found nothing to revert or extend; `program` is what commands begin with."""
    reverts, record = isinstance(request, Revert), found.open
    if record is None:
        key = "changing.none-to-revert" if reverts else "changing.none-to-extend"
        claim = Text(key, target=found.target)
        return _report(found, request.verb, [_of_record(found, "no-change-open", "info", claim)])
    if isinstance(record, UnreadableRecord):
        claim = Text("changing.unreadable", target=found.target, why=record.why)
        return _report(found, request.verb, [_of_record(found, "change-unreadable", "warning", claim)])
    other_way = how_to_revert(record)[0 if reverts else 1]
    claim = Text(
        "changing.another-not-reverted" if reverts else "changing.another-not-extended",
        change=record.shown,
        container=record.container,
        command=f"{program} {other_way.command}",
    )
    proof = _flag_shown(found, record.kind, record.container)
    return _report(found, request.verb, [new_finding("change-refused", "warning", claim, (proof,), (other_way,))])


def planned_report(found: ChangeSnapshot, request: Raise, outcome: Plan | NothingToDo | Refusal) -> Report:
    """The report on a change that would be made, or why none will."""
    proof = _flag_shown(found, request.kind, request.container)
    if isinstance(outcome, Plan):
        record = outcome.record
        claim = Text(
            "changing.planned" if record.means == "patch" else "changing.planned-process",
            change=record.shown,
            container=record.container,
            old=listed(dict.fromkeys(each.old or Text("changing.unset") for each in record.flags)),
            time=format_duration(request.seconds),
            until=record.at,
        )
        actions = (act(Text("changing.do-it"), words_of(request)),)
        severity = SEVERITIES[max((SEVERITIES.index(impact.severity) for impact in outcome.impacts), default=0)]
        finding = new_finding("change-planned", severity, claim, (proof,), actions)
        return _report(found, request.verb, [finding], change=change_of(outcome))
    if isinstance(outcome, NothingToDo):
        has = zip(request.values, outcome.values, strict=True)
        change = " ".join(f"{kind_of(flag).flag.shown}={value}" for (flag, _), value in has)
        claim = Text("changing.enough", change=change, container=request.container, target=found.target)
        finding = new_finding("already-enough", "info", claim, (proof,), (_see_log(found, request),))
        return _report(found, request.verb, [finding])
    why = Text("changing.refused-hint", why=outcome.why, hint=outcome.hint)
    claim = Text("changing.refused", why=why)
    if outcome.record is not None:
        finding = _of_record(found, "change-refused", "warning", claim, how_to_revert(outcome.record))
    else:
        finding = new_finding("change-refused", "warning", claim, (proof,))
    return _report(found, request.verb, [finding])


def raised_report(
    found: ChangeSnapshot, request: Raise, plan: Plan, record: Record, *, proofs: tuple[Evidence, ...], waits: str
) -> Report:
    """The report on a change that was made. `proofs` show its effect; `waits` is what its rollout still waits for."""
    claim = Text("changing.raised", **described(record, found.taken_at))
    if record.means == "patch":
        claim = sentences(claim, Text("changing.rolling", waits=waits) if waits else Text("changing.effective"))
    actions = (*how_to_revert(record), _see_log(found, request))
    severity: Severity = "warning" if waits else "info"
    finding = new_finding("change-open", severity, claim, proofs or (_record_shown(found, record.id),), actions)
    return _report(found, request.verb, [finding], change=change_of(plan))


def extended_report(found: ChangeSnapshot, request: Extend, outcome: Record | Refusal) -> Report:
    """The report on an extended change with its new deadline, or why it was not extended."""
    if isinstance(outcome, Refusal):
        why = Text("changing.refused-hint", why=outcome.why, hint=outcome.hint)
        claim = Text("changing.refused", why=why)
        return _report(found, request.verb, [_of_record(found, "change-refused", "warning", claim)])
    longer = Text("changing.extended", time=format_duration(request.seconds))
    claim = sentences(longer, Text("changing.raised", **described(outcome, found.taken_at)))
    return _report(found, request.verb, [_of_record(found, "change-open", "info", claim, how_to_revert(outcome))])


def ended_report(found: ChangeSnapshot, request: Revert, event: ChangeEvent) -> Report:
    """The report on how an open change ended, under the code `change-<kind>`."""
    namespace, _, name = event.target.partition("/")
    record = event.record
    look = kubectl("-n", namespace, "get", "deployment", name, "-o", "yaml")
    quote = event.detail or (f"{masked_arguments(list(record.words_before))}" if record else event.target)
    proof = Evidence("deployment", f"Deployment {event.target}", None, quote, look)
    code = as_code("change-unreadable" if record is None else f"change-{event.kind}")
    restored = record is not None and event.kind in ("reverted", "reverted-by-another")
    finding = new_finding(code, "info" if restored else "warning", event_claim(event), (proof,))
    return _report(found, request.verb, [finding])


def event_claim(event: ChangeEvent) -> Text:
    """The sentence that tells an event of a change."""
    record = event.record
    if record is None:
        return Text("changing.unreadable", target=event.target, why=event.detail)
    values = {
        "target": event.target,
        "container": record.container,
        "flag": listed(each.kind.flag.shown for each in record.flags) if record.also else record.kind.flag.shown,
        "old": record.old or Text("changing.unset"),
    }
    if event.kind == "unreadable":
        return Text("changing.kept", change=record.shown, until=record.at, **values)
    if event.kind not in _ENDED:
        return literal(f"{event.target}: {event.kind}: {event.detail}")
    if record.also and event.kind == "reverted":
        claim = Text("changing.reverted-all", **values)
    else:
        claim = Text(_ENDED[event.kind], **values)
    return sentences(claim, Text("changing.by-copy")) if event.source == "copy" else claim


def open_one(found: ChangeSnapshot, request: Extend | Revert) -> Record | None:
    """The open change that the request would extend or revert; None if none is open, or another one."""
    record = found.open
    if not isinstance(record, Record):
        return None
    named = request.change_id if isinstance(request, Revert) else ""
    return record if (record.id == named if named else record.kind.verb == request.verb) else None


def change_of(plan: Plan) -> Change:
    """Turns a plan into the change that a report carries."""
    record = plan.record
    namespace, _, name = record.target.partition("/")
    first, *others = (
        ChangeTarget("Deployment", namespace, name, record.container, flag=each.flag, old=each.old, new=each.new)
        for each in record.flags
    )
    return Change(first, plan.patch, plan.revert_patch, plan.impacts, also=tuple(others) or UNSET)


# ---------------------------------------------------------------------------------------------------- the findings


def _open(found: ChangeSnapshot) -> Finding | None:
    if copy := found.copy:
        values = {"change": copy.shown, "container": copy.container, "until": copy.at}
        claim = Text("changing.kept", target=found.target, **values)
        return _of_record(found, "change-unreadable", "warning", claim, how_to_revert(copy)[:1])
    text, deployment = annotation(found.deployment), found.install.deployment
    return None if text is None or deployment is None else open_change(deployment, text, found.taken_at)


def _see_log(found: ChangeSnapshot, request: Raise) -> NextAction:
    if request.until_captured:
        return step(Text("changing.see-log"), f"logs {request.until_captured}")
    log = kubectl("-n", found.namespace, "logs", f"deploy/{found.name}", "-c", request.container, "--since=10m")
    return step(Text("changing.see-log"), log)


def _flag_shown(found: ChangeSnapshot, kind: ChangeKind, container: str) -> Evidence:
    """Quotes the word that sets the flag now; all the container's words if none does, else its name."""
    spot = find_spot(found.deployment, container)
    now = last_set(spot, kind.flag) if spot else None
    field = now.field if now else "args" if spot and spot.args else "command"
    words = spot.words(field) if spot else ()
    quote = words[now.at] if now else " ".join(masked_arguments(list(words))) or container
    path = f'{{.spec.template.spec.containers[?(@.name=="{container}")].{field if words else "name"}}}'
    return _shown(found, quote, path)


def _of_record(
    found: ChangeSnapshot, code: Code, severity: Severity, claim: Text, actions: tuple[NextAction, ...] = ()
) -> Finding:
    text = annotation(found.deployment)
    return new_finding(code, severity, claim, (_record_shown(found, text or found.name),), actions)


def _record_shown(found: ChangeSnapshot, quote: str) -> Evidence:
    if quote == found.name:
        return _shown(found, quote, "{.metadata.name}")
    return of_record(found.namespace, found.name, quote)


def _shown(found: ChangeSnapshot, quote: str, path: str) -> Evidence:
    command = kubectl("-n", found.namespace, "get", "deployment", found.name, "-o", f"jsonpath={path}")
    return Evidence("deployment", f"Deployment {found.target}", None, quote, command)


# ------------------------------------------------------------------------------------------------------- the report


class _Setting(NamedTuple):
    """What a container's flag is set to now. `word` is what sets it, empty where it has its default."""

    container: str
    flag: str
    value: str
    word: str


def _setting(found: ChangeSnapshot, container: str, kind: ChangeKind) -> _Setting | None:
    spot = find_spot(found.deployment, container)
    if spot is None:
        return None
    now = last_set(spot, kind.flag)
    record = found.open
    if isinstance(record, Record) and (record.means, record.kind, record.container) == ("debug-flags", kind, container):
        return _Setting(container, kind.flag.shown, record.new, "PUT /debug/flags/v")
    words = spot.words(now.field)[now.at - (not now.spelling) : now.at + 1] if now else ()
    return _Setting(container, kind.flag.shown, now.value if now else kind.values.default, " ".join(words))


def _state(settings: Sequence[_Setting], kinds: Sequence[ChangeKind]) -> Text | None:
    if not settings:
        return None
    first, *others = settings
    if kinds[0].is_log_level:
        rest = listed(Text("changing.level-of", container=other.container, value=other.value) for other in others)
        return Text("changing.levels" if others else "changing.level", others=rest, **first._asdict())
    states: list[Text] = []
    for setting, kind in zip(settings, kinds, strict=True):
        unset = "changing.flag-unset" if kind.values.is_bool else "changing.flag-default"
        states.append(Text("changing.flag-set" if setting.word else unset, **setting._asdict()))
    return listed(states) if others else states[0]


def _report(
    found: ChangeSnapshot,
    verb: str,
    findings: list[Finding],
    *,
    verdict: Prose | None = None,
    tables: tuple[Table, ...] = (),
    change: Change | UnsetType = UNSET,
) -> Report:
    return new_report(
        playbook=verb,
        cluster=found.cluster,
        taken_at=format_time(found.taken_at),
        subject=Subject("Deployment", found.namespace, found.name),
        verdict=verdict,
        findings=findings,
        tables=tables,
        gaps=found.gaps,
        change=change,
    )
