"""From a report to a Slack message with its files: a usual answer, and one as large and hostile as can be."""

import time
from collections.abc import Callable
from statistics import median

import msgspec

from benchmarks.recorded_why import RECORDING
from benchmarks.rows import Row
from bot.render.picture import picture
from bot.report import SCHEMA, Evidence, Finding, Gap, NextAction, Report, Scope, Sheet, Subject, Table
from bot.rows import GpuRow
from bot.slack.render.degrade import degraded
from bot.slack.render.report import render_report
from bot.texts import Texts
from tests.cases_support import ask

USUAL = RECORDING.parents[1] / "reports" / "why.json"
ROUNDS = 21
USUAL_MS, HOSTILE_MS, PICTURE_MS = 10.0, 2000.0, 150.0
_NODES, _FINDINGS, _QUOTES = 5_000, 500, 20
_TEXT = "\u202e<!channel> *`:x:` " * 500
"""10,000 characters; each of several findings, quotes and rows has them, all else is in proportion."""


def rows() -> list[Row]:
    """Hostile: the message, its files, and every step of the ladder that is taken when Slack refuses it."""
    usual = msgspec.json.decode(USUAL.read_bytes(), type=Report)
    hostile = _hostile()
    size = len(msgspec.json.encode(hostile)) / 1e6

    def ladder() -> None:
        for _ in degraded(_rendered(hostile)):
            pass

    many = _many_cards()
    return [
        _row(f"Picture of {len(many.tables[0].rows)} cards", lambda: picture(many, Texts("en")), PICTURE_MS, 5),
        _row("Slack message of a usual answer, with its files", lambda: _rendered(usual), USUAL_MS, ROUNDS),
        _row(f"Slack message of a hostile report of {size:.0f} MB, with all simpler forms", ladder, HOSTILE_MS, 5),
    ]


def _rendered(report: Report):
    return render_report(report, Texts("en"), channel_buttons=False, words="why ml/trainer-0")


def _row(what: str, work: Callable[[], object], budget_ms: float, rounds: int) -> Row:
    work()
    took: list[float] = []
    for _ in range(rounds):
        started = time.perf_counter()
        work()
        took.append((time.perf_counter() - started) * 1e3)
    ours = f"{median(took):.1f} ms (fastest {min(took):.1f} ms of {rounds})"
    return Row(what, ours, f"< {budget_ms:g} ms", median(took) < budget_ms, "none")


def _many_cards() -> Report:
    """The recorded cluster ten times, under other names."""
    report = ask(RECORDING, verb="gpus")
    rows = [
        msgspec.structs.replace(row, node=f"{row.node}-{number}")
        for number in range(10)
        for row in report.typed(GpuRow)
    ]
    return msgspec.structs.replace(report, tables=(Sheet("cards", GpuRow).table(rows),))


def _hostile() -> Report:
    nodes = tuple(f"gpu-node-{number:05d}" for number in range(_NODES))
    proof = tuple(Evidence(_TEXT, _TEXT, _TEXT, f"{number} {_TEXT}", _TEXT) for number in range(_QUOTES))
    steps = (NextAction(_TEXT, f"kubectl {_TEXT}", changes_cluster=True),) * _QUOTES
    cause = Finding(_TEXT, _TEXT, "critical", "suspected", Scope(nodes), proof, steps)
    small = Evidence(*(_TEXT[:200],) * 5)
    others = tuple(
        Finding("code", f"{number} {_TEXT[:1000]}", "warning", "confirmed", Scope(nodes[:100]), (small,))
        for number in range(_FINDINGS)
    )
    table = Table("nodes", ("node", "verdict", _TEXT), tuple((node, "unfit", _TEXT[:200]) for node in nodes))
    return Report(
        schema=SCHEMA,
        playbook="why",
        cluster=_TEXT,
        taken_at=_TEXT,
        subject=Subject("Cards", "", _TEXT),
        verdict=_TEXT,
        severity="critical",
        findings=(cause, *others),
        tables=(table,),
        gaps=(Gap(_TEXT, _TEXT, _TEXT),) * _QUOTES,
    )
