"""A report as machines read it: the public contract, one key per line."""

import msgspec

from bot.report import Report


def as_json(report: Report) -> str:
    """The report with its keys in the contract's order, ending in a newline; equal reports give equal bytes."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n"
