"""Runs a playbook of one's own as one of ours: whatever goes wrong in it is told by its name, and stays in it."""

import asyncio
import logging
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import PurePath
from types import TracebackType
from typing import Any, NamedTuple, cast

import msgspec

from bot.errors import BotError
from bot.kube.redact import masked
from bot.kube.times import format_time
from bot.report import SCHEMA, Evidence, Finding, Gap, Report, Subject, Table, one_line, worst
from bot.texts import OwnTexts, Texts
from playbooks import quotes
from playbooks.own import shape
from playbooks.own.aside import awaited_aside, done_aside
from playbooks.own.cluster import Cluster
from playbooks.playbook import Playbook, Sources

log = logging.getLogger(__name__)
_LONGEST = 300


class OwnPlaybookError(BotError):
    """A playbook of somebody's own does not work. Its message names the verb, the error and the line."""


class WrongPlaybookError(ValueError):
    """`PLAYBOOK` is no playbook, or what its `diagnose` returned is no answer."""


class _Read(NamedTuple):
    """What an own `gather` returned, with what the report says of the cluster."""

    snapshot: Any
    cluster: str
    taken_at: str
    notes: tuple[Gap, ...]
    undecodable: tuple[str, ...]


@contextmanager
def told_by_name(verb: str, file: str) -> Generator[None]:
    """Whatever is raised inside becomes an OwnPlaybookError that names the line of the file; a BotError passes."""
    try:
        yield
    except BotError:
        raise
    except (Exception, SystemExit) as error:
        log.warning("the playbook %s (%s)", verb, file, exc_info=error)
        kind = "" if isinstance(error, WrongPlaybookError) else f"{type(error).__name__}: "
        said = error.msg if isinstance(error, SyntaxError) else error
        what = one_line(masked(f"{kind}{said}{_place(error, file)}"), _LONGEST)
        raise OwnPlaybookError(
            f"the playbook {verb} does not work: {what}",
            hint="The bot itself is well. Whoever wrote this playbook can mend it; the bot's log has the traceback.",
        ) from error


def adapted(verb: str, own: "shape.Playbook[Any]", file: str) -> Playbook:
    """The playbook in the shape of ours."""

    async def gather(values: dict[str, Any], sources: Sources) -> _Read:
        cluster = Cluster(sources, asyncio.get_running_loop())
        with told_by_name(verb, file):
            snapshot = await awaited_aside(lambda: own.gather(cluster, **values))
        read = sources.cluster
        return _Read(snapshot, read.name, format_time(read.now()), tuple(read.notes), tuple(read.undecodable))

    def diagnose(read: _Read, say: Texts) -> Report:
        with told_by_name(verb, file):
            texts = OwnTexts(say.language, own.texts)
            report = _report(verb, read, done_aside(lambda: own.diagnose(read.snapshot, texts)))
        skipped = (Gap("objects", one, say("gap.undecodable")) for one in read.undecodable)
        return msgspec.structs.replace(report, gaps=tuple(dict.fromkeys((*report.gaps, *read.notes, *skipped))))

    return Playbook(
        verb=verb,
        summary=own.summary,
        example=f"{verb} {own.example}".strip(),
        parameters=own.parameters,
        request=dict[str, Any],
        gather=gather,
        diagnose=diagnose,
    )


def _report(verb: str, read: _Read, answer: Any) -> Report:
    """The answer as a report, with credentials masked. Raises WrongPlaybookError for one that is none."""
    if not isinstance(answer, shape.Answer):
        raise WrongPlaybookError(f"diagnose returned {type(answer).__name__}, not an Answer")
    if not answer.findings:
        raise WrongPlaybookError("the answer has no finding")
    findings = tuple(_finding(one) for one in answer.findings)
    report = Report(
        schema=SCHEMA,
        playbook=verb,
        cluster=read.cluster,
        taken_at=read.taken_at,
        subject=answer.subject or Subject("Cluster", "", read.cluster),
        verdict=one_line(masked(str(answer.verdict))),
        severity=worst(findings),
        findings=findings,
        tables=tuple(_table(one) for one in answer.tables),
        gaps=tuple(answer.gaps),
    )
    if not report.verdict:
        raise WrongPlaybookError("the answer has no verdict")
    try:
        msgspec.convert(msgspec.to_builtins(report), Report)
    except (TypeError, msgspec.ValidationError) as error:
        raise WrongPlaybookError(f"the answer is no report: {error}") from None
    return report


def _finding(one: Any) -> Finding:
    if not isinstance(one, Finding):
        raise WrongPlaybookError(f"{type(one).__name__} stands among the findings")
    if not one.evidence and one.severity != "info":
        raise WrongPlaybookError(f"the finding {one.claim!r} quotes no evidence")
    evidence = tuple(_evidence(each, one) for each in one.evidence)
    return msgspec.structs.replace(one, claim=masked(one.claim), evidence=evidence)


def _evidence(one: Evidence, of: Finding) -> Evidence:
    if not one.quote.strip() or not one.command.strip():
        raise WrongPlaybookError(f"evidence of the finding {of.claim!r} lacks its quote or its command")
    return msgspec.structs.replace(one, quote=quotes.shown(one.quote))


def _table(one: Table) -> Table:
    if wrong := [row for row in cast("Sequence[Sequence[str]]", one.rows) if len(row) != len(one.columns)]:
        raise WrongPlaybookError(f"a row of the table {one.title} has {len(wrong[0])} cells, not {len(one.columns)}")
    return Table(one.title, tuple(one.columns), tuple(tuple(map(masked, row)) for row in one.rows))


def _place(error: BaseException, file: str) -> str:
    """The last line of the file that the error came through, as `(evictions.py:12)`."""
    if isinstance(error, SyntaxError):
        return f" ({PurePath(error.filename or file).name}:{error.lineno})"
    trace: TracebackType | None = error.__traceback__
    lines = list[int]()
    while trace:
        lines += [trace.tb_lineno] if trace.tb_frame.f_code.co_filename.endswith(file) else []
        trace = trace.tb_next
    return f" ({PurePath(file).name}:{lines[-1]})" if lines else ""
