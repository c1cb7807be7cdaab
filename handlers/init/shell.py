"""`hami-bot init`: asks for what the bot needs, checks each answer, and writes the settings."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from bot.texts import LANGUAGES, Texts
from handlers.cluster_choice import ClusterChoice, usual_language
from handlers.shell_output import print_out, tell

VERB = "init"
_FILE = click.Path(path_type=Path, dir_okay=False)


class InitAsked(NamedTuple):
    """The command as typed."""

    options: dict[str, Any]


def init_command(program: str, kubeconfig: Sequence[click.Parameter]) -> click.Command:
    """The command; what it gives is an InitAsked. `kubeconfig`: the options that name a cluster."""
    return click.Command(
        VERB,
        callback=_read,
        help="Set the bot up: ask for the Slack tokens, the cluster and a channel, check each, write the settings and "
        "the Helm chart's values. Without a terminal the options and HAMI_BOT_SLACK__BOT_TOKEN and "
        "HAMI_BOT_SLACK__APP_TOKEN answer.",
        epilog=f"Example: {program} {VERB}",
        params=[
            click.Option(["--bot-token-file"], type=_FILE, metavar="PATH", help="A file with the token xoxb-…"),
            click.Option(["--app-token-file"], type=_FILE, metavar="PATH", help="A file with the token xapp-…"),
            *kubeconfig,
            click.Option(["--cluster"], default="", metavar="NAME", help="Its name in answers; the context's if none."),
            click.Option(["--channel"], default="", metavar="ID", help="A Slack channel of that cluster: C0123ABCD."),
            click.Option(
                ["--out"],
                type=click.Path(path_type=Path, file_okay=False),
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
    )


def _read(**options: Any) -> InitAsked:
    return InitAsked(options)


def run_init(asked: InitAsked) -> int:
    """Does it; the exit code. Raises BotError where an answer is missing or wrong and nobody can be asked."""
    from handlers.init.dialog import Dialog, Given  # noqa: PLC0415  # Slack's and Kubernetes' clients, a second
    from handlers.manifest import create_link, manifest  # noqa: PLC0415  # as above

    options = dict(asked.options)
    say = Texts(options.pop("lang") or usual_language(ClusterChoice()))
    if options.pop("manifest"):
        tell(f"{say('init.link')}\n{create_link()}\n")
        print_out(json.dumps(manifest(), indent=2))
        return 0
    try:
        print_out(Dialog(Given(**options), _Terminal() if sys.stdin.isatty() else None, say).set_up())
    except click.Abort:
        raise KeyboardInterrupt from None
    return 0


class _Terminal:
    """See `handlers.init.dialog.Asking`. Questions stand beside the output."""

    def hidden(self, question: str) -> str:
        return click.prompt(question, hide_input=True, err=True)

    def line(self, question: str, default: str) -> str:
        return click.prompt(question, default=default, show_default=bool(default), err=True)

    def agrees(self, question: str) -> bool:
        return click.confirm(question, err=True)
