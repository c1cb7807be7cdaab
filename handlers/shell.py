"""The terminal: `hami-bot VERB …`. Reads the words, asks the playbook, prints the report.

Exit codes: 0 a report was produced, whatever it says; 2 the command was wrong; 3 a source could not be read; 4 not
allowed; 5 a change was not made, or failed, or the audit log is broken; 1 a bug.
"""

import asyncio
import gc
import sys
from collections.abc import Callable, Coroutine, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click

from bot.errors import BotError, UsageError
from bot.report import Report
from bot.slack.render.prose import in_words
from bot.texts import LANGUAGES, Language, Texts
from bot.unexpected_errors import bugs_as_errors
from handlers.audit_shell import AuditAsked, audit_command, run_audit
from handlers.changes.words import ChangeAsked, change_commands
from handlers.cluster_choice import ClusterChoice, open_sources, open_writing, playbooks_folder
from handlers.cluster_choice import language as language_of
from handlers.doctor.shell import DoctorAsked, doctor_command, run_doctor
from handlers.init.shell import InitAsked, init_command, run_init
from handlers.mcp.words import McpAsked, mcp_command
from handlers.parsing.grammar import Grammar, ParsedQuestion, explain, explain_code, read
from handlers.profiles.kept_report import kept_beside_the_bot
from handlers.profiles.shell import USAGE as PROFILE_USAGE
from handlers.profiles.shell import main as run_profile
from handlers.profiles.words import VERB as PROFILE
from handlers.profiles.words import ProfileAsked, Study, profile_command
from handlers.record_shell import RecordAsked, record_command, write_capture, write_recording
from handlers.shell_output import agrees, asked_there, of_recording, print_out, progress, render, tell
from handlers.tune_shell import VERB as TUNE
from handlers.tune_shell import CompareAsked, compare_recordings, tune_command
from playbooks.own import discovery as own
from playbooks.profile.request import Request

PROGRAM = "hami-bot"
FORMATS = ("text", "json", "slack", "markdown")
_INTERRUPTED = 130

T = TypeVar("T")


class Processes(NamedTuple):
    """What a command starts that stays: the bot in Slack, and the demo on a port."""

    serve: Callable[[ClusterChoice], Coroutine[Any, Any, None]]
    demo: Callable[[int], Coroutine[Any, Any, None]]


class _Serve(NamedTuple):
    where: ClusterChoice


class _Overdue(NamedTuple):
    where: ClusterChoice
    namespace: str


class _Demo(NamedTuple):
    port: int


class _Say(NamedTuple):
    text: str


def _global_options() -> list[click.Parameter]:
    path = click.Path(path_type=Path)
    return [
        click.Option(["--cluster"], metavar="NAME", help="A cluster of the settings."),
        click.Option(["--kubeconfig"], type=path, metavar="PATH", help="Instead of KUBECONFIG or ~/.kube/config."),
        click.Option(["--context"], metavar="NAME", help="A context of the kubeconfig."),
        click.Option(
            ["--recording"], type=path, metavar="PATH", help="Read a recording (folder or .tar.gz), no cluster."
        ),
        click.Option(["--config"], type=path, metavar="PATH", help="A settings file (else HAMI_BOT_CONFIG)."),
        click.Option(["-o", "--output"], type=click.Choice(FORMATS), help="How to print the report; text by default."),
        click.Option(["--lang"], type=click.Choice(LANGUAGES), help="The language of the prose; en by default."),
    ]


def _options_but(*names: str) -> list[click.Parameter]:
    return [option for option in _global_options() if option.name not in names]


def build_grammar() -> Grammar:
    """All verbs of the terminal."""
    grammar = reading_grammar(PROGRAM)
    for command in change_commands(PROGRAM, _change_options):
        grammar.add_command(command)
    grammar.add_command(_overdue_command())
    grammar.add_command(audit_command(PROGRAM))
    grammar.add_command(doctor_command(PROGRAM, _options_but("output")))
    grammar.add_command(init_command(PROGRAM, _options_but("cluster", "recording", "config", "output", "lang")))
    grammar.add_command(_serve_command())
    grammar.add_command(mcp_command(PROGRAM, _options_but("output")))
    grammar.add_command(_demo_command())
    return grammar


def reading_grammar(program: str) -> Grammar:
    """The verbs that read a cluster. `program`: what a person types before them."""
    grammar = Grammar(
        program,
        _global_options,
        help="Why GPU pods are pending on a cluster that runs HAMi: the cause, the proof, the next step.",
        epilog=f"Example: {program} why ml/trainer-0      More about a verb: {program} help VERB",
    )
    grammar.params.append(click.Option(["--version"], is_flag=True, help="Print the version."))
    grammar.callback = _without_verb
    grammar.instead[PROFILE] = lambda: _profile_command(program)
    grammar.instead[TUNE] = lambda: tune_command(program, _global_options())
    grammar.add_command(record_command(program, _options_but("output", "lang", "recording")))
    grammar.add_command(click.Command("version", callback=_version, help="Print the version."))
    grammar.add_command(
        click.Command(
            "help",
            callback=_help,
            params=[
                click.Argument(["verb"], required=False, metavar="[VERB|CODE]"),
                click.Option(["--lang"], type=click.Choice(LANGUAGES), help="The language of a code's explanation."),
            ],
            help="Explain a verb or a finding code, or list the verbs.",
        )
    )
    return grammar


@click.pass_context
def _without_verb(ctx: click.Context, *, version: bool, **_: object) -> _Say | None:
    if version:
        return _version()
    return _Say(ctx.get_help()) if ctx.invoked_subcommand is None else None


def _version() -> _Say:
    import importlib.metadata  # noqa: PLC0415  # 0.02 s that no question needs

    return _Say(f"{PROGRAM} {importlib.metadata.version('hami-bot')}")


@click.pass_context
def _help(ctx: click.Context, verb: str | None, lang: Language | None) -> _Say:
    return _Say((verb and explain_code(verb, Texts(lang or "en"))) or explain(ctx, verb))


def _profile_command(program: str) -> click.Command:
    usage = f"\b\n{PROFILE_USAGE.replace(chr(10) * 2, f'{chr(10)}{chr(10)}{chr(8)}{chr(10)}')}"
    out = click.Option(
        ["--out"],
        type=click.Path(path_type=Path),
        metavar="FOLDER",
        help="Write the profile there, with its table and flame graph.",
    )
    return profile_command(program, lambda: [out, *_global_options()], help_text=usage)


def _serve_command() -> click.Command:
    return click.Command(
        "serve",
        callback=_read_serve,
        help="Run the Slack bot until it is told to stop.",
        epilog=f"Example: {PROGRAM} serve --config hami-bot.yaml",
        params=_options_but("output", "lang"),
    )


def _read_serve(**options: Any) -> _Serve:
    return _Serve(_where(options))


def _overdue_command() -> click.Command:
    return click.Command(
        "revert-overdue",
        callback=_read_overdue,
        help="Undo every temporary change whose time is over, once: for a CronJob beside the bot.",
        epilog=f"Example: {PROGRAM} revert-overdue -n kube-system",
        params=[
            click.Option(["-n", "--namespace"], default="", metavar="NS", help="Only there; else everywhere."),
            *_options_but("output", "lang", "recording"),
        ],
    )


def _read_overdue(namespace: str, **options: Any) -> _Overdue:
    return _Overdue(_where(options), namespace)


def _change_options() -> list[click.Parameter]:
    return [
        click.Option(["--yes"], is_flag=True, help="Do it without a question."),
        click.Option(["--no-capture"], is_flag=True, help="Do it without recording first what a restart destroys."),
        *_global_options(),
    ]


def _demo_command() -> click.Command:
    return click.Command(
        "demo",
        callback=_Demo,
        help="Try the bot in a browser: no Slack workspace, no cluster, no GPU.",
        epilog=f"Example: {PROGRAM} demo",
        params=[click.Option(["--port"], type=int, default=8400, show_default=True, help="On 127.0.0.1; 0 for any.")],
    )


# ---------------------------------------------------------------------------------------------------- running


def main(processes: Processes, words: Sequence[str], program: str = PROGRAM) -> int:
    """Do what the words ask; the exit code. Reports go to stdout, everything else to stderr.

    `program`: what was typed before the words. Anything else than `hami-bot` only reads.
    """
    try:
        with bugs_as_errors():
            return _until_nobody_reads(processes, words, program)
    except BotError as error:
        tell(f"{program}: {_told(error, words)}\n")
        return error.exit_code
    except (KeyboardInterrupt, asyncio.CancelledError):
        return _INTERRUPTED


def _told(error: BotError, words: Sequence[str]) -> str:
    """In the language that the words name, else the settings: either may be what is wrong."""
    given = [*words, *map("=".join, pairwise(words))]
    asked: list[Language] = [language for language in LANGUAGES if f"--lang={language}" in given]
    language = asked[0] if asked else _usual_language(_settings_of(words))
    return str(error) if language == "en" else "\n".join(filter(None, in_words(error, Texts(language))))


def _settings_of(words: Sequence[str]) -> ClusterChoice:
    """The settings file that the words name, where nobody has read them yet."""
    given = [*words, *map("=".join, pairwise(words))]
    config = [word.removeprefix("--config=") for word in given if word.startswith("--config=")]
    return ClusterChoice(config=Path(config[0]) if config else None)


def _usual_language(where: ClusterChoice) -> Language:
    try:
        return language_of(where)
    except BotError:
        return "en"


def _until_nobody_reads(processes: Processes, words: Sequence[str], program: str) -> int:
    own.use(lambda: playbooks_folder(_settings_of(words)))
    grammar = build_grammar() if program == PROGRAM else reading_grammar(program)
    try:
        return _run(processes, read(grammar, words))
    except BrokenPipeError:  # whoever read our output has seen enough
        sys.stderr.close()
        return 0


def _run(processes: Processes, asked: Any) -> int:
    if isinstance(asked, _Say):
        print_out(asked.text)
    elif isinstance(asked, ParsedQuestion):
        where = _where(asked.options)
        say = Texts(asked.options["lang"] or language_of(where))
        report = asyncio.run(_answer(where, asked, say))
        output = asked.options["output"] or "text"
        print_out(render(_as_shown(report, asked.options, output, say), output, say))
    elif isinstance(asked, CompareAsked):
        _compare(asked)
    elif isinstance(asked, ChangeAsked | _Overdue):
        return _change(asked)
    elif isinstance(asked, AuditAsked):
        text, code = asyncio.run(run_audit(asked))
        print_out(text)
        return code
    elif isinstance(asked, DoctorAsked):
        return _doctor(asked)
    elif isinstance(asked, InitAsked):
        return run_init(asked)
    elif isinstance(asked, ProfileAsked):
        return _profile(asked)
    elif isinstance(asked, RecordAsked):
        print_out(asyncio.run(_write_recording(asked)))
    elif isinstance(asked, _Serve):
        asyncio.run(processes.serve(asked.where))
    elif isinstance(asked, McpAsked):
        _mcp(asked)
    elif isinstance(asked, _Demo):
        asyncio.run(processes.demo(asked.port))
    return 0


def _compare(asked: CompareAsked) -> None:
    where = _where(asked.options)
    say = Texts(asked.options["lang"] or language_of(where))
    output = asked.options["output"] or "text"
    report = asyncio.run(compare_recordings(asked, where, say))
    options = asked.options | {"recording": asked.after}
    print_out(render(_as_shown(report, options, output, say), output, say))


def _change(asked: ChangeAsked | _Overdue) -> int:
    from handlers.changes.shell import Consent, Tools, revert_overdue, run_change  # noqa: PLC0415  # aiohttp, as in `where`

    where = asked.where if isinstance(asked, _Overdue) else _where(asked.options)
    language = None if isinstance(asked, _Overdue) else asked.options["lang"]
    say = Texts(language or language_of(where))

    def shown(report: Report) -> str:
        return render(report, "text", say)

    tools = Tools(
        open_sources=lambda: open_sources(where),
        open_writer=lambda: open_writing(where),
        capture=write_capture,
        ask=agrees,
        tell=tell,
        show=shown,
        say=say,
    )
    if isinstance(asked, _Overdue):
        text, code = asyncio.run(revert_overdue(tools, asked.namespace))
        print_out(text)
        return code
    consent = Consent(yes=asked.options["yes"], no_capture=asked.options["no_capture"])
    report, code = run_change(tools, asked.request, consent)
    output = asked.options["output"] or "text"
    print_out(render(_as_shown(report, asked.options, output, say), output, say))
    return code


def _doctor(asked: DoctorAsked) -> int:
    where = _where(asked.options)
    text, code = asyncio.run(run_doctor(asked, where, asked.options["lang"]))
    print_out(text)
    return code


def _mcp(asked: McpAsked) -> None:
    try:
        from handlers.mcp.server import serve  # noqa: PLC0415  # the SDK, a second
    except ModuleNotFoundError as error:
        raise UsageError(
            "the MCP server needs the extra mcp",
            hint="Install it: pip install '.[mcp]' in a checkout, else pip install 'PATH/OF/THE.whl[mcp]'",
        ) from error
    where = _where(asked.options)
    gc.enable()
    asyncio.run(serve(where, asked.verbs, Texts(asked.options["lang"] or language_of(where))))


def _profile(asked: ProfileAsked) -> int:
    where = _where(asked.options)
    if isinstance(asked.request, Study):
        study, *rest = asked.request.words
        language = [f"-lang={lang}"] if (lang := asked.options["lang"]) else []
        return run_profile([study, *language, *rest], where.config)
    say = Texts(asked.options["lang"] or language_of(where))
    output = asked.options["output"] or "text"
    if isinstance(asked.request, Request):
        from handlers.profiles.capture_shell import take  # noqa: PLC0415  # 0.1 s: protobuf, Pillow

        taking = take(lambda: open_sources(where), asked.request, say, out=asked.options["out"], config=where.config)
        report, written = asyncio.run(taking)
        print_out(render(_as_shown(report, asked.options, output, say), output, say))
        lines = [say("profile.wrote", path=str(path)) for path in written]
        lines += [say("profile.wrote-all")] if written and not asked.options["out"] else []
        tell("".join(f"{line}\n" for line in lines))
        return 0
    print_out(render(asyncio.run(kept_beside_the_bot(where.config, say)), output, say))
    return 0


def _where(options: dict[str, Any]) -> ClusterChoice:
    chosen = {name: options.get(name) for name in ClusterChoice._fields}
    return ClusterChoice(**{name: value for name, value in chosen.items() if value is not None})


def _as_shown(report: Report, options: dict[str, Any], output: str, say: Texts) -> Report:
    """For a person: what changes a cluster only where one was asked, in text commands that name it as this one did."""
    if options.get("recording") and output != "json":
        report = of_recording(report, say)
    return _asked_there(report, options) if output == "text" else report


def _asked_there(report: Report, options: dict[str, Any]) -> Report:
    given = {name: str(options[name]) for name in ClusterChoice._fields if options.get(name)}
    words = {name: (f"--{name}", value) for name, value in given.items()}
    kubectl = [word for name in ("kubeconfig", "context") for word in words.get(name, ())]
    ours = [word for pair in words.values() for word in pair]
    return asked_there(report, kubectl, ours)


async def _answer(where: ClusterChoice, asked: ParsedQuestion, say: Texts) -> Report:
    async with progress(), open_sources(where) as sources:
        snapshot = await asked.playbook.gather(asked.request, sources)
    return asked.playbook.diagnose(snapshot, say)


async def _write_recording(asked: RecordAsked) -> str:
    async with progress(), open_sources(_where(asked.options)) as sources:
        return await write_recording(sources, asked.out, asked.pod)
