"""What a playbook of one's own gives. `playbooks.api` promises these shapes."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

import click

from bot.report import Finding, Gap, Subject, Table
from bot.texts import Texts

S = TypeVar("S")


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
