"""`hami-bot tune compare BEFORE AFTER`: two recordings side by side, or two days of a Prometheus. Only in a shell."""

import asyncio
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import click

from bot.errors import UsageError
from bot.report import Report
from bot.texts import Texts
from handlers.grammar import Asked
from handlers.where import Where, open_sources
from playbooks.playbook import find

VERB = "tune"
_COMPARE = "compare"
_EXAMPLE = f"{VERB} {_COMPARE} before.tar.gz after.tar.gz"


class CompareAsked(NamedTuple):
    """Two recordings, folders or archives, with the values of the surface's own options."""

    before: Path
    after: Path
    everything: bool
    options: dict[str, Any]


class DaysAsked(NamedTuple):
    """Two days, with the values of the surface's own options."""

    before: date
    after: date
    options: dict[str, Any]


def tune_command(program: str, options: Sequence[click.Parameter]) -> click.Command:
    """The playbook's verb, and the comparison of two recordings or days."""
    playbook = find(VERB)

    def ask(words: Sequence[str], all: bool, template: str | None, **values: Any) -> Asked | CompareAsked | DaysAsked:  # noqa: A002, FBT001
        if not words:
            return Asked(playbook, playbook.request(all=all, template=template), values)
        if words[0].lower() != _COMPARE or len(words) != 3 or template:
            raise UsageError(f"{VERB} takes nothing, or {_COMPARE} and two recordings or dates", example=_EXAMPLE)
        if days := _days(words[1:]):
            return DaysAsked(*days, values)
        return CompareAsked(Path(words[1]), Path(words[2]), all, values)

    return click.Command(
        VERB,
        callback=ask,
        params=[
            click.Argument(["words"], nargs=-1, metavar=f"[{_COMPARE} BEFORE AFTER]"),
            *playbook.parameters,
            *options,
        ],
        help=f"{playbook.summary} {_COMPARE} BEFORE AFTER: what changed between two recordings, or two dates of "
        "the cluster's Prometheus, and whether it helped.",
        short_help=playbook.summary,
        epilog=f"Example: {program} {playbook.example}",
    )


def _days(words: Sequence[str]) -> tuple[date, date] | None:
    """The days where both words are dates, such as 2026-11-22."""
    try:
        before, after = map(date.fromisoformat, words)
    except ValueError:
        return None
    return before, after


async def compare_of_prometheus(asked: DaysAsked, where: Where, say: Texts) -> Report:
    """Raises SourceError where Prometheus does not answer, UsageError where the settings name none."""
    from playbooks.gather.usage_of_day import gather_day  # noqa: PLC0415  # only this command needs it
    from playbooks.tune.days import compare_days  # noqa: PLC0415

    async with open_sources(where) as sources:
        if sources.prometheus is None:
            raise UsageError(
                "two dates are compared by the cluster's Prometheus, and the settings name none",
                hint="Set clusters.NAME.prometheus.url, or compare two recordings.",
                example=_EXAMPLE,
            )
        before, after = [
            await gather_day(sources.prometheus, day, sources.cluster.now()) for day in (asked.before, asked.after)
        ]
        return compare_days(before, after, sources.cluster.name, say)


async def compare_recordings(asked: CompareAsked, where: Where, say: Texts) -> Report:
    """Raises SourceError for a file that is no recording."""
    from playbooks.tune.compare import compare  # noqa: PLC0415  # only this command needs it
    from playbooks.tune.side import gather_side  # noqa: PLC0415

    async with (
        open_sources(where._replace(recording=asked.before)) as before,
        open_sources(where._replace(recording=asked.after)) as after,
    ):
        sides = await asyncio.gather(gather_side(before), gather_side(after))
    return compare(*sides, say, everything=asked.everything)
