"""The words of Slack: which texts are commands, and the grammar of the shell without what reads the bot's own files."""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from importlib.resources import files
from itertools import pairwise, takewhile
from typing import Any, Literal, NamedTuple

import click

from bot.changes.kinds import VERBS
from bot.errors import UsageError
from bot.texts import LANGUAGES, Language, Text, Texts
from handlers.changes.words import HOW_TO_REVERT, IS_ID, REVERT_SUMMARY, ChangeAsked, change_commands
from handlers.oncall import words as oncall
from handlers.parsing.click_words import in_words, sentences_in
from handlers.parsing.grammar import (
    DOCTOR,
    DOCTOR_SUMMARY,
    CommandAsked,
    Grammar,
    ParsedQuestion,
    example_of,
    explain,
    explain_word,
    from_kubectl,
    help_command,
    nearest,
    plain_command,
    read,
)
from handlers.profiles.words import VERB as PROFILE
from handlers.profiles.words import ProfileAsked, profile_command
from playbooks.fit.gpu_words import model_in
from playbooks.fit.manifest import ManifestFile
from playbooks.gather.subject import parse_subject
from playbooks.own import discovery
from playbooks.own.discovery import find, verbs
from playbooks.playbook import load

Kind = Literal["pod", "node", "namespace"]
COMMAND = "/hami"
WATCH, UNWATCH = "watch", "unwatch"
BOT = "hami-bot"
"""The bot's name in the workspace, as the manifest gives it."""
_WATCHES = "Tell me once when that pod runs, fails or waits for another cause; unwatch ends that."
_OF_SLACK = {
    **{verb: (kinds[0].example, kinds[0].summary) for verb, kinds in VERBS.items()},
    HOW_TO_REVERT[0]: (HOW_TO_REVERT[0], REVERT_SUMMARY),
    **{verb: (oncall.EXAMPLES[verb], summary) for verb, summary in oncall.SUMMARIES.items()},
    "digest": (oncall.DIGEST_EXAMPLE, oncall.DIGEST_SUMMARY),
    DOCTOR: (DOCTOR, f"{DOCTOR_SUMMARY} For operators."),
    WATCH: (f"{WATCH} ml/trainer-0", _WATCHES),
}
"""An example and a summary of the verbs that are no playbooks, and of `digest`, which does more here."""
_MORE = "more"
FIRST = {
    "why ml/trainer-0": Text("start.why"),
    "pending": Text("start.pending"),
    "gpus": Text("start.gpus"),
    "nodes gpu-node-07": Text("start.nodes"),
    "fit 2x16Gi": Text("start.fit"),
    "status": Text("start.status"),
    f"help {_MORE}": Text("start.more"),
}
"""The questions that help shows first."""
SUBJECT_OF: Mapping[str, Kind] = {
    "why": "pod",
    "logs": "pod",
    "watch": "pod",
    "unwatch": "pod",
    "nodes": "node",
    "gpus": "node",
    "quota": "namespace",
    "pending": "namespace",
}
"""The kind of object that a verb may be about: a pod, a node or a namespace."""
_LANGUAGE = re.compile(r"--lang[=\s]+(\w+)")
_CHINESE = re.compile(r"[\u4e00-\u9fff]")
_READING = ("help", "fit", "digest", "watch", "unwatch")
_HELP_FLAGS = ("--help", "-h", "?", "--version")


class Named(NamedTuple):
    """The names in a message, as a command has them, and its other words in lower case."""

    pods: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    namespace: str = ""
    type: str = ""
    rest: str = ""

    def of(self, kind: Kind) -> str:
        match kind:
            case "pod":
                return self.pods[0] if len(self.pods) == 1 else ""
            case "node":
                return self.nodes[0] if len(self.nodes) == 1 else ""
            case "namespace":
                return self.namespace or (self.pods[0].partition("/")[0] if "/" in "".join(self.pods[:1]) else "")


class Help(NamedTuple):
    """The help text that was asked for."""

    text: str


class ManifestWanted(NamedTuple):
    """A `fit` typed in Slack without GPUs: the bot opens a form into which the manifest is pasted."""

    namespace: str
    options: dict[str, Any]


class WatchAsked(NamedTuple):
    """A request to begin or end a watch, as typed: which pod, if any."""

    verb: str
    pod: str
    options: dict[str, Any]


def understand(
    words: Sequence[str],
) -> ParsedQuestion | ChangeAsked | CommandAsked | Help | ManifestWanted | ProfileAsked | WatchAsked:
    """Reads the request from the words. Raises UsageError, whose hint ends with an example."""
    asked = takewhile(lambda word: word != "because", words)  # a reason is free text
    if flag := next((word for word in asked if word in _HELP_FLAGS), None):
        words = ["help", *(word for word in words if word != flag and (word in verbs() or word in _OF_SLACK))][:2]
    try:
        return read(build_grammar(), list(words) or ["help"])
    except UsageError as error:
        raise _plain(error, error.example or example(words)) from error


def example(words: Sequence[str]) -> str:
    """A question that works, for the verb that was probably meant."""
    verb = words[0] if words else ""
    if verb not in (known := (*verbs(), *_OF_SLACK)):
        verb = next(iter(nearest(verb, known)), "why")
    return f"{COMMAND} {_OF_SLACK[verb][0] if verb in _OF_SLACK else example_of(verb)}"


def with_program(words: str, program: str) -> str:
    """Words that a person may type, with `program` (`/hami`, `@hami-bot` or "") before them if they ask something."""
    bare = words.removeprefix(f"{COMMAND} ")
    is_question = bare != words or build_grammar().has(bare.partition(" ")[0])
    return f"{program} {bare}".strip() if is_question else words


@cache
def build_grammar() -> Grammar:
    """The grammar of all that may be typed after `/hami`, built once."""
    grammar = Grammar(COMMAND, _options, help="Ask about pods that wait for GPUs.", context_settings=_NO_HELP_FLAG)
    grammar.add_command(help_command(_help))
    grammar.add_command(_fit_command())
    for command in change_commands(COMMAND, _options):
        grammar.add_command(command)
    grammar.instead[PROFILE] = partial(profile_command, COMMAND, _options)
    for command in oncall.oncall_commands(COMMAND):
        grammar.add_command(command)
    about = f"{DOCTOR_SUMMARY} For operators; only you see the answer."
    grammar.add_command(plain_command(DOCTOR, _lang(), about, f"{COMMAND} {DOCTOR}"))
    for command in _watch_commands():
        grammar.add_command(command)
    digest = grammar.playbook("digest")
    digest.help = f"{digest.help}\n\n{oncall.DIGEST_GRAMMAR}"
    digest.epilog = f"Example: {COMMAND} {oncall.DIGEST_EXAMPLE}"
    grammar.add_command(digest)
    return grammar


def _watch_commands() -> list[click.Command]:
    """`watch` and `unwatch`, which a shell has not: it is closed before the pod runs."""
    helps = {
        WATCH: "Tell you once when a pod runs, fails, or waits for another cause; alone, list what you watch.",
        UNWATCH: "Stop watching a pod, or all of yours.",
    }
    return [
        click.Command(
            verb,
            callback=partial(_watch, verb),
            params=[click.Argument(["pod"], default="", required=False, metavar="[POD]"), *_options()],
            help=about,
            epilog=f"Example: {COMMAND} {verb} ml/trainer-0",
        )
        for verb, about in helps.items()
    ]


def _watch(verb: str, pod: str, **options: Any) -> WatchAsked:
    if pod:
        parse_subject(pod)
    return WatchAsked(verb, pod, options)


def _fit_command() -> click.Command:
    """The verb of the shell without the files, which would be the bot's own."""
    fit = find("fit")
    parameters = [parameter for parameter in fit.parameters if not isinstance(parameter.type, ManifestFile)]

    def ask(cards: Sequence[str], namespace: str, **values: Any) -> ParsedQuestion | ManifestWanted:
        own = {parameter.name: values.pop(parameter.name) for parameter in parameters if parameter.name in values}
        if not cards and not any(value not in (None, "") for value in own.values()):
            return ManifestWanted(namespace, values)
        return ParsedQuestion(fit, fit.request(cards=cards, namespace=namespace, **own), values)

    return click.Command(
        fit.verb,
        callback=ask,
        params=[*parameters, *_options()],
        help=f"{fit.summary} Alone, it opens a form for a manifest.",
        epilog=f"Example: {COMMAND} {fit.example}",
    )


# click prints the help of its own flag to standard output, where nobody in Slack would read it.
_NO_HELP_FLAG: dict[str, list[str]] = {"help_option_names": []}


def _options() -> list[click.Parameter]:
    return [click.Option(["--cluster"], default="", metavar="NAME", help="A cluster of the settings."), *_lang()]


def _lang() -> list[click.Parameter]:
    return [click.Option(["--lang"], type=click.Choice(LANGUAGES), help="The language of the answer.")]


@click.pass_context
def _help(ctx: click.Context, verb: str | None, say: Texts) -> Help:
    if verb is not None and verb != _MORE:
        word = None if build_grammar().has(verb) and len(verb.split()) == 1 else explain_word(verb)
        return Help(say.words(word) if word else explain(ctx, verb, say))
    if verb is None:
        first = {example: say.words(summary) for example, summary in FIRST.items()}
        return Help("\n".join([say("start.ask"), *_rows(first, say)]))
    in_order = sorted(load(), key=lambda verb: (verb != "why", verb))
    examples = {find(verb).example: find(verb).summary for verb in in_order if verb not in _OF_SLACK}
    examples["digest now"] = find("digest").summary
    examples |= dict(_OF_SLACK.values())
    examples |= {example_of(verb): build_grammar().playbook(verb).help or "" for verb in discovery.own().sources}
    examples |= {"fit": "Would a pod fit whose manifest you paste into a form?", "help why": "More about a verb."}
    return Help("\n".join([say.name("You can ask, for example:", "help"), *_rows(examples, say)]))


def _rows(examples: Mapping[str, str], say: Texts) -> Iterator[str]:
    """A line for each question and the first sentence of what it is for, of which `render_help` makes a list."""
    told = ((words, in_words(sentences_in(summary)[0], say)) for words, summary in examples.items())
    return (f"{COMMAND} {words} — {purpose}" for words, purpose in told)


def _plain(error: UsageError, example: str) -> UsageError:
    """The error in words of a person: click speaks of arguments."""
    hint = error.advice
    match error.__cause__:
        case click.MissingParameter(param=click.Parameter(name="pod"), ctx=click.Context(info_name=str(verb))):
            return UsageError(Text("error-command.needs-pod", verb=verb), hint=hint, example=example)
        case _:
            return UsageError(error.message, hint=hint, example=example)


# ------------------------------------------------------------------------------------------ texts that are commands


def begins_as_command(text: str) -> bool:
    """Whether the text's first word is a verb; that of a revert must stand alone, or before the id of a change."""
    first, _, more = text.strip().lower().partition(" ")
    if first in HOW_TO_REVERT and more and not IS_ID.match(more):
        return False
    return build_grammar().has(first)


def as_command(words: Sequence[str]) -> list[str] | None:
    """The words if they are a command; None for a sentence, and for a wrong command without options."""
    typed = [*from_kubectl([word.strip("`") for word in words] if words and "`" in words[0] else words)]
    if not typed or not begins_as_command(typed[0]):
        return None
    verb = typed[0].lower()
    if verb in build_grammar().commands and verb not in _READING:
        return typed  # what changes something has free text
    cleaned = [verb, *(word.strip("`") if word.startswith("`") else word for word in typed[1:])]
    if len(cleaned) == 1 and verb in SUBJECT_OF:
        return cleaned
    second = cleaned[1].lower() if len(cleaned) > 1 else ""
    is_word = second in filler() and SUBJECT_OF.get(verb) in ("pod", "node")
    is_word = is_word or (second in phrase_table()["filler"]["states"].split() and SUBJECT_OF.get(verb) == "node")
    if is_word or (verb == "gpus" and model_in(second)):
        return None
    try:
        understand(cleaned)
    except UsageError:  # told as it is to who types options
        typed = any(
            word.startswith("--") or (number in (1, 2) and word.startswith("-")) for number, word in enumerate(cleaned)
        )
        return cleaned if typed else None
    return cleaned


def lacks_pod(words: Sequence[str]) -> bool:
    """Whether a command whose verb may be about a pod is the verb alone."""
    return len(words) == 1 and SUBJECT_OF.get(words[0]) == "pod"


def language_of(text: str) -> Language | None:
    """The language that a text asks for, by `--lang` or by being Chinese; None for any other text."""
    named: list[Language] = [language for language in LANGUAGES if language in _LANGUAGE.findall(text)]
    return named[0] if named else ("zh" if _CHINESE.search(text) else None)


def in_thread(words: Sequence[str], about: Sequence[str], pod: str = "") -> list[str]:
    """A command without a subject, completed with its thread's or its thread's `pod`; any other command unchanged."""
    kind = SUBJECT_OF.get(words[0]) if words else None
    known = (subject_in(about).of(kind) or subject_in(["why", pod]).of(kind)) if kind else ""
    if known and (len(words) == 1 or words[1].startswith("--since")):
        return [words[0], known, *words[1:]]
    return [*words] or [*about] or ["help"]


def names_somebody(words: Sequence[str]) -> bool:
    """Whether a command names a pod, a node or a namespace."""
    found = subject_in(words)
    return bool(found.pods or found.nodes or found.namespace)


def subject_in(words: Sequence[str]) -> Named:
    kind = SUBJECT_OF.get(words[0]) if words else None
    named = [word for flag, word in pairwise(words) if flag != "--type" and not word.startswith("-")] if kind else []
    for flag in ("-n", "--namespace", "--node"):
        if flag in words[:-1]:
            value = words[words.index(flag) + 1]
            if flag == "--node":
                return Named(nodes=(value,))
            pods = tuple(f"{value}/{name}" for name in named[:1] if name != value and kind == "pod")
            return Named(pods, namespace=value)
    match kind, named:
        case "pod", [name, *_]:
            return Named(pods=(name,))
        case "node", [name, *_] if name != "for":
            return Named(nodes=(name,))
        case "namespace", [name, *_]:
            return Named(namespace=name)
        case _:
            return Named()


@cache
def phrase_table() -> dict[str, Any]:
    return tomllib.loads(files("handlers.parsing").joinpath("phrases.toml").read_text(encoding="utf-8"))


@cache
def filler() -> frozenset[str]:
    return frozenset(phrase_table()["filler"]["words"].split())
