"""The failures of an API server: the HTTP status, and the Status body that a real one sends with it."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from aiohttp import web

from sandbox.apiserver.kinds import Kind

_USER = "system:serviceaccount:hami-system:hami-bot"
_UNABLE = "the server is currently unable to handle the request"
_MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


class Target(NamedTuple):
    """The object or list that a request path names. `api` is the path of its group and version, as `apis/apps/v1`."""

    api: str = ""
    plural: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def group(self) -> str:
        return self.api.split("/")[1] if self.api.startswith("apis/") else ""

    @property
    def resource(self) -> str:
        """The name of the resource in messages: `pods`, `deployments.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def details(self) -> dict[str, str]:
        """The `details` of a Status about this target."""
        return _about(self.plural, self.group, self.name)


class ApiError(Exception):
    """A request that is answered with a Status instead of an object."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        body = {"kind": "Status", "apiVersion": "v1", "metadata": metadata or {}, "status": "Failure"}
        body |= {"message": message} | ({"reason": reason} if reason else {})
        if details is not None or retry_after is not None:
            body["details"] = {**(details or {}), **({"retryAfterSeconds": retry_after} if retry_after else {})}
        self.code = code
        self.body = body | {"code": code}
        self.retry_after = retry_after

    def response(self) -> web.Response:
        headers = {"Retry-After": str(self.retry_after)} if self.retry_after else None
        return web.json_response(self.body, status=self.code, headers=headers)


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def unauthorized() -> ApiError:
    return ApiError(401, "Unauthorized", "Unauthorized")


def forbidden(target: Target, verb: str = "") -> ApiError:
    """The error that a service account without the right gets, with the message of a real authorizer. `verb` is `get`
    or `list` unless given.
    """
    what = f'{target.resource} "{target.name}"' if target.name else target.resource
    verb = verb or ("get" if target.name else "list")
    resource = f"{target.plural}/{target.subresource}" if target.subresource else target.plural
    where = f'in the namespace "{target.namespace}"' if target.namespace else "at the cluster scope"
    message = f'{what} is forbidden: User "{_USER}" cannot {verb} resource "{resource}"'
    return ApiError(403, "Forbidden", f'{message} in API group "{target.group}" {where}', details=target.details())


def not_found(target: Target) -> ApiError:
    """The error that there is no such object."""
    return ApiError(404, "NotFound", f'{target.resource} "{target.name}" not found', details=target.details())


def no_such_resource() -> ApiError:
    """The error that the group and version are served, but have no such resource."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", details={})


def method_not_allowed() -> ApiError:
    message = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", message, details={})


def not_acceptable(message: str) -> ApiError:
    return ApiError(406, "NotAcceptable", message)


def expired(continue_token: str = "") -> ApiError:
    """The error for a continue token that is too old; the new token goes on where it stood, without consistency."""
    return ApiError(410, "Expired", _TOO_OLD, metadata={"continue": continue_token} if continue_token else None)


def list_too_old() -> ApiError:
    """The error for a list of exactly a version that is no longer kept."""
    return ApiError(410, "Expired", "The resourceVersion for the provided list is too old.")


def watch_too_old(wanted: int, oldest: int) -> ApiError:
    """The error for a watch from a version that is no longer kept; it is sent as an event, behind a 200."""
    return ApiError(410, "Expired", f"too old resource version: {wanted} ({oldest})")


def version_too_large(wanted: int, newest: int) -> ApiError:
    """The error for a version that has not been reached yet."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    message = f"Timeout: Too large resource version: {wanted}, current: {newest}"
    return ApiError(504, "Timeout", message, details={"causes": [cause]}, retry_after=1)


def conflict(target: Target, problem: str = _MODIFIED) -> ApiError:
    """The error that the object is not the one, or not at the resourceVersion, that the writer has seen."""
    message = f'Operation cannot be fulfilled on {target.resource} "{target.name}": {problem}'
    return ApiError(409, "Conflict", message, details=target.details())


def precondition_failed(kind: Kind, name: str, problem: str) -> ApiError:
    """The error that the object is another one than the writer means."""
    message = f'Operation cannot be fulfilled on {kind.qualified} "{name}": {problem}'
    return ApiError(409, "Conflict", message, details=_about(kind.name, kind.group, name))


def already_exists(target: Target) -> ApiError:
    message = f'{target.resource} "{target.name}" already exists'
    return ApiError(409, "AlreadyExists", message, details=target.details())


class Cause(NamedTuple):
    """One field's error. `reason` is such as FieldValueRequired; the message repeats the field's value."""

    reason: str
    message: str
    field: str


def invalid(kind: Kind, name: str, causes: Sequence[Cause]) -> ApiError:
    """The error for an object that validation refuses."""
    problems = [f"{cause.field}: {cause.message}" for cause in causes]
    text = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
    details = {**_about(kind.name, kind.group, name), "causes": [cause._asdict() for cause in causes]}
    return ApiError(422, "Invalid", f'{kind.qualified} "{name}" is invalid: {text}', details=details)


def patch_rejected() -> ApiError:
    """The error for a JSON patch that cannot be applied: a failed test, a missing path and a bad index look alike."""
    message = "the server rejected our request due to an error in our request"
    return ApiError(422, "Invalid", message, details={})


def unsupported_media_type() -> ApiError:
    return ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type", details={})


def unreachable(address: str) -> ApiError:
    """The error for a pod that the API server cannot connect to."""
    message = f"error trying to reach service: dial tcp {address}: connect: connection refused"
    return ApiError(503, "ServiceUnavailable", message)


def _about(kind: str, group: str, name: str) -> dict[str, str]:
    return {key: value for key, value in {"name": name, "group": group, "kind": kind}.items() if value}


def failure(code: int, target: Target, retry_after: int | None, verb: str = "") -> ApiError:
    """The Status that a real server sends with that code about that target and verb. Raises ValueError for a code that
    there is no real body for.
    """
    match code:
        case 401:
            return unauthorized()
        case 403:
            return forbidden(target, verb)
        case 404:
            return not_found(target) if target.name else no_such_resource()
        case 409:
            return conflict(target)
        case 410:
            return expired()
        case 429:
            message = "the server has received too many requests and has asked us to try again later"
            return ApiError(429, "TooManyRequests", message, retry_after=retry_after or 1)
        case 500:
            return ApiError(500, "", "etcdserver: request timed out")
        case 503:
            return ApiError(503, "ServiceUnavailable", _UNABLE, retry_after=retry_after)
    raise ValueError(f"no Status body is known for HTTP {code}")
