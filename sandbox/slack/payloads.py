"""The bodies that Slack sends: commands, events and interactions."""

import html
import re
import secrets
from typing import Any

from sandbox.slack.delivery import VERIFICATION_TOKEN
from sandbox.slack.responses import Response
from sandbox.slack.seed import Command
from sandbox.slack.workspace import Channel, Record
from sandbox.slack.world import World

_URL = re.compile(r"https?://[^\s<>|]+")
_CODE = re.compile(r"(`[^`\n]+`|<[^>\n]*>)")
_ENDINGS = "ai|app|cloud|cn|co|com|de|dev|edu|gov|info|io|me|net|org|py|rs|sh|uk|us"
"""Of domains: a few of those that Slack knows, among them what are endings of files too."""
_BARE = re.compile(
    r"(?<![\w@./:&;-])(?P<mailbox>[\w.+-]+@)?(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+"
    rf"(?:{_ENDINGS})(?![\w-]|\.\w)(?:[/:?#][^\s<>|`]*[^\s<>|`.,;:!?)'\"])?",
    re.IGNORECASE,
)
"""`example.com/x` or `ada@example.com`, as it is typed without a scheme."""


def trigger(world: World, user: str) -> str:
    """A new trigger id of a user's action."""
    return world.triggers.issue(user, prefix=f"{world.workspace.stamp()}.{world.seed.team_id}.")


def command_payload(world: World, command: Command, text: str, response: Response) -> Record:
    """The body of a slash command that a person typed where `response` belongs."""
    channel, user = world.workspace.channels[response.channel], response.user
    names = {"im": "directmessage", "group": "privategroup", "mpim": channel.name, "channel": channel.name}
    return {
        "token": VERIFICATION_TOKEN,
        "team_id": world.workspace.users[user]["team_id"],
        "team_domain": world.seed.team.lower(),
        "channel_id": channel.id,
        "channel_name": names[channel.kind],
        "user_id": user,
        "user_name": world.workspace.users[user]["name"],
        "command": command.command,
        "text": _linked(world, escape(text)) if command.should_escape else escape(text),
        "api_app_id": world.seed.app.id,
        "is_enterprise_install": "false",
        "response_url": world.url + response.path,
        "trigger_id": trigger(world, user),
    }


def as_sent(world: World, channel: Channel, message: Record) -> Record:
    """A person's message as it stands in events: with blocks, and if it is also sent to the channel, with its thread's
    head.

    It names the team of people of other organisations; of the app's messages Slack does not, in shared channels either.
    """
    sent = world.workspace.dressed(channel, message) | {
        "team": world.seed.team_id,
        "blocks": rich_text(message["text"]),
    }
    del sent["channel"]
    if world.workspace.is_foreign(message["user"]):
        team = world.workspace.users[message["user"]]["team_id"]
        sent |= {"user_team": team, "source_team": team, "user_profile": {"team": team}}
    root = channel.messages.get(message.get("thread_ts", ""))
    if root is not None and message.get("subtype") == "thread_broadcast":
        shown = world.workspace.dressed(channel, root) | {"team": world.seed.team_id, "is_locked": False}
        del shown["channel"]
        sent["root"] = shown
    return sent


def changed(channel: Channel, before: Record, after: Record, ts: str) -> Record:
    """The event of an edit: what the message is and what it was."""
    return {
        "type": "message",
        "subtype": "message_changed",
        "message": after,
        "previous_message": before,
        "channel": channel.id,
        "hidden": True,
        "ts": ts,
        "event_ts": ts,
    }


def event_payload(world: World, event: Record, *, is_shared: bool = False) -> Record:
    """The body of an event_callback; `event` has its type and event_ts. `is_shared`: its channel is (Slack Connect)."""
    seed = world.seed
    authorization = {
        "enterprise_id": None,
        "team_id": seed.team_id,
        "user_id": seed.app.bot_user_id,
        "is_bot": True,
        "is_enterprise_install": False,
    }
    return {
        "token": VERIFICATION_TOKEN,
        "team_id": seed.team_id,
        "api_app_id": seed.app.id,
        "event": event,
        "type": "event_callback",
        "event_id": world.workspace.new_id("Ev"),
        "event_time": int(world.clock.now()),
        "authorizations": [authorization],
        "is_ext_shared_channel": is_shared,
        "event_context": f"4-{secrets.token_hex(12)}",
    }


def interaction(world: World, kind: str, user: str) -> Record:
    """The part with which all interactive payloads begin."""
    person = world.workspace.users[user]
    team = person["team_id"]
    return {
        "type": kind,
        "token": VERIFICATION_TOKEN,
        "user": {"id": user, "username": person["name"], "name": person["name"], "team_id": team},
        "team": {"id": team, "domain": world.seed.team.lower()},
        "enterprise": None,
        "is_enterprise_install": False,
        "api_app_id": world.seed.app.id,
    }


def escape(text: str) -> str:
    """Escapes the three characters that Slack escapes in what people type."""
    return html.escape(text, quote=False)


def typed(world: World, text: str) -> str:
    """What a person typed as Slack stores it: escaped, with mentions and links in angle brackets."""
    return _linked(world, escape(text))


def _linked(world: World, text: str) -> str:
    text = _URL.sub(lambda found: f"<{found.group()}>", text)
    parts = _CODE.split(text)  # every second one is code, or in angle brackets by now
    text = "".join(part if at % 2 else _BARE.sub(_bare_link, part) for at, part in enumerate(parts))
    names = {user["name"]: f"<@{user['id']}>" for user in world.workspace.users.values()}
    names |= dict.fromkeys(world.seed.app.aliases, f"<@{world.seed.app.bot_user_id}>")
    names |= {word: f"<!{word}>" for word in ("channel", "here", "everyone")}
    names |= {group.handle: f"<!subteam^{group.id}>" for group in world.seed.usergroups}
    longest_first = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    text = re.sub(rf"(?<![\w<@])@({longest_first})(?![\w-])", lambda found: names[found.group(1)], text)
    channels = {channel.name: channel for channel in world.workspace.channels.values() if not channel.is_im}
    longest_first = "|".join(re.escape(name) for name in sorted(channels, key=len, reverse=True))
    if not longest_first:
        return text
    return re.sub(
        rf"(?<![\w<#&/])#({longest_first})(?![\w-])",
        lambda found: f"<#{channels[found.group(1)].id}|{found.group(1)}>",
        text,
    )


def _bare_link(found: re.Match[str]) -> str:
    scheme = "mailto:" if found["mailbox"] else "http://"
    return f"<{scheme}{found.group()}|{found.group()}>"


def rich_text(text: str) -> list[Any]:
    """The blocks that Slack makes of a typed message, for events: mentions and links apart, the rest as text."""
    elements: list[Record] = []
    for part in re.split(r"(<[^>]*>)", text):
        target, _, label = part[1:-1].partition("|")
        if part.startswith("<@"):
            elements.append({"type": "user", "user_id": target[1:]})
        elif part.startswith("<#"):
            elements.append({"type": "channel", "channel_id": target[1:]})
        elif part.startswith("<!subteam^"):
            elements.append({"type": "usergroup", "usergroup_id": target.removeprefix("!subteam^")})
        elif part.startswith("<!"):
            elements.append({"type": "broadcast", "range": target[1:]})
        elif part.startswith("<"):
            link = {"type": "link", "url": html.unescape(target)}
            elements.append(link | ({"text": html.unescape(label)} if label else {}))
        elif part:
            elements.append({"type": "text", "text": html.unescape(part)})
    section = {"type": "rich_text_section", "elements": elements}
    return [{"type": "rich_text", "block_id": secrets.token_hex(3), "elements": [section]}]
