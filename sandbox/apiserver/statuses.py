"""The failures of an API server: the HTTP status, and the Status body that a real one sends with it."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from aiohttp import web

_USER = "system:serviceaccount:hami-system:hami-bot"
_UNABLE = "the server is currently unable to handle the request"
_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


class Target(NamedTuple):
    """What a request path names. `api` is the path of group and version: `api/v1`, `apis/apps/v1`."""

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
        """`pods`, `deployments.apps`: how messages name a resource."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def details(self) -> dict[str, str]:
        """The `details` of a Status about this target."""
        named = {"name": self.name, "group": self.group, "kind": self.plural}
        return {key: value for key, value in named.items() if value}


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


def forbidden(target: Target) -> ApiError:
    """What a service account without any rights gets; the message of a real authorizer."""
    what = f'{target.resource} "{target.name}"' if target.name else target.resource
    verb = "get" if target.name else "list"
    resource = f"{target.plural}/{target.subresource}" if target.subresource else target.plural
    where = f'in the namespace "{target.namespace}"' if target.namespace else "at the cluster scope"
    message = f'{what} is forbidden: User "{_USER}" cannot {verb} resource "{resource}"'
    return ApiError(403, "Forbidden", f'{message} in API group "{target.group}" {where}', details=target.details())


def not_found(target: Target) -> ApiError:
    """There is no such object."""
    return ApiError(404, "NotFound", f'{target.resource} "{target.name}" not found', details=target.details())


def no_such_resource() -> ApiError:
    """The group and version are served, but have no such resource."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", details={})


def method_not_allowed() -> ApiError:
    message = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", message, details={})


def not_acceptable(message: str) -> ApiError:
    return ApiError(406, "NotAcceptable", message)


def expired(continue_token: str = "") -> ApiError:
    """A continue token that is too old; the new one goes on where it stood, without consistency."""
    return ApiError(410, "Expired", _TOO_OLD, metadata={"continue": continue_token} if continue_token else None)


def failure(code: int, target: Target, retry_after: int | None) -> ApiError:
    """The Status that a real server sends with that code about that target.

    Raises ValueError for a code that there is no real body for.
    """
    match code:
        case 401:
            return unauthorized()
        case 403:
            return forbidden(target)
        case 404:
            return not_found(target) if target.name else no_such_resource()
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
