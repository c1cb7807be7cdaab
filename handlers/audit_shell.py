"""`hami-bot audit`: who asked for what and what came of it, as the store's log says; and whether the log is whole.

The log is read as it is: nothing is made, upgraded or taken over from the bot that writes it.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from bot.render.words import visible
from bot.settings import load_settings

if TYPE_CHECKING:
    from bot.store.audit import Audit, Entry, Verified

BROKEN = 5
"""The exit code of `--verify` for a log that is not as it was written, or has no signature where a key is set."""
_COLUMNS = ("seq", "at", "actor", "action", "target", "outcome", "detail")


async def run_audit(*, limit: int, verify: bool, last_hash: str, output: str, config: Path | None) -> tuple[str, int]:
    """What to print, as text or json, and the exit code. The log is that of the store which the settings name, or of
    the usual one.

    Raises StoreError when it cannot be read.
    """
    from bot.settings.schema import StoreSettings  # noqa: PLC0415  # with the store, half a second
    from bot.store import open_beside  # noqa: PLC0415

    settings = load_settings(config)
    store = settings.store if settings else StoreSettings()
    async with open_beside(store.url.get_secret_value(), audit_keys=store.audit_keys) as opened:
        if verify or last_hash:
            return await _verify(opened.audit, last_hash, output, has_key=bool(store.audit_keys))
        entries = (await opened.audit.read(limit))[::-1]
    if output == "json":
        return _json({"entries": [entry._asdict() for entry in entries]}), 0
    return "\n".join(_lines(entries)) or "the audit log is empty", 0


async def _verify(audit: "Audit", last_hash: str, output: str, *, has_key: bool) -> tuple[str, int]:
    from bot.store.audit import Broken  # noqa: PLC0415  # with the store, half a second

    found = await audit.verify(last_hash.strip().lower())
    if isinstance(found, Broken):
        if output == "json":
            return _json({"verdict": "broken", "first_bad": found._asdict()}), BROKEN
        return f"the audit log is not whole{f', entry {found.seq}' if found.seq else ''}: {found.why}", BROKEN
    code = BROKEN if has_key and found.entries and not found.signed_from else 0
    if output == "json":
        verdict = "whole" if found.signed_from == 1 else "partly signed" if found.signed_from else "unsigned"
        return _json({"verdict": verdict, **found._asdict()}), code
    return "\n".join(_told(found, has_key=has_key)), code


def _told(found: "Verified", *, has_key: bool) -> list[str]:
    if not found.entries:
        return ["the audit log is empty"]
    first = found.signed_from
    if first == 1:
        lines = [f"the audit log is whole: {found.entries} entries, all signed"]
    elif first:
        lines = [
            f"the audit log is signed from entry {first} of {found.entries} on, and unchanged since that was written",
            f"This check cannot detect that entries 1 to {first - 1} were changed before: they have no signatures",
        ]
    else:
        why = "no entry has a signature, but store.audit_key is set" if has_key else "store.audit_key is not set"
        lines = [
            f"the audit log is unsigned ({why}): {found.entries} entries, each with the hash of the one before",
            "This check cannot detect that somebody who can write the store changed an entry and all later hashes",
        ]
    if found.kept_at:
        lines.append(
            f"The hash that you kept is of entry {found.kept_at}: entries 1 to {found.kept_at} are as they were"
        )
    else:
        lines.append("This check cannot detect that newest entries were removed: --last-hash with a hash you kept can")
    return [*lines, f"Keep this last hash, of entry {found.entries}: {found.newest}"]


def _lines(entries: "list[Entry]") -> list[str]:
    rows = [[visible(_cell(entry, name)) for name in _COLUMNS] for entry in entries]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _cell(entry: "Entry", name: str) -> str:
    value: Any = getattr(entry, name)
    return value if isinstance(value, str) else _json(value) if value else ""


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
