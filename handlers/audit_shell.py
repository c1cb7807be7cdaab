"""`hami-bot audit`: who asked for what and what came of it, as the store's log says; and whether the log is whole.

The log is read as it is: nothing is made, upgraded or taken over from the bot that writes it.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec

from bot.render.words import visible
from bot.settings import load_settings

if TYPE_CHECKING:
    from bot.store.audit import Audit, Entry

BROKEN = 5
"""The exit code of `--verify` for a log that is not as it was written."""
_COLUMNS = ("seq", "at", "actor", "action", "target", "outcome", "detail")


class AuditAsked(NamedTuple):
    """The command as typed; `output` is text or json."""

    limit: int
    verify: bool
    output: str
    config: Path | None


def audit_command(program: str) -> click.Command:
    """The command; what it gives is an AuditAsked."""
    return click.Command(
        "audit",
        callback=AuditAsked,
        help="Who asked for which change, and its outcome: the most recent entries, oldest first.",
        epilog=f"Example: {program} audit --limit 50      Is it as it was written? {program} audit --verify",
        params=[
            click.Option(["--limit"], type=click.IntRange(min=1), default=20, show_default=True, metavar="N"),
            click.Option(["--verify"], is_flag=True, help="Check every entry; exit code 5 for a broken log."),
            click.Option(["-o", "--output"], type=click.Choice(("text", "json")), default="text", show_default=True),
            click.Option(
                ["--config"],
                type=click.Path(path_type=Path),
                metavar="PATH",
                help="A settings file (else HAMI_BOT_CONFIG): it names the store.",
            ),
        ],
    )


async def run_audit(asked: AuditAsked) -> tuple[str, int]:
    """What to print, and the exit code. The log is that of the store which the settings name, or of the usual one.

    Raises StoreError when it cannot be read.
    """
    from bot.settings.schema import StoreSettings  # noqa: PLC0415  # with the store, half a second
    from bot.store import open_audit  # noqa: PLC0415

    settings = load_settings(asked.config)
    store = settings.store if settings else StoreSettings()
    async with open_audit(store.url.get_secret_value()) as audit:
        if asked.verify:
            return await _verify(audit, asked.output)
        entries = (await audit.read(asked.limit))[::-1]
    if asked.output == "json":
        return _json({"entries": [entry._asdict() for entry in entries]}), 0
    return "\n".join(_lines(entries)) or "the audit log is empty", 0


async def _verify(audit: "Audit", output: str) -> tuple[str, int]:
    newest = await audit.read(1)
    found = await audit.verify()
    if isinstance(found, int):
        seal = newest[0].hash if newest else ""
        if output == "json":
            return _json({"whole": True, "newest": seal}), 0
        sealed = f"; entry {newest[0].seq} is sealed with {seal}" if newest else ""
        return f"the audit log is whole: {found} entries{sealed}", 0
    if output == "json":
        return _json({"whole": False, "first_bad": found._asdict()}), BROKEN
    return f"the audit log is not whole, entry {found.seq}: {found.why}", BROKEN


def _lines(entries: "list[Entry]") -> list[str]:
    rows = [[visible(_cell(entry, name)) for name in _COLUMNS] for entry in entries]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _cell(entry: "Entry", name: str) -> str:
    value: Any = getattr(entry, name)
    return value if isinstance(value, str) else _json(value) if value else ""


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
