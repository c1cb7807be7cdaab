"""Opens a live cluster: finds the credentials and hands them to the official client.

This is the only importer of `kubernetes`, which takes 0.35 s of processor time: import this module only where a live
cluster is really opened. `kubernetes.aio` would also import the whole synchronous client (260 modules, 9 MB), and
pydantic and dateutil for a class that nobody here calls. `importlib.util.LazyLoader` leaves such packages unexecuted
until code uses one of their names, and a promise stands for the class. Both together save 0.25 s of the 1.3 s of a cold
`why` on 5,000 nodes.
"""

import asyncio
import importlib.util
import logging
import os
import sys
import time
from collections.abc import Sequence
from functools import partial
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlencode

import aiohttp

from bot import process_counters
from bot.errors import SourceError, of_system, request_id
from bot.kube.client.kubeconfig import SHOW, ChosenContext, PluginError, choose, place_of, plugged_in, read_kubeconfig
from bot.kube.client.live import LiveCluster
from bot.kube.client.requests import ApiRequest
from bot.kube.client.writer import Writer
from bot.texts import Prose, Text

_SYNCHRONOUS = ("client", "config", "dynamic", "watch", "stream", "utils", "leaderelection", "informer")
_ASYNCHRONOUS = ("config", "dynamic", "watch", "stream", "leaderelection")
_DEFERRED = {f"kubernetes.{name}" for name in _SYNCHRONOUS} | {f"kubernetes.aio.{name}" for name in _ASYNCHRONOUS}


class _Deferring:
    """A finder of the deferred packages only; everything else is left to the usual ones."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, _target: ModuleType | None = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path) if name in _DEFERRED else None
        if spec and spec.loader:
            spec.loader = importlib.util.LazyLoader(spec.loader)
        return spec


def _api_client(*args: Any, **named: Any) -> Any:
    """A promise of the class: it is looked up when it is called."""
    return getattr(client, "ApiClient")(*args, **named)  # noqa: B009  # it has no stub


sys.meta_path.insert(0, _Deferring)
try:
    from kubernetes.aio import client, config
    from kubernetes.aio.client.configuration import Configuration
    from kubernetes.aio.client.rest import RESTClientObject

    setattr(client, "ApiClient", _api_client)  # noqa: B010  # the same
    from kubernetes.aio.config import kube_config
finally:
    sys.meta_path.remove(_Deferring)
delattr(client, "ApiClient")

official: Any = config  # its functions carry no annotations
log = logging.getLogger(__name__)
CONNECTIONS = 16
LOGIN_TIMEOUT_S = 60
"""Seconds that an exec plugin or an identity provider may take to log in."""
PERSON_TIMEOUT_S = 15 * 60
"""Seconds that a login may take where a person at a terminal sees the plugin's prompts, such as a code to enter."""
_CONTENT_TYPES = {str: "text/plain", dict: "application/json", tuple: "application/json-patch+json"}
TRICKLE = 4
"""How many read timeouts a whole answer may take, even if its small pieces keep coming."""
UNUSABLE = (
    config.ConfigException,
    aiohttp.ClientError,
    OSError,
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
)
"""The errors of the official loader for a kubeconfig it cannot use; it checks few types, hence the last three."""


async def open_cluster(
    *,
    name: str = "",
    kubeconfig: Path | None = None,
    context: str = "",
    connect_timeout_s: float = 5,
    read_timeout_s: float = 30,
) -> LiveCluster:
    """Opens a cluster for reading; its server is not asked yet. Credentials come from `kubeconfig`, else from
    KUBECONFIG or ~/.kube/config, else from the service account of the pod that runs the bot. `name` is the context's
    name unless given. `read_timeout_s` is the longest silence of the server. Raises SourceError.
    """
    link = await _connect(kubeconfig, context, name)
    limits = aiohttp.ClientTimeout(
        total=TRICKLE * read_timeout_s, sock_connect=connect_timeout_s, sock_read=read_timeout_s
    )
    # By name from here on: another current-context in the file must not move an open cluster elsewhere.
    reconnect = partial(_connect, kubeconfig, link.context, name)
    home = "" if link.context else link.namespace
    return LiveCluster(link, reconnect, limits, name=name or link.context or "in-cluster", home=home)


async def open_writer(
    *, name: str = "", kubeconfig: Path | None = None, context: str = "", timeout_s: float = 10
) -> Writer:
    """A `Writer` to a cluster, with the same credentials as `open_cluster` reads with. Raises SourceError."""
    link = await _connect(kubeconfig, context, name)
    limits = aiohttp.ClientTimeout(total=timeout_s, sock_connect=min(5, timeout_s))
    home = "" if link.context else link.namespace
    return Writer(link, partial(_connect, kubeconfig, link.context, name), limits, home=home)


class OfficialLink:
    """A `ServerLink` with the official client's credentials; `context` is empty for a service account. Only lists
    through a kubeconfig, whose server may be far away, are compressed: in the cluster nothing is, which saves the API
    server a second of work on 5,000 nodes.
    """

    def __init__(self, configuration: Configuration, chosen: "ChosenContext", credentials: Prose, cluster: str) -> None:
        configuration.client_session_kwargs = {
            "auto_decompress": False,  # see bot.kube.client.responses
            # For every event that aiohttp takes from a buffer less full than this it asks its parser for more. The
            # client's 2 MB make a busy watch a tenth dearer, and what does not fit waits in the socket.
            "read_bufsize": 2**16,
            "headers": chosen.impersonated,
        }
        self._configuration = configuration
        self._rest: Any = RESTClientObject(configuration)  # its methods carry no annotations
        self.server = configuration.host
        self.context = chosen.context
        self.namespace = chosen.namespace
        self.credentials = credentials
        self.cluster = cluster
        self._encodings = {"list": "gzip"} if chosen.context else {}

    async def send(self, request: ApiRequest, limits: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        began, status = time.monotonic(), "none"
        try:
            answer = await self._send(request, limits)
            status = str(answer.status)
            return answer
        finally:
            process_counters.KUBERNETES_REQUESTS[self.cluster, request.verb, status] += 1
            ms = round((time.monotonic() - began) * 1000)
            level = logging.INFO if request_id() else logging.DEBUG  # what is asked all day long is not told
            values = {"cluster": self.cluster, "verb": request.verb, "status": status, "ms": ms}
            log.log(level, "%s: %s in %d ms", request, status, ms, extra=values)

    async def _send(self, request: ApiRequest, limits: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        try:
            token = (await self._configuration.auth_settings()).get("BearerToken")
        except config.ConfigException as error:  # the service account's token is read again every minute
            raise SourceError(
                Text("error.at", place=self.credentials, why=str(error)), hint=Text("error-kube.check-token-is-mounted")
            ) from None
        headers = {
            "Accept": request.accept,
            "Accept-Encoding": self._encodings.get(request.verb, "identity"),
            "User-Agent": "hami-bot",
        }
        if request.content is not None:
            headers["Content-Type"] = _CONTENT_TYPES[type(request.content)]
        if token and token["value"]:
            # A token file is taken as it is, with the line break that an editor left at its end.
            headers["Authorization"] = token["value"].strip()
            if not headers["Authorization"].isprintable():
                raise SourceError(
                    Text("error-kube.token-is-not-one-line", credentials=self.credentials),
                    hint=Text("error-kube.renew-token"),
                )
        try:
            answer = await self._rest.request(
                request.method,
                f"{self._configuration.host}{request.path}{'?' if request.query else ''}{urlencode(request.query)}",
                headers,
                list(request.content) if isinstance(request.content, tuple) else request.content,
                _request_timeout=limits,
            )
        except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, aiohttp.ClientResponseError, OSError):
            raise
        except ValueError:  # of an address; those of the kubeconfig were read before
            raise SourceError(
                Text("error-kube.proxy-is-no-address", request=request, server=self.server),
                hint=Text("error-kube.check-proxy-variables"),
            ) from None
        return answer.response

    async def aclose(self) -> None:
        await self._rest.close()


async def _connect(kubeconfig: Path | None, context: str, cluster: str) -> OfficialLink:
    configuration = Configuration(connection_pool_maxsize=CONNECTIONS)
    files = [kubeconfig] if kubeconfig else _default_files()
    if files:
        chosen = choose(files, context)
        credentials = place_of(chosen.context, files)
        await _log_in(configuration, chosen, credentials)
    else:
        _load_service_account(configuration, context)
        chosen, credentials = ChosenContext(), Text("error-kube.service-account")
    try:
        return OfficialLink(configuration, chosen, credentials, cluster)
    except OSError as error:  # every ssl.SSLError is one
        raise SourceError(
            Text("error-kube.certificates-cannot-be-loaded", credentials=credentials, why=str(error)),
            hint=Text("error-kube.certificates-must-be-pem"),
        ) from error


def _default_files() -> list[Path]:
    """The files that kubectl would read: KUBECONFIG may be a list, and a missing file of it is passed over."""
    named = config.KUBE_CONFIG_DEFAULT_LOCATION.split(os.pathsep)
    return [path for path in map(Path, filter(None, named)) if path.expanduser().exists()]


def known_contexts(kubeconfig: Path | None) -> tuple[tuple[str, ...], str]:
    """The names of all contexts, and the current one's, as kubectl finds them. Raises SourceError for a bad file."""
    contents = [read_kubeconfig(file)[0] for file in ([kubeconfig] if kubeconfig else _default_files())]
    names = dict.fromkeys(context.name for content in contents for context in content.contexts or ())
    return tuple(names), next((content.current_context for content in contents if content.current_context), "")


def _load_service_account(configuration: Configuration, context: str) -> None:
    looked = Text("error-kube.no-kubeconfig-at", path=config.KUBE_CONFIG_DEFAULT_LOCATION)
    if context:
        raise SourceError(
            Text("error-kube.so-no-context", looked=looked, context=repr(context)),
            hint=Text("error-kube.name-file-with-kubeconfig"),
        )
    try:
        official.load_incluster_config(client_configuration=configuration)
    except (config.ConfigException, OSError) as error:
        raise SourceError(
            Text("error-kube.no-cluster-is-configured", looked=looked, why=str(error)),
            hint=Text("error-kube.set-kubeconfig"),
        ) from error


async def _log_in(configuration: Configuration, chosen: ChosenContext, place: Prose) -> None:
    """Fills the configuration. Raises SourceError, which repeats nothing that the official loader quotes of a file."""
    watched = os.isatty(2)
    within_s = PERSON_TIMEOUT_S if watched and chosen.plugin else LOGIN_TIMEOUT_S
    try:
        async with asyncio.timeout(within_s):
            if chosen.plugin:
                chosen.user.pop("exec")
                chosen.user.update(await plugged_in(chosen.plugin, shown=watched))
            tree = {
                kind: [kube_config.ConfigNode(kind, entry.content, entry.path) for entry in entries]
                for kind, entries in chosen.parts.items()
            }
            whole = kube_config.ConfigNode("kubeconfig", tree)
            await official.load_kube_config_from_dict(whole, chosen.context, configuration)
    except PluginError as error:
        raise SourceError(
            Text("error-kube.no-credentials-exec-plugin", place=place, why=error.message),
            hint=Text("error-kube.run-plugin-by-hand"),
        ) from None
    except TimeoutError:
        raise SourceError(
            Text("error-kube.logging-took-longer-than-s", place=place, seconds=within_s),
            hint=Text("error-kube.run-exec-plugin-kubeconfig"),
        ) from None
    except UNUSABLE as error:
        raise SourceError(Text("error-kube.cannot-be-used", place=place, why=_unusable(error)), hint=SHOW) from None


def _unusable(error: Exception) -> Prose:
    text = str(error)
    if isinstance(error, FileNotFoundError) or text.startswith("File does not exist"):
        return Text("error-kube.named-file-does-not-exist")
    if isinstance(error, config.ConfigException):  # names of keys and of entries
        return text
    return (of_system(error) if isinstance(error, OSError) else "") or type(error).__name__
