"""The shape of a playbook, one read-only question: `playbooks/<verb>/playbook.py` has the verb's `PLAYBOOK`."""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import click
import msgspec

import playbooks
from bot.errors import UsageError
from bot.kube.cluster import Cluster, PodPorts
from bot.kube.times import format_time
from bot.prometheus import Prometheus
from bot.report import Finding, Gap, Report, Subject, Table, in_no_overview, in_words, new_report
from bot.texts import Prose, Text, Texts

ALL = click.Option(["--all"], is_flag=True, help="Everything: all rows and columns, the evidence, the background.")
"""The option `--all` of questions that answer with an overview."""


class Sources(NamedTuple):
    """All that a playbook may read from. The names are settings for an install that cannot be found by itself.

    `ports` is the way to ports of the cluster's pods, None if there is none; `prometheus` the cluster's, None if the
    settings name none. `workload_logs`: the logs of users' own containers may be read.
    """

    cluster: Cluster
    hami_namespace: str = ""
    scheduler_deployment: str = ""
    ports: PodPorts | None = None
    workload_logs: bool = False
    prometheus: Prometheus | None = None


class Playbook(msgspec.Struct, frozen=True):
    """A question: how it is asked, what it reads, what follows.

    `parameters` are the verb's arguments; `request` turns their values into the request (it raises `UsageError`).
    `gather` is the only part with I/O: what it cannot read becomes a gap, and it raises SourceError only if nothing can
    be said without it. `diagnose` is pure; its report holds texts, no words of a language. `tell` makes the report in
    words, for a playbook that chooses the words itself.
    """

    verb: str
    summary: str
    example: str
    parameters: Sequence[click.Parameter]
    request: Callable[..., Any]
    gather: Callable[[Any, Sources], Awaitable[Any]]
    diagnose: Callable[[Any], Report]
    tell: Callable[[Any, Texts], Report] | None = None

    def report(self, snapshot: Any, say: Texts) -> Report:
        """The report that follows from the snapshot, in the language of `say`."""
        return self.tell(snapshot, say) if self.tell else in_words(self.diagnose(snapshot), say)


Asked = TypeVar("Asked")
Seen = TypeVar("Seen")


class Snapshot(NamedTuple, Generic[Asked, Seen]):
    """The request, what was seen of the cluster for it (`scene`), and when."""

    request: Asked
    cluster: str
    taken_at: datetime
    scene: Seen

    def report(
        self,
        verb: str,
        subject: Subject,
        findings: Sequence[Finding],
        *,
        verdict: Prose | None = None,
        tables: Iterable[Table] = (),
        gaps: Iterable[Gap] = (),
        noun: str = "",
    ) -> Report:
        """The verb's report, as `new_report` makes it; if the request is for everything, no table is an overview."""
        return new_report(
            playbook=verb,
            cluster=self.cluster,
            taken_at=format_time(self.taken_at),
            subject=subject,
            findings=findings,
            verdict=verdict,
            tables=map(in_no_overview, tables) if getattr(self.request, "all", False) else tables,
            gaps=gaps,
            noun=noun,
        )


@cache
def load() -> Mapping[str, str]:
    """The names of the playbooks' modules by verb. The modules are not imported; the folders are read once."""
    files = Path(playbooks.__path__[0]).glob("*/playbook.py")
    return {file.parent.name: f"{playbooks.__name__}.{file.parent.name}.playbook" for file in sorted(files)}


def read_namespace(*texts: str) -> str:
    """The namespace in what people type, as an option or alone: `ml`, `ns/ml`, `ml/`. Raises UsageError for two."""
    plain = (text.strip().lower().removeprefix("ns/").removeprefix("namespace/").rstrip("/") for text in texts)
    found = [*dict.fromkeys(filter(None, plain))]
    if len(found) > 1:
        raise UsageError(Text("error-command.two-namespaces", first=found[0], second=found[1]))
    return next(iter(found), "")


def plain_numbers(name: str) -> str:
    """The name without zeros before its numbers: `gpu-9` for `gpu-09`."""
    return re.sub(r"(?<!\d)0+(?=\d)", "", name)


def read_node(text: str) -> str:
    """The node's name in what people type, in any case: `node/GPU-1` is `gpu-1`."""
    return text.strip().lower().removeprefix("node/")


SINCE = click.Option(["--since"], default="1h", metavar="TIME", help="How far back: 30s, 10m, 1h (the default), 2d.")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_TIME = re.compile(r"([1-9]\d{0,5})([smhd])")


def read_since(text: str) -> timedelta:
    """The time span in what people type: `90s`, `1h`, `2d`. Raises UsageError for anything else."""
    found = _TIME.fullmatch(text.strip())
    if not found:
        hint = Text("error-command.give-number-and-unit")
        raise UsageError(Text("error-command.not-time-look-back", text=repr(text[:40])), hint=hint)
    return timedelta(seconds=int(found[1]) * _UNITS[found[2]])
