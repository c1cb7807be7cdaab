"""The words of the terminal: every verb of `hami-bot`, with its options. `handlers.shell` does what they ask for."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click

from bot.changes.kinds import VERBS
from bot.errors import UsageError
from bot.settings import usual_config
from bot.texts import LANGUAGES, Language, Text, Texts
from handlers.cluster_choice import ClusterChoice
from handlers.doctor.words import doctor_command
from handlers.parsing.click_words import help_of
from handlers.parsing.grammar import Grammar, explain, explain_word, help_command
from playbooks.playbook import ALL

PROGRAM = "hami-bot"
FORMATS = ("text", "json", "slack", "markdown")


class ServeAsked(NamedTuple):
    """The bot in Slack."""

    where: ClusterChoice


class OverdueAsked(NamedTuple):
    """What is overdue is reverted once, there or in every namespace."""

    where: ClusterChoice
    namespace: str


class DemoAsked(NamedTuple):
    """The demo, on that port of 127.0.0.1, in that language."""

    port: int
    lang: Language


class TextAsked(NamedTuple):
    """A text that is printed as it is: a version, or help."""

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
    grammar.add_later(_change_commands, [*VERBS, "revert"], hidden=["undo"])
    grammar.add_later(_operators_commands, ["audit", "doctor", "init", "mcp"])
    grammar.add_command(_overdue_command())
    grammar.add_command(_serve_command())
    grammar.add_command(_demo_command())
    return grammar


# Who asks about a pod waits for the modules of no other verb.


def _change_commands() -> Sequence[click.Command]:
    from handlers.changes.words import change_commands  # noqa: PLC0415

    return change_commands(PROGRAM, _change_options)


def _operators_commands() -> Sequence[click.Command]:
    from handlers.audit_shell import audit_command  # noqa: PLC0415
    from handlers.init.shell import init_command  # noqa: PLC0415
    from handlers.mcp.words import mcp_command  # noqa: PLC0415

    return (
        audit_command(PROGRAM),
        doctor_command(PROGRAM, _options_but("output")),
        init_command(PROGRAM, _options_but("cluster", "recording", "config", "output", "lang")),
        mcp_command(PROGRAM, _options_but("output")),
    )


def _record_commands(program: str) -> Sequence[click.Command]:
    from handlers.record_shell import record_command  # noqa: PLC0415

    return (record_command(program, _options_but("output", "lang", "recording")),)


def _tune_command(program: str) -> click.Command:
    from handlers.tune_shell import tune_command  # noqa: PLC0415

    return tune_command(program, _global_options())


def reading_grammar(program: str) -> Grammar:
    """The verbs that read a cluster. `program`: what a person types before them."""
    grammar = Grammar(
        program,
        lambda: [ALL, *_global_options()],
        help="Why GPU pods are pending on a cluster that runs HAMi: the cause, the proof, the next step.",
        epilog=f"Example: {program} why ml/trainer-0      More about a verb: {program} help VERB",
    )
    grammar.params.append(click.Option(["--version"], is_flag=True, help="Print the version."))
    grammar.callback = _without_verb
    grammar.instead["profile"] = partial(_profile_command, program)
    grammar.instead["tune"] = partial(_tune_command, program)
    grammar.add_later(partial(_record_commands, program), ["record"])
    grammar.add_command(click.Command("version", callback=_version, help="Print the version."))
    grammar.add_command(help_command(_help))
    return grammar


@click.pass_context
def _without_verb(ctx: click.Context, *, version: bool, lang: Language | None, **_: object) -> TextAsked | None:
    if version:
        return _version()
    return TextAsked(help_of(ctx, Texts(lang or "en"))) if ctx.invoked_subcommand is None else None


def _version() -> TextAsked:
    import importlib.metadata  # noqa: PLC0415  # 0.02 s that no question needs

    return TextAsked(f"{PROGRAM} {importlib.metadata.version('hami-bot')}")


@click.pass_context
def _help(ctx: click.Context, verb: str | None, lang: Language | None) -> TextAsked:
    verb = None if verb == "more" else verb
    grammar = ctx.parent.command if ctx.parent else None
    is_command = isinstance(grammar, Grammar) and verb and grammar.get_command(ctx, verb)
    word = explain_word(verb) if verb and not is_command else None
    say = Texts(lang or "en")
    return TextAsked(say.words(word) if word else explain(ctx, verb, say))


def _profile_command(program: str) -> click.Command:
    from handlers.profiles.shell import usage as profile_usage  # noqa: PLC0415  # with what reads profiles

    usage = f"\b\n{profile_usage().replace(chr(10) * 2, f'{chr(10)}{chr(10)}{chr(8)}{chr(10)}')}"
    out = click.Option(
        ["--out"],
        type=click.Path(path_type=Path),
        metavar="FOLDER",
        help="Write the profile there, with its table and flame graph.",
    )
    from handlers.profiles.words import profile_command  # noqa: PLC0415

    return profile_command(program, lambda: [out, *_global_options()], help_text=usage)


def _serve_command() -> click.Command:
    return click.Command(
        "serve",
        callback=_read_serve,
        help="Run the Slack bot until it is told to stop.",
        epilog=f"Example: {PROGRAM} serve      It reads ./hami-bot.yaml where no settings are named.",
        params=_options_but("output", "lang"),
    )


def _read_serve(**options: Any) -> ServeAsked:
    return ServeAsked(with_usual_config(chosen_cluster(options)))


def _overdue_command() -> click.Command:
    return click.Command(
        "revert-overdue",
        callback=_read_overdue,
        help="Revert every overdue temporary change, once: for a CronJob beside the bot.",
        epilog=f"Example: {PROGRAM} revert-overdue -n kube-system",
        hidden=True,
        params=[
            click.Option(["-n", "--namespace"], default="", metavar="NS", help="Only in this namespace; else in all."),
            *_options_but("output", "lang", "recording"),
        ],
    )


def _read_overdue(namespace: str, **options: Any) -> OverdueAsked:
    return OverdueAsked(chosen_cluster(options), namespace)


def _change_options() -> list[click.Parameter]:
    return [
        click.Option(["--yes"], is_flag=True, help="Do it without asking."),
        click.Option(["--no-capture"], is_flag=True, help="Do it without recording first what a restart destroys."),
        *_global_options(),
    ]


def _demo_command() -> click.Command:
    return click.Command(
        "demo",
        callback=DemoAsked,
        help="Try the bot in a browser: no Slack workspace, no cluster, no GPU.",
        epilog=f"Example: {PROGRAM} demo",
        params=[
            click.Option(
                ["--port"], type=int, default=8400, show_default=True, help="On 127.0.0.1; 0 for any free port."
            ),
            click.Option(["--lang"], type=click.Choice(LANGUAGES), default="en", help="Of answers; en by default."),
        ],
    )


def with_usual_config(where: ClusterChoice) -> ClusterChoice:
    """With ./hami-bot.yaml, for what sets the bot up or runs it where no settings are named."""
    return where._replace(config=usual_config(where.config))


def chosen_cluster(options: dict[str, Any]) -> ClusterChoice:
    """What the global options name. Raises UsageError for a recording beside a live cluster."""
    chosen = {name: value for name in ClusterChoice._fields if (value := options.get(name)) is not None}
    live = next((name for name in ("kubeconfig", "context") if name in chosen), None)
    if live and "recording" in chosen:
        raise UsageError(
            Text("error-command.recording-name-two-clusters", live=live), hint=Text("error-command.give-only-one")
        )
    return ClusterChoice(**chosen)
