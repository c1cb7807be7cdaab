"""Requests to an API server, also about access rights, and the errors, for people, that its refusals become."""

import os
import re
from typing import Any, NamedTuple

import aiohttp
import msgspec

from bot.errors import NotFound, SourceError, Troubled, Unusable
from bot.texts import Prose, Text

QUOTE_LIMIT = 500
_FORBIDDEN = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]*)")?'
)


class ApiRequest(msgspec.Struct, frozen=True):
    """One request: `verb` and `resource` as RBAC names them (`list` `deployments.apps`), the rest as it is sent.
    `content` is the body of a write: the operations of a JSON patch, an object, or text.
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
    """HTTP 410: the server no longer has what a continue token or a resourceVersion points to; list again."""


class ForbiddenError(SourceError):
    """HTTP 403: the credentials are valid and lack the right to this request."""


class ApiStatus(msgspec.Struct, frozen=True):
    """The fields of a `kind: Status` answer that this bot reads."""

    message: str = ""
    kind: str = ""
    code: int = 0
    details: dict[str, Any] | None = None


def is_status(body: bytes) -> bool:
    """Whether an answer is the API server's own, and not that of a pod or service that it proxies."""
    try:
        return msgspec.json.decode(body, type=ApiStatus).kind == "Status"
    except (ValueError, RecursionError):
        return False


def refused(request: ApiRequest, status: int, body: bytes, credentials: Prose) -> SourceError:
    """The error for an answer that is no success; `credentials` says where the credentials came from."""
    message = _message(body)
    text = f"{request}: HTTP {status}: {message}" if message else f"{request}: HTTP {status}"
    match status:
        case 401:
            return Unusable(text, hint=Text("error-kube.token-was-refused", credentials=credentials))
        case 403:
            return ForbiddenError(text, hint=_grant(request, message))
        case 404:
            return NotFound(text, hint=Text("error-kube.check-name-namespace") if request.verb == "get" else "")
        case 410:
            return StaleListError(text, hint=Text("error-kube.list-changed-faster"))
        case 429:
            return SourceError(text, hint=Text("error-kube.api-server-is-busy-asked"))
        case 400:
            return SourceError(text)
        case 503 if request.resource == "pods/proxy" and _UNREACHED in message:
            return SourceError(text, hint=Text("error-kube.pod-cannot-be-reached"))
        case _ if status >= 500:
            return Troubled(text, hint=Text("error-kube.api-server-has-a-problem"))
        case _:
            return SourceError(text, hint=Text("error-kube.check-server-is-kubernetes", credentials=credentials))


_UNREACHED = "error trying to reach service"
"""The API server's words where it works and the pod's port, or the network to the pod, does not (apimachinery)."""


def _message(body: bytes) -> str:
    try:
        text = msgspec.json.decode(body, type=ApiStatus).message
    except (ValueError, RecursionError):
        text = re.sub(r"<(style|script|head)\b.*?</\1>|<[^>]*>", " ", body.decode(errors="replace"), flags=re.DOTALL)
    return quoted(text)


def quoted(text: str) -> str:
    """The text of a foreign program on one line of at most `QUOTE_LIMIT` characters."""
    line = " ".join(text.split())
    return line if len(line) <= QUOTE_LIMIT else line[: QUOTE_LIMIT - 1] + "…"


def _grant(request: ApiRequest, message: str) -> Text:
    """What an administrator has to grant, from the server's own sentence where it has the usual form."""
    match = _FORBIDDEN.search(message)
    verb, resource, namespace, user = request.verb, request.resource, request.namespace, ""
    if match:
        verb, namespace, user = match["verb"], match["namespace"] or "", match["user"]
        resource = f"{match['resource']}.{match['group']}" if match["group"] else match["resource"]
    what = {"verb": verb, "resource": resource}
    if namespace and user:
        return Text("error-kube.grant-in-namespace", **what, namespace=namespace, user=user)
    if namespace:
        return Text("error-kube.grant-in-namespace-to-bot", **what, namespace=namespace)
    if user:
        return Text("error-kube.grant-in-cluster", **what, user=user)
    return Text("error-kube.grant-in-cluster-to-bot", **what)


def is_cut(error: Exception) -> bool:
    """Whether the error is a connection that was made and then lost, so that a new request may succeed."""
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ServerTimeoutError):
        return False
    return isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientOSError | aiohttp.ClientPayloadError)


def broken(
    request: ApiRequest, error: Exception, server: str, credentials: Prose, limits: aiohttp.ClientTimeout
) -> SourceError:
    """The error for an exchange without a whole answer; `error` is an aiohttp ClientError or an OSError. Raise it `from
    None`: aiohttp's errors quote a proxy's address with its password.
    """
    what, hint = _broken(error, credentials, limits)
    return Unusable(Text("error-kube.from-place", request=str(request), server=server, what=what), hint=hint)


def _broken(error: Exception, credentials: Prose, limits: aiohttp.ClientTimeout) -> tuple[Prose, Prose]:
    reachable = Text("error-kube.check-server-is-up", credentials=credentials)
    again = Text("error-command.ask-again")
    proxy = Text("error-kube.check-proxy-url", credentials=credentials)
    match error:
        case aiohttp.ClientConnectorDNSError():
            return Text("error-kube.no-address-is-known", host=repr(error.host)), Text(
                "error-kube.check-server-and-dns", credentials=credentials
            )
        case aiohttp.ClientConnectorCertificateError():
            reason = getattr(error.certificate_error, "verify_message", "") or str(error.certificate_error)
            hint = Text("error-kube.check-certificate-authority", credentials=credentials)
            return Text("error-kube.tls-verification-failed", reason=reason), hint
        case aiohttp.ClientSSLError():
            return Text("error-kube.tls-failed", reason=quoted(str(error.os_error))), Text(
                "error-kube.check-server-speaks-https", credentials=credentials
            )
        case aiohttp.ClientProxyConnectionError():
            return Text("error-kube.proxy-cannot-be-reached", reason=_reason(error)), proxy
        case aiohttp.ClientHttpProxyError():
            return Text("error-kube.proxy-answered-http", status=error.status), proxy
        case aiohttp.ClientConnectorError():
            return _reason(error), reachable
        case aiohttp.ConnectionTimeoutError():
            return Text("error-kube.no-connection-within-s", seconds=f"{limits.sock_connect:g}"), reachable
        case aiohttp.SocketTimeoutError():
            return Text("error-kube.nothing-came-for-s", seconds=f"{limits.sock_read:g}"), Text("error-kube.stuck")
        case TimeoutError():
            return Text("error-kube.not-finished-within", seconds=f"{limits.total:g}"), Text("error-kube.slow")
        case aiohttp.InvalidURL() | aiohttp.NonHttpUrlClientError():
            return Text("error-kube.no-http-address"), Text("error-kube.check-server", credentials=credentials)
        case aiohttp.ClientPayloadError():
            return Text("error-kube.answer-broke-off-is-damaged", why=quoted(str(error))), again
        case aiohttp.ClientResponseError():
            return Text("error-kube.answer-is-not-http", problem=quoted(error.message)), Text(
                "error-kube.check-server-port", credentials=credentials
            )
        case _:
            return Text("error-kube.connection-was-lost", reason=_reason(error)), again


def _reason(error: Exception) -> str:
    """What the operating system said, without the host and port that aiohttp and asyncio repeat."""
    cause = getattr(error, "os_error", error)
    number = getattr(cause, "errno", None)
    message = os.strerror(number) if number and number > 0 else str(cause)
    return quoted(message or type(error).__name__).lower()


_PATH = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class Right(NamedTuple):
    """The right to `verb` a resource such as `pods/log`; empty, `namespace` means all and `name` every object."""

    verb: str
    resource: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        where = f"in namespace {self.namespace}" if self.namespace else "in the whole cluster"
        return f"{self.verb} {self.resource}{f' {self.name}' if self.name else ''} {where}"

    @property
    def command(self) -> str:
        """The kubectl command that asks for the same right, for the user of kubectl."""
        where = f"-n {self.namespace}" if self.namespace else "-A"
        plural, _, sub = self.resource.partition("/")
        name = f"/{self.name}" if self.name else ""
        return f"kubectl auth can-i {self.verb} {plural}{name} {f'--subresource={sub} ' if sub else ''}{where}"


class Review(msgspec.Struct, frozen=True):
    """The fields of a SelfSubjectAccessReview that this bot reads."""

    class Status(msgspec.Struct, frozen=True):
        allowed: bool = False

    status: Status = Status()


def review_of(right: Right) -> ApiRequest:
    """The request that asks whether its sender has the right. Every user may send it (system:basic-user)."""
    resource, _, subresource = right.resource.partition("/")
    plural, _, group = resource.partition(".")
    attributes = right._asdict() | {"group": group, "resource": plural, "subresource": subresource}
    content = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {name: value for name, value in attributes.items() if value}},
    }
    return ApiRequest("create", "selfsubjectaccessreviews", _PATH, method="POST", content=content)
