"""How far back a question looks, as people type it: `--since 1h`."""

import re
from datetime import timedelta

import click

from bot.errors import UsageError
from bot.texts import Text

SINCE = click.Option(["--since"], default="1h", metavar="TIME", help="How far back: 30s, 10m, 1h (the default), 2d.")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_TIME = re.compile(r"([1-9]\d{0,5})([smhd])")


def read_since(text: str) -> timedelta:
    """Raises UsageError for a time that is none."""
    found = _TIME.fullmatch(text.strip())
    if not found:
        hint = Text("error-command.give-number-and-unit")
        raise UsageError(Text("error-command.not-time-look-back", text=repr(text[:40])), hint=hint)
    return timedelta(seconds=int(found[1]) * _UNITS[found[2]])
