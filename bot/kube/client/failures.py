"""What an API server, or the way to it, answered instead of the object: as an error that a person can act on."""

import os
import re
from typing import Any, NamedTuple

import aiohttp
import msgspec

from bot.errors import NotFound, SourceError, Troubled, Unusable

QUOTE_LIMIT = 500
_FORBIDDEN = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]*)")?'
)


class Request(NamedTuple):
    """One request: `verb` and `resource` as RBAC names them (`list` `deployments.apps`), the rest as it is sent.

    `content` is what a write brings: the operations of a JSON patch, an object, or text.
    """

    verb: str
    resource: str
    path: str
    namespace: str = ""
    query: tuple[tuple[str, str], ...] = ()
    accept: str = "application/json"
    method: str = "GET"
    content: tuple[dict[str, Any], ...] | dict[str, Any] | str | None = None

    def __str__(self) -> str:
        query = "&".join(f"{key}={'…' if key == 'continue' else value}" for key, value in self.query)
        return f"{self.method} {self.path}?{query}" if query else f"{self.method} {self.path}"


class StaleListError(SourceError):
    """HTTP 410: what a continue token pointed to is no longer kept; the list has to be begun anew."""


class ForbiddenError(SourceError):
    """HTTP 403: the credentials are good and may not read this."""


class Status(msgspec.Struct, frozen=True):
    """The part of a `kind: Status` answer that is read."""

    message: str = ""
    kind: str = ""


def is_status(body: bytes) -> bool:
    """Whether an answer is the API server's own, and not that of what it passes requests on to."""
    try:
        return msgspec.json.decode(body, type=Status).kind == "Status"
    except (ValueError, RecursionError):
        return False


def refused(request: Request, status: int, body: bytes, credentials: str) -> SourceError:
    """The error for an answer other than 200; `credentials` says where they came from."""
    message = _message(body)
    text = f"{request}: HTTP {status}: {message}" if message else f"{request}: HTTP {status}"
    match status:
        case 401:
            hint = f"the token was refused, also after reading it anew: renew the credentials of {credentials}"
            return Unusable(text, hint=hint)
        case 403:
            return ForbiddenError(text, hint=_grant(request, message))
        case 404:
            return NotFound(text, hint="check the name and the namespace" if request.verb == "get" else "")
        case 410:
            return StaleListError(text, hint="the list changed faster than it could be read, twice: ask again")
        case 429:
            return SourceError(text, hint="the API server is busy and asked to wait: ask again in a minute")
        case 400:
            return SourceError(text)
        case _ if status >= 500:
            hint = "the API server, or a proxy in front of it, has a problem: run `kubectl get --raw '/readyz?verbose'`"
            return Troubled(text, hint=hint)
        case _:
            return SourceError(text, hint=f"check that the server of {credentials} is a Kubernetes API server")


def _message(body: bytes) -> str:
    try:
        text = msgspec.json.decode(body, type=Status).message
    except (ValueError, RecursionError):
        text = re.sub(r"<(style|script|head)\b.*?</\1>|<[^>]*>", " ", body.decode(errors="replace"), flags=re.DOTALL)
    return quoted(text)


def quoted(text: str) -> str:
    """Foreign text on one line of at most `QUOTE_LIMIT` characters."""
    line = " ".join(text.split())
    return line if len(line) <= QUOTE_LIMIT else line[: QUOTE_LIMIT - 1] + "…"


def _grant(request: Request, message: str) -> str:
    """What an administrator has to grant, from the server's own sentence where it has the usual form."""
    match = _FORBIDDEN.search(message)
    verb, resource, namespace, user = request.verb, request.resource, request.namespace, "the bot"
    if match:
        verb, namespace, user = match["verb"], match["namespace"] or "", match["user"]
        resource = f"{match['resource']}.{match['group']}" if match["group"] else match["resource"]
    where = f" in namespace {namespace}" if namespace else " in the whole cluster"
    return f"grant {verb} on {resource}{where} to {user}"


def is_cut(error: Exception) -> bool:
    """Whether the connection was made and then lost, so that asking again may well succeed."""
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ServerTimeoutError):
        return False
    return isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientOSError | aiohttp.ClientPayloadError)


def broken(
    request: Request, error: Exception, server: str, credentials: str, limits: aiohttp.ClientTimeout
) -> SourceError:
    """The error for an exchange that brought no whole answer: `error` is a ClientError or an OSError.

    It is raised `from None`: aiohttp's errors quote a proxy's address with its password.
    """
    what, hint = _broken(error, credentials, limits)
    return Unusable(f"{request} from {server}: {what}", hint=hint)


def _broken(error: Exception, credentials: str, limits: aiohttp.ClientTimeout) -> tuple[str, str]:
    reachable = f"check that the server of {credentials} is up and can be reached from here (address, VPN, firewall)"
    match error:
        case aiohttp.ClientConnectorDNSError():
            return f"no address is known for host {error.host!r}", f"check the server of {credentials}, DNS and VPN"
        case aiohttp.ClientConnectorCertificateError():
            reason = getattr(error.certificate_error, "verify_message", "") or error.certificate_error
            hint = f"check certificate-authority and server of {credentials}: that CA must have signed that host name"
            return f"TLS verification failed: {reason}", hint
        case aiohttp.ClientSSLError():
            return f"TLS failed: {quoted(str(error.os_error))}", f"check that the server of {credentials} speaks https"
        case aiohttp.ClientProxyConnectionError():
            return f"the proxy cannot be reached: {_reason(error)}", f"check proxy-url of {credentials} and HTTPS_PROXY"
        case aiohttp.ClientHttpProxyError():
            return f"the proxy answered HTTP {error.status}", f"check proxy-url of {credentials} and HTTPS_PROXY"
        case aiohttp.ClientConnectorError():
            return _reason(error), reachable
        case aiohttp.ConnectionTimeoutError():
            return f"no connection within {limits.sock_connect:g} s", reachable
        case aiohttp.SocketTimeoutError():
            return f"nothing came for {limits.sock_read:g} s", "the server or the way to it is stuck: ask again"
        case TimeoutError():
            return f"not finished within {limits.total:g} s", "the server or the way to it is slow: ask again"
        case aiohttp.InvalidURL() | aiohttp.NonHttpUrlClientError():
            return "this is no http(s) address", f"check the server of {credentials}"
        case aiohttp.ClientPayloadError():
            return f"the answer broke off or is damaged: {quoted(str(error))}", "ask again"
        case aiohttp.ClientResponseError():
            return f"the answer is not HTTP: {quoted(error.message)}", f"check the server and port of {credentials}"
        case _:
            return f"the connection was lost: {_reason(error)}", "ask again"


def _reason(error: Exception) -> str:
    """What the operating system said, without the host and port that aiohttp and asyncio repeat."""
    cause = getattr(error, "os_error", error)
    number = getattr(cause, "errno", None)
    message = os.strerror(number) if number and number > 0 else str(cause)
    return quoted(message or type(error).__name__).lower()
