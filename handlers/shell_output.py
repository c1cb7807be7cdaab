"""The output for a person at a terminal: the report on standard output, everything else on stderr."""

import asyncio
import contextlib
import os
import re
import shlex
import shutil
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from msgspec.structs import replace

from bot.render.terminal import terminal
from bot.report import Finding, Report, act, as_json
from bot.texts import Texts

_PATIENCE_S = 1.0
_KUBECTL = re.compile(r"(?:^|(?<=&& )|(?<=\| ))kubectl(?= )")
_AS_IT_IS = re.compile(r"(hami-bot )?profile (top|list|compare|hints)\b|grep |PromQL: ")
"""Commands that read a profile or a manifest, and no cluster; and queries for Prometheus."""


@asynccontextmanager
async def progress(say: Texts, what: str = "") -> AsyncGenerator[None]:
    """Shows a line on stderr while the block runs longer than a second; on a terminal it counts, and goes away at the
    end. `what` says what is being done; without it, that the cluster is read.
    """
    line = say("words.going-on", what=what or say("words.reading"))

    async def count() -> None:
        terminal = sys.stderr.isatty()
        seconds = 0
        try:
            while True:
                await asyncio.sleep(_PATIENCE_S)
                seconds += 1
                if terminal:
                    tell(f"\r{line} {say('age.seconds', count=seconds)}")
                elif seconds == 1:
                    tell(f"{line}\n")
        finally:
            if terminal and seconds:
                tell("\r\033[K")

    task = asyncio.create_task(count())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def of_recording(report: Report, say: Texts) -> Report:
    """A recorded cluster's report without commands that change a cluster, a live one; the cluster's name says so."""

    def finding(original: Finding) -> Finding:
        actions = original.next_actions
        kept = (act(one.text) if one.changes_cluster and not one.only_looks else one for one in actions)
        return replace(original, next_actions=tuple(kept))

    findings, subject = tuple(map(finding, report.findings)), report.subject
    if findings == report.findings:
        return report
    cluster = say("render.of-recording", cluster=report.cluster)
    subject = replace(subject, name=cluster) if subject.name == report.cluster else subject
    return replace(report, findings=findings, subject=subject, cluster=cluster)


def asked_there(report: Report, kubectl: Sequence[str], ours: Sequence[str]) -> Report:
    """The report with commands for the cluster that was asked: `kubectl` and `ours` are the options that name it."""

    def there(command: str) -> str:
        if command.startswith("kubectl "):
            return _KUBECTL.sub(lambda _: shlex.join(["kubectl", *kubectl]), command)
        if not command or _AS_IT_IS.match(command):
            return command
        return f"{command} {shlex.join(ours)}".rstrip()

    def finding(original: Finding) -> Finding:
        evidence = tuple(replace(proof, command=there(proof.command)) for proof in original.evidence)
        actions = tuple(replace(action, command=there(action.command)) for action in original.next_actions)
        return replace(original, evidence=evidence, next_actions=actions)

    return replace(report, findings=tuple(map(finding, report.findings)))


def render(report: Report, output: str, say: Texts, *, whole: bool = True) -> str:
    """The report in the form that `output` names. Text is cut to a page unless `whole`."""
    match output:
        case "json":
            return as_json(report)
        case "slack":
            from bot.slack.render.report import slack_json  # noqa: PLC0415  # for Block Kit Builder, seldom

            return slack_json(report, say)
        case "markdown":
            from bot.render.markdown import markdown  # noqa: PLC0415  # any other form does without

            return markdown(report, say)
        case _:
            return terminal(report, say, width=width(), colour=has_colours(), whole=whole)


def tell(text: str) -> None:
    """Writes to stderr, for the person, beside the report."""
    sys.stderr.write(text)
    sys.stderr.flush()


def agrees(question: str) -> bool:
    tell(question)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


_NARROWEST = 40


def width() -> int:
    """The columns by COLUMNS (for a pipe too), or else of the terminal; 80 if neither is known, at least 40."""
    return max(_NARROWEST, shutil.get_terminal_size().columns)


def has_colours() -> bool:
    """Whether stdout is a terminal that shows colours, and NO_COLOR (no-color.org) is not set."""
    environment = os.environ  # noqa: TID251  # what the terminal says of itself is no setting of the bot
    return sys.stdout.isatty() and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"


def print_out(text: str) -> None:
    """Prints the text as UTF-8 whatever the locale: the same report is the same bytes everywhere."""
    sys.stdout.flush()
    sys.stdout.buffer.write((text if text.endswith("\n") else text + "\n").encode("utf-8", "backslashreplace"))
    sys.stdout.buffer.flush()
