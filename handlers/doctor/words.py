"""`doctor` as it is asked for in Slack."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import click

VERB = "doctor"
SUMMARY = "Check all that the bot needs: settings, Slack, store, clusters and rights, with a fix for each fault."


class ExaminationAsked(NamedTuple):
    """What was typed behind the verb."""

    options: dict[str, Any]


def slack_doctor_command(program: str, options: Sequence[click.Parameter]) -> click.Command:
    """The command of Slack's grammar; what it gives is an ExaminationAsked."""
    return click.Command(
        VERB,
        callback=_read,
        help=f"{SUMMARY} For operators; only you see the answer.",
        epilog=f"Example: {program} {VERB}",
        params=list(options),
    )


def _read(**options: Any) -> ExaminationAsked:
    return ExaminationAsked(options)
