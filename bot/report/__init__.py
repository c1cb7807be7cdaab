"""The report: what follows from a snapshot. Public contract `hami-bot.report/v1`.

A report has no markup, no colour and no limits of the place that shows it. Its prose is a text's `key` and `values`
until `in_words` fills in a language, so a stored report can be put into another one. Prose without a key is used as it
is.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, cast

import msgspec

from bot.finding_codes import CODES, Code, PendingClass
from bot.report.tables import FirstNames as FirstNames
from bot.report.tables import NameList as NameList
from bot.report.tables import Row as Row
from bot.report.tables import Rows as Rows
from bot.report.tables import Sheet as Sheet
from bot.report.tables import Table as Table
from bot.report.tables import Uuid as Uuid
from bot.report.tables import in_no_overview as in_no_overview
from bot.report.tables import prose_table as prose_table
from bot.report.tables import table_in_words
from bot.texts import GPU, NOUN_VALUE, Prose, Texts, beginning, spaced, stored_text

SCHEMA = "hami-bot.report/v1"
NEWER_HAMI = "newer HAMi"
"""The source of the gap which says that HAMi is newer than any version whose rules are known."""
NEVER = ("obstacles.never", "card-insufficient-memory.never", "mig-topology-infeasible.never", "large.cores")
"""The texts of findings that the pod would not fit even on empty nodes."""
VERDICT_LIMIT = 140
_LONGEST_CLAIM = 400
_READS = re.compile(
    r"kubectl(?: --?[\w-]+(?:=\S+| (?:'[^']*'|[^-\s]\S*)))* "
    r"(?:get|describe|logs|auth|config (?:get-contexts|view)|top|version|exec [^|;&]* printenv)\b"
    r"(?!.*(?:&&|; |\| (?!grep)))"
)
"""Matches a kubectl command that changes nothing: options may stand before the verb, and no second kubectl follows."""

Severity = Literal["info", "warning", "critical"]
Confidence = Literal["confirmed", "suspected"]
SEVERITIES: tuple[Severity, ...] = ("info", "warning", "critical")


class Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base class of all parts of the report contract: immutable, without further fields."""


class _WithProse(Value, frozen=True):
    """A part of the report whose prose is a text's key and a mapping of its values."""

    def __hash__(self) -> int:
        return hash(tuple(value for value in msgspec.structs.astuple(self) if not isinstance(value, Mapping)))


def _parts(prose: Prose) -> tuple[str, str, Mapping[str, Any]]:
    """The prose's words, where they are taken as they are; else its key and values."""
    return (prose, "", {}) if isinstance(prose, str) else ("", prose.key, prose.data)


def _prose(words: str, key: str, values: Mapping[str, Any]) -> Prose:
    return stored_text(key, values) if key else words


def about(prose: Prose, noun: str) -> Prose:
    """The prose with `noun` as the word for devices; `device` is of any vendor."""
    return prose if isinstance(prose, str) else prose.about(noun)


class Evidence(Value, frozen=True):
    """One verbatim quote: its source and object, and a command that shows it again. `at` is when it was true, as RFC
    3339 in UTC; None where the source carries no time.
    """

    source: str
    object: str
    at: str | None
    quote: str
    command: str

    @property
    def kind(self) -> str:
        """The kind of the quoted object: `Pod` of `Pod ml/trainer-0`."""
        return self.object.partition(" ")[0]

    @property
    def name(self) -> str:
        """The name of the quoted object: `ml/trainer-0` of `Pod ml/trainer-0`."""
        return self.object.partition(" ")[2]

    def __eq__(self, other: Any) -> bool:  # noqa: PYI032  # `object` is a field here
        """Compares fields, not types: JSON keeps no type of evidence, and a report read back equals the one written."""
        if not isinstance(other, Evidence):
            return NotImplemented
        return msgspec.structs.astuple(self) == msgspec.structs.astuple(other)

    def __hash__(self) -> int:
        return hash(msgspec.structs.astuple(self))


class NextAction(_WithProse, frozen=True):
    """One thing to do next. `command`, of this bot or kubectl, does it or shows what to change. `changes_cluster` is
    true of what the label says to do, whatever the command does.
    """

    label: str
    command: str
    changes_cluster: bool = False
    key: str = ""
    values: Mapping[str, Any] = {}

    @property
    def text(self) -> Prose:
        """The action's label as prose."""
        return _prose(self.label, self.key, self.values)

    @property
    def alone(self) -> Prose:
        """The action's label, where no other stands beside it that may be done instead."""
        return spaced(self.values["step"]) if self.key == "words.either" else self.text

    @property
    def is_ours(self) -> bool:
        """Whether the command is a question to the bot, not one for a shell."""
        return bool(self.command.strip()) and not self.command.startswith("kubectl ")

    @property
    def only_looks(self) -> bool:
        """Whether there is a command and it only reads, whatever the label says to do."""
        return not self.changes_cluster if self.is_ours else bool(_READS.match(self.command))

    def about(self, noun: str) -> "NextAction":
        """The action with `noun` as the word for devices."""
        return step(about(self.text, noun), self.command, changes_cluster=self.changes_cluster)


def step(label: Prose, command: str, *, changes_cluster: bool = False) -> NextAction:
    """A next action whose label may be a text that is not in words yet."""
    words, key, values = _parts(label)
    return NextAction(words, command, changes_cluster, key, values)


def act(label: Prose, command: str = "") -> NextAction:
    """A next action that changes the cluster; the command does it, or shows what to change."""
    return step(label, command, changes_cluster=True)


class Scope(Value, frozen=True):
    """What a finding is about, beyond the report's subject. Names are sorted."""

    nodes: tuple[str, ...] = ()


class Finding(_WithProse, frozen=True):
    """A claim, its confidence, and its evidence. `bot.finding_codes` has what all findings of a code share."""

    code: Code
    claim: str
    severity: Severity
    confidence: Confidence
    scope: Scope
    evidence: tuple[Evidence, ...]
    next_actions: tuple[NextAction, ...] = ()
    key: str = ""
    values: Mapping[str, Any] = {}

    @property
    def text(self) -> Prose:
        """The finding's claim as prose."""
        return _prose(self.claim, self.key, self.values)

    @property
    def noun(self) -> str:
        """The word for the devices that the claim is about; `device` of any vendor."""
        return str(self.values.get(NOUN_VALUE, GPU))

    @property
    def pending_class(self) -> PendingClass:
        """The class of pods that wait for it: its code's, or their owners' where waiting does not help."""
        parts = self.values.get("parts") or [{"key": self.key}]
        never = any(isinstance(part, dict) and cast("dict[str, Any]", part).get("key") in NEVER for part in parts)
        return "misconfigured" if never else CODES[self.code].pending_class

    def about(self, noun: str) -> "Finding":
        """The finding and its next actions with `noun` as the word for devices."""
        words, key, values = _parts(about(self.text, noun))
        steps = tuple(action.about(noun) for action in self.next_actions)
        return msgspec.structs.replace(self, claim=words, key=key, values=values, next_actions=steps)


def new_finding(
    code: Code,
    severity: Severity,
    claim: Prose,
    evidence: Iterable[Evidence] = (),
    next_actions: Iterable[NextAction] = (),
    *,
    confidence: Confidence = "confirmed",
    nodes: Iterable[str] = (),
) -> Finding:
    """A finding whose claim may be a text that is not in words yet; evidence given twice stands once."""
    words, key, values = _parts(claim)
    proofs, scope = tuple(dict.fromkeys(evidence)), Scope(tuple(sorted(nodes)))
    actions = tuple(next_actions)
    return Finding(code, words, severity, confidence, scope, proofs, next_actions=actions, key=key, values=values)


class Gap(_WithProse, frozen=True):
    """Something that could not be read. No rule concludes anything from a gap."""

    source: str
    why: str
    hint: str = ""
    key: str = ""
    values: Mapping[str, Any] = {}
    hint_key: str = ""
    hint_values: Mapping[str, Any] = {}

    @property
    def text(self) -> Prose:
        """The reason of the gap as prose."""
        return _prose(self.why, self.key, self.values)

    @property
    def advice(self) -> Prose:
        """What to do about the gap, as prose; empty for nothing."""
        return _prose(self.hint, self.hint_key, self.hint_values)

    def about(self, noun: str) -> "Gap":
        """The gap with `noun` as the word for devices."""
        return gap(self.source, about(self.text, noun), about(self.advice, noun))


def gap(source: str, why: Prose, hint: Prose = "") -> Gap:
    """A gap whose reason and hint may be texts that are not in words yet."""
    why_words, key, values = _parts(why)
    hint_words, hint_key, hint_values = _parts(hint)
    return Gap(source, why_words, hint_words, key, values, hint_key=hint_key, hint_values=hint_values)


class Subject(Value, frozen=True):
    """What the report is about, by kind, namespace and name; a part is empty where the subject has none."""

    kind: str
    namespace: str
    name: str


class ChangeTarget(Value, frozen=True):
    """A flag that a change sets, of one container of an object: from `old` (empty: not set) to `new`."""

    kind: str
    namespace: str
    name: str
    container: str
    flag: str
    old: str
    new: str


class Impact(_WithProse, frozen=True):
    """One effect that a change brings with it. `code` is stable and listed in docs/changes.md."""

    code: str
    severity: Severity
    text: str
    key: str = ""
    values: Mapping[str, Any] = {}

    @property
    def prose(self) -> Prose:
        """The effect's text as prose."""
        return _prose(self.text, self.key, self.values)


def impact(code: str, severity: Severity, text: Prose) -> Impact:
    """An effect of a change whose text may be a `Text` that is not in words yet."""
    return Impact(code, severity, *_parts(text))


class Change(Value, frozen=True):
    """A change of the cluster, made or only planned, as JSON patches (RFC 6902) that make and revert it. `also` are the
    other flags that the change sets, where there are any.
    """

    target: ChangeTarget
    patch: tuple[dict[str, Any], ...]
    revert_patch: tuple[dict[str, Any], ...]
    blast_radius: tuple[Impact, ...]
    also: tuple[ChangeTarget, ...] | msgspec.UnsetType = msgspec.UNSET


class Report(Value, frozen=True):
    """The answer to a question: `findings` with the cause first, `verdict` one line of at most 140 characters.

    `change` is set only in a report about a change. `cache_age_s` is the greatest age in seconds of what came from a
    watch cache, set only where something did; `pod_status` is the subject's state in kubectl's words, set for a pod.
    """

    schema: str
    playbook: str
    cluster: str
    taken_at: str
    subject: Subject
    verdict: str
    severity: Severity
    findings: tuple[Finding, ...]
    tables: tuple[Table, ...] = ()
    gaps: tuple[Gap, ...] = ()
    verdict_key: str = ""
    verdict_values: Mapping[str, Any] = {}
    change: Change | msgspec.UnsetType = msgspec.UNSET
    cache_age_s: int | msgspec.UnsetType = msgspec.UNSET
    pod_status: str | msgspec.UnsetType = msgspec.UNSET

    @property
    def text(self) -> Prose:
        """The verdict as prose."""
        return _prose(self.verdict, self.verdict_key, self.verdict_values)

    @property
    def told_by(self) -> Finding | None:
        """The finding whose claim is the verdict; None where the verdict is no finding's claim."""
        if self.verdict_key:
            said = self.verdict_key, self.verdict_values
            return next((finding for finding in self.findings if (finding.key, finding.values) == said), None)
        literal = (finding for finding in self.findings if not finding.key)
        return next((finding for finding in literal if one_line(finding.claim) == self.verdict), None)

    @property
    def verdict_severity(self) -> Severity:
        """The severity of the verdict: info for good news, even where another finding is worse."""
        return "info" if self.told_by and self.told_by.severity == "info" else self.severity

    def typed(self, row: type[Row]) -> list[Row]:
        """The rows of type `row`, in all tables; none in a report that was read back from JSON."""
        made = (getattr(table.rows, "typed", ()) for table in self.tables)
        return [candidate for rows in made for candidate in rows if isinstance(candidate, row)]


def new_report(
    playbook: str,
    cluster: str,
    taken_at: str,
    subject: Subject,
    findings: Sequence[Finding],
    *,
    verdict: Prose | None = None,
    tables: Iterable[Table] = (),
    gaps: Iterable[Gap] = (),
    noun: str = "",
    change: Change | msgspec.UnsetType = msgspec.UNSET,
    pod_status: str = "",
) -> Report:
    """A report before it is in words. `verdict`: by default the first finding's claim; `noun`: the devices' name."""
    told = findings[0].text if verdict is None else verdict
    if noun:
        told, findings = about(told, noun), [finding.about(noun) for finding in findings]
        gaps = [gap.about(noun) for gap in gaps]
    words, key, values = _parts(told)
    return Report(
        schema=SCHEMA,
        playbook=playbook,
        cluster=cluster,
        taken_at=taken_at,
        subject=subject,
        verdict=one_line(words),
        severity=worst(tuple(findings)),
        findings=tuple(findings),
        tables=tuple(tables),
        gaps=tuple(dict.fromkeys(gaps)),
        verdict_key=key,
        verdict_values=values,
        change=change,
        pod_status=pod_status or msgspec.UNSET,
    )


def in_words(report: Report, say: Texts) -> Report:
    """The report with its prose in the language of `say`; prose without a key stays as it is.

    Each next action appears once, at its first finding; the same question counts once whatever its label. A warning
    whose actions all came before keeps one. Where HAMi is newer than the known rules, every finding is only suspected.
    """
    replace = msgspec.structs.replace
    change = report.change
    if isinstance(change, Change):
        impacts = tuple(replace(impact, text=say.words(impact.prose)) for impact in change.blast_radius)
        change = replace(change, blast_radius=impacts)
    gaps = (replace(gap, why=say.words(gap.text), hint=say.words(gap.advice)) for gap in report.gaps)
    return replace(
        report,
        verdict=one_line(say.words(beginning(report.text, VERDICT_LIMIT))),
        findings=tuple(_shown(report, say)),
        tables=tuple(table_in_words(table, say) for table in report.tables),
        gaps=tuple(dict.fromkeys(gaps)),
        change=change,
    )


def _shown(report: Report, say: Texts) -> Iterator[Finding]:
    sure: Confidence | None = "suspected" if any(gap.source == NEWER_HAMI for gap in report.gaps) else None
    told = dict[str | NextAction, NextAction]()
    for finding in report.findings:
        before = len(told)
        for action in finding.next_actions:
            told.setdefault(action.command if action.is_ours else action, action)
        new = [*told.values()][before:]
        again = () if new or finding.severity == "info" else finding.next_actions[:1]
        yield finding_in_words(finding, say, [*new, *again], sure)


def finding_in_words(
    finding: Finding, say: Texts, steps: Iterable[NextAction] | None = None, confidence: Confidence | None = None
) -> Finding:
    """The finding with its prose in the language of `say`; `steps` and `confidence` replace its own, where given."""
    shown = tuple(
        msgspec.structs.replace(action, label=say.words(action.text)) if action.key else action
        for action in (finding.next_actions if steps is None else steps)
    )
    claim = one_line(say.words(finding.text), _LONGEST_CLAIM) if finding.key else finding.claim
    sure = confidence or finding.confidence
    return msgspec.structs.replace(finding, claim=claim, next_actions=shown, confidence=sure)


def more_than_info(findings: Iterable[Finding]) -> list[Finding]:
    """The warnings and critical findings, in their order."""
    return [finding for finding in findings if finding.severity != "info"]


def worst(findings: tuple[Finding, ...]) -> Severity:
    """The highest severity among the findings; info when there is none."""
    return SEVERITIES[max((SEVERITIES.index(finding.severity) for finding in findings), default=0)]


def one_line(text: str, limit: int = VERDICT_LIMIT) -> str:
    """The text on one line of at most `limit` characters, with an ellipsis for what is cut off: whole words, unless
    that would lose a third of the line, as in Chinese.
    """
    line = " ".join(text.split())
    if len(line) <= limit:
        return line
    words = line[:limit].rpartition(" ")[0].rstrip(" ,;:(")
    return (words if len(words) > limit * 2 // 3 else line[: limit - 1].rstrip()) + "…"


def as_json(report: Report) -> str:
    """The report with its keys in the contract's order, ending in a newline; equal reports give equal bytes."""
    return msgspec.json.format(msgspec.json.encode(report, enc_hook=tuple), indent=2).decode() + "\n"
