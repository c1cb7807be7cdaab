"""What people do in the workspace, sent to the app as Slack would. The page and the tests both come through here."""

import uuid
from typing import Any

from sandbox.slack.content import elements_of, view_content
from sandbox.slack.delivery import Ack
from sandbox.slack.errors import SlackError
from sandbox.slack.payloads import (
    as_sent,
    changed,
    command_payload,
    event_payload,
    interaction,
    trigger,
    typed,
)
from sandbox.slack.responses import Response
from sandbox.slack.strangers import foreign_message
from sandbox.slack.workspace import Channel, Record
from sandbox.slack.world import World

_MESSAGES = {
    "im": "message.im",
    "mpim": "message.mpim",
    "group": "message.groups",
    "channel": "message.channels",
}
"""The bot event of a message, by the kind of its channel."""


class People:
    """Every action waits for the app's acknowledgement. Raises SlackError for what Slack's client would not let happen.
    Users and channels are given by id or by name.
    """

    def __init__(self, world: World) -> None:
        self._world = world

    async def say(self, user: str, channel: str, text: str, *, thread_ts: str = "", broadcast: bool = False) -> Ack:
        """Posts a message; the app hears of it when it is mentioned where it is a member, or in its own DM.
        `broadcast`: a reply in a thread that is also sent to the channel.
        """
        world = self._world
        user_id, room = self._who(user), self._where(user, channel)
        if room.is_archived:
            raise SlackError("is_archived")
        if not text.strip():
            raise SlackError("no_text")
        message = {"client_msg_id": str(uuid.uuid4()), "type": "message", "user": user_id, "text": typed(world, text)}
        message["ts"] = world.workspace.stamp()
        if thread_ts:
            message["thread_ts"] = room.head_of(thread_ts)
        if thread_ts and broadcast:
            message["subtype"] = "thread_broadcast"
        world.workspace.add(room.id, message)
        event = as_sent(world, room, message) | {"channel": room.id, "event_ts": message["ts"]}
        ack = await self._tell_of(room, message["text"], event, event)
        return Ack(ack.ok, ack.error, ack.payload, ack.latency_ms, message["ts"])

    async def edit(self, user: str, channel: str, ts: str, text: str) -> Ack:
        """Changes what a person wrote. As Slack has it, a mention in it is a new app_mention of the same message.
        Raises SlackError message_not_found, cant_update_message, no_text.
        """
        world = self._world
        user_id, room = self._who(user), self._where(user, channel)
        message = room.messages.get(ts)
        if message is None:
            raise SlackError("message_not_found")
        if message.get("user") != user_id:
            raise SlackError("cant_update_message")
        if not text.strip():
            raise SlackError("no_text")
        stored = typed(world, text)
        if stored == message["text"]:
            return Ack(ok=True, ts=ts)
        before = as_sent(world, room, message)
        now = world.workspace.stamp()
        message |= {"text": stored, "edited": {"user": user_id, "ts": f"{int(float(now))}.000000"}}
        world.workspace.touch_message(room.id, message)
        after = as_sent(world, room, message)
        mention = after | {"channel": room.id, "event_ts": now}
        ack = await self._tell_of(room, stored, mention, changed(room, before, after, now))
        return Ack(ack.ok, ack.error, ack.payload, ack.latency_ms, ts)

    async def _tell_of(self, room: Channel, text: str, mention: Record, message: Record) -> Ack:
        """What a new text in a channel is to the app: a mention, if it is mentioned there, and a message."""
        ack = Ack(ok=True)
        if f"<@{self._world.seed.app.bot_user_id}>" in text and not room.is_im:
            ack = await self._tell_app("app_mention", room, mention | {"type": "app_mention"})
        heard = await self._tell_app(_MESSAGES[room.kind], room, message | {"channel_type": room.kind})
        return heard if room.is_im else ack

    async def alert(self, channel: str, given: Record, *, thread_ts: str = "") -> str:
        """Posts another app's message, given as to its incoming webhook; returns its ts."""
        world = self._world
        room = self._room(channel)
        message = foreign_message(world, given, room.head_of(thread_ts))
        world.workspace.add(room.id, message)
        event = message | {"channel": room.id, "event_ts": message["ts"], "channel_type": room.kind}
        await self._tell_app(_MESSAGES[room.kind], room, event)
        return message["ts"]

    async def command(self, user: str, channel: str, command: str, text: str = "", *, thread_ts: str = "") -> Ack:
        """Sends a slash command. Slack refuses them inside threads."""
        world = self._world
        user_id, room = self._who(user), self._where(user, channel)
        if thread_ts:
            raise SlackError("not_in_thread")
        known = next((candidate for candidate in world.seed.app.commands if candidate.command == command), None)
        if known is None:
            raise SlackError("invalid_command")
        response = world.responses.issue("commands", room.id, user_id)
        payload = command_payload(world, known, text, response)
        ack = await world.delivery.send("slash_commands", payload, f"{command} {text}".strip())
        if not (ack.ok and any(ack.payload.get(part) for part in ("text", "blocks", "attachments"))):
            return ack
        return self._answered(ack, response)

    def _answered(self, ack: Ack, response: Response) -> Ack:
        """Shows the message that came with an acknowledgement."""
        try:
            self._world.responses.post(response, ack.payload)
        except SlackError as refusal:
            self._world.journal.write(
                "ack", "payload", ok=False, request=ack.payload, error=refusal.word, violations=refusal.violations
            )
            return Ack(False, refusal.word, ack.payload, ack.latency_ms)
        return ack

    async def act(
        self,
        user: str,
        action: dict[str, Any],
        *,
        channel: str = "",
        message_ts: str = "",
        view_id: str = "",
        state: dict[str, Any] | None = None,
    ) -> Ack:
        """Sends a click or a choice: block_actions of a message or of a view."""
        world = self._world
        user_id = self._who(user)
        payload = interaction(world, "block_actions", user_id) | {"trigger_id": trigger(world, user_id)}
        payload["actions"] = [dict(action) | {"action_ts": world.workspace.stamp()}]
        payload["state"] = state or {"values": {}}
        if view_id:
            view = self._view(user_id, view_id)
            view["state"] = payload.pop("state")
            payload |= {"container": {"type": "view", "view_id": view_id}, "view": view}
        else:
            payload |= self._on_message(user_id, self._where(user, channel), message_ts)
        return await world.delivery.send("interactive", payload, f"block_actions {action.get('action_id', '')}")

    def element(
        self, user: str, action_id: str, *, channel: str = "", message_ts: str = "", view_id: str = ""
    ) -> dict[str, Any]:
        """The action that using an element of a message or a view makes. Raises SlackError action_not_found."""
        user_id = self._who(user)
        if view_id:
            blocks = self._view(user_id, view_id)["blocks"]
        else:
            message = self._world.workspace.find(self._where(user, channel).id, message_ts, user_id)
            if message is None:
                raise SlackError("message_not_found")
            blocks = message.get("blocks", [])
        for block in blocks:
            for element in elements_of(block):
                if element.get("action_id") == action_id:
                    kept = {key: element[key] for key in ("action_id", "type", "text", "value") if key in element}
                    return kept | {"block_id": block["block_id"]}
        raise SlackError("action_not_found")

    def _on_message(self, user_id: str, room: Channel, message_ts: str) -> Record:
        world = self._world
        message = world.workspace.find(room.id, message_ts, user_id)
        if message is None:
            raise SlackError("message_not_found")
        hidden = world.workspace.is_ephemeral(room.id, message_ts, user_id)
        head_ts = message.get("thread_ts", "")
        thread_ts = head_ts if head_ts != message_ts else ""
        response = world.responses.issue("actions", room.id, user_id, original=message_ts, thread_ts=thread_ts)
        container = {"type": "message", "message_ts": message_ts, "channel_id": room.id, "is_ephemeral": hidden}
        payload: Record = {
            "container": container | ({"thread_ts": head_ts} if head_ts else {}),
            "channel": self._named(room),
            "response_url": world.url + response.path,
        }
        # Of an ephemeral message Slack keeps nothing that it could send back.
        return payload if hidden else payload | {"message": message}

    async def shortcut(self, user: str, callback_id: str, *, channel: str = "", message_ts: str = "") -> Ack:
        """Sends a global shortcut, or with a message a message shortcut."""
        world = self._world
        user_id = self._who(user)
        known = {shortcut.callback_id: shortcut for shortcut in world.seed.app.shortcuts}.get(callback_id)
        if known is None:
            raise SlackError("invalid_shortcut")
        kind = "message_action" if known.type == "message" else "shortcut"
        payload = interaction(world, kind, user_id)
        payload |= {"callback_id": callback_id, "trigger_id": trigger(world, user_id)}
        payload["action_ts"] = world.workspace.stamp()
        if known.type == "message":
            payload |= self._on_message(user_id, self._where(user, channel), message_ts)
            del payload["container"]
            payload["message_ts"] = message_ts
        return await world.delivery.send("interactive", payload, f"{kind} {callback_id}")

    async def submit(self, user: str, view_id: str, values: dict[str, Any]) -> Ack:
        """Submits a modal. The Ack's payload is the app's answer; {"response_action": "errors", ...} keeps it open."""
        world = self._world
        user_id = self._who(user)
        view = self._view(user_id, view_id)
        if view["type"] != "modal":
            raise SlackError("not_found")
        missing = _unanswered(view, values)
        if missing:
            return Ack(ok=True, payload={"response_action": "errors", "errors": missing})
        view["state"] = {"values": values}
        payload = interaction(world, "view_submission", user_id)
        payload |= {"trigger_id": trigger(world, user_id), "view": view, "response_urls": []}
        ack = await world.delivery.send("interactive", payload, f"view_submission {view['callback_id']}")
        if not ack.ok:
            return ack
        try:
            given = ack.payload.get("view")
            content = view_content(given, strict=world.strict) if given is not None else None
            world.views.submitted(user_id, view_id, ack.payload, content)
        except SlackError as refusal:
            return Ack(False, refusal.word, ack.payload, ack.latency_ms)
        return ack

    async def close(self, user: str, view_id: str) -> Ack:
        """Closes a modal; the app hears of it if the view asked for that."""
        world = self._world
        user_id = self._who(user)
        view = self._view(user_id, view_id)
        cleared = bool(view.get("clear_on_close"))
        world.views.close(user_id, view_id, all_of_them=cleared)
        if not view.get("notify_on_close"):
            return Ack(ok=True)
        payload = interaction(world, "view_closed", user_id) | {"view": view, "is_cleared": cleared}
        return await world.delivery.send("interactive", payload, f"view_closed {view['callback_id']}")

    async def suggest(self, user: str, action_id: str, block_id: str, value: str, **where: str) -> Ack:
        """Asks the app for options; the Ack's payload has `options` or `option_groups`."""
        world = self._world
        user_id = self._who(user)
        payload = interaction(world, "block_suggestion", user_id)
        payload |= {"action_id": action_id, "block_id": block_id, "value": value}
        if where.get("view_id"):
            view_id = where["view_id"]
            payload |= {"container": {"type": "view", "view_id": view_id}, "view": self._view(user_id, view_id)}
        else:
            payload |= self._on_message(user_id, self._where(user, where["channel"]), where["message_ts"])
            del payload["response_url"]
        return await world.delivery.send("interactive", payload, f"block_suggestion {action_id}")

    async def open_home(self, user: str) -> Ack:
        """Opens the app's Home tab."""
        world = self._world
        user_id = self._who(user)
        room = world.workspace.open_dm(user_id)
        event: Record = {"type": "app_home_opened", "user": user_id, "channel": room.id, "tab": "home"}
        event["event_ts"] = world.workspace.stamp()
        home = world.views.home(user_id)
        return await self._tell_app("app_home_opened", room, event | ({"view": home} if home else {}))

    async def react(self, user: str, channel: str, ts: str, name: str, *, remove: bool = False) -> Ack:
        """Adds or removes an emoji."""
        world = self._world
        user_id, room = self._who(user), self._where(user, channel)
        world.workspace.react(room.id, ts, name, user_id, remove=remove)
        item = {"type": "message", "channel": room.id, "ts": ts}
        kind = "reaction_removed" if remove else "reaction_added"
        event = {"type": kind, "user": user_id, "reaction": name, "item": item, "event_ts": world.workspace.stamp()}
        return await self._tell_app(kind, room, event)

    async def _tell_app(self, subscription: str, room: Channel, event: Record) -> Ack:
        """An event, if the app subscribes to it and is where it happened."""
        world = self._world
        if subscription not in world.seed.app.events or world.seed.app.bot_user_id not in room.members:
            return Ack(ok=True)
        payload = event_payload(world, event, is_shared=world.workspace.is_shared(room))
        return await world.delivery.send("events_api", payload, subscription, answerable=False)

    def _view(self, user_id: str, view_id: str) -> Record:
        home = self._world.views.home(user_id)
        open_ones = self._world.views.stack(user_id) + ([home] if home else [])
        for view in open_ones:
            if view["id"] == view_id:
                return view
        raise SlackError("not_found")

    def _who(self, user: str) -> str:
        try:
            return self._world.workspace.user_id(user)
        except KeyError as error:
            raise SlackError("user_not_found") from error

    def _room(self, channel: str) -> Channel:
        workspace = self._world.workspace
        try:
            return workspace.channels[workspace.channel_id(channel)]
        except KeyError as error:
            raise SlackError("channel_not_found") from error

    def _where(self, user: str, channel: str) -> Channel:
        room = self._room(channel)
        if self._who(user) not in room.members:
            raise SlackError("not_in_channel")
        return room

    @staticmethod
    def _named(room: Channel) -> Record:
        return {"id": room.id, "name": "directmessage" if room.is_im else room.name}


def _unanswered(view: Record, values: dict[str, Any]) -> dict[str, str]:
    """The required inputs without a value, as Slack's client says it."""
    empty = {}
    for block in view["blocks"]:
        if block.get("type") != "input" or block.get("optional"):
            continue
        given = values.get(block["block_id"], {}).get(block.get("element", {}).get("action_id"), {})
        if not any(value for name, value in given.items() if name != "type"):
            empty[block["block_id"]] = "Please complete this required field."
    return empty
