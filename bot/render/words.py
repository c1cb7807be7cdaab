"""Words that every way of showing a report shares: names, moments, commands, and text made safe to show."""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, cast

from msgspec import UNSET

from bot.report import Change, ChangeTarget, Confidence, Evidence, Finding, NextAction, Report, Severity, Subject, Table
from bot.texts import Kind, Prose, Text, Texts, listed, literal, named, some_names, together

# Control and format characters (escape sequences, bidi overrides, zero widths, tags), lone surrogates, line and
# paragraph separators, and what this Unicode version does not know and so cannot measure.
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Cn", "Zl", "Zp"})
_MAYBE_INVISIBLE = re.compile(r"[^ -~]")
_VARIATION_SELECTOR_16 = "\ufe0f"

SEVERITIES: Mapping[Severity, Text] = {
    "info": Text("render.info"),
    "warning": Text("render.warning"),
    "critical": Text("render.critical"),
}
MARKS: Mapping[Severity, str] = {"info": "🟢", "warning": "🟡", "critical": "🔴"}
"""A mark for each severity, before its word; a shell paints the word in these colours."""
CONFIDENCES: Mapping[Confidence, Text] = {
    "confirmed": Text("render.confirmed"),
    "suspected": Text("render.suspected"),
}
_HEADINGS: Mapping[str, Text] = {
    "growth": Text("table.growth"),
    "pending": Text("table.pending"),
    "cards": Text("table.cards"),
    "largest free slice by type": Text("table.largest free slice by type"),
    "quota": Text("table.quota"),
    "nodes": Text("table.nodes"),
    "node": Text("table.node"),
    "filter runs": Text("table.filter runs"),
    "refusals": Text("table.refusals"),
    "refused pods": Text("table.refused pods"),
    "lines": Text("table.lines"),
    "as admitted": Text("table.as admitted"),
    "pods to end": Text("table.pods to end"),
    "pools": Text("table.pools"),
    "scenarios": Text("table.scenarios"),
    "template": Text("table.template"),
    "changed": Text("table.changed"),
    "measured": Text("table.measured"),
    "latency": Text("table.latency"),
    "objects": Text("table.objects"),
    "holders without use": Text("table.holders without use"),
}
"""Headings in place of titles that say too little; a title is the same in every language, for JSON and file names."""

_OWN_WORDS: Mapping[str, tuple[Kind, ...]] = {
    **dict.fromkeys(
        (
            *("state", "verdict", "plugin", "lock", "handshake", "kubernetes", "acts", "direction", "do", "slots"),
            *("details", "component", "object", "objects", "of", "area", "seen", "call", "known by", "grows with"),
            *("one more of", "stage", "slowest stage", "topic", "scaling", "healthy", "cordoned", "format", "kind"),
        ),
        ("states",),
    ),
    "what": ("states", "columns"),
    "value": ("states", "sources"),
}
"""Columns whose cells may be the bot's own words, and of which kinds; any other word stays as it is."""
_AMOUNTS = re.compile(r"memory|slice|limit|count|pods ask for|MiB")
"""Matches columns of amounts, which people read with commas."""
_PEOPLE_SAY = {"card": "GPU", "cards": "GPUs"}
_JSON_PATH = re.compile(r"jsonpath='?\{\.([^}]+)\}")
_PATH_STEP = re.compile(r'\w+\[\?\(@\.\w+=="([^"]*)"\)\]|((?:\\.|[^.\[\]*])+)')
"""Matches a step of a JSONPath: what a filter picks, or a name with its escaped dots."""
_NOT_NAMED = frozenset({"metadata", "spec", "status", "template", "resources", "containers", "annotations"})
_TIME = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_NAMES_SHOWN = 3
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9./-]*[a-z0-9])?", re.ASCII | re.IGNORECASE)
"""Matches the name of an object of the cluster, alone or after its namespace."""
_AMOUNT = re.compile(r"\d{1,3}(?:,\d{3})+")
_NUMERIC = re.compile(r"-?[\d,.]+( ?(%|[KMGT]i?B?))?")


def visible(text: str) -> str:
    r"""The text on one line, with characters that act instead of showing written out: `\x1b`, `\n`, `\u202e`."""
    if text.isprintable():
        return text
    category = unicodedata.category
    return _MAYBE_INVISIBLE.sub(lambda it: ascii(it[0])[1:-1] if category(it[0]) in _INVISIBLE else it[0], text)


def cells(text: str) -> int:
    """The terminal columns of visible text: two for an East Asian wide character, none for a combining mark."""
    return len(text) if text.isascii() else sum(map(_cells, text))


@lru_cache(maxsize=4096)
def _cells(character: str) -> int:
    if character == _VARIATION_SELECTOR_16:
        return 1  # it makes the character before it wide: one column there, one here
    if unicodedata.east_asian_width(character) in ("W", "F"):
        return 2
    return 0 if unicodedata.category(character) in ("Mn", "Me") else 1


def subject_name(report: Report) -> str:
    """Kind and name of the report's subject: `Pod ml/trainer-0`."""
    return " ".join(filter(None, (report.subject.kind, _place(report.subject))))


def _place(subject: Subject) -> str:
    return "/".join(filter(None, (subject.namespace, subject.name)))


def about(report: Report) -> Text:
    """The report's subject, its state, and its cluster, named once where they are the same."""
    subject = report.subject
    if report.cluster and subject.kind == "Cluster" and subject.name in ("", report.cluster):
        return Text("render.cluster", cluster=report.cluster)
    cluster = Text("render.in-cluster", cluster=report.cluster) if report.cluster else ""
    status = f"({report.pod_status})" if report.pod_status else ""
    return together(together(named(subject.kind, "titles"), _place(subject), status, by=" "), cluster, by=", ")


def doubted(verdict: Prose, report: Report) -> Prose:
    """The verdict, which says first that it is suspected where its cause is. Good news needs no cause, and a verdict
    that none is known has none.
    """
    told = report.told_by
    if told is None or told is not report.findings[0] or told.code == "not-enough-evidence":
        return verdict
    suspected = told.confidence == "suspected" and report.verdict_severity != "info"
    return Text("render.doubted", verdict=verdict) if suspected else verdict


def heading(title: str) -> str:
    """One of the bot's words as a heading: with a capital letter."""
    return title[:1].upper() + title[1:]


def for_people(table: Table, say: Texts) -> Table:
    """The table with its columns and the bot's words for states in the language of `say`; JSON has them in English."""
    amounts = [bool(_AMOUNTS.search(column)) for column in table.columns]
    rows = tuple(tuple(map(_with_commas, row, amounts)) for row in table.rows) if any(amounts) else table.rows
    if say.language == "en":
        return Table(table.title, tuple(_PEOPLE_SAY.get(column, column) for column in table.columns), rows)
    quoted = "" if {"flag"}.isdisjoint(table.columns) else "value"  # of a flag, in HAMi's words
    kinds = [_OWN_WORDS.get(column, ()) if column != quoted else () for column in table.columns]

    def told(cell: str, kinds: tuple[Kind, ...]) -> str:
        return next((name for kind in kinds if (name := say.name(cell, kind)) != cell), cell)

    rows = tuple(tuple(map(told, row, kinds)) for row in rows) if any(kinds) else rows
    return Table(table.title, tuple(map(say.name, table.columns)), rows)


def _with_commas(cell: str, is_amount: bool) -> str:  # noqa: FBT001  # as map calls it
    return f"{int(cell):,}" if is_amount and cell.isdecimal() else cell


def table_heading(table: Table) -> Prose:
    chinese = Texts("zh")
    told = chinese.name(chinese.name(table.title, "titles"))  # some are called as a column is
    return _HEADINGS.get(table.title) or literal(heading(table.title), heading(told))


def names_told(told: Prose) -> set[str]:
    """The names among a text's values; of a plain string, the names in it."""
    return _names(told if isinstance(told, str) else {"key": told.key, "values": told.data})


def words_told(finding: Finding) -> set[str]:
    """The names of a claim and its amounts, these without the commas that no quote has."""
    return names_told(finding.text) | {amount.replace(",", "") for amount in _AMOUNT.findall(finding.claim)}


def _names(fact: Any) -> set[str]:
    match fact:
        case str():
            return set(_NAME.findall(fact))
        case {"key": "fitting", "values": {"parts": [*forms]}}:  # which of them is told is not known
            return set[str].intersection(*map(_names, forms))
        case {"values": facts}:
            return _names(list(cast("Mapping[str, Any]", facts).values()))
        case list() | tuple():
            return set[str]().union(*map(_names, cast("Sequence[Any]", fact)))
        case _:
            return set()


def notes(finding: Finding) -> Text:
    """What a line adds to a finding's claim: the code, a doubt, and the nodes if the claim does not name them."""
    doubt = CONFIDENCES["suspected"] if finding.confidence == "suspected" else ""
    nodes = finding.scope.nodes
    told = names_told(finding.text).issuperset(nodes[: _NAMES_SHOWN - 1])
    return together(together(finding.code, doubt, by=", "), "" if told else some_names(nodes, _NAMES_SHOWN), by=": ")


def changed(change: Change) -> Text:
    """A change of flags in words: `-v of container x: 4 -> 5`; of several flags one after the other."""
    targets = (change.target, *(change.also or ()))
    return listed(map(_set_by, targets)) if len(targets) > 1 else _set_by(change.target)


def _set_by(target: ChangeTarget) -> Text:
    flag = f"{'-' if len(target.flag) == 1 else '--'}{target.flag}"
    old, new = target.old or Text("render.unset"), target.new or Text("render.unset")
    return Text("render.changed", flag=flag, container=target.container, old=old, new=new)


def is_numeric(column: Sequence[str]) -> bool:
    """Whether the cells are all numbers, or empty, so that the column is right-aligned."""
    return all(not cell or _NUMERIC.fullmatch(cell) for cell in column)


def where(evidence: Evidence) -> Prose:
    """Source and object of the evidence: `event, Pod ml/trainer-0`; a source that is the object is not named twice."""
    itself = evidence.object.lower().startswith(f"{evidence.source.lower()} ")
    return evidence.object if itself else together(named(evidence.source, "sources"), evidence.object, by=", ")


_BARE = re.compile(r"[\w.-]*")
_LONG_QUOTE, _TELLS = 160, 40
_TOO_SHORT, _MOST_PLACES = 3, 100


_WITHOUT_FIELDS, _SAID = ("log", "version"), ("condition", "event", "scheduler log")
"""`_SAID`: the sources in which the schedulers tell the same of a pod in several words."""


def telling(quotes: Sequence[Evidence]) -> list[Evidence]:
    """The evidence shown at a glance, in its order: each text of an object once, as the shortest quote. What the
    schedulers say again, or at length, comes after the facts; a bare value without its field only if nothing else does.
    """
    firsts = {(one.object, one.quote): one for one in reversed(quotes)}
    every = [one for one in quotes if firsts[one.object, one.quote] is one]
    parts = {proof.quote for proof in every if len(proof.quote) > _TELLS}
    distinct = [one for one in every if not any(part in one.quote and part != one.quote for part in parts)]
    kept = [
        one
        for one in distinct
        if one.source in _WITHOUT_FIELDS or not _BARE.fullmatch(one.quote) or quoted(one) != one.quote
    ] or distinct[:1]
    said = sorted((one for one in kept if one.source in _SAID), key=lambda one: len(one.quote) > _LONG_QUOTE)
    again = [one for number, one in enumerate(said) if number or len(one.quote) > _LONG_QUOTE]
    return [*(one for one in kept if one not in again), *again]


def quoted(evidence: Evidence) -> Prose:
    """The evidence's quote, after its field if the command shows one: `schedulerName = volcano`."""
    if not evidence.quote:
        return Text("render.empty")
    path = _JSON_PATH.search(evidence.command)
    if path is None or evidence.source == "condition":
        return evidence.quote
    steps = (found[1] or found[2].replace("\\", "") for found in _PATH_STEP.finditer(path[1]))
    field = " ".join(step for step in steps if step not in _NOT_NAMED)
    return f"{field} = {evidence.quote}" if field else evidence.quote


def around(quote: str, most: int, told: Iterable[str]) -> str:
    """At most `most` characters of a quote: those with the most of the words `told`, with an ellipsis at a cut."""
    if len(quote) <= most:
        return quote
    words = "|".join(re.escape(word) for word in sorted(told, key=len, reverse=True) if len(word) > _TOO_SHORT)
    places = [place.span() for place in re.finditer(words, quote)][:_MOST_PLACES] if words else []
    windows = [[place for place in places if first <= place[0] and place[1] < first + most - 1] for first, _ in places]
    windows.append([(0, 0)])
    best = max(windows, key=lambda some: len({quote[at:end] for at, end in some}))
    first, last = best[0][0], best[-1][1]
    start = max(0, min(first - (most - 2 - (last - first)) // 2, len(quote) - most + 1))
    start = start and (quote.find(" ", start, first) + 1 or start)
    end = start + most - 1
    end -= start > 0 and end < len(quote)
    return f"{'…' if start else ''}{quote[start:end].strip()}{'…' if end < len(quote) else ''}"


def step_label(action: NextAction, label: Prose, *, shown: bool) -> Prose:
    """The action's label with its effect: it changes the cluster; its command, `shown` below, only reads."""
    looks = shown and action.only_looks
    if action.changes_cluster or (action.command and not action.only_looks):
        return Text("render.looks-first" if looks else "render.changes", label=label)
    return Text("render.looks", label=label) if looks else label


def shell_command(action: NextAction) -> str:
    """The action's command for a shell: with the program's name where it is a question to the bot."""
    return f"hami-bot {action.command}" if action.is_ours else action.command


_FRESH_S = 60
_DATED = timedelta(days=30)
"""From this age on a date tells more than "1501 d earlier"."""


def moment(at: str, taken_at: str | None) -> Prose:
    """The time for people, `05:00:00 UTC, 20 s earlier`, with the date where it differs; other text unchanged."""
    then, taken = instant(at), instant(taken_at or "")
    if then is None:
        return at
    date = "" if taken and taken.date() == then.date() else f"{then:%Y-%m-%d} "
    shown = f"{date}{then:%H:%M:%S} UTC"
    if taken is None or then > taken or taken - then > _DATED:
        return shown
    return Text("render.earlier", moment=shown, age=age(int((taken - then).total_seconds())))


def timed(text: str, taken_at: str) -> str:
    """The bot's own words with their times as people read them: without a date that is the answer's own."""

    def clock(found: re.Match[str]) -> str:
        date = "" if found[0][:10] == taken_at[:10] else f"{found[0][:10]} "
        return f"{date}{found[0][11:16]} UTC"

    return _TIME.sub(clock, text)


def seen_at(report: Report) -> Prose:
    """When the cluster was read, and the answer's age where part of it came from a cache."""
    shown = moment(report.taken_at, None)
    if report.cache_age_s is UNSET or report.cache_age_s < _FRESH_S:
        return shown
    return Text("render.cached", moment=shown, age=age(report.cache_age_s))


def instant(text: str) -> datetime | None:
    """The moment in a text that is a time in UTC as reports have it; else None."""
    if not text.endswith("Z"):
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def age(seconds: int) -> Text:
    if seconds < 120:
        return Text("age.seconds", count=seconds)
    if seconds < 7200:
        return Text("age.minutes", count=seconds // 60)
    return Text("age.hours", count=seconds // 3600) if seconds < 172800 else Text("age.days", count=seconds // 86400)
