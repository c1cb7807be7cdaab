"""How Slack names channels, people and user groups: by ids."""

import re

CHANNEL = re.compile(r"[CGD][A-Z0-9]{2,}")
PERSON = re.compile(r"[UWS][A-Z0-9]{2,}")


def channel_id(given: str) -> str:
    """The same, if it is a channel's id. Raises ValueError."""
    if not CHANNEL.fullmatch(given):
        raise ValueError(f"{given}: a channel is named by its id, such as C0123ABCD, not by its name")
    return given
