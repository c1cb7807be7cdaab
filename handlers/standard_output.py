"""Standard output: how wide it is, whether it shows colours, and what is printed there."""

import os
import shutil
import sys

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
