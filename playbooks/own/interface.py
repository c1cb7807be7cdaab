"""What a playbook of one's own gives. `playbooks.api` promises these shapes."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar, cast

import click

from bot.report import Finding, Gap, Subject, Table
from bot.texts import Texts
from playbooks.own.errors import WrongPlaybookError

S = TypeVar("S")

_NAMES = ("cluster", "kubeconfig", "context", "recording", "config", "output", "lang")
OPTIONS = frozenset((*_NAMES, *(f"--{name}" for name in _NAMES), "-o", "--help", "help"))
"""Names and flags of a shell's and of Slack's own options. A test compares them with both grammars."""


class Answer(NamedTuple):
    """What follows from what was read: the most important finding first, and at least one.

    `verdict`: one line of at most 140 characters. A finding that is no mere information quotes its evidence. `gaps`:
    what could not be read. `subject`: what the answer is about; the cluster by default.
    """

    verdict: str
    findings: Sequence[Finding]
    tables: Sequence[Table] = ()
    gaps: Sequence[Gap] = ()
    subject: Subject | None = None


class Playbook(NamedTuple, Generic[S]):
    """A question: how it is asked, what it reads, what follows. Its verb is the file's name, or the entry point's.

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


def check(made: object) -> "Playbook[Any]":
    """The playbook itself. Raises WrongPlaybookError for what would break where it is listed or asked."""
    if not isinstance(made, Playbook):
        raise WrongPlaybookError(f"PLAYBOOK is of the type {type(made).__name__}, not playbooks.api.Playbook")
    own = cast("Playbook[Any]", made)
    given: Any = own  # nothing but a type checker has looked at it
    fits = {
        "summary": isinstance(given.summary, str) and given.summary.strip() != "",
        "gather": callable(given.gather),
        "diagnose": callable(given.diagnose),
        "parameters": isinstance(given.parameters, Sequence) and all(map(_is_parameter, own.parameters)),
        "example": isinstance(given.example, str),
        "texts": _are_texts(given.texts),
    }
    if wrong := [name for name, fine in fits.items() if not fine]:
        raise WrongPlaybookError(f"{wrong[0]} of PLAYBOOK is not what it should be: {getattr(own, wrong[0])!r}")
    taken = [flag for parameter in own.parameters for flag in (parameter.name, *parameter.opts) if flag in OPTIONS]
    if taken:
        raise WrongPlaybookError(f"every verb has the option {taken[0]} already")
    return own


def _is_parameter(parameter: object) -> bool:
    return isinstance(parameter, click.Parameter) and bool(parameter.name) and parameter.expose_value


def _are_texts(given: Any) -> bool:
    return isinstance(given, Mapping) and all(
        isinstance(value, Mapping) for value in cast("Mapping[str, Any]", given).values()
    )
