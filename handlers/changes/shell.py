"""Temporary changes from a terminal: shows the plan, asks, makes it, says until when it lasts and how to revert it.

No store is needed: the record on the Deployment is what counts, and the bot that serves the cluster takes the change
over. If that record is damaged or gone, a change is reverted by the copy in the store that the settings name.
"""

import asyncio
import contextlib
import getpass
import logging
import sys
import uuid
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from bot.changes.changer import Changer
from bot.changes.deadline import later
from bot.changes.deployments import ChangeFailed
from bot.changes.journal import ChangeEvent, KnownChange
from bot.changes.plan import Plan, unfinished_rollout
from bot.changes.reconciler import STUCK_S
from bot.changes.record import BY_SHELL, KEY, Record, Refusal
from bot.errors import BotError, NotAllowed, SourceError, UsageError
from bot.kube.client.requests import ForbiddenError
from bot.kube.client.writer import Conflict, Writer
from bot.report import Evidence, Report, in_words
from bot.slack.render.prose import error_line
from bot.texts import Text, Texts
from handlers.changes.report import (
    ended_report,
    event_claim,
    extended_report,
    not_open_report,
    open_one,
    planned_report,
    raised_report,
    shown_report,
)
from handlers.changes.request import DRY_RUN_ID, ChangeSnapshot, look, prepare
from handlers.changes.scheduler_log import effect_of
from handlers.changes.words import Extend, Raise, Request, Revert, Show
from handlers.shell_grammar import PROGRAM
from handlers.shell_output import progress, render
from playbooks.playbook import Sources

FAILED = 5
"""The exit code of a change that was not made."""
_LOOK_EVERY_S = 0.5
_QUIET = ("raised", "effective", "extended")

log = logging.getLogger(__name__)

Capture = Callable[[Sources, ChangeSnapshot, Path], Awaitable[str]]
"""Records what a restart of the scheduler's pods destroys, and returns in words what was written."""


class ShellTools(msgspec.Struct, frozen=True):
    """What a change from the shell works with. `open_writer` gives None if the cluster is a recording.

    `copies` reads the changes that the store has as open (raises BotError); None if the settings name no store. `ask`
    puts a yes-or-no question; `tell` prints all but the report.
    """

    open_sources: Callable[[], AbstractAsyncContextManager[Sources]]
    open_writer: Callable[[], AbstractAsyncContextManager[Writer | None]]
    copies: Callable[[], Awaitable[Sequence[KnownChange] | None]]
    capture: Capture
    ask: Callable[[str], bool]
    tell: Callable[[str], None]
    say: Texts


class _ReadyChange(NamedTuple):
    found: ChangeSnapshot
    request: Raise
    plan: Plan


def run_change(tools: ShellTools, request: Request, *, yes: bool, no_capture: bool) -> tuple[Report, int]:
    """Carries out the request; returns the report and the exit code. `yes` skips the question, `no_capture` the
    capture. Raises UsageError for what needs a yes or a live cluster, NotAllowed, ChangeFailed and other BotErrors.
    """
    if not isinstance(request, Raise):
        return asyncio.run(_at_once(tools, request))
    looked = asyncio.run(_planned(tools, request))
    if not isinstance(looked, _ReadyChange):
        return looked
    if not yes and not sys.stdin.isatty():
        hint = Text("error-change.add-yes-or-dry-run")
        raise UsageError(Text("error-change.bot-cannot-ask-for-confirmation"), hint=hint)
    tools.tell(render(in_words(planned_report(looked.found, request, looked.plan), tools.say), "text", tools.say))
    if not yes and not tools.ask(f"{tools.say('changing.shell-ask')} "):
        raise ChangeFailed(Text("error-change.nothing-was-changed"), hint=Text("error-change.you-did-not-say-yes"))
    return asyncio.run(_done(tools, looked, no_capture=no_capture)), 0


async def _planned(tools: ShellTools, request: Raise) -> _ReadyChange | tuple[Report, int]:
    """What is to be confirmed; or a report and its exit code where nothing is."""
    async with progress(tools.say), tools.open_sources() as sources, tools.open_writer() as writer:
        if not request.dry_run:
            await _on_time(Changer(_live(writer), NoJournal()))
        found = await look(sources, request, writer)
        change_id = DRY_RUN_ID if request.dry_run else uuid.uuid4().hex[:12]
        outcome = prepare(found, request, change_id, by=DRY_RUN_ID if request.dry_run else whoami())
        if isinstance(outcome, Plan) and not request.dry_run:
            # Whoever may not patch is told before anything is captured; an edit meanwhile is planned on later.
            with _as_a_change(), contextlib.suppress(Conflict):
                await _live(writer).patch_deployment(found.namespace, found.name, outcome.patch, dry_run=True)
    if isinstance(outcome, Plan) and not request.dry_run:
        return _ReadyChange(found, request, outcome)
    not_done = isinstance(outcome, Refusal) and not request.dry_run
    return in_words(planned_report(found, request, outcome), tools.say), FAILED if not_done else 0


async def _done(tools: ShellTools, confirmed: _ReadyChange, *, no_capture: bool) -> Report:
    found, request, plan = confirmed
    async with tools.open_sources() as sources, tools.open_writer() as opened:
        writer = _live(opened)
        changer = Changer(writer, NoJournal())
        await _on_time(changer)
        if plan.record.means == "patch" and not no_capture:  # the pods end with it, and with them what only they hold
            try:
                out = Path(f"hami-capture-{plan.record.id}.tar.gz")
                tools.tell(await tools.capture(sources, found, out) + "\n")
            except BotError as error:
                text = Text("error-change.not-changed-not-captured", why=error.message)
                raise ChangeFailed(text, hint=Text("error-change.add-no-capture")) from error
        with _as_a_change():
            record = await changer.raise_(plan, found.around.version)
        words = record.kind.reverting
        raised = tools.say("changing.shell-raised", change=record.shown, until=record.at, words=words)
        tools.tell(f"{raised}\n{tools.say('changing.shell-reverts')}\n")
        proofs: tuple[Evidence, ...] = ()
        try:
            waits = await _rolled_out(tools, writer, found, record)
            if not waits:
                proofs = await effect_of(sources.cluster, record, await writer.pods_of(found.deployment))
        except SourceError as error:  # it is made all the same
            waits = tools.say.words(error.message)
        return in_words(raised_report(found, request, plan, record, proofs=proofs, waits=waits), tools.say)


async def _on_time(changer: Changer) -> None:
    """Comes before anything is read slowly or captured: with a wrong clock nothing could be raised."""
    if refusal := await changer.wrong_clock():
        raise ChangeFailed(Text("error-change.not-changed-because", why=refusal.why), hint=refusal.hint)


async def _rolled_out(tools: ShellTools, writer: Writer, found: ChangeSnapshot, record: Record) -> str:
    """Waits until the new pods run; what the rollout still waits for when that takes too long."""
    waits: Text | None = None
    for _ in range(int(STUCK_S / _LOOK_EVERY_S)) if record.means == "patch" else ():
        deployment = await writer.deployment(found.namespace, found.name)
        now = unfinished_rollout(deployment)
        if now is None:
            return ""
        if now != waits:
            tools.tell(f"{tools.say('changing.shell-rolling', waits=now)}\n")
        waits = now
        await asyncio.sleep(_LOOK_EVERY_S)
    return tools.say.words(waits) if waits else ""


async def _at_once(tools: ShellTools, request: Show | Extend | Revert) -> tuple[Report, int]:
    """Carries out what needs no confirmation: looking, and going back to how things were."""
    async with progress(tools.say), tools.open_sources() as sources:
        if isinstance(request, Show):
            return in_words(shown_report(await look(sources, request), request, PROGRAM), tools.say), 0
        async with tools.open_writer() as opened:
            writer = _live(opened, dry_run_helps=False)
            found, journal = await look(sources, request), NoJournal()
            if not isinstance(found.open, Record):
                copies = await _copies(tools)
                journal = NoJournal(copies.opened)
                copy = await Changer(writer, journal).open_copy(found.deployment)
                found = msgspec.structs.replace(found, copy=copy.record if copy else None)
                tools.tell(f"{copies.why}\n" if copies.unread else "")
            if (record := open_one(found, request)) is None:
                as_wanted = isinstance(request, Revert) and found.open is None
                return in_words(not_open_report(found, request, PROGRAM), tools.say), 0 if as_wanted else FAILED
            changer = Changer(writer, journal)
            if isinstance(request, Revert):
                with _as_a_change():
                    event = await changer.revert(found.namespace, found.name, by=whoami())
                return in_words(ended_report(found, request, event), tools.say), 0
            with _as_a_change():
                await writer.deployment(found.namespace, found.name)  # its answer tells the API server's time
                until = later(record, request.seconds, now=changer.time())
                outcome = await changer.extend(found.namespace, found.name, until, by=whoami())
            code = FAILED if isinstance(outcome, Refusal) else 0
            return in_words(extended_report(found, request, outcome), tools.say), code


async def revert_overdue(tools: ShellTools, namespace: str) -> tuple[str, int]:
    """Reverts every change that is overdue, for a CronJob; returns what was done, and the exit code. `namespace` limits
    it to one; empty: the settings' namespace, else all. Raises SourceError if nothing can be listed.
    """
    async with progress(tools.say), tools.open_sources() as sources, tools.open_writer() as opened:
        writer = _live(opened)
        where = namespace or sources.hami_namespace
        try:
            carriers = await writer.annotated(KEY, where)
        except ForbiddenError as error:
            if where:
                raise
            raise ForbiddenError(error.message, hint=Text("error-change.name-one-namespace")) from error
        copies = await _copies(tools)
        changer = Changer(writer, NoJournal(copies.opened), namespace=where)
        events = await changer.passes.reconcile() if carriers or copies.opened else []
    news = [event for event in events if event.kind not in _QUIET and event.source != "found"]
    # A record that cannot be read, and of which no copy is known, is reverted by nobody.
    failed = [event for event in news if event.kind == "failed" or (event.kind, event.record) == ("unreadable", None)]
    say = tools.say
    lines = [
        f"{event.kind} {event.target}: "
        + (event.detail if event in failed or event.kind == "stuck" else say.words(event_claim(event)))
        for event in news
    ]
    left = say("changing.shell-open", count=len(carriers)) if carriers else say("changing.shell-none-open")
    told = [*(lines or [left]), *([copies.why] if copies.why else [])]
    return "\n".join(told), FAILED if failed or copies.unread else 0


class _Copies(NamedTuple):
    """The changes that the store has as open; `why` none are known, `unread` if the store could not be read."""

    opened: Sequence[KnownChange] = ()
    why: str = ""
    unread: bool = False


async def _copies(tools: ShellTools) -> _Copies:
    try:
        opened = await tools.copies()
    except BotError as error:
        return _Copies(why=tools.say("changing.shell-store-unread", why=error_line(error, tools.say)), unread=True)
    return _Copies(why=tools.say("changing.shell-no-store")) if opened is None else _Copies(opened)


def _live(writer: Writer | None, *, dry_run_helps: bool = True) -> Writer:
    if writer is None:
        hint = "error-change.add-dry-run" if dry_run_helps else "error-change.leave-out-recording-reach-cluster"
        raise UsageError(Text("error-change.recording-cannot-be-changed"), hint=Text(hint))
    return writer


class NoJournal:
    """A journal that keeps nothing: a shell ends, and the bot that serves the cluster finds what was done. `opened` are
    the changes that the store has as open, if it was read.
    """

    def __init__(self, opened: Sequence[KnownChange] = ()) -> None:
        self._opened = opened

    async def planned(self, record: Record, uid: str) -> None:
        log.info("%s (%s): %s", record.target, uid, record)

    async def note(self, event: ChangeEvent) -> None:
        log.info("%s %s %s", event.kind, event.target, event.detail)

    async def opened(self) -> Sequence[KnownChange]:
        return self._opened


@contextmanager
def _as_a_change() -> Generator[None]:
    """Tells errors of writing as what they mean for the change."""
    try:
        yield
    except ForbiddenError as error:
        raise NotAllowed(Text("error-change.not-changed-because", why=error.message), hint=error.hint) from error
    except SourceError as error:
        raise ChangeFailed(Text("error-change.not-changed-because", why=error.message), hint=error.hint) from error


def whoami() -> str:
    """The login name of whoever runs the command, marked as a shell's."""
    try:
        return f"{getpass.getuser()}{BY_SHELL}"
    except (OSError, KeyError, ImportError):  # a container's user may have no name
        return f"somebody{BY_SHELL}"
