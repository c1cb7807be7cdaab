"""What a person at a terminal sees: the report on standard output, everything else beside it."""

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
from bot.report import Finding, Report, as_json, step
from bot.texts import Text, Texts

_PATIENCE_S = 1.0
_KUBECTL = re.compile(r"(?:^|(?<=&& ))kubectl(?= )")
"""Every call of one line."""
_AS_IT_IS = re.compile(r"(hami-bot )?profile (top|list|compare|hints)\b|grep |PromQL: ")
"""Commands that read a profile or a manifest, and no cluster; and queries for Prometheus."""


@asynccontextmanager
async def progress(say: Texts, what: str = "") -> AsyncGenerator[None]:
    """A line on stderr for whatever takes longer than a second; it counts on a terminal and goes away at the end.

    `what`: what is being done; the cluster is read, if nothing is said.
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


def of_recording(report: Report) -> Report:
    """The report without commands that change a cluster: they would change another than the one that was recorded."""

    def finding(original: Finding) -> Finding:
        actions = (
            step(Text("render.of-recording", label=action.text), "", changes_cluster=True)
            if action.changes_cluster
            else action
            for action in original.next_actions
        )
        return replace(original, next_actions=tuple(actions))

    return replace(report, findings=tuple(map(finding, report.findings)))


def asked_there(report: Report, kubectl: Sequence[str], ours: Sequence[str]) -> Report:
    """The report with commands that ask the same cluster: the options that named it, of kubectl's and of ours."""

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
    """The report as `output` names it; as text not `whole`, it is a page."""
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
    """To the person, beside the report."""
    sys.stderr.write(text)
    sys.stderr.flush()


def agrees(question: str) -> bool:
    tell(question)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


_NARROWEST = 40


def width() -> int:
    """The terminal's, or what COLUMNS says, which a pipe keeps to too; 80 where nothing tells."""
    return max(_NARROWEST, shutil.get_terminal_size().columns)


def has_colours() -> bool:
    """Whether it is a terminal that shows colours, and nobody said NO_COLOR (no-color.org)."""
    environment = os.environ  # noqa: TID251  # what the terminal says of itself is no setting of the bot
    return sys.stdout.isatty() and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"


def print_out(text: str) -> None:
    """UTF-8 whatever the locale: the same report is the same bytes everywhere."""
    sys.stdout.flush()
    sys.stdout.buffer.write((text if text.endswith("\n") else text + "\n").encode("utf-8", "backslashreplace"))
    sys.stdout.buffer.flush()
