"""What a person pressed or chose, of Slack's block_actions payload."""

from typing import Any


def first_action(body: dict[str, Any]) -> dict[str, Any]:
    """The action that the payload is about; empty where it has none."""
    actions: list[dict[str, Any]] = body.get("actions") or [{}]
    return actions[0]
