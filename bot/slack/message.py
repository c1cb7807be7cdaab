"""What the bot says in Slack: one message with the files that belong to it."""

from typing import Any, NamedTuple

Block = dict[str, Any]


class File(NamedTuple):
    """A file that is uploaded beside its message. `alt_text` says what a picture shows."""

    name: str
    content: bytes
    title: str
    alt_text: str = ""


class Message(NamedTuple):
    """`text` is what notifications and screen readers get: escaped mrkdwn that begins with the whole verdict.

    `blocks` are within Slack's limits; `files` go into the message's thread. `broadcast`: a reply that the channel sees
    as well. `newer` stand in place of `blocks` where the workspace takes kinds of blocks that not all of them have yet.
    """

    text: str
    blocks: tuple[Block, ...] = ()
    files: tuple[File, ...] = ()
    broadcast: bool = False
    newer: tuple[Block, ...] = ()
