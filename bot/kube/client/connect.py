"""Opens a live cluster: finds the credentials and hands them to the official client.

This is the only importer of `kubernetes`, which takes 0.35 s of processor time: import this module where a live cluster
is really opened.
"""

import asyncio
import base64
import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

import aiohttp
import msgspec

from bot import process_counters, request_ids
from bot.errors import SourceError, WrongValue, of_system
from bot.kube.client.failures import Request
from bot.kube.client.lazy_client import promised, unused_parts_deferred
from bot.kube.client.live import LiveCluster
from bot.kube.client.writer import Writer
from bot.safe_yaml import parse_documents, reason
from bot.texts import Prose, Text

with unused_parts_deferred():
    from kubernetes.aio import client, config
    from kubernetes.aio.client.configuration import Configuration
    from kubernetes.aio.client.rest import RESTClientObject

    with promised(client, "ApiClient"):
        from kubernetes.aio.config import kube_config

official: Any = config  # its functions carry no annotations
log = logging.getLogger(__name__)
CONNECTIONS = 16
LOGIN_TIMEOUT_S = 60
"""How long an exec plugin or an identity provider may take."""
PERSON_TIMEOUT_S = 15 * 60
"""The same where a person sees at a terminal what the plugin wants, such as a code for a browser."""
TRICKLE = 4
"""An answer that trickles is given up after so many read timeouts."""
UNUSABLE = (
    config.ConfigException,
    aiohttp.ClientError,
    OSError,
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
)
"""What the official loader raises for a kubeconfig it cannot use; it checks few types, hence the last three."""
_IN_HEADERS = "!#$&'*+^`|"
_SHOW = Text("error-kube.config-view")


class PluginError(SourceError):
    """An exec plugin gave no credentials."""


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

    def __init__(self, configuration: Configuration, chosen: "Chosen", credentials: Prose, cluster: str) -> None:
        configuration.client_session_kwargs = {
            "auto_decompress": False,  # see bot.kube.client.gzip_body
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
            raise SourceError(
                Text("error.at", place=self.credentials, why=str(error)), hint=Text("error-kube.check-token-is-mounted")
            ) from None
        headers = {
            "Accept": request.accept,
            "Accept-Encoding": self._encodings.get(request.verb, "identity"),
            "User-Agent": "hami-bot",
            **_content_type(request),
        }
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
                _url(self._configuration.host, request),
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
    if files:
        chosen = _chosen(files, context)
        credentials = _place(chosen.context, files)
        await _log_in(configuration, chosen, credentials)
    else:
        _load_service_account(configuration, context)
        chosen, credentials = Chosen(), Text("error-kube.service-account")
    try:
        return OfficialLink(configuration, chosen, credentials, cluster)
    except OSError as error:  # every ssl.SSLError is one
        raise SourceError(
            Text("error-kube.certificates-cannot-be-loaded", credentials=credentials, why=str(error)),
            hint=Text("error-kube.certificates-must-be-pem"),
        ) from error


def _default_files() -> list[Path]:
    """What kubectl would read: KUBECONFIG may be a list, and a file of it that does not exist is passed over."""
    named = config.KUBE_CONFIG_DEFAULT_LOCATION.split(os.pathsep)
    return [path for path in map(Path, filter(None, named)) if path.expanduser().exists()]


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


# ------------------------------------------------------------------------------------------------ a kubeconfig


class NamedContext(msgspec.Struct):
    name: str
    context: dict[str, Any]


class Server(msgspec.Struct, rename="kebab"):
    """The entries whose types the official loader takes for granted."""

    server: str = ""
    certificate_authority: str | None = None
    insecure_skip_tls_verify: bool | None = None
    tls_server_name: str | None = None
    proxy_url: str | None = None


class NamedCluster(msgspec.Struct):
    name: str
    cluster: Server


class Variable(msgspec.Struct):
    name: str
    value: str


class Plugin(msgspec.Struct):
    command: str
    api_version: str = msgspec.field(name="apiVersion")
    args: list[str] | None = None
    env: list[Variable] | None = None


class User(msgspec.Struct, rename="kebab"):
    token: str | None = None
    token_file: str | None = msgspec.field(name="tokenFile", default=None)
    username: str | None = None
    password: str | None = None
    client_certificate: str | None = None
    client_key: str | None = None
    exec: Plugin | None = None
    as_user: str | None = msgspec.field(name="as", default=None)
    as_uid: str | None = None
    as_groups: list[str] | None = None
    as_user_extra: dict[str, list[str]] | None = None


class NamedUser(msgspec.Struct):
    name: str
    user: User | None = None


class Kubeconfig(msgspec.Struct, rename="kebab"):
    current_context: str | None = None
    contexts: list[NamedContext] | None = None
    clusters: list[NamedCluster] | None = None
    users: list[NamedUser] | None = None


class Chosen(NamedTuple):
    """What the kubeconfigs say about one context; empty for a service account.

    `parts` is all that stands in the files, as the official loader takes it, and `user` the entries of the context's
    user in it. `impersonated` are headers.
    """

    context: str = ""
    namespace: str = ""
    parts: Any = None
    user: dict[str, Any] = {}  # noqa: RUF012  # a service account has none to change
    plugin: Plugin | None = None
    impersonated: Sequence[tuple[str, str]] = ()


def known_contexts(kubeconfig: Path | None) -> tuple[tuple[str, ...], str]:
    """The contexts by name and the current one, as kubectl would find them; none without a kubeconfig.

    Raises SourceError for a file that is no kubeconfig.
    """
    contents = [_read_kubeconfig(file)[0] for file in ([kubeconfig] if kubeconfig else _default_files())]
    names = dict.fromkeys(context.name for content in contents for context in content.contexts or ())
    return tuple(names), next((content.current_context for content in contents if content.current_context), "")


def _read_kubeconfig(file: Path) -> tuple[Kubeconfig, dict[str, Any]]:
    """What is read of it here, and all of it. An error repeats nothing of the file."""
    try:
        content: Any = next(iter(parse_documents(file.expanduser().read_text(encoding="utf-8"))), None)
        return msgspec.convert(content, Kubeconfig), content
    except OSError as unreadable:
        raise SourceError(
            Text("error.at", place=file, why=of_system(unreadable)), hint=Text("error-kube.name-kubeconfig-can-be-read")
        ) from unreadable
    except (msgspec.ValidationError, UnicodeDecodeError, RecursionError) as malformed:
        why = reason(malformed)
    except WrongValue as malformed:
        why = malformed.text
    raise SourceError(
        Text("error-kube.not-kubeconfig", file=file, why=why),
        hint=Text("error-kube.config-view-of-file", file=file),
    )


def _chosen(files: list[Path], context: str) -> Chosen:
    """The context of that name, else the current one. Of what several files name the first counts, as for kubectl."""
    parts: dict[str, dict[str, Any]] = {"contexts": {}, "clusters": {}, "users": {}}
    typed: dict[tuple[str, str], Any] = {}
    for file in files:
        content, whole = _read_kubeconfig(file)
        context = context or content.current_context or ""
        for kind, found in parts.items():
            for entry, raw in zip(getattr(content, kind) or (), whole.get(kind) or (), strict=True):
                found.setdefault(entry.name, kube_config.ConfigNode(kind, raw, str(file.expanduser())))
                typed.setdefault((kind, entry.name), entry)
    contexts = ", ".join(parts["contexts"]) or "none"
    if not context:
        raise SourceError(
            Text("error-kube.no-current-context-is-set", names=_names(files)),
            hint=Text("error-kube.name-one-with-context", contexts=contexts),
        )
    if context not in parts["contexts"]:
        raise SourceError(
            Text("error-kube.no-context", names=_names(files), context=repr(context)),
            hint=Text("error-kube.contexts-there", contexts=contexts),
        )
    chosen: dict[str, Any] = typed["contexts", context].context
    place = _place(context, files)
    if cluster := typed.get(("clusters", str(chosen.get("cluster")))):
        _check_addresses(cluster.cluster, place)
    tree = kube_config.ConfigNode("kubeconfig", {kind: list(found.values()) for kind, found in parts.items()})
    link = Chosen(context, str(chosen.get("namespace") or ""), tree)
    name = str(chosen.get("user"))
    user: User | None = typed["users", name].user if name in parts["users"] else None
    if user is None:
        return link
    node = parts["users"][name]
    if user.exec and "/" in user.exec.command:  # kubectl: relative to the file that names it
        user.exec.command = str(Path(node.path).absolute().parent / user.exec.command)
    return link._replace(user=node.value["user"], plugin=user.exec, impersonated=_impersonated(user, place))


def _check_addresses(cluster: Server, place: Prose) -> None:
    """Raises SourceError for an address that cannot be used, which is not repeated: it may hold a password."""
    if "@" in cluster.server:  # aiohttp refuses that beside a token, and neither belongs into an error
        raise SourceError(
            Text("error-kube.address-server-holds-user-password", place=place),
            hint=Text("error-kube.move-into-user"),
        )
    for key, address in (("server", cluster.server), ("proxy-url", cluster.proxy_url or cluster.server)):
        if not _is_address(address):
            raise SourceError(
                Text("error-kube.its-address-is-no-http", place=place, setting=key), hint=Text("error-kube.such-as")
            )


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        plain = parts.scheme in ("http", "https") and not (parts.query or parts.fragment)
        return plain and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _impersonated(user: User, place: Prose) -> list[tuple[str, str]]:
    """The headers of whom the user acts as (k8s.io/client-go, transport/round_trippers.go)."""
    headers = [("Impersonate-User", user.as_user), ("Impersonate-Uid", user.as_uid)]
    headers += [("Impersonate-Group", group) for group in user.as_groups or ()]
    headers += [
        ("Impersonate-Extra-" + quote(key.lower(), safe=_IN_HEADERS), value)
        for key, values in (user.as_user_extra or {}).items()
        for value in values
    ]
    told = [(name, value) for name, value in headers if value]
    if told and not user.as_user:
        raise SourceError(
            Text("error-kube.as-groups-without-as", place=place), hint=Text("error-kube.kubectl-refuses-too")
        )
    if not all(value.isprintable() for _, value in told):
        raise SourceError(Text("error-kube.as-not-one-line", place=place), hint=_SHOW)
    return told


def _place(context: str, files: list[Path]) -> Text:
    return Text("error-kube.context-in", context=repr(context), files=_names(files))


def _names(files: list[Path]) -> str:
    return os.pathsep.join(map(str, files))


# ------------------------------------------------------------------------------------------------ logging in


class Status(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""


class Credential(msgspec.Struct, rename="camel"):
    """What an exec plugin prints (client.authentication.k8s.io)."""

    api_version: str
    status: Status


async def _plugged_in(plugin: Plugin, *, shown: bool) -> dict[str, str]:
    """The entries of a kubeconfig's user that the plugin gives. Raises PluginError, which repeats nothing it said.

    `shown`: what it writes on stderr goes to the terminal at once, such as a code to log in with.
    """
    asking = sys.stdin.isatty()
    info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": {"interactive": asking}}
    variables = {variable.name: variable.value for variable in plugin.env or ()}
    environment = {**os.environ, **variables, "KUBERNETES_EXEC_INFO": json.dumps(info)}  # noqa: TID251  # handed on
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command,
            *(plugin.args or ()),
            env=environment,
            stdin=None if asking else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=None if shown else subprocess.DEVNULL,
        )
    except OSError as error:
        name = Path(plugin.command).name.split()[:1]  # no more: a whole command line may hold a password
        raise PluginError(Text("error.at", place=" ".join(name), why=of_system(error))) from None
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:  # nobody waits any longer
            process.kill()
    if process.returncode:
        raise PluginError(Text("error-kube.ended-with-exit-code", returncode=process.returncode))
    try:
        credential = msgspec.json.decode(output, type=Credential)
    except (ValueError, RecursionError):
        raise PluginError(Text("error-kube.printed-no-execcredential")) from None
    if credential.api_version != plugin.api_version:
        raise PluginError(Text("error-kube.answer-has-another-apiversion"))
    pems = (credential.status.client_certificate_data, credential.status.client_key_data)
    certificate, key = (base64.b64encode(pem.encode()).decode() for pem in pems)
    given = {"client-certificate-data": certificate, "client-key-data": key} if certificate and key else {}
    given |= {"token": credential.status.token} if credential.status.token else {}
    if not given:
        raise PluginError(Text("error-kube.answer-has-neither-token-nor"))
    return given


async def _log_in(configuration: Configuration, chosen: Chosen, place: Prose) -> None:
    """Fills the configuration. Raises SourceError, which repeats nothing that the official loader quotes of a file."""
    watched = os.isatty(2)
    within_s = PERSON_TIMEOUT_S if watched and chosen.plugin else LOGIN_TIMEOUT_S
    try:
        async with asyncio.timeout(within_s):
            if chosen.plugin:
                chosen.user.pop("exec")
                chosen.user.update(await _plugged_in(chosen.plugin, shown=watched))
            await official.load_kube_config_from_dict(chosen.parts, chosen.context, configuration)
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
        raise SourceError(Text("error-kube.cannot-be-used", place=place, why=_unusable(error)), hint=_SHOW) from None


def _unusable(error: Exception) -> Prose:
    """Of what was raised the part that quotes no file."""
    text = str(error)
    if isinstance(error, FileNotFoundError) or text.startswith("File does not exist"):
        return Text("error-kube.named-file-does-not-exist")
    if isinstance(error, config.ConfigException):  # names of keys and of entries
        return text
    return (of_system(error) if isinstance(error, OSError) else "") or type(error).__name__
