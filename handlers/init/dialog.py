"""The questions of `hami-bot init`, in order. Each answer is checked by what `doctor` checks it with."""

import asyncio
import shlex
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from bot.errors import BotError, UsageError, of_system
from bot.kube.client.connect import known_contexts
from bot.settings import variable
from bot.texts import Prose, Text, Texts
from handlers.doctor.links import Link, as_text, has_failed
from handlers.init.checks import FoundCluster, check_app_token, check_bot_token, check_channel, check_cluster
from handlers.init.files import Answers, Files, write_files
from handlers.manifest import create_link
from handlers.shell_output import progress, tell

T = TypeVar("T")

Check = Callable[[str], Coroutine[Any, Any, list[Link]]]


class Asking(Protocol):
    """Whoever sits at the terminal. What `hidden` gives was not shown while it was typed."""

    def hidden(self, question: str) -> str: ...
    def line(self, question: str, default: str) -> str: ...
    def agrees(self, question: str) -> bool: ...


class Given(NamedTuple):
    """What was typed with the command."""

    bot_token_file: Path | None = None
    app_token_file: Path | None = None
    kubeconfig: Path | None = None
    context: str = ""
    cluster: str = ""
    channel: str = ""
    out: Path = Path()
    force: bool = False


class CheckFailed(BotError):  # noqa: N818  # what the person is told
    """An answer is wrong, and nobody can be asked for another."""

    exit_code = 3


class Dialog:
    """What was given, and who can be asked for the rest."""

    def __init__(self, given: Given, asking: Asking | None, say: Texts) -> None:
        self._given = given
        self._asking = asking
        self._say = say

    def set_up(self) -> str:
        """Asks what was not given, writes the files, and gives the next commands.

        Without anybody to ask, what is missing raises UsageError, and what fails its check CheckFailed. Nothing is
        written before every answer is checked.
        """
        files = Files.of(self._given.out)
        replace = self._may_replace(files)
        bot_token, app_token = self._tokens()
        cluster = self._cluster()
        channel = self._channel(bot_token)
        write_files(files, Answers(bot_token, app_token, cluster, channel, self._say.language), replace=replace)
        return "\n".join(map(self._say.words, _next(files)))

    def _may_replace(self, files: Files) -> bool:
        """Whether files that are there may be replaced. Asked first, so that no answer is lost to it."""
        there = ", ".join(map(str, files.there()))
        if self._given.force or not there:
            return self._given.force
        if self._asking and self._asking.agrees(self._say("init.replace", names=there)):
            return True
        raise UsageError(Text("error-init.already-there", files=there), hint=Text("error-init.force-or-out"))

    def _tokens(self) -> tuple[str, str]:
        """The bot token and the app-level token, as Slack takes them."""
        given = self._given
        bot = _read(given.bot_token_file) or variable("SLACK__BOT_TOKEN")
        app = _read(given.app_token_file) or variable("SLACK__APP_TOKEN")
        if self._asking and not (bot and app):
            tell("\n".join(map(self._say.words, _how_to_make_the_app())) + "\n\n")
        bot = self._token(bot, "bot", Text("init.bot-token"), check_bot_token)
        return bot, self._token(app, "app", Text("init.app-token"), partial(check_app_token, bot_token=bot))

    def _token(self, token: str, kind: str, question: Text, check: Check) -> str:
        while True:
            token = (token or self._hidden(kind, question)).strip()
            if self._passes(self._run(check(token))):
                return token
            token = ""

    def _hidden(self, kind: str, question: Text) -> str:
        if self._asking is None:
            hint = Text("error-init.set-token-or-file", variable=kind.upper(), kind=kind)
            raise UsageError(Text("error-init.no-token-was-given", kind=kind), hint=hint)
        return self._asking.hidden(self._say.words(question))

    def _cluster(self) -> FoundCluster:
        """The cluster; one that fails its check only if the person wants it nevertheless."""
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
        """Empty where there is no kubeconfig, or nobody to choose: then it is its current one."""
        names, current = known_contexts(self._given.kubeconfig)
        if self._asking is None or not names:
            return current
        return self._asking.line(self._say("init.context", names=", ".join(names)), current)

    def _channel(self, bot_token: str) -> str:
        """A channel that the bot may post to, or none."""
        channel = self._given.channel
        while True:
            if not channel and self._asking:
                channel = self._asking.line(self._say("init.channel"), "").strip()
            if not channel or self._passes(self._run(check_channel(channel, bot_token))):
                return channel
            channel = ""

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


def _how_to_make_the_app() -> list[Prose]:
    return [Text("init.app-1"), create_link(), Text("init.app-2"), Text("init.app-3"), Text("init.app-4")]


def _next(files: Files) -> list[Prose]:
    """What was written, and what to type next, here or for the cluster."""
    settings, values, secret = (shlex.quote(str(path)) for path in files)
    image = "--set image.repository=REGISTRY/hami-bot --set image.tag=1"
    return [
        Text("init.written", settings=files.settings, values=files.values, secret=files.secret),
        "",
        Text("init.here"),
        f"  hami-bot serve --config {settings}",
        "",
        Text("init.there"),
        "  kubectl create namespace hami-bot",
        f"  kubectl -n hami-bot apply -f {secret}",
        f"  helm -n hami-bot install hami-bot deploy/chart -f {values} {image}",
    ]


def _read(path: Path | None) -> str:
    if path is None:
        return ""
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = of_system(error) if isinstance(error, OSError) else Text("error-init.no-text")
        raise UsageError(Text("error-init.token-file-unreadable", path=path, why=why)) from error
