"""What a team's own playbook consists of (`playbooks.api` promises it). An error in one stops nothing else."""

import logging
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import PurePath
from types import TracebackType
from typing import Any, Generic, NamedTuple, TypeVar, cast

import click

from bot.errors import BotError
from bot.kube.recording.redact import masked
from bot.report import Finding, Gap, Subject, Table, one_line
from bot.texts import Text, Texts

S = TypeVar("S")

_NAMES = ("cluster", "kubeconfig", "context", "recording", "config", "output", "lang")
OPTIONS = frozenset((*_NAMES, *(f"--{name}" for name in _NAMES), "-o", "--help", "help"))
"""The options that a shell and Slack have themselves, as names and flags. A test compares them with both grammars."""


class Answer(NamedTuple):
    """The answer of a playbook of your own: at least one finding, the most important first.

    `verdict`: one line of at most 140 characters. A finding above the severity info quotes its evidence. `gaps`: what
    could not be read. `subject`: what the answer is about; the cluster by default.
    """

    verdict: str
    findings: Sequence[Finding]
    tables: Sequence[Table] = ()
    gaps: Sequence[Gap] = ()
    subject: Subject | None = None


class OwnPlaybook(NamedTuple, Generic[S]):
    """A playbook of your own: how it is asked, what it reads, what follows. The name of its file or entry point is its
    verb.

    `summary`: one line of help. `parameters` of the verb, as click has them; their values are `gather`'s keywords.
    `gather` is the only part that waits: it reads the cluster, and raises UsageError for a wrong word. `diagnose` makes
    the answer of what `gather` returned, and of nothing else. `texts`: by language and name, for `diagnose`'s second
    argument; English where a language has none. `example`: what may follow the verb.
    """

    summary: str
    gather: Callable[..., Awaitable[S]]
    diagnose: Callable[[S, Texts], Answer]
    parameters: Sequence[click.Parameter] = ()
    example: str = ""
    texts: Mapping[str, Mapping[str, str]] = {}


def check(made: object) -> "OwnPlaybook[Any]":
    """The playbook, if it is one. Raises WrongPlaybookError for what would break when it is listed or asked."""
    if not isinstance(made, OwnPlaybook):
        raise WrongPlaybookError(f"PLAYBOOK is of the type {type(made).__name__}, not playbooks.api.Playbook")
    own = cast("OwnPlaybook[Any]", made)
    given: Any = own  # nothing but a type checker has looked at it
    fits = {
        "summary": isinstance(given.summary, str) and given.summary.strip() != "",
        "gather": callable(given.gather),
        "diagnose": callable(given.diagnose),
        "parameters": isinstance(given.parameters, Sequence) and all(map(_is_parameter, own.parameters)),
        "example": isinstance(given.example, str),
        "texts": isinstance(given.texts, Mapping) and all(map(_is_mapping, own.texts.values())),
    }
    if wrong := [name for name, fine in fits.items() if not fine]:
        raise WrongPlaybookError(f"{wrong[0]} of PLAYBOOK is not what it should be: {getattr(own, wrong[0])!r}")
    taken = [flag for parameter in own.parameters for flag in (parameter.name, *parameter.opts) if flag in OPTIONS]
    if taken:
        raise WrongPlaybookError(f"every verb has the option {taken[0]} already")
    return own


def _is_parameter(parameter: object) -> bool:
    return isinstance(parameter, click.Parameter) and bool(parameter.name) and parameter.expose_value


def _is_mapping(value: object) -> bool:
    return isinstance(value, Mapping)


log = logging.getLogger(__name__)
_LONGEST = 300
_BROKEN = Text("error-own.bot-is-well-author")
_WRONG = Text("error-own.bot-is-well-docs")


class OwnPlaybookError(BotError):
    """An error in a team's own playbook. Its message names the verb, the error and the line."""


class WrongPlaybookError(ValueError):
    """A `PLAYBOOK` is no playbook, or what its `diagnose` returned is no answer."""


@contextmanager
def told_by_name(verb: str, file: str) -> Generator[None]:
    """Turns any exception of the block into an OwnPlaybookError that names the file's line; a BotError passes."""
    try:
        yield
    except BotError:
        raise
    except (Exception, SystemExit) as error:
        steps, is_wrong = _steps(error, file), isinstance(error, WrongPlaybookError)
        # Of an error that did not come through the file all of it; none where its own words say the place.
        whole = None if is_wrong or isinstance(error, SyntaxError) else error.__traceback__
        traceback = (type(error), error, steps[0] if steps else whole)
        log.warning("the playbook %s does not work (%s)", verb, file, exc_info=traceback)
        kind = "" if is_wrong else f"{type(error).__name__}: "
        said = error.msg if isinstance(error, SyntaxError) else error
        what = one_line(masked(f"{kind}{said}{_place(error, file, steps)}", _LONGEST + 1), _LONGEST)
        raise OwnPlaybookError(
            Text("error-own.playbook-does-not-work", verb=verb, what=what),
            hint=_WRONG if is_wrong else _BROKEN,
        ) from error


def _place(error: BaseException, file: str, steps: list[TracebackType]) -> str:
    """The last line of the file that the error came through, as `(evictions.py:12)`."""
    if isinstance(error, SyntaxError):
        return f" ({PurePath(error.filename or file).name}:{error.lineno})"
    return f" ({PurePath(file).name}:{steps[-1].tb_lineno})" if steps else ""


def _steps(error: BaseException, file: str) -> list[TracebackType]:
    """What of the traceback is in the playbook's file. The first of them has all that came after it."""
    found = list[TracebackType]()
    trace = error.__traceback__
    while trace:
        found += [trace] if trace.tb_frame.f_code.co_filename.endswith(file) else []
        trace = trace.tb_next
    return found
