"""`hami-bot tune compare BEFORE AFTER`: two recordings side by side. Only a shell has such files."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from bot.errors import UsageError
from bot.report import Report
from bot.texts import Text
from handlers.cluster_choice import ClusterChoice, open_sources
from handlers.parsing.grammar import ParsedQuestion
from playbooks.playbook import find

VERB = "tune"
_COMPARE = "compare"


class CompareAsked(NamedTuple):
    """Two recordings, folders or archives, with the values of the surface's own options."""

    before: Path
    after: Path
    everything: bool
    options: dict[str, Any]


def tune_command(program: str, options: Sequence[click.Parameter]) -> click.Command:
    """The playbook's verb, which compares two days, and the comparison of two recordings."""
    playbook = find(VERB)

    def ask(words: Sequence[str], all: bool, template: str | None, **values: Any) -> ParsedQuestion | CompareAsked:  # noqa: A002, FBT001
        try:
            return ParsedQuestion(playbook, playbook.request(words=words, all=all, template=template), values)
        except UsageError:
            if len(words) != 3 or words[0].lower() != _COMPARE or template:
                raise
        return CompareAsked(Path(words[1]), Path(words[2]), all, values)

    return click.Command(
        VERB,
        callback=ask,
        params=[*playbook.parameters, *options],
        help=f"{playbook.summary} {_COMPARE} BEFORE AFTER: what changed between two dates or two recordings, and "
        "whether it helped.",
        short_help=playbook.summary,
        epilog=f"Example: {program} {playbook.example}",
    )


async def compare_recordings(asked: CompareAsked, where: ClusterChoice) -> Report:
    """Raises SourceError for a file that is no recording, UsageError where a cluster is named beside the two."""
    if other := next((name for name in ("recording", "kubeconfig", "context") if getattr(where, name)), ""):
        message = Text("error-tune.compare-names-cluster", other=other)
        raise UsageError(message, hint=Text("error-tune.leave-out", other=other))
    from playbooks.tune.compare import compare, gather_side  # noqa: PLC0415  # only this command needs it

    async with (
        open_sources(where._replace(recording=asked.before)) as before,
        open_sources(where._replace(recording=asked.after)) as after,
    ):
        sides = await asyncio.gather(gather_side(before), gather_side(after))
    return compare(*sides, everything=asked.everything)
