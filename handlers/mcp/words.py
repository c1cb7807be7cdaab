"""How the MCP server is started. The SDK is imported by the server alone: it takes a second."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import click

_EXAMPLE = "mcp --cluster prod"


class McpAsked(NamedTuple):
    """The command as typed. `verbs`: those to offer as tools; empty for the usual ones."""

    verbs: tuple[str, ...]
    options: dict[str, Any]


def mcp_command(program: str, options: Sequence[click.Parameter]) -> click.Command:
    """The command; what it gives is an McpAsked."""
    return click.Command(
        "mcp",
        callback=_read,
        help="Serve the reading verbs as tools of the Model Context Protocol, on standard input and output.",
        epilog=f"Example: {program} {_EXAMPLE}",
        params=[
            click.Option(["--tools"], default="", metavar="VERB,…", help="Offer only these verbs, at most eight."),
            *options,
        ],
    )


def _read(tools: str, **options: Any) -> McpAsked:
    named = [verb.strip() for verb in tools.split(",")]
    return McpAsked(tuple(dict.fromkeys(filter(None, named))), options)
