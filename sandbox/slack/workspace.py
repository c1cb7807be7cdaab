"""The state of a workspace: people, channels, messages, views. Pure: no network, no waiting, time only from its clock.

Every change is told to `on_change` as a dict in the shape of the page's event stream; `only_for` in it, when there, is
the one user whom it concerns.
"""

import copy
import itertools
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from sandbox.slack.clock import Clock
from sandbox.slack.errors import SlackError
from sandbox.slack.seed import Seed

Record = dict[str, Any]
MESSAGES_KEPT = 5_000  # per channel; so a long demo's memory stays bounded
EPHEMERALS_KEPT = 200  # per channel and user


@dataclass(slots=True)
class Channel:
    """A channel: `messages` by ts, oldest first, replies included; `ephemerals` by user, then ts."""

    id: str
    name: str
    members: list[str]
    topic: str = ""
    is_im: bool = False
    is_mpim: bool = False
    is_private: bool = False
    is_archived: bool = False
    is_shared: bool = False
    messages: dict[str, Record] = field(default_factory=dict)
    ephemerals: dict[str, dict[str, Record]] = field(default_factory=dict)
    replies: dict[str, list[str]] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """The channel's type as in conversations.list and an event's channel_type: im, mpim, group or channel."""
        if self.is_im or self.is_mpim:
            return "im" if self.is_im else "mpim"
        return "group" if self.is_private else "channel"

    def head_of(self, ts: str) -> str:
        """The ts of the thread that a message is in or begins, "" for "". Raises SlackError thread_not_found."""
        if ts and ts not in self.messages:
            raise SlackError("thread_not_found")
        return self.messages[ts].get("thread_ts", ts) if ts else ""


class Workspace:
    """Users, channels and messages. Ids are Slack's shape; `channel` and `user` arguments are ids unless said."""

    def __init__(self, seed: Seed, clock: Clock, on_change: Callable[[Record], None]) -> None:
        self.seed = seed
        self.app = seed.app
        self._clock = clock
        self._changed = on_change
        self._last_ts = 0.0
        self._numbers = itertools.count(1)
        self.users: dict[str, Record] = {
            p.id: _user(p.id, p.name, p.real_name, p.team_id or seed.team_id) | {"is_restricted": p.is_guest}
            for p in seed.users
        }
        bot = _user(self.app.bot_user_id, self.app.name, self.app.name, seed.team_id)
        self.users[self.app.bot_user_id] = bot | {"is_bot": True}
        self.users[self.app.bot_user_id]["profile"] |= {"bot_id": self.app.bot_id, "api_app_id": self.app.id}
        self.channels: dict[str, Channel] = {}
        for room in seed.channels:
            members = [*room.members, *([self.app.bot_user_id] if room.with_app else [])]
            self.channels[room.id] = Channel(
                room.id,
                room.name,
                members,
                room.topic,
                is_private=room.is_private,
                is_archived=room.is_archived,
                is_shared=room.is_shared,
            )
        for person in seed.users:
            self.open_dm(person.id)
        self._say_what_was_said()

    def _say_what_was_said(self) -> None:
        heads: dict[str, str] = {}
        for said in sorted(self.seed.messages, key=lambda said: -said.age):
            message = {"type": "message", "user": said.user, "text": said.text, "ts": self.stamp(-said.age)}
            if said.under:
                message["thread_ts"] = heads[said.under]
            self.add(said.channel, message)
            heads[said.text] = message["ts"]
        self._last_ts = 0.0

    # ids, names, time

    def stamp(self, offset: float = 0) -> str:
        """A ts that was never given out and is later than the last."""
        micros = max(round((self._clock.now() + offset) * 1_000_000), round(self._last_ts * 1_000_000) + 1)
        self._last_ts = micros / 1_000_000
        return f"{micros // 1_000_000}.{micros % 1_000_000:06d}"

    def new_id(self, prefix: str) -> str:
        return f"{prefix}0{next(self._numbers):04X}{secrets.token_hex(3).upper()}"

    def channel_id(self, name: str) -> str:
        """The id of a channel given by id or by name (with or without #). Raises KeyError if there is none."""
        if name in self.channels:
            return name
        return next((c.id for c in self.channels.values() if c.name == name.lstrip("#") and not c.is_im), "") or _no(
            name
        )

    def user_id(self, name: str) -> str:
        """The id of a user given by id or by name (with or without @). Raises KeyError if there is none."""
        if name in self.users:
            return name
        wanted = name.lstrip("@").lower()
        return next((user["id"] for user in self.users.values() if user["name"] == wanted), "") or _no(name)

    def open_dm(self, user: str) -> Channel:
        """The conversation of a user with the app's bot."""
        channel_id = "D" + user[1:]
        if channel_id not in self.channels:
            self.channels[channel_id] = Channel(channel_id, user, [user, self.app.bot_user_id], is_im=True)
        return self.channels[channel_id]

    def open_group(self, users: list[str]) -> Channel:
        """The conversation of several users and the app's bot: a group direct message."""
        members = sorted({*users, self.app.bot_user_id})
        found = (
            channel for channel in self.channels.values() if channel.is_mpim and sorted(channel.members) == members
        )
        group = next(found, None)
        if group is None:
            name = f"mpdm-{'--'.join(self.users[member]['name'] for member in members)}-1"
            group = Channel(self.new_id("G"), name, members, is_mpim=True, is_private=True)
            self.channels[group.id] = group
            self.touch(group.id)
        return group

    def is_foreign(self, user: str) -> bool:
        """Whether the user is of another organisation."""
        return self.users[user]["team_id"] != self.seed.team_id

    def is_shared(self, channel: Channel) -> bool:
        """Whether another organisation has the channel too; a direct message of its people always."""
        return channel.is_shared or (channel.is_im and any(map(self.is_foreign, channel.members)))

    # messages

    def add(self, channel_id: str, message: Record) -> Record:
        """Adds a message that has its `ts`; one with a `thread_ts` becomes a reply."""
        channel = self.channels[channel_id]
        channel.messages[message["ts"]] = message
        head_ts = message.get("thread_ts", "")
        if head_ts and head_ts != message["ts"]:
            channel.replies.setdefault(head_ts, []).append(message["ts"])
            if head_ts in channel.messages:
                channel.messages[head_ts].setdefault("thread_ts", head_ts)
            self.touch(channel_id, "")
        while len(channel.messages) > MESSAGES_KEPT:
            self._forget(channel, next(iter(channel.messages)))
        self.touch(channel_id, head_ts)
        return message

    def remove(self, channel_id: str, ts: str) -> None:
        channel = self.channels[channel_id]
        head_ts = channel.messages[ts].get("thread_ts", "")
        self._forget(channel, ts)
        self.touch(channel_id, head_ts)
        if head_ts:
            self.touch(channel_id, "")

    @staticmethod
    def _forget(channel: Channel, ts: str) -> None:
        message = channel.messages.pop(ts)
        replies = channel.replies.get(message.get("thread_ts", ""), [])
        if ts in replies:
            replies.remove(ts)
        if not replies:
            channel.replies.pop(message.get("thread_ts", ""), None)

    def add_ephemeral(self, channel_id: str, user: str, message: Record) -> Record:
        """Adds a message that only `user` sees."""
        own = self.channels[channel_id].ephemerals.setdefault(user, {})
        own[message["ts"]] = message
        while len(own) > EPHEMERALS_KEPT:
            del own[next(iter(own))]
        self.touch(channel_id, message.get("thread_ts", ""), only_for=user)
        return message

    def remove_ephemeral(self, channel_id: str, user: str, ts: str) -> bool:
        """Removes a message that only `user` sees; returns whether there was one."""
        gone = self.channels[channel_id].ephemerals.get(user, {}).pop(ts, None)
        if gone:
            self.touch(channel_id, gone.get("thread_ts", ""), only_for=user)
        return gone is not None

    def find(self, channel_id: str, ts: str, user: str = "") -> Record | None:
        """The live message, ephemerals of `user` included; a change to it is to be followed by `touch`."""
        channel = self.channels.get(channel_id)
        if channel is None:
            return None
        return channel.messages.get(ts) or channel.ephemerals.get(user, {}).get(ts)

    def is_ephemeral(self, channel_id: str, ts: str, user: str) -> bool:
        return ts in self.channels[channel_id].ephemerals.get(user, {})

    def react(self, channel_id: str, ts: str, name: str, user: str, *, remove: bool = False) -> None:
        """Adds or removes an emoji. Raises SlackError message_not_found, already_reacted, no_reaction."""
        message = self.channels[channel_id].messages.get(ts)
        if message is None:
            raise SlackError("message_not_found")
        reactions = message.setdefault("reactions", [])
        reaction = next(
            (reaction for reaction in reactions if reaction["name"] == name), {"name": name, "users": [], "count": 0}
        )
        if (user in reaction["users"]) is not remove:
            raise SlackError("no_reaction" if remove else "already_reacted")
        reaction["users"].remove(user) if remove else reaction["users"].append(user)
        reaction["count"] = len(reaction["users"])
        kept = [reaction for reaction in reactions if reaction["name"] != name or reaction["count"]]
        message["reactions"] = kept if reaction in kept or remove else [*kept, reaction]
        self.touch_message(channel_id, message)

    def touch_message(self, channel_id: str, message: Record, *, only_for: str = "") -> None:
        """Tells that a message is different now, wherever it is shown."""
        head_ts = message.get("thread_ts", "")
        self.touch(channel_id, head_ts, only_for=only_for)
        if head_ts and _at_top(message):
            self.touch(channel_id, only_for=only_for)

    def touch(self, channel_id: str, thread_ts: str = "", *, only_for: str = "") -> None:
        """Tells that something in the channel, or in that thread of it, is different now."""
        self.tell({"type": "messages", "channel": channel_id, "thread_ts": thread_ts or None}, only_for=only_for)

    def tell(self, change: Record, *, only_for: str = "") -> None:
        self._changed(change | ({"only_for": only_for} if only_for else {}))

    def seen_by(self, user: str, channel_id: str, thread_ts: str = "") -> list[Record]:
        """What `user` sees in a channel (top level and broadcasts) or in a thread, oldest first; copies."""
        channel = self.channels[channel_id]
        if user not in channel.members:
            return []
        own = [message | {"ephemeral": True} for message in channel.ephemerals.get(user, {}).values()]
        if thread_ts:
            stamps = [thread_ts, *channel.replies.get(thread_ts, [])]
            public = [channel.messages[ts] for ts in stamps if ts in channel.messages]
            own = [message for message in own if message.get("thread_ts") == thread_ts]
        else:
            public = [message for message in channel.messages.values() if _at_top(message)]
            own = [message for message in own if not message.get("thread_ts")]
        shown = [self.dressed(channel, message) for message in [*public, *own]]
        return sorted(shown, key=lambda message: float(message["ts"]))

    def everything(self, channel_id: str) -> Iterator[tuple[str, Record]]:
        """All messages of a channel with who alone sees each ("" for all)."""
        channel = self.channels[channel_id]
        for message in channel.messages.values():
            yield "", message
        for user, own in channel.ephemerals.items():
            for message in own.values():
                yield user, message

    def dressed(self, channel: Channel, message: Record) -> Record:
        """A copy of a message with its channel and, on the head of a thread, how many replies it has."""
        copied = copy.deepcopy(message) | {"channel": channel.id}
        replies = channel.replies.get(message["ts"], [])
        if replies:
            people = list(dict.fromkeys(channel.messages[ts].get("user", "") for ts in replies))
            counted = {"reply_count": len(replies), "reply_users_count": len(people), "latest_reply": replies[-1]}
            copied |= counted | {"reply_users": people, "thread_ts": message["ts"]}
        return copied


def _at_top(message: Record) -> bool:
    head_ts = message.get("thread_ts", "")
    return not head_ts or head_ts == message["ts"] or message.get("subtype") == "thread_broadcast"


def _user(user_id: str, name: str, real_name: str, team_id: str) -> Record:
    profile = {"display_name": name, "real_name": real_name, "email": f"{name}@sandbox.example"}
    return {
        "id": user_id,
        "team_id": team_id,
        "name": name,
        "real_name": real_name,
        "tz": "Europe/London",
        "is_bot": False,
        "deleted": False,
        "profile": profile,
    }


def _no(name: str) -> str:
    raise KeyError(name)
