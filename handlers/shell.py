"""The terminal: `hami-bot VERB …` reads the words, asks the playbook, prints the report.

Exit codes: 0 a report was produced, whatever it says; 2 the command was wrong; 3 a source could not be read; 4 not
allowed; 5 a change was not made, or failed, or the audit log is broken; 1 a bug.
"""

import asyncio
import gc
import sys
from collections.abc import Callable, Coroutine, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bot.errors import BotError, UsageError, bugs_as_errors
from bot.report import Report, in_words
from bot.texts import LANGUAGES, Language, Text, Texts
from handlers.cluster_choice import (
    ClusterChoice,
    open_in_the_store,
    open_sources,
    open_writing,
    playbooks_folder,
    usual_language,
)
from handlers.cluster_choice import language as language_of
from handlers.parsing.grammar import CommandAsked, ParsedQuestion, read
from handlers.shell_commands import (
    CompareAsked,
    compare_recordings,
    read_pod,
    run_audit,
    write_capture,
    write_recording,
)
from handlers.shell_grammar import PROGRAM, build_grammar, chosen_cluster, reading_grammar, with_usual_config
from handlers.shell_output import agrees, asked_there, of_recording, print_out, progress, render, tell
from playbooks.own import discovery as own

if TYPE_CHECKING:
    from handlers.changes.shell import ShellTools
    from handlers.changes.words import ChangeAsked
    from handlers.profiles.words import ProfileAsked

_INTERRUPTED = 130


class Processes(NamedTuple):
    """The long-running processes that a command starts: the bot in Slack, and the demo on a port."""

    serve: Callable[[ClusterChoice], Coroutine[Any, Any, None]]
    demo: Callable[[int, Language], Coroutine[Any, Any, None]]


def main(processes: Processes, words: Sequence[str], program: str = PROGRAM) -> int:
    """Carries out the words and returns the exit code. Reports go to stdout, everything else to stderr. `program` is
    what was typed before the words; any other name than `hami-bot` has only the verbs that read.
    """
    own.use(lambda: playbooks_folder(_settings_of(words)))
    try:
        with bugs_as_errors():
            grammar = build_grammar() if program == PROGRAM else reading_grammar(program)
            grammar.usual = lambda: _language(words)
            try:
                return _run(processes, read(grammar, words))
            except BrokenPipeError:  # whoever read our output has seen enough; outside it would be a bug
                sys.stderr.close()
                return 0
    except BotError as error:
        tell(f"{program}: {_told(error, words)}\n")
        return error.exit_code
    except (KeyboardInterrupt, asyncio.CancelledError):
        return _INTERRUPTED


def _language(words: Sequence[str]) -> Language:
    """The language that the words name, else the settings: either may be what is wrong."""
    given = [*words, *map("=".join, pairwise(words))]
    asked: list[Language] = [language for language in LANGUAGES if f"--lang={language}" in given]
    return asked[0] if asked else usual_language(_settings_of(words))


def _told(error: BotError, words: Sequence[str]) -> str:
    if (language := _language(words)) == "en":
        return str(error)
    from bot.slack.render.prose import in_words as error_in_words  # noqa: PLC0415  # an answer in English needs none of it

    return "\n".join(filter(None, error_in_words(error, Texts(language))))


def _settings_of(words: Sequence[str]) -> ClusterChoice:
    """The settings file that the words name, where nobody has read them yet."""
    given = [*words, *map("=".join, pairwise(words))]
    config = [word.removeprefix("--config=") for word in given if word.startswith("--config=")]
    return ClusterChoice(config=Path(config[0]) if config else None)


def _run(processes: Processes, asked: Any) -> int:
    match asked:
        case str():
            print_out(asked)
        case ParsedQuestion():
            screen = _Screen(asked.options)
            screen.show(asyncio.run(screen.answer(asked)))
        case CommandAsked("serve", options):
            asyncio.run(processes.serve(with_usual_config(chosen_cluster(options))))
        case CommandAsked("demo", options):
            asyncio.run(processes.demo(options["port"], options["lang"]))
        case CommandAsked(verb, options):
            return _COMMANDS[verb](options)
        case _ if run := _OTHERS.get(type(asked).__name__):
            return run(asked)
        case _:
            pass
    return 0


class _Screen:
    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options
        self._output = options.get("output") or "text"
        self.where = chosen_cluster(options)
        self.say = Texts(options.get("lang") or language_of(self.where))

    async def answer(self, asked: ParsedQuestion) -> Report:
        """The playbook's report on the question, with texts in words only where the playbook chose them itself."""
        playbook = asked.playbook
        async with progress(self.say), open_sources(self.where) as sources:
            snapshot = await playbook.gather(asked.request, sources)
        return playbook.tell(snapshot, self.say) if playbook.tell else playbook.diagnose(snapshot)

    def show(self, report: Report, options: dict[str, Any] | None = None) -> None:
        """Prints the report: commands name the cluster as the question did; for a recording, none changes a cluster."""
        options = self._options if options is None else options
        if options.get("recording") and self._output != "json":
            report = of_recording(report, self.say)
        if self._output in ("text", "markdown"):
            given = {name: [f"--{name}", str(options[name])] for name in ClusterChoice._fields if options.get(name)}
            kubectl = [word for name in ("kubeconfig", "context") for word in given.get(name, ())]
            report = asked_there(report, kubectl, [word for words in given.values() for word in words])
        whole = bool(options.get("all", True))  # what has no such option of its own is shown whole
        print_out(render(in_words(report, self.say), self._output, self.say, whole=whole))


def _printed(answer: Coroutine[Any, Any, tuple[str, int]]) -> int:
    text, code = asyncio.run(answer)
    print_out(text)
    return code


def _tools(screen: _Screen) -> "ShellTools":
    from handlers.changes.shell import ShellTools  # noqa: PLC0415  # aiohttp, as in `cluster_choice`

    where, say = screen.where, screen.say
    return ShellTools(
        open_sources=lambda: open_sources(where),
        open_writer=lambda: open_writing(where),
        copies=lambda: open_in_the_store(where),
        capture=write_capture,
        ask=agrees,
        tell=tell,
        say=say,
    )


def _change(asked: "ChangeAsked") -> int:
    from handlers.changes.shell import run_change  # noqa: PLC0415  # as above

    screen, options = _Screen(asked.options), asked.options
    report, code = run_change(_tools(screen), asked.request, yes=options["yes"], no_capture=options["no_capture"])
    screen.show(report)
    return code


def _overdue(options: dict[str, Any]) -> int:
    from handlers.changes.shell import revert_overdue  # noqa: PLC0415  # as above

    return _printed(revert_overdue(_tools(_Screen(options)), options["namespace"]))


def _compare(asked: CompareAsked) -> int:
    screen = _Screen(asked.options)
    report = asyncio.run(compare_recordings(asked, screen.where))
    screen.show(report, asked.options | {"recording": asked.after})
    return 0


def _doctor(options: dict[str, Any]) -> int:
    from handlers.doctor.checks import run_doctor  # noqa: PLC0415  # Slack's client and the store, a second

    where = with_usual_config(chosen_cluster(options))
    return _printed(run_doctor(options["wait"], options["output"], where, options["lang"]))


def _init(options: dict[str, Any]) -> int:
    from handlers.init import run_init  # noqa: PLC0415  # as above

    print_out(run_init(**options))
    return 0


def _mcp(options: dict[str, Any]) -> int:
    try:
        from handlers.mcp_server import Tools, offered_playbooks, serve  # noqa: PLC0415  # the SDK, a second
    except ModuleNotFoundError as error:
        raise UsageError(Text("error-command.needs-mcp"), hint=Text("error-command.install-mcp")) from error
    screen = _Screen(options)
    verbs = dict.fromkeys(verb.strip() for verb in str(options["tools"]).split(",") if verb.strip())
    gc.enable()
    asyncio.run(serve(Tools(screen.where, offered_playbooks(tuple(verbs)), screen.say)))
    return 0


def _profile(asked: "ProfileAsked") -> int:
    from handlers.profiles.words import Study  # noqa: PLC0415
    from playbooks.profile.request import Request  # noqa: PLC0415

    where = chosen_cluster(asked.options)
    if isinstance(asked.request, Study):
        from handlers.profiles.shell import main as run_profile  # noqa: PLC0415  # what reads profiles, as below

        study, *rest = asked.request.words
        language = [f"-lang={lang}"] if (lang := asked.options["lang"]) else []
        return run_profile([study, *language, *rest], where.config)
    screen = _Screen(asked.options)
    say = screen.say
    if isinstance(asked.request, Request):
        from handlers.profiles.capture_shell import take  # noqa: PLC0415  # 0.1 s: protobuf, Pillow

        taking = take(lambda: open_sources(where), asked.request, say, out=asked.options["out"], config=where.config)
        report, written = asyncio.run(taking)
        screen.show(report)
        lines = [say("profile.wrote", path=str(path)) for path in written]
        lines += [say("profile.wrote-all")] if written and not asked.options["out"] else []
        tell("".join(f"{line}\n" for line in lines))
        return 0
    from handlers.profiles.kept import kept_beside_the_bot  # noqa: PLC0415

    screen.show(asyncio.run(kept_beside_the_bot(where.config)), {})
    return 0


def _record(options: dict[str, Any]) -> int:
    screen, pod = _Screen(options), read_pod(options["pod"])

    async def written() -> str:
        async with progress(screen.say), open_sources(screen.where) as sources:
            return await write_recording(sources, options["out"], pod)

    print_out(asyncio.run(written()))
    return 0


_COMMANDS: dict[str, Callable[[dict[str, Any]], int]] = {
    "audit": lambda options: _printed(run_audit(**options)),
    "doctor": _doctor,
    "init": _init,
    "mcp": _mcp,
    "record": _record,
    "revert-overdue": _overdue,
}
_OTHERS: dict[str, Callable[[Any], int]] = {
    "ChangeAsked": _change,
    "CompareAsked": _compare,
    "ProfileAsked": _profile,
}
"""The function for each type of request, by the type's name, so that modules of other requests are not imported."""
