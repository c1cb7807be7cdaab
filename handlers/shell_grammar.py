"""The words of the terminal: every verb of `hami-bot`, with its options. `handlers.shell` carries them out."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from bot.changes.kinds import VERBS
from bot.errors import UsageError
from bot.settings import usual_config
from bot.texts import LANGUAGES, Language, Text, Texts
from handlers.cluster_choice import ClusterChoice
from handlers.parsing.grammar import DOCTOR, DOCTOR_SUMMARY, Grammar, explain, explain_word, help_command, plain_command
from handlers.shell_commands import tune_command
from playbooks.playbook import ALL

PROGRAM = "hami-bot"
_SETTINGS = "A settings file (else HAMI_BOT_CONFIG)"
FORMATS = ("text", "json", "slack", "markdown")


def _global_options() -> list[click.Parameter]:
    path = click.Path(path_type=Path)
    return [
        click.Option(["--cluster"], metavar="NAME", help="A cluster of the settings."),
        click.Option(["--kubeconfig"], type=path, metavar="PATH", help="Instead of KUBECONFIG or ~/.kube/config."),
        click.Option(["--context"], metavar="NAME", help="A context of the kubeconfig."),
        click.Option(
            ["--recording"], type=path, metavar="PATH", help="Read a recording (folder or .tar.gz), no cluster."
        ),
        click.Option(["--config"], type=path, metavar="PATH", help=f"{_SETTINGS}."),
        click.Option(["-o", "--output"], type=click.Choice(FORMATS), help="How to print the report; text by default."),
        click.Option(["--lang"], type=click.Choice(LANGUAGES), help="The language of the prose; en by default."),
    ]


def _options_but(*names: str) -> list[click.Parameter]:
    return [option for option in _global_options() if option.name not in names]


def build_grammar() -> Grammar:
    """The grammar with all verbs of the terminal."""
    grammar = reading_grammar(PROGRAM)
    grammar.add_later(_change_commands, [*VERBS, "revert"], hidden=["undo"])
    grammar.add_later(_operators_commands, ["audit", "demo", DOCTOR, "init", "mcp", "serve"], hidden=["revert-overdue"])
    return grammar


# Who asks about a pod waits for no other verb.


def _change_commands() -> Sequence[click.Command]:
    from handlers.changes.words import change_commands  # noqa: PLC0415

    def options() -> list[click.Parameter]:
        return [
            click.Option(["--yes"], is_flag=True, help="Do it without asking."),
            click.Option(["--no-capture"], is_flag=True, help="Do it without recording first what a restart destroys."),
            *_global_options(),
        ]

    return change_commands(PROGRAM, options)


def _operators_commands() -> Sequence[click.Command]:
    path, text_or_json = click.Path(path_type=Path), click.Choice(("text", "json"))
    file, folder = click.Path(path_type=Path, dir_okay=False), click.Path(path_type=Path, file_okay=False)
    output = click.Option(["-o", "--output"], type=text_or_json, default="text", show_default=True)

    def named(option: str, metavar: str, help_text: str, default: str = "") -> click.Option:
        return click.Option([option], default=default, metavar=metavar, help=help_text)

    return (
        plain_command(
            "audit",
            [
                click.Option(["--limit"], type=click.IntRange(min=1), default=20, show_default=True, metavar="N"),
                click.Option(["--verify"], is_flag=True, help="Check every entry; exit code 5 for a broken log."),
                named(
                    "--last-hash",
                    "HASH",
                    "With --verify: the last hash that you kept, which has to be there.",
                ),
                output,
                click.Option(["--config"], type=path, metavar="PATH", help=f"{_SETTINGS}: it names the store."),
            ],
            "Who asked for which change, and its outcome: the most recent entries, oldest first.",
            f"{PROGRAM} audit --limit 50",
        ),
        plain_command(
            "demo",
            [
                click.Option(
                    ["--port"], type=int, default=8400, show_default=True, help="On 127.0.0.1; 0 for any free port."
                ),
                click.Option(["--lang"], type=click.Choice(LANGUAGES), default="en", help="Of answers; en by default."),
            ],
            "Try the bot in a browser: no Slack workspace, no cluster, no GPU.",
            f"{PROGRAM} demo",
        ),
        plain_command(
            DOCTOR,
            [named("--wait", "TIME", "Try again for this long until nothing fails."), output, *_options_but("output")],
            DOCTOR_SUMMARY,
            f"{PROGRAM} {DOCTOR} --wait 2m",
        ),
        plain_command(
            "init",
            [
                click.Option(["--bot-token-file"], type=file, metavar="PATH", help="A file with the token xoxb-…"),
                click.Option(["--app-token-file"], type=file, metavar="PATH", help="A file with the token xapp-…"),
                *_options_but("cluster", "recording", "config", "output", "lang"),
                named("--cluster", "NAME", "Its name in answers; the context's if none."),
                named("--channel", "ID", "A Slack channel of that cluster: C0123ABCD."),
                named("--oncall-channel", "ID", "Where triage threads are opened."),
                named("--rota", "IDS", "Who is called there, in this order: U…,U…."),
                named("--operators", "IDS", "Who may make temporary changes: U… and S…."),
                named("--digest", "WHEN", 'Such as "weekdays 09:00 Europe/Berlin".'),
                click.Option(
                    ["--out"],
                    type=folder,
                    default=Path(),
                    metavar="FOLDER",
                    help="Write the files there; by default here.",
                ),
                click.Option(["--force"], is_flag=True, help="Replace existing files without asking."),
                click.Option(["--manifest"], is_flag=True, help="Print the Slack app's manifest, and do nothing else."),
                click.Option(
                    ["--lang"],
                    type=click.Choice(LANGUAGES),
                    help="The language of the questions, and of the bot's answers later.",
                ),
            ],
            "Set the bot up: ask for the Slack tokens, the cluster, channels, people and a digest, check each, write "
            "the settings and the Helm chart's values. Without a terminal the options and HAMI_BOT_SLACK__BOT_TOKEN "
            "and HAMI_BOT_SLACK__APP_TOKEN answer.",
            f"{PROGRAM} init",
        ),
        plain_command(
            "mcp",
            [named("--tools", "VERB,…", "Offer only these verbs, at most eight."), *_options_but("output")],
            "Serve the reading verbs as tools of the Model Context Protocol, on standard input and output.",
            f"{PROGRAM} mcp --cluster prod",
        ),
        plain_command(
            "revert-overdue",
            [
                click.Option(
                    ["-n", "--namespace"], default="", metavar="NS", help="Only in this namespace; else in all."
                ),
                *_options_but("output", "lang", "recording"),
            ],
            "Revert every overdue temporary change, once: for a CronJob beside the bot.",
            f"{PROGRAM} revert-overdue -n kube-system",
            hidden=True,
        ),
        plain_command(
            "serve",
            _options_but("output", "lang"),
            "Run the Slack bot until it is told to stop.",
            f"{PROGRAM} serve      It reads ./hami-bot.yaml where no settings are named.",
        ),
    )


def _record_command(program: str) -> click.Command:
    out = click.Option(
        ["-o", "--out"],
        type=click.Path(path_type=Path),
        required=True,
        metavar="PATH",
        help="A folder or NAME.tar.gz.",
    )
    pod = click.Option(["--pod"], default="", metavar="NS/NAME", help="Keep only the log lines that name this pod.")
    about = "Write a redacted recording of the cluster, which --recording replays offline."
    options = [out, pod, *_options_but("output", "lang", "recording")]
    return plain_command("record", options, about, f"{program} record -o case.tar.gz --pod ml/trainer-0")


def reading_grammar(program: str) -> Grammar:
    """The grammar of the verbs that only read a cluster. `program` is what a person types before them."""
    grammar = Grammar(
        program,
        lambda: [ALL, *_global_options()],
        help="Why GPU pods are pending on a cluster that runs HAMi: the cause, the proof, the next step.",
        epilog=f"Example: {program} why ml/trainer-0      More about a verb: {program} help VERB",
    )
    grammar.params.append(click.Option(["--version"], is_flag=True, help="Print the version."))
    grammar.callback = _without_verb
    grammar.instead["profile"] = lambda: _profile_command(program, grammar.usual())
    grammar.instead["tune"] = lambda: tune_command(program, _global_options())
    grammar.add_command(_record_command(program))
    grammar.add_command(click.Command("version", callback=_version, help="Print the version."))
    grammar.add_command(help_command(_help))
    return grammar


def _without_verb(*, version: bool, **_: object) -> str | None:
    return _version() if version else None


def _version() -> str:
    import importlib.metadata  # noqa: PLC0415  # 0.02 s that no question needs

    return f"{PROGRAM} {importlib.metadata.version('hami-bot')}"


@click.pass_context
def _help(ctx: click.Context, verb: str | None, say: Texts) -> str:
    verb = None if verb == "more" else verb
    grammar = ctx.parent.command if ctx.parent else None
    is_command = isinstance(grammar, Grammar) and verb and grammar.get_command(ctx, verb)
    word = explain_word(verb) if verb and not is_command else None
    return say.words(word) if word else explain(ctx, verb, say)


def _profile_command(program: str, language: Language) -> click.Command:
    from handlers.profiles.shell import usage as profile_usage  # noqa: PLC0415  # with what reads profiles

    usage = f"\b\n{profile_usage(language).replace(chr(10) * 2, f'{chr(10)}{chr(10)}{chr(8)}{chr(10)}')}"
    out = click.Option(
        ["--out"],
        type=click.Path(path_type=Path),
        metavar="FOLDER",
        help="Write the profile there, with its table and flame graph.",
    )
    from handlers.profiles.words import profile_command  # noqa: PLC0415

    return profile_command(program, lambda: [out, *_global_options()], help_text=usage)


def with_usual_config(where: ClusterChoice) -> ClusterChoice:
    """The choice with ./hami-bot.yaml if it names no settings, for commands that set up or run the bot."""
    return where._replace(config=usual_config(where.config))


def chosen_cluster(options: dict[str, Any]) -> ClusterChoice:
    """The cluster that the global options name. Raises UsageError for a recording beside a live cluster."""
    chosen = {name: value for name in ClusterChoice._fields if (value := options.get(name)) is not None}
    live = next((name for name in ("kubeconfig", "context") if name in chosen), None)
    if live and "recording" in chosen:
        raise UsageError(
            Text("error-command.recording-name-two-clusters", live=live), hint=Text("error-command.give-only-one")
        )
    return ClusterChoice(**chosen)
