"""What the app and the page ask beside the Web API: response URLs, uploads, files, the page's own files, and faults."""

import asyncio
import time
from pathlib import Path
from typing import Any

from aiohttp import web

from sandbox.slack.errors import SlackError
from sandbox.slack.faults import Fault, RequestFault, reset, spoil
from sandbox.slack.files import INLINE
from sandbox.slack.guard import PAGE_POLICY
from sandbox.slack.journal import Kind
from sandbox.slack.webapi import arguments
from sandbox.slack.world import World

_PAGE = Path(__file__).parent / "page"
_PAGE_HEADERS = {
    "Content-Security-Policy": PAGE_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_KINDS: dict[str, Kind] = {  # of requests by the app, which is what faults spoil
    "api": "api",
    "link": "socket",
    "commands": "response_url",
    "actions": "response_url",
    "upload": "upload",
    "files": "api",
}
_GONE = {"expired_url", "used_url"}


class Endpoints:
    """The routes, and the middleware that makes requests of the app fail as planned."""

    def __init__(self, world: World, closing: asyncio.Event) -> None:
        self._world = world
        self._closing = closing

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/{kind:commands|actions}/{rest:.+}", self._respond),
            web.post("/upload/{token}", self._upload),
            web.get("/files/{id}/{name}", self._file),
            web.get("/", self._page),
            web.get("/page/{name}", self._page),
        ]

    @web.middleware
    async def spoiled(self, request: web.Request, handler: Any) -> web.StreamResponse:
        subject = request.path.strip("/")
        kind = _KINDS.get(subject.partition("/")[0])
        fault = self._world.faults.fired(RequestFault, subject) if kind else None
        if kind is None or fault is None:
            return await handler(request)
        self._world.journal.write(
            kind, subject.removeprefix("api/"), ok=False, status=_status_of(fault), error=f"fault: {fault.kind}"
        )
        if fault.kind == "outage":
            return reset(request)
        return await spoil(fault, request, lambda: handler(request), self._world.clock, self._closing)

    async def _respond(self, request: web.Request) -> web.Response:
        began = time.perf_counter()
        status, said, refusal = 200, "ok", None
        given: dict[str, Any] = {}
        try:
            given = await arguments(request)
            self._world.responses.use(request.path, given)
        except SlackError as error:
            refusal = error
            status, said = (404 if error.word in _GONE else 400), error.word
        self._world.journal.write(
            "response_url",
            request.path.split("/")[1],
            ok=refusal is None,
            status=status,
            since=began,
            request=given,
            response=said,
            error=refusal.word if refusal else "",
            violations=refusal.violations if refusal else (),
        )
        if refusal:
            return web.json_response(refusal.body(), status=status)
        return web.Response(text=said)

    async def _upload(self, request: web.Request) -> web.Response:
        began = time.perf_counter()
        content = await _bytes_of(request)
        try:
            file = self._world.files.receive(request.match_info["token"], content)
        except SlackError as refusal:
            self._world.journal.write("upload", "upload", ok=False, status=400, since=began, error=refusal.word)
            return web.Response(status=400, text=refusal.word)
        said = f"OK - {len(content)}"
        self._world.journal.write("upload", file.name, since=began, request={"bytes": len(content)}, response=said)
        return web.Response(text=said)

    async def _file(self, request: web.Request) -> web.Response:
        try:
            file = self._world.files.get(request.match_info["id"])
        except SlackError as refusal:
            return web.json_response(refusal.body(), status=404)
        inline = file.mimetype in INLINE
        headers = {
            "Content-Disposition": "inline" if inline else "attachment",
            "Content-Security-Policy": "default-src 'none'; sandbox",
            "X-Content-Type-Options": "nosniff",
        }
        kind = file.mimetype if inline or file.mimetype.startswith("text/") else "application/octet-stream"
        return web.Response(body=file.content, content_type=kind, headers=headers)

    async def _page(self, request: web.Request) -> web.StreamResponse:
        path = _PAGE / request.match_info.get("name", "index.html")
        if path.parent != _PAGE or not path.is_file():
            return web.Response(status=404, text="There is no such file.", headers=_PAGE_HEADERS)
        return web.FileResponse(path, headers=_PAGE_HEADERS)


async def _bytes_of(request: web.Request) -> bytes:
    """The raw body, or the first file of a form."""
    if request.content_type != "multipart/form-data":
        return await request.read()
    form = await request.post()
    return next((field.file.read() for field in form.values() if isinstance(field, web.FileField)), b"")


def _status_of(fault: Fault) -> int:
    """What the journal says; 0 where the fault is not an answer."""
    return {"rate_limited": 429, "status": fault.status, "html": 200, "error": 200, "revoked": 200}.get(fault.kind, 0)
