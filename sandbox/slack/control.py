"""Faults, time and other apps by HTTP: /control/*, for whoever is not in the same process."""

from typing import Any

from aiohttp import web

from sandbox.slack.clock import VirtualClock
from sandbox.slack.errors import SlackError
from sandbox.slack.faults import Fault
from sandbox.slack.people import People
from sandbox.slack.world import World


class Control:
    """POST /control/faults takes a list of objects with the fields of Fault in place of the plan so far.

    "for" (seconds from now) may stand for `until`. GET gives the plan. POST /control/disconnect takes {"reason"}, POST
    /control/cut nothing, POST /control/advance {"seconds"}; GET /control/unknown lists unknown methods. POST
    /control/webhook takes what another app, such as Alertmanager, posts to its incoming webhook: {"channel", ...}.
    """

    def __init__(self, world: World, people: People) -> None:
        self._world = world
        self._people = people

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/control/faults", self._show),
            web.post("/control/faults", self._plan),
            web.post("/control/disconnect", self._disconnect),
            web.post("/control/cut", self._cut),
            web.post("/control/advance", self._advance),
            web.get("/control/unknown", self._unknown),
            web.post("/control/webhook", self._webhook),
        ]

    async def _show(self, _: web.Request) -> web.Response:
        shown = [
            {key: value for key, value in vars(fault).items() if not key.startswith("_") and value != float("inf")}
            for fault in self._world.faults
        ]
        return web.json_response({"ok": True, "faults": shown})

    async def _plan(self, request: web.Request) -> web.Response:
        try:
            plan = [self._fault(given) for given in await request.json()]
        except (TypeError, ValueError, AttributeError) as error:
            return _wrong(str(error))
        self._world.faults.clear()
        for fault in plan:
            self._world.faults.append(fault)
        return await self._show(request)

    def _fault(self, given: dict[str, Any]) -> Fault:
        fields = dict(given)
        if "for" in fields:
            fields["until"] = self._world.clock.now() + float(fields.pop("for"))
        return Fault(**fields)

    async def _disconnect(self, request: web.Request) -> web.Response:
        body = await request.json() if request.can_read_body else {}
        await self._world.sockets.disconnect(body.get("reason", "refresh_requested"))
        return web.json_response({"ok": True})

    async def _cut(self, _: web.Request) -> web.Response:
        self._world.sockets.cut()
        return web.json_response({"ok": True})

    async def _advance(self, request: web.Request) -> web.Response:
        clock = self._world.clock
        if not isinstance(clock, VirtualClock):
            return _wrong("the server runs on real time; start it with a virtual clock")
        body = await request.json()
        await clock.advance(float(body["seconds"]))
        return web.json_response({"ok": True, "now": clock.now()})

    async def _unknown(self, _: web.Request) -> web.Response:
        return web.json_response({"ok": True, "methods": self._world.unknown_methods})

    async def _webhook(self, request: web.Request) -> web.Response:
        given = await request.json()
        try:
            ts = await self._people.alert(given.get("channel", ""), given, thread_ts=given.get("thread_ts", ""))
        except SlackError as refusal:
            return web.json_response(refusal.body(), status=404 if refusal.word == "channel_not_found" else 400)
        return web.json_response({"ok": True, "ts": ts})


def _wrong(detail: str) -> web.Response:
    return web.json_response({"ok": False, "error": "invalid_arguments", "detail": detail}, status=400)
