"""Opens a live cluster: finds the credentials and hands them to the official client.

This is the only importer of `kubernetes`, which takes 0.35 s of processor time: import this module where a live cluster
is really opened.
"""

import ast
import asyncio
import logging
import os
import re
import time
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import aiohttp
import msgspec
import yaml

from bot import process_counters, request_ids
from bot.errors import SourceError
from bot.kube.client.failures import Request, quoted
from bot.kube.client.lazy_client import promised, unused_parts_deferred
from bot.kube.client.live import LiveCluster
from bot.kube.client.writer import Writer

with unused_parts_deferred():
    from kubernetes.aio import client, config
    from kubernetes.aio.client.configuration import Configuration
    from kubernetes.aio.client.rest import RESTClientObject

    with promised(client, "ApiClient"):
        dir(config)  # executes it

official: Any = config  # its functions carry no annotations
log = logging.getLogger(__name__)
CONNECTIONS = 16
LOGIN_TIMEOUT_S = 60
"""How long an exec plugin or an identity provider may take."""
TRICKLE = 4
"""An answer that trickles is given up after so many read timeouts."""
UNUSABLE = (
    config.ConfigException,
    yaml.YAMLError,
    aiohttp.ClientError,
    OSError,
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
)
"""What the official loader raises for a kubeconfig it cannot use; it checks no types, hence the last three."""


async def open_cluster(
    *,
    name: str = "",
    kubeconfig: Path | None = None,
    context: str = "",
    connect_timeout_s: float = 5,
    read_timeout_s: float = 30,
) -> LiveCluster:
    """A cluster whose credentials could be read; whether its server can be reached shows in the first reading.

    They come from `kubeconfig`, else from KUBECONFIG or ~/.kube/config, else from the service account of the pod that
    this runs in. `name` is the context's name unless given. `read_timeout_s` is the longest silence of the server.
    """
    link = await _connect(kubeconfig, context, name)
    limits = aiohttp.ClientTimeout(
        total=TRICKLE * read_timeout_s, sock_connect=connect_timeout_s, sock_read=read_timeout_s
    )
    # By name from here on: another current-context in the file must not move an open cluster elsewhere.
    reconnect = partial(_connect, kubeconfig, link.context, name)
    home = "" if link.context else link.namespace
    return LiveCluster(link, reconnect, name=name or link.context or "in-cluster", limits=limits, home=home)


async def open_writer(
    *, name: str = "", kubeconfig: Path | None = None, context: str = "", timeout_s: float = 10
) -> Writer:
    """The way to write to a cluster, by the same credentials as `open_cluster` reads with."""
    link = await _connect(kubeconfig, context, name)
    limits = aiohttp.ClientTimeout(total=timeout_s, sock_connect=min(5, timeout_s))
    home = "" if link.context else link.namespace
    return Writer(link, partial(_connect, kubeconfig, link.context, name), limits, home=home)


class OfficialLink:
    """See `bot.kube.client.live.Link`; `context` is empty for a service account.

    Inside the cluster nothing is compressed, which saves the API server a second of work on 5,000 nodes. A
    kubeconfig's server may be far away, even at a loopback address; its lists alone are large enough to pay.
    """

    def __init__(
        self, configuration: Configuration, context: str, namespace: str, credentials: str, cluster: str
    ) -> None:
        configuration.client_session_kwargs = {
            "auto_decompress": False,  # see bot.kube.client.gzip_body
            # For every event that aiohttp takes from a buffer less full than this it asks its parser for more. The
            # client's 2 MB make a busy watch a tenth dearer, and what does not fit waits in the socket.
            "read_bufsize": 2**16,
        }
        self._configuration = configuration
        self._rest: Any = RESTClientObject(configuration)  # its methods carry no annotations
        self.server = re.sub(r"//[^/@]*@", "//", configuration.host)
        self.context = context
        self.namespace = namespace
        self.credentials = credentials
        self.cluster = cluster
        self._encodings = {"list": "gzip"} if context else {}

    async def send(self, request: Request, limits: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        began, status = time.monotonic(), "none"
        try:
            answer = await self._send(request, limits)
            status = str(answer.status)
            return answer
        finally:
            process_counters.KUBERNETES_REQUESTS[self.cluster, request.verb, status] += 1
            ms = round((time.monotonic() - began) * 1000)
            level = (
                logging.INFO if request_ids.request_id() else logging.DEBUG
            )  # what is asked all day long is not told
            values = {"cluster": self.cluster, "verb": request.verb, "status": status, "ms": ms}
            log.log(level, "%s: %s in %d ms", request, status, ms, extra=values)

    async def _send(self, request: Request, limits: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        try:
            token = (await self._configuration.auth_settings()).get("BearerToken")
        except config.ConfigException as error:  # the service account's token is read again every minute
            raise SourceError(f"{self.credentials}: {error}", hint="check that the token is mounted") from error
        headers = {
            "Accept": request.accept,
            "Accept-Encoding": self._encodings.get(request.verb, "identity"),
            "User-Agent": "hami-bot",
            **_content_type(request),
        }
        if token and token["value"]:
            # A token file is taken as it is, with the line break that an editor left at its end.
            headers["Authorization"] = token["value"].strip()
        answer = await self._rest.request(
            request.method,
            _url(self._configuration.host, request),
            headers,
            list(request.content) if isinstance(request.content, tuple) else request.content,
            _request_timeout=limits,
        )
        return answer.response

    async def aclose(self) -> None:
        await self._rest.close()


def _url(host: str, request: Request) -> str:
    return f"{host}{request.path}?{urlencode(request.query)}" if request.query else f"{host}{request.path}"


def _content_type(request: Request) -> dict[str, str]:
    match request.content:
        case None:
            return {}
        case str():
            return {"Content-Type": "text/plain"}
        case dict():
            return {"Content-Type": "application/json"}
        case _:
            return {"Content-Type": "application/json-patch+json"}


async def _connect(kubeconfig: Path | None, context: str, cluster: str) -> OfficialLink:
    configuration = Configuration(connection_pool_maxsize=CONNECTIONS)
    files = [kubeconfig] if kubeconfig else _default_files()
    namespace = ""
    if files:
        context, namespace = await _load_kubeconfig(configuration, files, context)
        credentials = f"context {context!r} in {_names(files)}"
    else:
        _load_service_account(configuration, context)
        credentials = "this pod's service account"
    try:
        return OfficialLink(configuration, context, namespace, credentials, cluster)
    except OSError as error:  # every ssl.SSLError is one
        raise SourceError(
            f"the certificates of {credentials} cannot be loaded: {error}",
            hint="certificate-authority(-data) and client-certificate(-data) must hold certificates in PEM form",
        ) from error


def _default_files() -> list[Path]:
    """What kubectl would read: KUBECONFIG may be a list, and a file of it that does not exist is passed over."""
    named = config.KUBE_CONFIG_DEFAULT_LOCATION.split(os.pathsep)
    return [path for path in map(Path, filter(None, named)) if path.expanduser().exists()]


def _load_service_account(configuration: Configuration, context: str) -> None:
    looked = f"no kubeconfig at {config.KUBE_CONFIG_DEFAULT_LOCATION}"
    if context:
        raise SourceError(f"{looked}, so there is no context {context!r}", hint="name a file with --kubeconfig")
    try:
        official.load_incluster_config(client_configuration=configuration)
    except (config.ConfigException, OSError) as error:
        raise SourceError(
            f"no cluster is configured: {looked}, and the bot is not in a pod with a service account ({error})",
            hint="set KUBECONFIG, or name a file with --kubeconfig, or read a recording with --recording",
        ) from error


async def _load_kubeconfig(configuration: Configuration, files: list[Path], context: str) -> tuple[str, str]:
    """Fills the configuration; gives the names of the context and of its default namespace."""
    with _logged() as complaints:
        try:
            async with asyncio.timeout(LOGIN_TIMEOUT_S):
                loader = await official.load_kube_config(
                    config_file=os.pathsep.join(map(str, files)),
                    context=context or None,
                    client_configuration=configuration,
                    persist_config=False,
                )
        except TimeoutError as error:
            raise SourceError(
                f"{_names(files)}: logging in took longer than {LOGIN_TIMEOUT_S} s",
                hint="run the exec plugin of this kubeconfig by hand: does it wait for input?",
            ) from error
        except UNUSABLE as error:
            raise _unusable(files, context, error) from error
    used: dict[str, Any] = loader.current_context
    if complaints and not (configuration.api_key or configuration.cert_file):
        raise SourceError(
            f"context {used['name']!r} in {_names(files)}: no credentials from its exec plugin: {complaints[-1]}",
            hint="run the plugin by hand: is it installed, on PATH, and logged in?",
        )
    return used["name"], str(used["context"].get("namespace") or "")


@contextmanager
def _logged() -> Generator[list[str]]:
    """What this task makes the official loader log: it tells a log, and nobody else, why an exec plugin failed."""
    said: list[str] = []
    task = asyncio.current_task()

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if asyncio.current_task() is task:
                said.append(_plain(record.getMessage()))

    log, listener = logging.getLogger("kubernetes.aio.config.kube_config"), Listener(logging.ERROR)
    log.addHandler(listener)
    try:
        yield said
    finally:
        log.removeHandler(listener)


def _plain(complaint: str) -> str:
    """The loader quotes a plugin's stderr as a Python bytes literal: `exec: process returned 1. b'not logged in'`."""
    literal = re.search(r"""b(['"]).*\1$""", complaint, re.DOTALL)
    if literal:
        stderr: bytes = ast.literal_eval(literal[0])
        complaint = complaint[: literal.start()] + stderr.decode(errors="replace")
    return quoted(complaint)


# ------------------------------------------------------------------------------------------------ what is wrong with it


class NamedContext(msgspec.Struct):
    name: str
    context: dict[str, Any]


class NamedCluster(msgspec.Struct):
    name: str
    cluster: dict[str, Any]


class NamedUser(msgspec.Struct):
    name: str
    user: dict[str, Any] | None = None


class Kubeconfig(msgspec.Struct, rename="kebab"):
    current_context: str | None = None
    contexts: list[NamedContext] | None = None
    clusters: list[NamedCluster] | None = None
    users: list[NamedUser] | None = None


def _unusable(files: list[Path], context: str, error: Exception) -> SourceError:
    """Why the official loader gave up, in better words than its own where the file's form explains it."""
    contexts: list[str] = []
    for file in files:
        try:
            content = _read_kubeconfig(file)
        except SourceError as unreadable:
            return unreadable
        contexts += (context.name for context in content.contexts or ())
        context = context or content.current_context or ""
    known = ", ".join(contexts) or "none"
    if not context:
        return SourceError(f"{_names(files)}: no current-context is set", hint=f"name one with --context: {known}")
    if context not in contexts:
        return SourceError(f"{_names(files)}: no context {context!r}", hint=f"contexts there: {known}")
    return SourceError(
        f"context {context!r} in {_names(files)} cannot be used: {quoted(str(error)) or type(error).__name__}",
        hint="`kubectl config view --minify` with the same context shows what it consists of",
    )


def known_contexts(kubeconfig: Path | None) -> tuple[tuple[str, ...], str]:
    """The contexts by name and the current one, as kubectl would find them; none without a kubeconfig.

    Raises SourceError for a file that is no kubeconfig.
    """
    contents = [_read_kubeconfig(file) for file in ([kubeconfig] if kubeconfig else _default_files())]
    names = dict.fromkeys(context.name for content in contents for context in content.contexts or ())
    return tuple(names), next((content.current_context for content in contents if content.current_context), "")


def _read_kubeconfig(file: Path) -> Kubeconfig:
    try:
        return msgspec.convert(yaml.safe_load(file.expanduser().read_bytes()), Kubeconfig)
    except OSError as unreadable:
        raise SourceError(f"{file}: {unreadable.strerror}", hint="name a kubeconfig that can be read") from unreadable
    except (yaml.YAMLError, msgspec.ValidationError, RecursionError) as malformed:
        raise SourceError(
            f"{file}: not a kubeconfig: {quoted(str(malformed))}",
            hint=f"`kubectl config view --kubeconfig {file}` shows how kubectl reads it",
        ) from malformed


def _names(files: list[Path]) -> str:
    return os.pathsep.join(map(str, files))
