"""What the page asks: /ui/*. Reading is a GET of the state as one person sees it; doing goes through People."""

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any

from aiohttp import web

from sandbox.slack.delivery import Ack
from sandbox.slack.errors import SlackError
from sandbox.slack.people import People
from sandbox.slack.world import World

_HEARTBEAT_S = 15
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Ui:
    """The routes of the page."""

    def __init__(self, world: World, people: People, closing: asyncio.Event) -> None:
        self._world = world
        self._people = people
        self._closing = closing

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/ui/workspace", self._workspace),
            web.get("/ui/messages", _checked(self._messages)),
            web.get("/ui/home", _checked(self._home)),
            web.get("/ui/views", _checked(self._views)),
            web.get("/ui/journal", _checked(self._journal)),
            web.get("/ui/events", self._events),
            web.post("/ui/message", _doing(self._message)),
            web.post("/ui/edit", _doing(self._edit)),
            web.post("/ui/command", _doing(self._command)),
            web.post("/ui/action", _doing(self._action)),
            web.post("/ui/shortcut", _doing(self._shortcut)),
            web.post("/ui/view_submit", _doing(self._view_submit)),
            web.post("/ui/view_close", _doing(self._view_close)),
            web.post("/ui/home_open", _doing(self._home_open)),
            web.post("/ui/suggestions", _doing(self._suggestions)),
            web.post("/ui/react", _doing(self._react)),
        ]

    # reading

    async def _workspace(self, _: web.Request) -> web.Response:
        workspace, seed = self._world.workspace, self._world.seed
        users = [{key: user[key] for key in ("id", "name", "real_name", "is_bot")} for user in workspace.users.values()]
        channels = [
            {
                "id": channel.id,
                "name": channel.name,
                "is_im": channel.is_im,
                "is_mpim": channel.is_mpim,
                "is_private": channel.is_private,
                "is_archived": channel.is_archived,
                "is_shared": self._world.workspace.is_shared(channel),
                "topic": channel.topic,
                "members": channel.members,
            }
            for channel in workspace.channels.values()
        ]
        app = {
            "id": seed.app.id,
            "name": seed.app.name,
            "bot_user_id": seed.app.bot_user_id,
            "commands": [asdict(command) for command in seed.app.commands],
            "shortcuts": [asdict(shortcut) for shortcut in seed.app.shortcuts],
            "connected": self._world.connected,
        }
        return web.json_response(
            {
                "team": {"id": seed.team_id, "name": seed.team},
                "users": users,
                "channels": channels,
                "app": app,
                "verbs": [asdict(verb) for verb in seed.verbs],
                "welcome": seed.welcome,
            }
        )

    async def _messages(self, request: web.Request) -> Any:
        user, channel_id = self._user(request), request.query.get("channel", "")
        channel = self._world.workspace.channels.get(channel_id)
        if channel is None or user not in channel.members:
            raise SlackError("channel_not_found")
        seen = self._world.workspace.seen_by(user, channel_id, request.query.get("thread_ts", ""))
        return {"messages": [self._world.files.on_page(message) for message in seen]}

    async def _home(self, request: web.Request) -> Any:
        return {"view": self._world.views.home(self._user(request))}

    async def _views(self, request: web.Request) -> Any:
        return {"stack": self._world.views.stack(self._user(request))}

    async def _journal(self, request: web.Request) -> Any:
        after, limit = (_whole(request, name, default) for name, default in (("after", 0), ("limit", 200)))
        entries = self._world.journal.after(after, limit)
        cursor = entries[-1].id if entries else after
        return {"entries": [entry.public() for entry in entries], "cursor": cursor}

    def _user(self, request: web.Request) -> str:
        user = request.query.get("user", "")
        if user not in self._world.workspace.users:
            raise SlackError("user_not_found")
        return user

    async def _events(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
        with self._world.changes.stream(request.query.get("user", "")) as stream, contextlib.suppress(ConnectionError):
            await response.prepare(request)
            await response.write(b": welcome\n\n")
            while not self._closing.is_set():
                for change in await stream.next(_HEARTBEAT_S):
                    await response.write(f"data: {json.dumps(change)}\n\n".encode())
                await response.write(b": still here\n\n")
        return response

    # doing

    async def _message(self, body: dict[str, Any]) -> Any:
        text, thread_ts = body.get("text", ""), body.get("thread_ts") or ""
        broadcast = bool(body.get("broadcast"))
        return _said(
            await self._people.say(body["user"], body["channel"], text, thread_ts=thread_ts, broadcast=broadcast)
        )

    async def _edit(self, body: dict[str, Any]) -> Any:
        return _said(await self._people.edit(body["user"], body["channel"], body["ts"], body["text"]))

    async def _command(self, body: dict[str, Any]) -> Any:
        thread_ts = body.get("thread_ts") or ""
        return _taken(
            await self._people.command(
                body["user"], body["channel"], body["command"], body.get("text", ""), thread_ts=thread_ts
            )
        )

    async def _action(self, body: dict[str, Any]) -> Any:
        where = {name: body.get(name) or "" for name in ("channel", "message_ts", "view_id")}
        return _taken(await self._people.act(body["user"], body["action"], state=body.get("state"), **where))

    async def _shortcut(self, body: dict[str, Any]) -> Any:
        where = {name: body.get(name) or "" for name in ("channel", "message_ts")}
        return _taken(await self._people.shortcut(body["user"], body["callback_id"], **where))

    async def _view_submit(self, body: dict[str, Any]) -> Any:
        values = (body.get("state") or {}).get("values") or {}
        ack = await self._people.submit(body["user"], body["view_id"], values)
        said = {key: ack.payload[key] for key in ("response_action", "errors") if key in ack.payload}
        return _taken(ack) | said

    async def _view_close(self, body: dict[str, Any]) -> Any:
        return _taken(await self._people.close(body["user"], body["view_id"]))

    async def _home_open(self, body: dict[str, Any]) -> Any:
        return _taken(await self._people.open_home(body["user"]))

    async def _suggestions(self, body: dict[str, Any]) -> Any:
        where = {name: body[name] for name in ("channel", "message_ts", "view_id") if body.get(name)}
        asked = (body["action_id"], body["block_id"], body.get("value", ""))
        ack = await self._people.suggest(body["user"], *asked, **where)
        groups = {"option_groups": ack.payload["option_groups"]} if "option_groups" in ack.payload else {}
        return _taken(ack) | {"options": ack.payload.get("options", [])} | groups

    async def _react(self, body: dict[str, Any]) -> Any:
        remove = bool(body.get("remove"))
        return _taken(await self._people.react(body["user"], body["channel"], body["ts"], body["name"], remove=remove))


def _said(ack: Ack) -> dict[str, Any]:
    """A message stands there although the app was not told of it."""
    return {"ok": True, "ts": ack.ts, "latency_ms": ack.latency_ms} | ({"error": ack.error} if ack.error else {})


def _taken(ack: Ack) -> dict[str, Any]:
    return {"ok": ack.ok, "latency_ms": ack.latency_ms} | ({"error": ack.error} if ack.error else {})


def _checked(read: Callable[[web.Request], Awaitable[Any]]) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        try:
            return web.json_response(await read(request))
        except SlackError as refusal:
            return web.json_response(refusal.body(), status=404)

    return handle


def _doing(do: Callable[[dict[str, Any]], Awaitable[Any]]) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        try:
            body = await request.json()
            return web.json_response(await do(body))
        except SlackError as refusal:
            return web.json_response(refusal.body())
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            detail = f"the body is not what this takes: {error!r}"
            return web.json_response({"ok": False, "error": "invalid_arguments", "detail": detail}, status=400)

    return handle


def _whole(request: web.Request, name: str, default: int) -> int:
    text = request.query.get(name, "")
    if text and not text.isdecimal():
        raise SlackError("invalid_arguments", f"must be a whole number [json-pointer:/{name}]")
    return int(text or default)
