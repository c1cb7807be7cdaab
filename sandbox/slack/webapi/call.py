"""One call of a Web API method: its arguments as the SDK sends them, and the table of methods."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sandbox.slack.errors import SlackError
from sandbox.slack.workspace import Channel, Record
from sandbox.slack.world import World

Answer = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Method:
    """A method of the Web API. `needs`: the arguments without which it is invalid_arguments; `takes`: the others.
    `per_minute` 0: no limit. `caller`: whose token it takes, "bot" or "app", or "anyone" for a method that takes none.
    """

    name: str
    run: Callable[["Call"], Answer]
    scopes: tuple[str, ...]
    per_minute: int
    needs: tuple[str, ...]
    takes: tuple[str, ...]
    caller: str


METHODS: dict[str, Method] = {}
TIER_1, TIER_2, TIER_3, TIER_4, SPECIAL = 1, 20, 50, 100, 300


def method(
    name: str, *, scope: str = "", tier: int, needs: str = "", takes: str = "", caller: str = "bot"
) -> Callable[[Callable[["Call"], Answer]], Callable[["Call"], Answer]]:
    """Adds a method to the table. `scope`: one of these words is needed; `caller` as in Method."""

    def add(run: Callable[["Call"], Answer]) -> Callable[["Call"], Answer]:
        entry = Method(name, run, tuple(scope.split()), tier, tuple(needs.split()), tuple(takes.split()), caller)
        METHODS[name] = entry
        return run

    return add


class Call:
    """Typed access to a call's arguments; what is malformed raises SlackError invalid_arguments."""

    def __init__(self, world: World, args: dict[str, Any]) -> None:
        self.world = world
        self.args = args

    def text(self, name: str, default: str = "") -> str:
        value = self.args.get(name)
        if value is None:
            return default
        if isinstance(value, bool | dict | list):
            raise SlackError("invalid_arguments", f"must be a string [json-pointer:/{name}]")
        return str(value)

    def flag(self, name: str) -> bool:
        return self.args.get(name) in {True, "1", "true", "True"}

    def whole(self, name: str, default: int, most: int) -> int:
        try:
            number = int(self.text(name) or default)
        except ValueError as error:
            raise SlackError("invalid_arguments", f"must be an integer [json-pointer:/{name}]") from error
        if not 1 <= number <= most:
            raise SlackError("invalid_limit")
        return number

    def stamp(self, name: str, default: float) -> float:
        """A ts as a number."""
        try:
            return float(self.text(name) or default)
        except ValueError as error:
            raise SlackError(f"invalid_ts_{name}") from error

    def json(self, name: str) -> Any:
        """An argument that is an object or a list; forms carry it as a JSON string."""
        value = self.args.get(name)
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value)
        except ValueError as error:
            word = "invalid_blocks_format" if name == "blocks" else "invalid_arguments"
            raise SlackError(word, f"is not JSON [json-pointer:/{name}]") from error

    def content(self) -> dict[str, Any]:
        """The arguments that make a message."""
        parts = {name: self.json(name) for name in ("blocks", "attachments", "metadata")}
        return {"text": self.text("text"), **parts}

    def channel(self, name: str = "channel", *, member: bool = True, open_dm: bool = False) -> Channel:
        """The channel of an argument. Raises SlackError channel_not_found, not_in_channel. `open_dm`: a user id stands
        for the bot's conversation with that user.
        """
        workspace = self.world.workspace
        given = self.text(name)
        if open_dm and given in workspace.users:
            if given == workspace.app.bot_user_id:
                raise SlackError("cannot_dm_bot")
            return workspace.open_dm(given)
        channel = workspace.channels.get(given)
        if channel is None:
            raise SlackError("channel_not_found")
        inside = workspace.app.bot_user_id in channel.members
        if channel.is_private and not inside:
            raise SlackError("channel_not_found")
        if member and not inside:
            raise SlackError("not_in_channel")
        return channel

    def message(self, channel: Channel, name: str = "ts") -> Record:
        """A message that everybody sees, live. Raises SlackError message_not_found."""
        found = channel.messages.get(self.text(name))
        if found is None:
            raise SlackError("message_not_found")
        return found

    def user(self, name: str = "user") -> Record:
        found = self.world.workspace.users.get(self.text(name))
        if found is None:
            raise SlackError("user_not_found")
        return found


def page_of(items: list[Any], call: Call, default: int, most: int = 1000) -> tuple[list[Any], str]:
    """A page of a list, and the cursor of the next page ("" at the end). Raises SlackError invalid_cursor."""
    limit = call.whole("limit", default, most)
    cursor = call.text("cursor")
    if cursor and not cursor.removeprefix("next:").isdecimal():
        raise SlackError("invalid_cursor")
    start = int(cursor.removeprefix("next:") or 0)
    following = f"next:{start + limit}" if start + limit < len(items) else ""
    return items[start : start + limit], following
