"""Reads what kubeconfigs say about one context, and what the exec plugin of its user prints.

No error repeats text of a file or of a plugin's output, because both hold secrets.
"""

import asyncio
import base64
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import msgspec

from bot.errors import SourceError, WrongValue, of_system
from bot.safe_yaml import parse_documents, reason
from bot.texts import Prose, Text

_IN_HEADERS = "!#$&'*+^`|"
_CERTIFICATES = "certificate-authority-data"
_TOLD_TO_PLUGINS = ("server", "proxy-url", "tls-server-name", "insecure-skip-tls-verify", _CERTIFICATES)
_EXTENSION = "client.authentication.k8s.io/exec"
SHOW = Text("error-kube.config-view")


class PluginError(SourceError):
    """Raised when an exec plugin gave no credentials."""


class NamedContext(msgspec.Struct):
    name: str
    context: dict[str, Any]


class Server(msgspec.Struct, rename="kebab"):
    """How a kubeconfig says to reach a cluster; the official loader does not check the types of these fields."""

    server: str = ""
    proxy_url: str | None = None
    # Only their types are looked at: to the official loader the text "false" means that nothing is verified.
    certificate_authority: str | None = None
    insecure_skip_tls_verify: bool | None = None
    tls_server_name: str | None = None
    extensions: list[dict[str, Any]] | None = None


class NamedCluster(msgspec.Struct):
    name: str
    cluster: Server


class Variable(msgspec.Struct):
    name: str
    value: str


class ExecPlugin(msgspec.Struct):
    command: str
    api_version: str = msgspec.field(name="apiVersion")
    args: list[str] | None = None
    env: list[Variable] | None = None
    provide_cluster_info: bool = msgspec.field(name="provideClusterInfo", default=False)
    cluster: dict[str, object] = {}  # what the plugin is told of it


class User(msgspec.Struct, rename="kebab"):
    token: str | None = None
    token_file: str | None = msgspec.field(name="tokenFile", default=None)
    username: str | None = None
    password: str | None = None
    client_certificate: str | None = None
    client_key: str | None = None
    exec: ExecPlugin | None = None
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


class KubeconfigEntry(NamedTuple):
    """One context, cluster or user as the kubeconfig at `path` has it."""

    content: dict[str, Any]
    path: str


class ChosenContext(NamedTuple):
    """What the kubeconfigs say about one context; empty for a service account. `parts` are all contexts, clusters and
    users of the files. `user` is the entry of the context's user, to which the exec plugin's output is added.
    `impersonated` are HTTP headers.
    """

    context: str = ""
    namespace: str = ""
    parts: dict[str, list[KubeconfigEntry]] = {}  # noqa: RUF012  # nobody changes it
    user: dict[str, Any] = {}  # noqa: RUF012  # a service account has none to change
    plugin: ExecPlugin | None = None
    impersonated: Sequence[tuple[str, str]] = ()


def read_kubeconfig(file: Path) -> tuple[Kubeconfig, dict[str, Any]]:
    """A kubeconfig: the parts that are typed here, and its whole content. Raises SourceError without quoting it."""
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


def choose(files: list[Path], context: str) -> ChosenContext:
    """Chooses the context called `context`, else the current one; the first file with it counts. Raises SourceError."""
    parts: dict[str, dict[str, KubeconfigEntry]] = {"contexts": {}, "clusters": {}, "users": {}}
    typed: dict[tuple[str, str], Any] = {}
    for file in files:
        content, whole = read_kubeconfig(file)
        context = context or content.current_context or ""
        for kind, found in parts.items():
            for entry, raw in zip(getattr(content, kind) or (), whole.get(kind) or (), strict=True):
                found.setdefault(entry.name, KubeconfigEntry(raw, str(file.expanduser())))
                typed.setdefault((kind, entry.name), entry)
    contexts = ", ".join(parts["contexts"]) or "none"
    if not context:
        raise SourceError(
            Text("error-kube.no-current-context-is-set", names=names_of(files)),
            hint=Text("error-kube.name-one-with-context", contexts=contexts),
        )
    if context not in parts["contexts"]:
        raise SourceError(
            Text("error-kube.no-context", names=names_of(files), context=repr(context)),
            hint=Text("error-kube.contexts-there", contexts=contexts),
        )
    chosen: dict[str, Any] = typed["contexts", context].context
    place = place_of(context, files)
    if cluster := typed.get(("clusters", str(chosen.get("cluster")))):
        _check_addresses(cluster.cluster, place)
    entries = {kind: list(found.values()) for kind, found in parts.items()}
    link = ChosenContext(context, str(chosen.get("namespace") or ""), entries)
    name = str(chosen.get("user"))
    user: User | None = typed["users", name].user if name in parts["users"] else None
    if user is None:
        return link
    node = parts["users"][name]
    if user.exec and "/" in user.exec.command:  # kubectl: relative to the file that names it
        user.exec.command = str(Path(node.path).absolute().parent / user.exec.command)
    if user.exec and user.exec.provide_cluster_info and cluster:
        user.exec.cluster = _told_to_plugin(parts["clusters"][cluster.name], cluster.cluster)
    return link._replace(user=node.content["user"], plugin=user.exec, impersonated=_impersonated(user, place))


def _told_to_plugin(entry: KubeconfigEntry, server: Server) -> dict[str, object]:
    """What an exec plugin is told of the cluster, as client-go does: the certificates, but not which file has them."""
    content = entry.content["cluster"]
    told: dict[str, object] = {key: content[key] for key in _TOLD_TO_PLUGINS if key in content}
    if server.certificate_authority and not told.get(_CERTIFICATES):
        file = Path(entry.path).absolute().parent / server.certificate_authority
        with suppress(OSError):  # which is told when the connection is opened
            told[_CERTIFICATES] = base64.b64encode(file.read_bytes()).decode()
    configs = [each.get("extension") for each in server.extensions or () if each.get("name") == _EXTENSION]
    return told | ({"config": configs[0]} if configs else {})


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
        raise SourceError(Text("error-kube.as-not-one-line", place=place), hint=SHOW)
    return told


def place_of(context: str, files: list[Path]) -> Text:
    return Text("error-kube.context-in", context=repr(context), files=names_of(files))


def names_of(files: list[Path]) -> str:
    return os.pathsep.join(map(str, files))


class ExecStatus(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""


class Credential(msgspec.Struct, rename="camel"):
    """An exec plugin's output (client.authentication.k8s.io)."""

    api_version: str
    status: ExecStatus


async def plugged_in(plugin: ExecPlugin, *, shown: bool) -> dict[str, str]:
    """Runs the exec plugin and returns what it adds to the user. `shown` passes its stderr on. Raises PluginError."""
    asking = sys.stdin.isatty()
    spec = {"interactive": asking, **({"cluster": plugin.cluster} if plugin.cluster else {})}
    info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
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
