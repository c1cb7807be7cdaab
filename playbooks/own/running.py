"""Runs a team's own playbook in threads beside the bot's event loop, so that one that never ends holds up nothing."""

import asyncio
import contextvars
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

import msgspec

from bot.kube.recording.redact import masked
from bot.kube.times import format_time
from bot.report import SCHEMA, Finding, Gap, Report, Subject, gap, in_words, one_line, worst
from bot.texts import OwnTexts, Text, Texts
from playbooks import quotes
from playbooks.own import interface
from playbooks.own.cluster import OwnCluster
from playbooks.own.interface import WrongPlaybookError, told_by_name
from playbooks.playbook import Playbook, Sources


class _Read(NamedTuple):
    """What an own `gather` returned, with what the report says of the cluster."""

    snapshot: Any
    cluster: str
    taken_at: str
    notes: tuple[Gap, ...]
    undecodable: tuple[str, ...]


def adapted(verb: str, own: "interface.OwnPlaybook[Any]", file: str) -> Playbook:
    """A team's own playbook as a `Playbook` of the bot."""

    async def awaited(cluster: OwnCluster, values: dict[str, Any]) -> Any:
        return await own.gather(cluster, **values)

    async def gather(values: dict[str, Any], sources: Sources) -> _Read:
        cluster = OwnCluster(sources, asyncio.get_running_loop())
        with told_by_name(verb, file):
            # Awaited in a thread and an event loop of its own.
            snapshot = await asyncio.wrap_future(begun_aside(lambda: asyncio.run(awaited(cluster, values))))
        read = sources.cluster
        return _Read(snapshot, read.name, format_time(read.now()), tuple(read.notes), tuple(read.undecodable))

    def diagnose(read: _Read, say: Texts) -> Report:
        with told_by_name(verb, file):
            texts = OwnTexts(say.language, own.texts)
            diagnosing = begun_aside(lambda: own.diagnose(read.snapshot, texts))
            return in_words(_report(verb, read, done_within(diagnosing, LONGEST_S)), say)

    return Playbook(
        verb=verb,
        summary=own.summary,
        example=f"{verb} {own.example}".strip(),
        parameters=own.parameters,
        request=dict[str, Any],
        gather=gather,
        diagnose=partial(diagnose, say=Texts("en")),
        tell=diagnose,
    )


def _report(verb: str, read: _Read, answer: Any) -> Report:
    """The answer as a report, with credentials masked. Raises WrongPlaybookError for one that is none."""
    if not isinstance(answer, interface.Answer):
        raise WrongPlaybookError(f"diagnose returned {type(answer).__name__}, not an Answer")
    if not answer.findings:
        raise WrongPlaybookError("the answer has no finding")
    findings = tuple(_finding(finding) for finding in answer.findings)
    for table in answer.tables:
        rows = cast("Sequence[Sequence[str]]", table.rows)
        if wrong := next((row for row in rows if len(row) != len(table.columns)), None):
            cells = f"{len(wrong)} cells, not {len(table.columns)}"
            raise WrongPlaybookError(f"a row of the table {table.title} has {cells}")
    skipped = (gap("objects", name, Text("gap.undecodable")) for name in read.undecodable)
    report = Report(
        schema=SCHEMA,
        playbook=verb,
        cluster=read.cluster,
        taken_at=read.taken_at,
        subject=answer.subject or Subject("Cluster", "", read.cluster),
        verdict=one_line(str(answer.verdict)),
        severity=worst(findings),
        findings=findings,
        tables=tuple(answer.tables),
        gaps=(*answer.gaps, *read.notes, *skipped),
    )
    if not report.verdict:
        raise WrongPlaybookError("the answer has no verdict")
    try:
        return msgspec.convert(_masked(msgspec.to_builtins(report, enc_hook=tuple)), Report)
    except (TypeError, msgspec.ValidationError) as error:
        raise WrongPlaybookError(f"the answer is no report: {error}") from None


def _masked(payload: Any) -> Any:
    match payload:
        case str():
            return masked(payload)
        case dict():
            return {key: _masked(value) for key, value in cast("dict[str, Any]", payload).items()}
        case list() | tuple():
            return [_masked(value) for value in cast("Sequence[Any]", payload)]
        case _:
            return payload


def _finding(given: Any) -> Finding:
    if not isinstance(given, Finding):
        raise WrongPlaybookError(f"{type(given).__name__} stands among the findings")
    if not given.evidence and given.severity != "info":
        raise WrongPlaybookError(f"the finding {given.claim!r} quotes no evidence")
    if not all(each.quote.strip() and each.command.strip() for each in given.evidence):
        raise WrongPlaybookError(f"evidence of the finding {given.claim!r} lacks its quote or its command")
    shown = (msgspec.structs.replace(each, quote=quotes.shown(each.quote)) for each in given.evidence)
    return msgspec.structs.replace(given, evidence=tuple(shown))


T = TypeVar("T")

LONGEST_S = 20.0
"""The most seconds for a `diagnose`: it reads nothing, so that a second is a long time for it."""


class TookTooLongError(RuntimeError):
    """A playbook was not done in time. Its thread goes on, since Python cannot end it."""


def done_within(done: "Future[T]", within_s: float) -> T:
    """The result of a step of `begun_aside`. Raises TookTooLongError after `within_s` seconds; the step goes on."""
    try:
        return done.result(within_s)
    except TimeoutError as error:
        if done.done():  # the step's own
            raise
        raise TookTooLongError(f"it took longer than {within_s:g} s") from error


def begun_aside(step: Callable[[], T]) -> "Future[T]":
    """The future of a step that runs in a daemon thread: one that never ends does not keep the process alive."""
    done = Future[T]()

    def run() -> None:
        try:
            result = step()
        except BaseException as error:  # noqa: BLE001  # SystemExit is raised where it is waited for
            _settle(partial(done.set_exception, error))
        else:
            _settle(partial(done.set_result, result))

    # The context goes along, so that the log shows which question caused what is read.
    threading.Thread(target=contextvars.copy_context().run, args=(run,), daemon=True).start()
    return done


def _settle(tell: Callable[[], None]) -> None:
    try:
        tell()
    except InvalidStateError:  # whoever asked has given up
        return
