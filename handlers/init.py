"""The dialog of `hami-bot init`: its questions, how `doctor`'s checks verify each answer, and the files it writes."""

import asyncio
import json
import os
import shlex
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click
import msgspec
import yaml
from pydantic import SecretStr

from bot.digest.schedule import read_words
from bot.errors import BotError, UsageError, WrongValue, of_system
from bot.kube.client.connect import known_contexts, open_cluster
from bot.settings import USUAL_FILE, variable
from bot.settings.schema import SlackSettings
from bot.settings.values import channel_id, fits_a_header, named_people, never_in_clear
from bot.slack.calls import open_client
from bot.slack.gateway import Gateway
from bot.texts import Language, Prose, Text, Texts
from handlers.cluster_choice import ClusterChoice, usual_language
from handlers.doctor.checks import find_links, of_cluster
from handlers.doctor.links import Link, Workspace, as_text, broken, has_failed
from handlers.manifest import create_link
from handlers.manifest import manifest as make_manifest
from handlers.shell_output import progress, tell
from playbooks.gather.scheduling import gather_install
from playbooks.playbook import Sources
from playbooks.quotes import let_read_logs


class FoundCluster(NamedTuple):
    """A cluster to check, and where HAMi is there (empty: not found). No context: the cluster of the bot's pod."""

    name: str
    context: str = ""
    kubeconfig: Path | None = None
    hami_namespace: str = ""
    scheduler_deployment: str = ""


async def check_bot_token(token: str) -> list[Link]:
    """Links (as in `doctor`) that tell whether Slack takes the bot token, and whether it has every scope needed."""
    try:
        async with _gateway(token) as gateway:
            return await find_links("doctor", Workspace(gateway), "slack-token", "slack-scopes")
    except WrongValue as error:
        return [Link("slack-token", "failed", error.text)]


async def check_app_token(token: str, bot_token: str) -> list[Link]:
    """Links that tell whether Slack opens connections with the app token."""
    try:
        fits_a_header(SecretStr(token))
    except WrongValue as error:
        return [Link("socket-mode", "failed", error.text)]
    async with _gateway(bot_token) as gateway:
        return await find_links("doctor", Workspace(gateway, token), "socket-mode")


async def check_channel(channel: str, bot_token: str) -> list[Link]:
    """Links that tell whether the bot may post in the channel. Nothing is posted."""
    try:
        channel_id(channel)
    except WrongValue as error:
        return [Link("slack-channel", "failed", error.text, Text("init.channel-fix"), channel)]
    async with _gateway(bot_token) as gateway:
        return await find_links("doctor", Workspace(gateway, channels=[channel]), "slack-channel")


async def check_people(ids: str) -> list[Link]:
    """Links that tell whether the text consists of ids of people and groups, separated by commas or spaces."""
    try:
        return [Link("people", "ok", ", ".join(named_people(_ids(ids))))]
    except WrongValue as error:
        return [Link("people", "failed", error.text, Text("init.people-fix"))]


async def check_digest(when: str) -> list[Link]:
    """Links that tell whether the text is a schedule for a digest."""
    schedule = read_words(when.split())
    if isinstance(schedule, Text):
        return [Link("digest", "failed", schedule, Text("init.digest-fix"))]
    return [Link("digest", "ok", str(schedule))]


def _ids(given: str) -> tuple[str, ...]:
    return tuple(given.replace(",", " ").split())


async def check_cluster(wanted: FoundCluster) -> tuple[list[Link], FoundCluster]:
    """Links that tell whether the cluster can be read, and what was found; its name is the context's by default."""
    try:
        async with await open_cluster(
            name=wanted.name, kubeconfig=wanted.kubeconfig, context=wanted.context
        ) as cluster:
            sources = Sources(cluster, ports=cluster)
            links = await of_cluster("doctor", sources)
            install = (await gather_install(sources)).install
            deployment = install.deployment.name if install.deployment else ""
            found = wanted._replace(
                name=cluster.name, hami_namespace=install.namespace, scheduler_deployment=deployment
            )
            return links, found
    except BotError as error:
        name = wanted.name or wanted.context or "in-cluster"
        return [broken("cluster", error, name)], wanted._replace(name=name)


@asynccontextmanager
async def _gateway(bot_token: str) -> AsyncGenerator[Gateway]:
    """Raises WrongValue for what can be no token (the error does not repeat it), and UsageError for a wrong address."""
    given = variable("SLACK__API_URL")
    try:
        api_url = never_in_clear(given).rstrip("/") + "/" if given else SlackSettings.model_fields["api_url"].default
    except WrongValue as error:
        raise UsageError(Text("error.at", place="HAMI_BOT_SLACK__API_URL", why=error.text)) from error
    token = fits_a_header(SecretStr(bot_token)).get_secret_value()
    async with open_client(api_url, token) as (client, session):
        yield Gateway(client, session)


_SETTINGS = "# Settings of hami-bot. They hold its tokens. docs/settings.md lists every key.\n"
_VALUES = "# Values for deploy/chart: helm install -f. They hold no token. deploy/chart/values.yaml lists the others.\n"
_SECRET = "# The Secret that deploy/chart expects. It holds the bot's tokens: delete this file once it is applied.\n"  # noqa: S105
_SECRET_NAME = "hami-bot-slack"  # noqa: S105
"""The name of the Secret, which is the chart's `slack.secretName`."""


class Files(NamedTuple):
    """The paths of the files that `init` writes."""

    settings: Path
    values: Path
    secret: Path

    @classmethod
    def of(cls, folder: Path) -> "Files":
        """The paths of the files in that folder."""
        return cls(folder / USUAL_FILE, folder / "hami-bot-values.yaml", folder / "hami-bot-secret.yaml")

    def existing(self) -> list[Path]:
        """The files that exist already."""
        return [path for path in self if path.exists() or path.is_symlink()]


class Answers(msgspec.Struct, frozen=True):
    """The checked answers of `init`; empty: not wanted. The digest goes to the on-call channel, else to `channel`."""

    bot_token: str
    app_token: str
    cluster: FoundCluster
    channel: str = ""
    oncall: str = ""
    rota: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    digest: str = ""
    language: Language = "en"


def write_files(files: Files, answers: Answers, *, replace: bool) -> None:
    """Writes the files, readable only by their owner. Raises UsageError if one fails, or exists without `replace`."""
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": _SECRET_NAME},
        "stringData": {"bot-token": answers.bot_token, "app-token": answers.app_token},
    }
    cluster, both = answers.cluster, _shared_settings(answers)
    reached = {"kubeconfig": str(cluster.kubeconfig or ""), "context": cluster.context}
    settings = {
        "slack": {"bot_token": answers.bot_token, "app_token": answers.app_token},
        "clusters": {cluster.name: {name: value for name, value in reached.items() if value}},
        **both,
    }
    named = {"namespace": cluster.hami_namespace, "schedulerDeployment": cluster.scheduler_deployment}
    hami = {name: value for name, value in named.items() if value}
    values: dict[str, Any] = {"hami": hami} if hami else {}
    values |= {"changes": {"enabled": True}} if answers.operators else {}
    # In the cluster the bot uses its service account, so that no kubeconfig stands there.
    values["settings"] = {"clusters": {cluster.name: {}}, **both}
    documents = (_SETTINGS, settings), (_VALUES, values), (_SECRET, secret)
    for path, (comment, document) in zip(files, documents, strict=True):
        try:
            text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
            _write(path, comment + text, replace=replace)
        except OSError as error:
            raise UsageError(Text("error-command.could-not-be-written", out=path, why=of_system(error))) from error


def _write(path: Path, text: str, *, replace: bool) -> None:
    """Writes whole or not at all, and never with another mode in between: mkstemp makes files with 0600."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        if replace:
            Path(name).replace(path)
        else:
            path.hardlink_to(name)
    finally:
        Path(name).unlink(missing_ok=True)


def _shared_settings(answers: Answers) -> dict[str, Any]:
    rooms = {room: {"cluster": answers.cluster.name} for room in (answers.oncall, answers.channel) if room}
    if answers.digest:
        next(iter(rooms.values()))["digest"] = answers.digest
    rota = {"rota": list(answers.rota)} if answers.rota else {}
    wanted = {
        "channels": rooms,
        "oncall": {"channel": answers.oncall, **rota} if answers.oncall else {},
        "access": {"operators": list(answers.operators)} if answers.operators else {},
        "language": answers.language if answers.language != "en" else "",
    }
    return {name: value for name, value in wanted.items() if value}


T = TypeVar("T")

Check = Callable[[str], Coroutine[Any, Any, list[Link]]]


class Terminal:
    """Asks the person at the terminal, on stderr: stdout has only the output. `hidden` does not show the input."""

    def hidden(self, question: str) -> str:
        return click.prompt(question, hide_input=True, err=True)

    def line(self, question: str, default: str) -> str:
        return click.prompt(question, default=default, show_default=bool(default), err=True)

    def agrees(self, question: str) -> bool:
        return click.confirm(question, err=True)


class Given(msgspec.Struct, frozen=True):
    """The options that were typed with `init`."""

    bot_token_file: Path | None = None
    app_token_file: Path | None = None
    kubeconfig: Path | None = None
    context: str = ""
    cluster: str = ""
    channel: str = ""
    oncall_channel: str = ""
    rota: str = ""
    operators: str = ""
    digest: str = ""
    out: Path = Path()
    force: bool = False


class CheckFailed(BotError):  # noqa: N818  # what the person is told
    """An answer of `init` failed its check, and nobody can be asked for another."""

    exit_code = 3


class Dialog:
    """The dialog of `init`: the options that were given, and the person who can be asked for the rest."""

    def __init__(self, given: Given, asking: Terminal | None, say: Texts) -> None:
        self._given = given
        self._asking = asking
        self._say = say

    def set_up(self) -> str:
        """Asks for answers that were not given, checks all, writes the files, and returns the next commands as text.
        Without anybody to ask, a missing answer raises UsageError, and a wrong one CheckFailed.
        """
        files = Files.of(self._given.out)
        replace = self._may_replace(files)
        bot_token, app_token = self._tokens()
        cluster, given = self._cluster(), self._given
        check = partial(check_channel, bot_token=bot_token)
        channel = self._optional(given.channel, Text("init.channel"), check)
        oncall = self._optional(given.oncall_channel, Text("init.oncall"), check)
        rota = self._optional(given.rota, Text("init.rota"), check_people) if oncall else ""
        operators = self._optional(given.operators, Text("init.operators"), check_people)
        digest = self._optional(given.digest, Text("init.digest"), check_digest) if oncall or channel else ""
        people = channel, oncall, _ids(rota), _ids(operators)
        answers = Answers(bot_token, app_token, cluster, *people, digest, self._say.language)
        write_files(files, answers, replace=replace)
        return "\n".join(map(self._say.words, _next(files)))

    def _may_replace(self, files: Files) -> bool:
        """Whether existing files may be replaced. Asked first, so that no answer is lost to it."""
        there = ", ".join(map(str, files.existing()))
        if self._given.force or not there:
            return self._given.force
        if self._asking and self._asking.agrees(self._say("init.replace", names=there)):
            return True
        raise UsageError(Text("error-init.already-there", files=there), hint=Text("error-init.force-or-out"))

    def _tokens(self) -> tuple[str, str]:
        given = self._given
        bot = _read(given.bot_token_file) or variable("SLACK__BOT_TOKEN").strip()
        app = _read(given.app_token_file) or variable("SLACK__APP_TOKEN").strip()
        if self._asking and not (bot and app):
            steps = Text("init.app-1"), create_link(), Text("init.app-2"), Text("init.app-3"), Text("init.app-4")
            tell("\n".join(map(self._say.words, steps)) + "\n\n")
        bot = self._token(bot, "bot", Text("init.bot-token"), check_bot_token)
        return bot, self._token(app, "app", Text("init.app-token"), partial(check_app_token, bot_token=bot))

    def _token(self, token: str, kind: str, question: Text, check: Check) -> str:
        while True:
            if not token and self._asking is None:
                hint = Text("error-init.set-token-or-file", variable=kind.upper(), kind=kind)
                raise UsageError(Text("error-init.no-token-was-given", kind=kind), hint=hint)
            if not token and self._asking:
                token = self._asking.hidden(self._say.words(question)).strip()
            if self._passes(self._run(check(token))):
                return token
            token = ""

    def _cluster(self) -> FoundCluster:
        given, context = self._given, self._given.context
        while True:
            context = context or self._context()
            wanted = FoundCluster(given.cluster, context, given.kubeconfig and given.kubeconfig.resolve())
            links, found = self._run(check_cluster(wanted))
            if self._passes(links) or self._insists(context):
                return found
            context = ""

    def _insists(self, context: str) -> bool:
        """Whether the person wants a cluster that failed its check. What no kubeconfig has is not offered."""
        if self._asking is None or (context and context not in known_contexts(self._given.kubeconfig)[0]):
            return False
        return self._asking.agrees(self._say("init.nevertheless"))

    def _context(self) -> str:
        names, current = known_contexts(self._given.kubeconfig)
        if self._asking is None or not names:
            return current
        return self._asking.line(self._say("init.context", names=", ".join(names)), current)

    def _optional(self, given: str, question: Text, check: Check) -> str:
        while True:
            if not given and self._asking:
                given = self._asking.line(self._say.words(question), "").strip()
            if not given or self._passes(self._run(check(given))):
                return given
            given = ""

    def _run(self, check: Coroutine[Any, Any, T]) -> T:
        async def shown() -> T:
            async with progress(self._say, self._say("init.checking")):
                return await check

        return asyncio.run(shown())

    def _passes(self, links: list[Link]) -> bool:
        text = as_text(links, self._say)
        if has_failed(links) and self._asking is None:
            raise CheckFailed(text)
        tell(f"{text}\n")
        return not has_failed(links)


def _next(files: Files) -> list[Prose]:
    settings, values, secret = (shlex.quote(str(path)) for path in files)
    image = "--set image.repository=REGISTRY/hami-bot --set image.tag=1"
    return [
        Text("init.written", settings=files.settings, values=files.values, secret=files.secret),
        "",
        Text("init.here"),
        f"  hami-bot serve{'' if files.settings == USUAL_FILE else f' --config {settings}'}",
        "",
        Text("init.there"),
        "  kubectl create namespace hami-bot",
        f"  kubectl -n hami-bot apply -f {secret}",
        f"  helm -n hami-bot install hami-bot deploy/chart -f {values} {image}",
        "",
        Text("init.logs"),
        f"  {let_read_logs('NAMESPACE')}",
    ]


def _read(path: Path | None) -> str:
    if path is None:
        return ""
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = of_system(error) if isinstance(error, OSError) else Text("error-init.no-text")
        raise UsageError(Text("error-init.token-file-unreadable", path=path, why=why)) from error


def run_init(lang: Language | None, manifest: bool, **given: Any) -> str:  # noqa: FBT001  # an option
    """Runs `init` and returns the text to print. Raises BotError if an answer is missing or wrong."""
    say = Texts(lang or usual_language(ClusterChoice()))
    if manifest:
        tell(f"{say('init.link')}\n{create_link()}\n")
        return json.dumps(make_manifest(), indent=2)
    try:
        return Dialog(Given(**given), Terminal() if sys.stdin.isatty() else None, say).set_up()
    except click.Abort:
        raise KeyboardInterrupt from None
