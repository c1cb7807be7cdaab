"""Who may talk to the server: only this machine, and of web pages only its own. Protects from DNS rebinding."""

from typing import Any

from aiohttp import web

from sandbox.serving import stranger

_FROM_ANYWHERE = {"/ui/events"}  # a stream that a page opens cannot carry the header
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
)


@web.middleware
async def guard(request: web.Request, handler: Any) -> web.StreamResponse:
    """Answers 403 to a foreign Host or Origin, and to /ui and /control without the X-Sandbox header."""
    if why := stranger(request):
        return refused(why)
    private = request.path.startswith(("/ui/", "/control/")) and request.path not in _FROM_ANYWHERE
    if private and request.headers.get("X-Sandbox") != "1":
        return refused("the header X-Sandbox: 1 is missing")
    return await handler(request)


def refused(why: str) -> web.Response:
    return web.json_response({"ok": False, "error": "forbidden", "detail": why}, status=403)
