"""What a request asks for: the object or list its path names, the verb of that, and the parts of its query."""

from collections.abc import Iterable
from typing import Any

import msgspec
from aiohttp import web

from sandbox.apiserver.entries import Object
from sandbox.apiserver.faults import Fault
from sandbox.apiserver.statuses import ApiError, Cause, Target, bad_request

GROUP_VERSION = "/{api:api/v1|apis/[^/]+/[^/]+}"
NAMESPACED = GROUP_VERSION + "/namespaces/{namespace}/{plural}"
HEADERS = {"Cache-Control": "no-cache, private"}
FAULT: web.RequestKey[Fault | None] = web.RequestKey("fault")
"""The key under which a request keeps its fault of watches."""

_TRUE = frozenset({"1", "true", "True", "TRUE", "t"})


def target_of(request: web.Request) -> Target:
    return Target(**{name: request.match_info.get(name, "") for name in Target._fields})


def apis_of(path: str) -> Iterable[str]:
    """The group-and-version paths that the request path may begin with."""
    parts = path.strip("/").split("/")
    return "/".join(parts[:2]), "/".join(parts[:3])


def verb_of(request: web.Request, target: Target) -> str:
    """The verb by which authorization knows the request."""
    match request.method:
        case "GET" | "HEAD" if target.name:
            return "get"
        case "GET" | "HEAD":
            return "watch" if is_set(request, "watch") else "list"
        case "POST":
            return "create"
        case "PUT":
            return "update"
        case "DELETE":
            return "delete" if target.name else "deletecollection"
        case other:
            return other.lower()


def is_set(request: web.Request, name: str) -> bool:
    return request.query.get(name, "") in _TRUE


def whole_number(request: web.Request, name: str) -> int | None:
    """A number of the query; None if it is left out. Raises the server's 400 for one that is none."""
    text = request.query.get(name)
    if not text:
        return None
    try:
        return max(int(text), 0)
    except ValueError as error:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from error


def is_dry_run(request: web.Request) -> bool:
    """Whether the request wants nothing stored. Raises the server's 422 for a value other than All."""
    values = request.query.getall("dryRun", [])
    if any(value != "All" for value in values):
        cause = Cause("FieldValueNotSupported", f'Unsupported value: "{values[0]}": supported values: "All"', "dryRun")
        problem = f"{cause.field}: {cause.message}"
        details = {"causes": [cause._asdict()]}
        raise ApiError(422, "Invalid", f'PatchOptions.meta.k8s.io "" is invalid: {problem}', details=details)
    return bool(values)


async def sent_object(request: web.Request) -> Object:
    """The object in the body. Raises the server's 400 or 415."""
    media_type = request.headers.get("Content-Type", "application/json").partition(";")[0]
    if media_type != "application/json":
        accepted = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
        message = f"the body of the request was in an unknown format - accepted media types include: {accepted}"
        raise ApiError(415, "UnsupportedMediaType", message, details={})
    try:
        sent: Any = msgspec.json.decode(await request.read())
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad_request(f"couldn't get version/kind; json parse error: {error}") from error
    if not isinstance(sent, dict):
        raise bad_request("couldn't get version/kind; json parse error: it is no object")
    return sent


def json_response(body: bytes, *, status: int = 200, compressed: bool = False) -> web.Response:
    encoding = {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"} if compressed else {}
    return web.Response(body=body, status=status, content_type="application/json", headers=HEADERS | encoding)
