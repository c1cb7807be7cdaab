"""The Web API: /api/<method> with Slack's checks in Slack's order."""

import json
import time
from typing import Any

from aiohttp import web

from sandbox.slack.errors import SlackError
from sandbox.slack.webapi import chat, conversations, extras, files, people, session, views
from sandbox.slack.webapi.call import METHODS, Call, Method
from sandbox.slack.webapi.rates import Rates
from sandbox.slack.world import World

_ALL = (chat, conversations, extras, files, people, session, views)  # importing them fills the table of methods


class WebApi:
    """Answers calls of methods; every call is in the journal, methods that Slack does not have are remembered."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._rates = Rates(world.clock)

    async def handle(self, request: web.Request) -> web.Response:
        """Answers GET and POST /api/<method>."""
        began = time.perf_counter()
        name = request.match_info["method"]
        args: dict[str, Any] = {}
        headers = {"x-oauth-scopes": ",".join(self._world.seed.app.scopes)}
        violations: tuple[dict[str, Any], ...] = ()
        status, error = 200, ""
        try:
            args = await arguments(request)
            violations = _unknown_arguments(name, args)
            wait, body = self._answer(name, args, request.headers.get("Authorization", ""))
            if wait:
                status, error = 429, "ratelimited"
                headers["Retry-After"] = str(wait)
        except SlackError as refusal:
            body, error = refusal.body(), refusal.word
            violations += refusal.violations
        text = json.dumps(body)
        self._world.journal.write(
            "api",
            name,
            ok=not error,
            status=status,
            since=began,
            request=args,
            response=json.loads(text),
            error=error,
            violations=violations,
        )
        return web.Response(status=status, text=text, content_type="application/json", headers=headers)

    def _answer(self, name: str, args: dict[str, Any], authorization: str) -> tuple[int, dict[str, Any]]:
        method = METHODS.get(name)
        if method is None:
            if name not in self._world.unknown_methods:
                self._world.unknown_methods.append(name)
            raise SlackError("unknown_method", req_method=name)
        self._authorize(method, authorization)
        if self._world.strict:
            wait = self._rates.wait(name, method.per_minute, str(args.get("channel", "")))
            if wait:
                return wait, {"ok": False, "error": "ratelimited"}
        missing = [argument for argument in method.needs if args.get(argument) in (None, "")]
        if missing:
            raise SlackError("invalid_arguments", *(f"missing required field: {argument}" for argument in missing))
        return 0, {"ok": True, **method.run(Call(self._world, args))}

    def _authorize(self, method: Method, authorization: str) -> None:
        if method.caller == "anyone":
            return
        credentials = self._world.credentials
        token = authorization.removeprefix("Bearer ").strip()
        if not token:
            raise SlackError("not_authed")
        if token not in {credentials.bot_token, credentials.app_token}:
            raise SlackError("invalid_auth")
        wanted = credentials.app_token if method.caller == "app" else credentials.bot_token
        if token != wanted:
            raise SlackError("not_allowed_token_type")
        provided = self._world.seed.app.scopes
        if self._world.strict and method.scopes and not set(method.scopes) & set(provided):
            raise SlackError("missing_scope", needed=",".join(method.scopes), provided=",".join(provided))


async def arguments(request: web.Request) -> dict[str, Any]:
    """A request's query, form and JSON body merged, as the SDK mixes them. Raises SlackError invalid_json."""
    args: dict[str, Any] = dict(request.query)
    if request.content_type == "application/json":
        text = await request.text()
        try:
            body = json.loads(text) if text.strip() else {}
        except ValueError as error:
            raise SlackError("invalid_json") from error
        if not isinstance(body, dict):
            raise SlackError("json_not_object")
        args |= body
    else:
        args |= dict(await request.post())
    args.pop("token", None)
    return {name: value for name, value in args.items() if value is not None}


def _unknown_arguments(name: str, args: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    """Slack ignores arguments that it does not know; the journal shows them, for they are mistakes."""
    method = METHODS.get(name)
    known = {*method.needs, *method.takes} if method else set(args)
    return tuple(
        {"code": "unknown_argument", "message": "Slack ignores it", "field": argument, "pointer": f"/{argument}"}
        for argument in args
        if argument not in known
    )
