"""Reads the words that ask for a temporary change, in Slack and a shell alike: `verbosity 5 for 10m because …`."""

import re
import shlex
import unicodedata
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

import click

from bot.changes.deadline import USUAL_S
from bot.changes.kinds import VERBS, ChangeKind, kind_of
from bot.changes.plan import Raise
from bot.errors import UsageError, not_understood
from bot.kube.hami_pods import EXTENDER_CONTAINER, KUBE_SCHEDULER_CONTAINER
from bot.kube.times import format_duration, read_duration
from bot.texts import Text
from handlers.parsing.grammar import DASHES

_CONTAINERS = {"extender": EXTENDER_CONTAINER, "kube-scheduler": KUBE_SCHEDULER_CONTAINER}
_UNITS = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), "m"),
    **dict.fromkeys(("h", "hour", "hours"), "h"),
}
_UNTIL = "until-captured"
_KEYWORDS = ("for", "because", _UNTIL)
HOW_TO_REVERT = ("revert", "undo")
"""Verbs that revert a change. Without an id they only show which change is open."""
REVERT_SUMMARY = "Revert the temporary change with that id; alone, show which one is open and what reverts it."
IS_ID = re.compile(r"[0-9a-f]{12}")
"""The pattern of a change's id."""
_WORDS = frozenset({*_KEYWORDS, "extend", "revert", "on", "off"})


class Show(NamedTuple):
    """A request for present values and the open change; without a verb, for the open change and how to revert it."""

    verb: str = ""


class Extend(NamedTuple):
    """A request to add `seconds` to the open change's deadline."""

    verb: str
    seconds: float


class Revert(NamedTuple):
    """A request to revert now the open change of that verb, or the one with that id."""

    verb: str
    change_id: str = ""


Request = Show | Raise | Extend | Revert


class ChangeAsked(NamedTuple):
    """A request about changes as typed, with the values of the options that only Slack or only the shell has."""

    request: Request
    options: dict[str, Any]


def change_commands(program: str, options: Callable[[], Sequence[click.Parameter]]) -> list[click.Command]:
    """The click commands of the changing verbs; examples begin with `program`, each command adds `options()`."""

    def command(verb: str) -> click.Command:
        def ask(words: Sequence[str], *, dry_run: bool, **values: Any) -> ChangeAsked:
            options = {"container": values.pop("container", None) or "", "until": values.pop("until_captured", "")}
            return ChangeAsked(read_change(program, verb, words, dry_run=dry_run, **options), values)

        kind = VERBS[verb][0]
        own: list[click.Parameter] = [click.Argument(["words"], nargs=-1, metavar="[WORDS]…")]
        if len(kind.containers) > 1:
            shorts = click.Choice([_short(container) for container in kind.containers])
            help_text = f"Whose {kind.flag.shown}; {_short(kind.containers[0])}'s by default."
            own.append(click.Option(["--container"], type=shorts, help=help_text))
        if kind.is_log_level:
            help_text = "End it once the pod's lines are captured."
            own.append(click.Option([f"--{_UNTIL}"], default="", metavar="NAMESPACE/POD", help=help_text))
        help_text = "Write nothing; show the patches and their effects."
        own.append(click.Option(["--dry-run"], is_flag=True, help=help_text))
        until = f" [{_UNTIL} NAMESPACE/POD]" if kind.is_log_level else ""
        usage = f"{verb} [{_shown(verb)} [for {format_duration(USUAL_S)}]{until} [because TEXT]], {kind.reverting}"
        rest = f"{verb} extend 10m (added to its deadline). Without words: what is set now and what is open."
        return ReasonedCommand(
            verb,
            callback=ask,
            params=[*own, *options()],
            help=f"{kind.summary}\n\n{usage}, {rest}",
            short_help=kind.summary,
            epilog=f"Example: {program} {kind.example}",
        )

    def to_revert(word: str) -> click.Command:
        def ask(words: Sequence[str], **values: Any) -> ChangeAsked:
            is_one = len(words) == 1 and IS_ID.fullmatch(words[0]) is not None
            return ChangeAsked(Revert(HOW_TO_REVERT[0], words[0]) if is_one else Show(), values)

        return click.Command(
            word,
            callback=ask,
            params=[click.Argument(["words"], nargs=-1, metavar="[ID]", type=click.UNPROCESSED), *options()],
            help=REVERT_SUMMARY,
            epilog=f"Example: {program} {word}",
            hidden=word != HOW_TO_REVERT[0],
            context_settings={"ignore_unknown_options": True},
        )

    return [*map(command, VERBS), *map(to_revert, HOW_TO_REVERT)]


def read_change(
    program: str, verb: str, words: Sequence[str], *, dry_run: bool = False, container: str = "", until: str = ""
) -> Request:
    """Reads the request from the words after the verb. Raises UsageError, whose hint is an example."""
    try:
        request = _read(verb, _normal(words), dry_run=dry_run, container=container, until=until)
    except UsageError as error:
        raise UsageError(error.message, example=f"{program} {error.example or VERBS[verb][0].example}") from error
    if (dry_run or container or until) and not isinstance(request, Raise):
        # Nobody who says --dry-run means a revert that is done.
        example = f"{program} {VERBS[verb][0].example}"
        raise UsageError(Text("error-change.dry-run-container-until-captured"), example=example)
    return request


def words_of(request: Raise) -> str:
    """The words that ask for the change again, without a dry run."""
    words = [*request.verb.split(), *(kind_of(flag).asked_as(value) for flag, value in request.values)]
    words += ["for", format_duration(request.seconds)]
    words += ["until-captured", request.until_captured] if request.until_captured else []
    other = request.container != request.kind.containers[0]
    words += ["--container", _short(request.container)] if other else []
    return shlex.join([*words, *(["because", *request.because.split()] if request.because else [])])


def _short(container: str) -> str:
    return next((short for short, name in _CONTAINERS.items() if name == container), container)


def _read(verb: str, words: list[str], *, dry_run: bool, container: str, until: str) -> Request:
    match words:
        case []:
            return Show(verb)
        case ["revert" | "off"]:
            return Revert(verb)
        case ["extend", duration]:
            return Extend(verb, _duration(duration))
        case ["extend", *_]:
            raise UsageError(Text("error-change.extend-needs-one-duration"), example=f"{verb} extend 10m")
        case _:
            pass
    values, rest = _values(verb, words)
    kind = VERBS[verb][0]
    clauses = _clauses(kind, rest)
    pod = until or clauses.get("until-captured", "")
    if pod and not re.fullmatch(r"[^/\s]+/[^/\s]+", pod):
        text = Text("error-change.not-namespace-pod", pod=repr(pod))
        raise UsageError(text, example=f"{verb} {words[0]} until-captured ml/trainer-0")
    seconds = _duration(clauses["for"]) if "for" in clauses else float(USUAL_S)
    name = _CONTAINERS[container] if container else kind.containers[0]
    return Raise(values, name, seconds, clauses.get("because", ""), pod, dry_run)


def _values(verb: str, words: list[str]) -> tuple[tuple[tuple[str, str], ...], list[str]]:
    kinds = {kind.name: kind for kind in VERBS[verb]}
    if len(kinds) == 1:
        ((name, kind),) = kinds.items()
        if (value := kind.values.read(words[0])) is None:
            raise _no_deed(verb, words[0])
        return ((name, value),), words[1:]
    found: dict[str, str] = {}
    for at, word in enumerate(words):
        name, is_set, given = word.rstrip(",").partition("=")
        if found and not is_set:
            return tuple(found.items()), words[at:]
        if name.lower() not in kinds or (value := kinds[name.lower()].values.read(given)) is None:
            raise _no_deed(verb, word)
        if name.lower() in found:
            raise UsageError(Text("error-change.stands-there-twice", keyword=repr(name)))
        found[name.lower()] = value
    return tuple(found.items()), []


def _clauses(kind: ChangeKind, words: list[str]) -> dict[str, str]:
    clauses: dict[str, str] = {}
    while words:
        keyword, *words = words
        if keyword not in (known := [known for known in _KEYWORDS if known != _UNTIL or kind.is_log_level]):
            if read_duration(keyword) is not None:
                raise UsageError(Text("error-change.did-you-mean-for", word=repr(keyword), time=keyword))
            raise UsageError(not_understood(keyword, known))
        if keyword in clauses:
            raise UsageError(Text("error-change.stands-there-twice", keyword=repr(keyword)))
        if not words:
            raise UsageError(Text("error-change.nothing-follows", keyword=repr(keyword)))
        if keyword == "because":
            clauses[keyword], words = " ".join(words), []
        else:
            clauses[keyword], *words = words
    return clauses


def _normal(words: Sequence[str]) -> list[str]:
    """The words of the grammar in lower case, and `for 10 minutes` as `for 10m`; a reason stays as it is."""
    read: list[str] = []
    for at, word in enumerate(words):
        low = word.lower()
        if low == "because":
            return [*read, low, *words[at + 1 :]]
        if low in _UNITS and read[-2:-1] in (["for"], ["extend"]) and read[-1].isascii() and read[-1].isdigit():
            read[-1] += _UNITS[low]
        else:
            read.append(low if low in _WORDS else word)
    return read


def _duration(text: str) -> float:
    seconds = read_duration(text)
    if seconds is None:
        raise UsageError(Text("error-change.no-duration", text=repr(text)))
    return seconds


def _no_deed(verb: str, word: str) -> UsageError:
    """Tells all that the verb does, and an example that changes nothing: a misspelt word is not guessed."""
    kind = VERBS[verb][0]
    text = Text(
        "error-change.not-understood-takes",
        word=repr(word),
        verb=verb,
        shown=_shown(verb),
        usual=format_duration(USUAL_S),
        revert=kind.values.revert,
    )
    return UsageError(text, example=verb)


def _shown(verb: str) -> str:
    kinds = VERBS[verb]
    return kinds[0].values.shown if len(kinds) == 1 else " ".join(f"{kind.name}={kind.values.shown}" for kind in kinds)


_HYPHENS = str.maketrans(dict.fromkeys(DASHES, "-"))
_END = "?!.,;"


class ReasonedCommand(click.Command):
    """A command whose last words may be `because` and a reason. The command's own options count before `because` and at
    the end of the text; other words of the reason are text, also when they look like options.
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
    options: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        plain = _plain(name).lower().rstrip(_END)  # phones write `—Dry-run.` for `--dry-run`
        if plain.startswith("-") and (long := f"--{plain.lstrip('-')}") in known:
            name = long
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


def _plain(word: str) -> str:
    return unicodedata.normalize("NFKC", word).translate(_HYPHENS)
