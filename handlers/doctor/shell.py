"""`doctor` as it is asked for, in a shell and in Slack: what the bot needs, and how to mend what is broken."""

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from bot.errors import UsageError
from bot.kube.times import read_duration
from bot.texts import Language, Text, Texts
from handlers.cluster_choice import ClusterChoice
from handlers.cluster_choice import language as language_of

if TYPE_CHECKING:
    from handlers.doctor.links import Link

VERB = "doctor"
SUMMARY = "Check all that the bot needs: settings, Slack, store, clusters and rights, with a fix for each fault."
FAILED = 3
"""The exit code where a link failed: as for a source that cannot be read."""
_EXAMPLE = f"{VERB} --wait 2m"
_PAUSE_S = 5.0


class DoctorAsked(NamedTuple):
    """The command as typed. `wait_s`: how long it is tried again until no link fails."""

    wait_s: float
    output: str
    options: dict[str, Any]


def doctor_command(program: str, options: Sequence[click.Parameter]) -> click.Command:
    """The command; what it gives is a DoctorAsked."""
    return click.Command(
        VERB,
        callback=_read,
        help=SUMMARY,
        epilog=f"Example: {program} {_EXAMPLE}",
        params=[
            click.Option(["--wait"], default="", metavar="TIME", help="Try again for this long until nothing fails."),
            click.Option(["-o", "--output"], type=click.Choice(("text", "json")), default="text", show_default=True),
            *options,
        ],
    )


def slack_doctor_command(program: str, options: Sequence[click.Parameter]) -> click.Command:
    """The command of Slack's grammar; what it gives is a DoctorAsked."""
    return click.Command(
        VERB,
        callback=_read,
        help=f"{SUMMARY} For operators; only you see the answer.",
        epilog=f"Example: {program} {VERB}",
        params=list(options),
    )


def _read(wait: str = "", output: str = "text", **options: Any) -> DoctorAsked:
    wait_s = read_duration(wait) if wait else 0.0
    if wait_s is None:
        raise UsageError(Text("error-doctor.wait-is-no-time", wait=wait), example=_EXAMPLE)
    return DoctorAsked(wait_s, output, options)


async def run_doctor(asked: DoctorAsked, where: ClusterChoice, language: Language | None) -> tuple[str, int]:
    """What to print, and the exit code; without a language in that of the settings, if these can be read."""
    from handlers.doctor.checks import examine  # noqa: PLC0415  # Slack's client and the store, a second
    from handlers.doctor.links import as_json, as_text, has_failed, in_words  # noqa: PLC0415

    say = Texts(language or usual_language(where))
    until = time.monotonic() + asked.wait_s
    links: list[Link] = await examine(where)
    while has_failed(links) and time.monotonic() < until:
        await asyncio.sleep(_PAUSE_S)
        links = await examine(where)
    text = as_json(in_words(links, say)) if asked.output == "json" else as_text(links, say)
    return text, FAILED if has_failed(links) else 0


def usual_language(where: ClusterChoice) -> Language:
    """The language of the settings, English where these cannot be read."""
    try:
        return language_of(where)
    except UsageError:  # which is the first thing that it tells
        return "en"
