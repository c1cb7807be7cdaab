"""All that the bot ever writes to a cluster: a patch of a Deployment, a running kube-scheduler's -v, its own Lease.

A write that may have been done is never repeated: it is reported so, and the caller reads the object again.
"""

from typing import Any

import aiohttp
import msgspec

from bot.errors import SourceError
from bot.kube.client.live import ERROR_BODY_LIMIT, METADATA_ONLY, ApiClient
from bot.kube.client.requests import ApiRequest, ApiStatus, broken, refused
from bot.kube.client.responses import UNREADABLE, ListPage, decoded, segment, whole_body
from bot.kube.models import DEPLOYMENTS, LEASES, PODS, Kind, Resource
from bot.texts import Text

FIELD_MANAGER = "hami-bot"
KUBE_SCHEDULER_PORT = 10259
_NOT_ACCEPTABLE = 406
_RESOURCE = "deployments.apps"
_LEASE = "leases.coordination.k8s.io"
_LOOK = Text("error-kube.api-server-may-have-applied")


class Conflict(SourceError):  # noqa: N818  # the API's own word
    """The object is not, or no longer, what the patch was made for: nothing was written; read the object again."""


class OutcomeUnknown(SourceError):  # noqa: N818  # what the person is told
    """The write may have been done: its connection broke, or the server failed. Read the object again."""


class Writer(ApiClient):
    """Writes to one cluster. Methods raise SourceError: `Conflict`, `OutcomeUnknown`, NotFound for what is gone."""

    async def ask_time(self) -> None:
        """Reads the API server's version, which everybody may, so that `clock` has the present time."""
        await self._exchange(ApiRequest("get", "version", "/version"))

    async def deployment(self, namespace: str, name: str) -> dict[str, Any]:
        """The Deployment's JSON, read fresh."""
        return await self._object(ApiRequest("get", _RESOURCE, _path(DEPLOYMENTS, namespace, name), namespace))

    async def annotated(self, key: str, namespace: str = "") -> list[tuple[str, str]]:
        """Namespace and name of each Deployment with the annotation `key`, in one namespace or in all."""
        path, query = DEPLOYMENTS.path(segment(namespace) if namespace else ""), (("limit", "500"),)
        request = ApiRequest("list", _RESOURCE, path, namespace, query, METADATA_ONLY)
        found: list[tuple[str, str]] = []
        while True:
            page = decoded(request, await self._send(request), ListPage[Resource])
            found += [
                (item.namespace, item.name) for item in page.items or () if key in (item.metadata.annotations or {})
            ]
            if not page.metadata.next:
                return found
            request = msgspec.structs.replace(request, query=(*query, ("continue", page.metadata.next)))

    async def pods_of(self, deployment: dict[str, Any]) -> list[str]:
        """The names of the Deployment's running pods. Raises SourceError where its selector has more than labels."""
        namespace = deployment["metadata"]["namespace"]
        selector: dict[str, Any] = deployment["spec"].get("selector") or {}
        if not selector.get("matchLabels") or selector.get("matchExpressions"):
            name = deployment["metadata"]["name"]
            text = Text("error-kube.pods-cannot-be-told", namespace=namespace, deployment=name)
            raise SourceError(text, hint=Text("error-kube.selector-must-be-labels"))
        labels = ",".join(f"{key}={value}" for key, value in selector["matchLabels"].items())
        query = (("labelSelector", labels), ("fieldSelector", "status.phase=Running"))
        request = ApiRequest("list", "pods", PODS.path(segment(namespace)), namespace, query)
        return [item.name for item in decoded(request, await self._send(request), ListPage[Resource]).items or ()]

    async def patch_deployment(
        self, namespace: str, name: str, patch: tuple[dict[str, Any], ...], *, dry_run: bool = False
    ) -> dict[str, Any]:
        """The Deployment's JSON after the JSON patch. With `dry_run` the server does everything but store it."""
        query = (("fieldManager", FIELD_MANAGER), *((("dryRun", "All"),) if dry_run else ()))
        request = ApiRequest(
            "patch", _RESOURCE, _path(DEPLOYMENTS, namespace, name), namespace, query, method="PATCH", content=patch
        )
        return await self._object(request)

    async def lease(self, namespace: str, name: str) -> dict[str, Any]:
        return await self._object(ApiRequest("get", _LEASE, _path(LEASES, namespace, name), namespace))

    async def create_lease(self, namespace: str, lease: dict[str, Any]) -> dict[str, Any]:
        """The JSON of the new Lease. Raises Conflict where a Lease of that name exists."""
        request = ApiRequest("create", _LEASE, _path(LEASES, namespace), namespace, method="POST", content=lease)
        return await self._object(request)

    async def replace_lease(self, namespace: str, lease: dict[str, Any]) -> dict[str, Any]:
        """The Lease's JSON with new content. Raises Conflict unless its resourceVersion is still the given one."""
        path = _path(LEASES, namespace, lease["metadata"]["name"])
        return await self._object(ApiRequest("update", _LEASE, path, namespace, method="PUT", content=lease))

    async def takes_verbosity(self, namespace: str, pod: str) -> bool:
        """Whether the pod's running kube-scheduler accepts a new -v from this bot; the request sets nothing. Once its
        authorization has let the GET of the flag through, it answers 406 (k8s.io/apiserver, routes/flags.go).
        """
        status, _ = await self._exchange(_flag_of(namespace, pod))
        return status == _NOT_ACCEPTABLE

    async def set_verbosity(self, namespace: str, pod: str, level: str) -> None:
        """Sets -v of the pod's running kube-scheduler, until it restarts (k8s.io/apiserver, routes/flags.go)."""
        await self._send(msgspec.structs.replace(_flag_of(namespace, pod), verb="update", method="PUT", content=level))

    async def _object(self, request: ApiRequest) -> dict[str, Any]:
        return decoded(request, await self._send(request), dict[str, Any])

    async def _send(self, request: ApiRequest) -> bytes:
        """The body of a good answer; a request refused for its credentials, and so not done, is sent once more."""
        link = self._link
        status, body = await self._exchange(request)
        if status == 401:
            await self._renew(link)
            status, body = await self._exchange(request)
        if status in (200, 201):
            return body
        error = refused(request, status, body[:ERROR_BODY_LIMIT], self._link.credentials)
        if status >= 500 and request.method != "GET":
            raise OutcomeUnknown(error.message, hint=_LOOK) from error
        if status == 409 or (status == 422 and _failed_test(body)):
            raise Conflict(error.message, hint=Text("error-kube.changed-meanwhile-look-again")) from error
        raise error

    async def _exchange(self, request: ApiRequest) -> tuple[int, bytes]:
        link = self._link
        try:
            async with await link.send(request, self._limits) as answer:
                self.clock.answered(request.resource, answer.headers.get("Date", ""))
                return answer.status, await whole_body(answer)
        except (aiohttp.ClientError, OSError) as error:
            failure = broken(request, error, link.server, link.credentials, self._limits)
            never_sent = isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)
            if request.method == "GET" or never_sent:
                raise failure from None
            raise OutcomeUnknown(failure.message, hint=_LOOK) from None


def _failed_test(body: bytes) -> bool:
    """Whether a 422 means a failed JSON patch: it has no details, those of an invalid object do (seen on 1.34)."""
    try:
        return not msgspec.json.decode(body, type=ApiStatus).details
    except UNREADABLE:
        return False


def _flag_of(namespace: str, pod: str) -> ApiRequest:
    address = f"https:{segment(pod)}:{KUBE_SCHEDULER_PORT}"
    path = f"{PODS.path(segment(namespace), address)}/proxy/debug/flags/v"
    return ApiRequest("get", "pods/proxy", path, namespace, accept="*/*")


def _path(kind: Kind[Any], namespace: str, name: str = "") -> str:
    return kind.path(segment(namespace), segment(name) if name else "")
