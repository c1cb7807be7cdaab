"""A message of the bot in Slack with its files, and the text of any message of Slack."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple, cast
from urllib.parse import parse_qsl, unquote_plus, urlsplit

Block = dict[str, Any]


class File(NamedTuple):
    """A file that is uploaded beside its message. `alt_text` says what a picture shows."""

    name: str
    content: bytes
    title: str
    alt_text: str = ""


class Message(NamedTuple):
    """A message to Slack. `text` is for notifications and screen readers: escaped mrkdwn that begins with the verdict.
    `blocks` are within Slack's limits; `newer` replace them where the workspace takes kinds of blocks that not all have
    yet. `files` go into the message's thread. `broadcast`: a reply that the channel sees as well.
    """

    text: str
    blocks: tuple[Block, ...] = ()
    files: tuple[File, ...] = ()
    broadcast: bool = False
    newer: tuple[Block, ...] = ()


LONGEST = 40_000
"""The longest text of a message in characters, which is Slack's own limit."""
_MOST_PARTS = 10_000
_SAID = (
    *("pretext", "author_name", "title", "text", "value", "fields", "blocks", "message_blocks", "message", "elements"),
    *("rows", "accessory", "label", "name", "attachments", "files", "preview", "plain_text", "subject"),
    *("initial_comment", "comment", "alt_text", "description", "actions", "fallback", "footer"),
)
"""Where Slack's messages, attachments, blocks and files keep text that people read, in the order of reading."""
_LINKED = ("title_link", "from_url", "author_link", "original_url", "url")
_LINK = re.compile(r"<(https?://[^<>|\s]+)(?:\|([^<>]*))?>")
_POD = re.compile(r"(?:^|[-_.])pod(?:_?name)?s?$", re.IGNORECASE)
_NAMESPACE = re.compile(r"(?:^|[-_.])namespace$", re.IGNORECASE)


def said_in(message: dict[str, Any]) -> str:
    """All text of a message of Slack, one part a line, at most `LONGEST` characters; Slack's escapes stay. Of links the
    words are kept; what their addresses say, as in `?var-pod=trainer-0`, stands at the end, pods first. Parts of
    another type than Slack gives them are left out.
    """
    said: dict[str, None] = {}
    links: dict[str, None] = {}
    waiting: list[tuple[Any, bool]] = [(message, False)]
    for _ in range(_MOST_PARTS):
        if not waiting:
            break
        piece, is_link = waiting.pop()
        if isinstance(piece, list):
            waiting += ((part, is_link) for part in reversed(cast("list[Any]", piece)))
        elif isinstance(piece, dict):
            parts = cast("dict[str, Any]", piece)
            keys = [key for key in _SAID if key in parts and (key != "value" or "action_id" not in parts)]
            waiting += ((parts[key], False) for key in reversed(keys))
            waiting += ((parts[key], True) for key in _LINKED if isinstance(parts.get(key), str))
        elif isinstance(piece, str) and is_link:
            links[piece[:LONGEST]] = None
        elif isinstance(piece, str) and piece.strip():
            text = piece[:LONGEST]
            links |= {found[1]: None for found in _LINK.finditer(text)}
            said[_LINK.sub(lambda found: found[2] or "", text)] = None
    pods = [named for link in links for named in _pods_of(link)]
    return "\n".join([*said, *pods, *map(unquote_plus, links)])[:LONGEST]


def _pods_of(link: str) -> Iterator[str]:
    """The pods that the query of an address names, with their namespace if it names one."""
    try:
        given = parse_qsl(urlsplit(link.replace("&amp;", "&")).query, max_num_fields=100)
    except ValueError:
        return
    namespace = next((value for key, value in given if _NAMESPACE.search(key)), "")
    for key, value in given:
        if _POD.search(key):
            yield f"{namespace}/{value}" if namespace and "/" not in value else value
