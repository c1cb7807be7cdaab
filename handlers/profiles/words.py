"""Reads words about profiles, in Slack and a shell alike: `profile cpu 30s`, `profile top cpu-1a2b3c4d`."""

import difflib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import click

from bot.errors import UsageError
from bot.texts import Text
from playbooks.own.discovery import find
from playbooks.profile.request import EXAMPLE, KINDS, Request, request

VERB = "profile"
STUDIES = ("top", "list", "compare", "hints")
"""The questions about existing profiles, with the options of go tool pprof."""
_KEPT = "kept"
_GRAMMAR = (
    "profile cpu [30s] | heap | allocs | goroutine | goroutineleak [--target NAMESPACE/POD:PORT]: "
    "take one. With a time, kinds other than cpu tell what changes meanwhile. profile kept: list those that are kept. "
    "profile top | list FUNCTION | compare | hints: about profiles that are there already, each by its id, the time "
    "or the version that it was taken at, with the options of go tool pprof."
)


class ShowKept(NamedTuple):
    """A request to list the kept profiles."""


class Study(NamedTuple):
    """A question about existing profiles; `words` begin with one of `STUDIES`."""

    words: tuple[str, ...]


class ProfileAsked(NamedTuple):
    """A request about profiles as typed, with the values of the options that only Slack or only the shell has."""

    request: Request | ShowKept | Study
    options: dict[str, Any]


class _Command(click.Command):
    """Leaves the words of a study alone: their options are Go's, with one dash and long names."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words = (*STUDIES, *KINDS, _KEPT)
        first = next((place for place, word in enumerate(args) if word.lower() in words), len(args))
        args = [word.lower() if place == first else word for place, word in enumerate(args)]
        start = next((place for place, word in enumerate(args) if word in STUDIES), None)
        if start is None:
            return super().parse_args(ctx, args)
        study = tuple(args[start:])
        rest = super().parse_args(ctx, args[:start])
        if ctx.params["words"]:
            raise UsageError(
                Text("error-profile.comes-first", study=repr(study[0])), example=f"{VERB} {study[0]} cpu-1a2b3c4d"
            )
        ctx.params["words"] = study
        return rest


def profile_command(
    program: str, options: Callable[[], Sequence[click.Parameter]], *, help_text: str = ""
) -> click.Command:
    """The verb `profile` of the playbook, with the questions about existing profiles. `program` precedes it in
    examples, `options` makes the options that only Slack or only the shell has.
    """
    playbook = find(VERB)

    def ask(words: Sequence[str], target: str, **values: Any) -> ProfileAsked:
        return ProfileAsked(read_profile(words, target), values)

    return _Command(
        VERB,
        callback=ask,
        params=[*playbook.parameters, *options()],
        help="\n\n".join(filter(None, (playbook.summary, _GRAMMAR, help_text))),
        short_help=playbook.summary,
        epilog=f"Example: {program} {playbook.example}",
    )


def read_profile(words: Sequence[str], target: str = "") -> Request | ShowKept | Study:
    """Reads the request from the words after the verb. Raises UsageError with an example."""
    match list(words):
        case []:
            text = Text(
                "error-profile.name-kind-profile-kept", kinds=", ".join(KINDS), others=f"{_KEPT}, {', '.join(STUDIES)}"
            )
            raise UsageError(text, example=EXAMPLE)
        case ["kept"]:
            return ShowKept()
        case [study, *_] if study in STUDIES:
            return Study(tuple(words))
        case [word, *_] if word not in KINDS:
            near = difflib.get_close_matches(word, [*KINDS, *STUDIES, _KEPT], n=1)
            if near:
                text = Text("error-profile.no-profile-did-you-mean", word=repr(word), near=repr(near[0]))
            else:
                text = Text("error-profile.no-profile-there-are", word=repr(word), kinds=", ".join(KINDS))
            raise UsageError(text, example=EXAMPLE)
        case _:
            return request(words, target)
