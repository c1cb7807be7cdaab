"""The terminal: `hami-bot VERB …`. Reads the words, asks the playbook, prints the report.

Exit codes: 0 a report was produced, whatever it says; 2 the command was wrong; 3 a source could not be read; 1 a bug.
"""

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click

from bot.errors import BotError, UsageError
from bot.report import Report
from bot.texts import LANGUAGES, Language, Texts
from handlers.grammar import Asked, Grammar, read
from playbooks._playbook import Sources

PROGRAM = "hami-bot"
FORMATS = ("text", "json", "markdown")
_PATIENCE_S = 1.0
_INTERRUPTED = 130
_BUG = 1
_REPORT_BUG = "Please report it with the command and, if you can, a recording (hami-bot record)."

T = TypeVar("T")


class Where(NamedTuple):
    """Which cluster is meant, as typed."""

    cluster: str = ""
    kubeconfig: Path | None = None
    context: str = ""
    recording: Path | None = None
    config: Path | None = None


class Wiring(NamedTuple):
    """What the composition root lends to the shell."""

    open_sources: Callable[[Where], AbstractAsyncContextManager[Sources]]
    language: Callable[[Where], Language]
    record: Callable[[Sources, Path, tuple[str, str] | None], Awaitable[str]]


class _Record(NamedTuple):
    out: Path
    pod: tuple[str, str] | None
    options: dict[str, Any]


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


def build_grammar() -> Grammar:
    """All verbs of the terminal."""
    grammar = Grammar(
        PROGRAM,
        _global_options,
        help="Why GPU pods are pending on a cluster that runs HAMi: the cause, the proof, the next step.",
        epilog=f"Example: {PROGRAM} why ml/trainer-0      More about a verb: {PROGRAM} help VERB",
    )
    grammar.callback = _without_verb
    grammar.add_command(_record_command())
    grammar.add_command(click.Command("version", callback=_version, help="Print the version."))
    grammar.add_command(
        click.Command(
            "help",
            callback=_help,
            params=[click.Argument(["verb"], required=False)],
            help="Explain a verb, or list them.",
        )
    )
    return grammar


@click.pass_context
def _without_verb(ctx: click.Context, **_: object) -> _Say | None:
    return _Say(ctx.get_help()) if ctx.invoked_subcommand is None else None


def _version() -> _Say:
    return _Say(f"{PROGRAM} {version('hami-bot')}")


@click.pass_context
def _help(ctx: click.Context, verb: str | None) -> _Say:
    parent = ctx.parent
    grammar = parent.command if parent else None
    if parent is None or not isinstance(grammar, Grammar) or verb is None:
        return _Say(parent.get_help() if parent else "")
    name, command, _ = grammar.resolve_command(parent, [verb])
    return _Say(click.Context(command, info_name=name, parent=parent).get_help() if command else "")


def _record_command() -> click.Command:
    options = [one for one in _global_options() if one.name not in ("output", "lang", "recording")]
    return click.Command(
        "record",
        callback=_read_record,
        help="Write a redacted recording of the cluster, which --recording replays offline.",
        epilog=f"Example: {PROGRAM} record -o case.tar.gz --pod ml/trainer-0",
        params=[
            click.Option(
                ["-o", "--out"],
                type=click.Path(path_type=Path),
                required=True,
                metavar="PATH",
                help="A folder or NAME.tar.gz.",
            ),
            click.Option(["--pod"], metavar="NS/NAME", help="Keep only the log lines that name this pod."),
            *options,
        ],
    )


def _read_record(out: Path, pod: str | None, **options: Any) -> _Record:
    namespace, _, name = (pod or "").partition("/")
    if pod and not (namespace and name):
        raise UsageError(f"--pod {pod!r} is not NAMESPACE/NAME", hint="For example: --pod ml/trainer-0")
    return _Record(out, (namespace, name) if pod else None, options)


# ---------------------------------------------------------------------------------------------------- running


def main(wiring: Wiring, words: Sequence[str]) -> int:
    """Do what the words ask; the exit code. Reports go to stdout, everything else to stderr."""
    try:
        return _run(wiring, words)
    except BotError as error:
        _tell(f"{PROGRAM}: {error}\n")
        return error.exit_code
    except (KeyboardInterrupt, asyncio.CancelledError):
        return _INTERRUPTED
    except BrokenPipeError:  # whoever read our output has seen enough
        sys.stderr.close()
        return 0
    except Exception as error:  # noqa: BLE001  # the one catch-all: a bug is told, never shown as a traceback
        _tell(f"{PROGRAM}: a bug: {_where_it_broke(error)}\n{_REPORT_BUG}\n")
        return _BUG


def _tell(text: str) -> None:
    """To the person, beside the report."""
    sys.stderr.write(text)
    sys.stderr.flush()


def _where_it_broke(error: Exception) -> str:
    trace = error.__traceback__
    while trace and trace.tb_next:
        trace = trace.tb_next
    place = f" ({Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno})" if trace else ""
    return f"{type(error).__name__}: {error}{place}"


def _run(wiring: Wiring, words: Sequence[str]) -> int:
    asked = read(build_grammar(), _options_last(words))
    if isinstance(asked, _Say):
        _print(asked.text)
    elif isinstance(asked, Asked):
        where = _where(asked.options)
        say = Texts(asked.options["lang"] or wiring.language(where))
        report = asyncio.run(_answer(wiring, where, asked, say))
        _print(_render(report, asked.options["output"] or "text", say))
    elif isinstance(asked, _Record):
        _print(asyncio.run(_write_recording(wiring, asked)))
    return 0


def _options_last(words: Sequence[str]) -> list[str]:
    """The options before the verb moved behind it, where the verb's own parser reads them."""
    words = list(words)
    flags = {flag for option in _global_options() for flag in option.opts if option.param_type_name == "option"}
    moved: list[str] = []
    while words and words[0].split("=")[0] in flags:
        taken = 1 if "=" in words[0] or len(words) == 1 else 2
        moved, words = moved + words[:taken], words[taken:]
    return [*words[:1], *moved, *words[1:]] if words else moved


def _where(options: dict[str, Any]) -> Where:
    chosen = {name: options.get(name) for name in Where._fields}
    return Where(**{name: value for name, value in chosen.items() if value is not None})


async def _answer(wiring: Wiring, where: Where, asked: Asked, say: Texts) -> Report:
    async with _progress(), wiring.open_sources(where) as sources:
        snapshot = await asked.playbook.gather(asked.request, sources)
    return asked.playbook.diagnose(snapshot, say)


async def _write_recording(wiring: Wiring, asked: _Record) -> str:
    async with _progress(), wiring.open_sources(_where(asked.options)) as sources:
        return await wiring.record(sources, asked.out, asked.pod)


@asynccontextmanager
async def _progress() -> AsyncGenerator[None]:
    """A line on stderr for whatever takes longer than a second; it counts on a terminal and goes away at the end."""
    task = asyncio.create_task(_count())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _count() -> None:
    terminal = sys.stderr.isatty()
    seconds = 0
    try:
        while True:
            await asyncio.sleep(_PATIENCE_S)
            seconds += 1
            if terminal:
                _tell(f"\rreading the cluster … {seconds} s")
            elif seconds == 1:
                _tell("reading the cluster …\n")
    finally:
        if terminal and seconds:
            _tell("\r\033[K")


def _render(report: Report, output: str, say: Texts) -> str:
    """Renderers are imported when used: `rich` alone takes 0.1 s."""
    if output == "json":
        from bot.render.as_json import as_json  # noqa: PLC0415

        return as_json(report)
    if output == "markdown":
        from bot.render.markdown import markdown  # noqa: PLC0415

        return markdown(report, say)
    from bot.render.terminal import terminal  # noqa: PLC0415

    return terminal(report, say, width=_width(), colour=sys.stdout.isatty())


def _width() -> int:
    return max(40, click.formatting.FORCED_WIDTH or (_terminal_columns() if sys.stdout.isatty() else 80))


def _terminal_columns() -> int:
    import shutil  # noqa: PLC0415

    return min(shutil.get_terminal_size().columns, 120)


def _print(text: str) -> None:
    """UTF-8 whatever the locale: the same report is the same bytes everywhere."""
    sys.stdout.flush()
    sys.stdout.buffer.write((text if text.endswith("\n") else text + "\n").encode("utf-8", "backslashreplace"))
    sys.stdout.buffer.flush()
