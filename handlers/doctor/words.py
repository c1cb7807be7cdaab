"""`doctor` as it is asked for, in a shell and in Slack: what the bot needs, and how to mend what is broken."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import click

from bot.errors import UsageError
from bot.kube.times import read_duration
from bot.texts import Text

VERB = "doctor"
SUMMARY = "Check all that the bot needs: settings, Slack, store, clusters and rights, with a fix for each fault."
_EXAMPLE = f"{VERB} --wait 2m"


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
