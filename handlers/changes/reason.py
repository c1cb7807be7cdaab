"""Where a reason ends and the options after it begin: `because x hangs --dry-run` asks for a dry run."""

import unicodedata
from collections.abc import Sequence
from itertools import takewhile

import click

from handlers.parsing.grammar import DASHES

_HYPHENS = str.maketrans(dict.fromkeys(DASHES, "-"))
_END = "?!.,;"


class ReasonedCommand(click.Command):
    """A command whose last words may be `because` and a reason.

    The command's own options are options before `because` and at the end of the text. Other words of the reason are
    text, also when they look like options.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        head = list(takewhile(lambda word: word.lower() != "because", args))
        reason = args[len(head) :]
        known = {name: option for option in self.get_params(ctx) for name in option.opts if name.startswith("-")}
        for at in range(1, len(reason)):
            options = _as_options(reason[at:], known)
            if options is not None:
                return super().parse_args(ctx, [*head, *options, "--", *reason[:at]])
        return super().parse_args(ctx, [*head, "--", *reason] if reason else args)


def _as_options(words: Sequence[str], known: dict[str, click.Parameter]) -> list[str] | None:
    """The words as the options that they are; None if one of them is anything else."""
    options: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        name = _named(name, known)
        if name not in known:
            return None
        if getattr(known[name], "is_flag", False):
            if equals:
                return None
            options.append(name)
        elif equals:
            options.append(f"{name}={value}")
        elif rest and not _plain(rest[0]).startswith("-"):
            options += [name, rest.pop(0)]
        else:
            return None
    return options


def _named(word: str, known: dict[str, click.Parameter]) -> str:
    """The name of the option that the word was meant for, or the word: phones write `—Dry-run.` for `--dry-run`."""
    plain = _plain(word).lower().rstrip(_END)
    long = f"--{plain.lstrip('-')}"
    return long if plain.startswith("-") and long in known else word


def _plain(word: str) -> str:
    return unicodedata.normalize("NFKC", word).translate(_HYPHENS)
