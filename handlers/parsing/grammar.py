"""One grammar for Slack and the terminal: it reads words into a question, and gives help and errors. A verb is a
playbook, imported when its verb is used and not before, or one of the commands that a surface adds.
"""

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatch
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import Any, NamedTuple, cast

import click

from bot.changes.kinds import VERBS
from bot.errors import UsageError
from bot.finding_codes import CODES, PROOFS, words_of
from bot.texts import LANGUAGES, Language, Prose, Text, Texts, in_english, literal, together
from playbooks.own.discovery import RESERVED, find, own, verbs
from playbooks.own.interface import OwnPlaybookError
from playbooks.playbook import Playbook, load

_CLOSE = 0.5
_CLOSE_WORD = 0.75
DASHES = "‐‑‒–—―−─⸺⸻ー－﹘﹣"
"""Characters that other keyboards and phones write for one hyphen or two."""
_LONG_DASHES = "—―─⸺⸻ー"
_OPTION = re.compile(rf"([-{DASHES}]+)(?=[A-Za-z])")
_SENTENCE_END = re.compile(r"(?<=[.?])\s")
_MEANT = {"pods": "pending", "kubectl": "why"}
"""Verbs that kubectl's users type for a verb of the bot, but that look more like another."""
_CHANGING = frozenset((*VERBS, "revert-overdue"))
"""Verbs that change the cluster: they are never suggested for a word that looks like them."""
_PIPED = re.compile(
    r"([^|>]*?)(?:\s2)?(?:(?:\|\s*(?:grep|tail|head|less|more|wc|sort|awk|jq|cat)\b|>(?:&1)?)[^|;&<>]*)+"
)
"""A command that was copied from a shell with what only reads its output, not `| xargs kubectl delete`."""
_KUBECTL = click.Command(
    "kubectl",
    params=[
        click.Option(["-n", "--namespace"]),
        click.Option(["-o", "--output"]),
        click.Argument(["words"], nargs=-1, type=click.UNPROCESSED),
    ],
    add_help_option=False,
    context_settings={"ignore_unknown_options": True},
)

_OF_SLACK = frozenset(("oncall", "triage"))


class ParsedQuestion(NamedTuple):
    """A question as typed; `options` has the values of options that only Slack or only the shell has."""

    playbook: Playbook
    request: Any
    options: dict[str, Any]


class CommandAsked(NamedTuple):
    """A command that is no question, as typed: its verb, and the values of its options."""

    verb: str
    options: dict[str, Any]


def plain_command(
    verb: str, params: Sequence[click.Parameter], about: str, example: str, *, hidden: bool = False
) -> click.Command:
    """A click command that returns what was typed, as a CommandAsked; `about` is its help."""

    def asked(**options: Any) -> CommandAsked:
        return CommandAsked(verb, options)

    return click.Command(
        verb, callback=asked, params=[*params], help=about, epilog=f"Example: {example}", hidden=hidden
    )


DOCTOR = "doctor"
DOCTOR_SUMMARY = "Check all that the bot needs: settings, Slack, store, clusters and rights, with a fix for each fault."


class Grammar(click.Group):
    """The verbs of a surface: Slack or the shell. `options` are the surface's own, before or after the verb.

    `instead` makes the command of a playbook's verb that takes more words than the playbook, `later` other commands:
    none of them is imported before one of its group is asked for. `usual` gives the language of help.
    """

    def __init__(self, name: str, options: Callable[[], Sequence[click.Parameter]], **attrs: Any) -> None:
        super().__init__(name, params=list(options()), invoke_without_command=True, **attrs)
        self.options = options
        self.usual: Callable[[], Language] = lambda: "en"
        self.instead: dict[str, Callable[[], click.Command]] = {}
        self.later: dict[str, Callable[[], Sequence[click.Command]]] = {}
        self._hidden: set[str] = set()
        self._of_playbooks: dict[str, click.Command] = {}
        """The commands of the bot's own playbooks that were asked for; a team's may change at any time."""

    def has(self, verb: str) -> bool:
        """Whether a command of the surface or a playbook has this name, without an import."""
        return verb in self.commands or verb in self.later or verb in load() or verb in own().sources

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        shown = {name for name, command in self.commands.items() if not command.hidden}
        return sorted({*verbs(), *shown, *(self.later.keys() - self._hidden)})

    def add_later(
        self, make: Callable[[], Sequence[click.Command]], names: Sequence[str], *, hidden: Sequence[str] = ()
    ) -> None:
        """Adds a group of commands with these names, made by `make` when needed; the `hidden` ones are not listed."""
        self.later |= dict.fromkeys((*names, *hidden), make)
        self._hidden |= {*hidden}

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        cmd.short_help = cmd.short_help or _SENTENCE_END.split(cmd.help or "")[0]  # of which click shows 45 characters
        super().add_command(cmd, name)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  # click's
        if make := self.later.get(cmd_name):
            for command in make():
                self.add_command(command)
                self.later.pop(command.name or "")
        if cmd_name in self.commands:
            return self.commands[cmd_name]
        if cmd_name in self.instead:
            return self.instead[cmd_name]()
        if cmd_name not in load():
            return self.playbook(cmd_name) if cmd_name in own().sources else None
        if cmd_name not in self._of_playbooks:
            self._of_playbooks[cmd_name] = self.playbook(cmd_name)
        return self._of_playbooks[cmd_name]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and self.get_command(ctx, args[0]) is None:
            if self.get_command(ctx, args[0].lower()) is None:
                said = [word for flag, word in pairwise(["", *args]) if not (flag[:1] == "-" or word[:1] == "-")]
                raise self._unknown(args[0], ctx, is_sentence=len(said) > 2 or args[-1].endswith(("?", "？")))
            args = [args[0].lower(), *args[1:]]
        return super().resolve_command(ctx, args)

    def _unknown(self, word: str, ctx: click.Context, *, is_sentence: bool) -> UsageError:
        """The error for a verb that this surface has not: where it is one, which code it is, or what is near."""
        known, program = self.list_commands(ctx), ctx.command_path
        if (verb := word.lower()) in _OF_SLACK:
            return UsageError(
                Text("error-command.no-verb-here", word=repr(word)),
                hint=Text("error-command.type-it-in-slack"),
                example=f"/hami help {verb}",
            )
        if verb in RESERVED:
            hint, example = Text("error-command.only-program-hami-bot"), f"hami-bot {verb} --help"
            return UsageError(Text("error-command.no-verb-here", word=repr(word)), hint=hint, example=example)
        if meant := _word_meant(word, known):
            return _no_such(Text("error-command.no-verb", word=repr(word)), meant, program)
        return unknown_verb(word, known, program, is_sentence=is_sentence)

    def playbook(self, verb: str) -> click.Command:
        """The command of a playbook's verb, with the surface's options. A broken playbook raises when it is asked."""
        try:
            playbook = find(verb)
        except OwnPlaybookError as error:
            broken, about = error, in_english(error.message)

            def complain(**_: Any) -> ParsedQuestion:
                raise broken

            words = click.Argument(["words"], nargs=-1, type=click.UNPROCESSED)
            anything = {"ignore_unknown_options": True}
            return click.Command(verb, callback=complain, params=[words], help=about, context_settings=anything)
        names = [parameter.name for parameter in playbook.parameters if parameter.name]

        def ask(**values: Any) -> ParsedQuestion:
            request = playbook.request(**{name: values.pop(name) for name in names})
            return ParsedQuestion(playbook, request, values)

        return click.Command(
            playbook.verb,
            callback=ask,
            params=[*playbook.parameters, *(option for option in self.options() if option.name not in names)],
            help=playbook.summary,
            short_help=playbook.summary,
            epilog=f"Example: {self.name} {playbook.example}",
        )


def example_of(verb: str) -> str:
    """A question that works, as the verb's playbook gives it; the verb alone if the playbook is broken."""
    try:
        return find(verb).example
    except OwnPlaybookError:
        return verb


def explain_code(text: str) -> Text | None:
    """What a finding code means, how it is proven and what usually helps; None for a word that is no code."""
    code = text.lower()
    facts = CODES.get(code)
    if facts is None:
        return None
    fix = words_of(code, "fix")
    lines = [
        code,
        Text("code-help.meaning", text=words_of(code, "meaning")),
        Text("code-help.proof", text=PROOFS[facts.proof]),
        Text("code-help.fix", text=fix) if fix.key in Texts("en") else Text("code-help.no-fix"),
        Text("code-help.pod") if facts.of_the_pod else "",
        Text("code-help.node") if facts.loses_node else "",
        Text("code-help.watched") if facts.watched_in else "",
    ]
    return together(*lines, by="\n")


class _GlossaryWord(NamedTuple):
    spelt: str
    meaning: Text | None
    code: str


def explain_word(text: str) -> Text | None:
    """The meaning of a finding code, or a word that HAMi or Kubernetes writes; None for an unknown word."""
    if _key(text) == "codes":
        proofs = {proof: [code for code, facts in CODES.items() if facts.proof == proof] for proof in PROOFS}
        rows = (f"{proof}: {', '.join(codes)}" for proof, codes in proofs.items())
        return together(Text("code-help.codes"), *rows, by="\n")
    if code := explain_code(text):
        return code
    word = _look_up(text)
    if word is None:
        return None
    if word.meaning is None:
        return together("" if word.spelt == word.code else word.spelt, explain_code(word.code) or "", by="\n")
    more = Text("code-help.more", code=word.code) if word.code else ""
    return together(word.spelt, word.meaning, more, by="\n")


def meaning_of(text: str) -> Text | None:
    """The meaning of a code or word of HAMi or Kubernetes in one line, `NodeUnfitPod: …`; None for an unknown word."""
    word = _look_up(text)
    if word is None:
        return None
    return together(word.spelt, word.meaning or words_of(word.code, "meaning"), by=": ")


def known_word(text: str) -> str:
    """The code or the word of HAMi or Kubernetes that a text spells, in any spelling; empty for any other text."""
    word = _look_up(text)
    return word.spelt if word else ""


def phrases_in(text: str) -> list[str]:
    """The known words of HAMi and Kubernetes with several parts, such as `untolerated taint`, that a text has."""
    low = text.lower()
    return [word.spelt for word in _glossary().values() if " " in word.spelt and word.spelt.lower() in low]


def _look_up(text: str) -> _GlossaryWord | None:
    words, key = _glossary(), _key(text)
    if found := words.get(key) or words.get(_key(text.partition("=")[0])):
        return found
    if found := next((word for word in words.values() if "*" in word.spelt and fnmatch(key, _key(word.spelt))), None):
        return found._replace(spelt=text)
    parts = {*text.lower().split()}
    codes = CODES if len(parts) > 1 else ()
    return next((_GlossaryWord(code, None, code) for code in codes if parts == set[str](code.split("-"))), None)


def _key(text: str) -> str:
    """The same for `node unregistered`, `node-unregistered` and `NodeUnregistered`."""
    return re.sub(r"[-_\s]", "", text).lower()


@cache
def _glossary() -> Mapping[str, _GlossaryWord]:
    import tomllib  # noqa: PLC0415  # whoever asks about a pod needs no glossary

    from bot.hami.scheduler_logs.scheduling_events import REASONS  # noqa: PLC0415  # as above

    table = tomllib.loads(files("handlers.parsing").joinpath("glossary.toml").read_text(encoding="utf-8"))["word"]
    words = [_GlossaryWord(code, None, code) for code in CODES]
    words += [_GlossaryWord(reason.text, None, reason.finding) for reason in REASONS]
    words += [
        _GlossaryWord(name, literal(word["en"], word["zh"]) if "en" in word else None, word.get("code", ""))
        for word in table
        for name in reversed(word["names"])
    ]
    return {_key(word.spelt): word for word in words}


def explain(ctx: click.Context, verb: str | None, say: Texts) -> str:
    """The help of a verb, or of all; `ctx` is that of the help command. Raises UsageError for an unknown verb."""
    from handlers.parsing.click_words import help_of  # noqa: PLC0415  # whoever asks about a pod needs no help

    parent = ctx.parent
    grammar = parent.command if parent else None
    if parent is None or not isinstance(grammar, Grammar) or verb is None:
        return help_of(parent, say) if parent else ""
    if grammar.get_command(parent, verb.lower()) is None:
        known = grammar.list_commands(parent)
        if meant := _near_word(verb, known):
            raise _no_such(Text("error-command.no-word", word=repr(verb)), meant, parent.command_path)
        if not nearest(verb, known):
            raise UsageError(Text("error-command.no-word", word=repr(verb)), hint=Text("error-command.help-codes"))
    name, command, _ = grammar.resolve_command(parent, [verb])
    return help_of(click.Context(command, info_name=name, parent=parent), say) if command else ""


def help_command(callback: Callable[..., Any]) -> click.Command:
    """The command `help`, which calls back with a verb or a word, or None, and the texts of the language."""

    @click.pass_context
    def explained(ctx: click.Context, words: Sequence[str], lang: Language | None) -> Any:
        usual = cast("Grammar", ctx.find_root().command).usual
        return ctx.invoke(callback, verb=" ".join(words) or None, say=Texts(lang or usual()))

    return click.Command(
        "help",
        callback=explained,
        params=[
            click.Argument(["words"], nargs=-1, type=click.UNPROCESSED, metavar="[VERB|WORD]"),
            click.Option(["--lang"], type=click.Choice(LANGUAGES), help="The language of the explanation."),
        ],
        help="Explain a verb, a finding code or a word that HAMi or Kubernetes writes; help codes lists the codes.",
        context_settings={"ignore_unknown_options": True},
    )


def unknown_verb(word: str, known: Sequence[str], program: str, *, is_sentence: bool = False) -> UsageError:
    """The error for an unknown verb: the nearest with an example, or all; in a sentence only one that is very near."""
    hint, example = Text("error-command.verbs-are", known=", ".join(known)), ""
    near = nearest(word, known)
    if is_sentence and word not in _MEANT and not difflib.get_close_matches(word, near, cutoff=_CLOSE_WORD):
        hint = Text("error-command.sentences-in-slack", known=", ".join(known))
    elif near:
        hint = Text("error-command.did-you-mean", meant=near[0])
        example = f"{program} {example_of(near[0])}" if near[0] in verbs() else ""
    return UsageError(Text("error-command.no-verb", word=repr(word)), hint=hint, example=example)


def _no_such(why: Text, meant: str, program: str) -> UsageError:
    hint = Text("error-command.did-you-mean", meant=f"help {meant}")
    return UsageError(why, hint=hint, example=f"{program} help {meant}")


def _word_meant(word: str, known: Sequence[str]) -> str:
    """The code or word that was typed as a verb, exactly or nearly; empty where a verb is as near."""
    if exact := known_word(word):
        return "" if any(verb.startswith(word) for verb in known) else exact
    if not re.search(r"\w[-./]\w|[a-z][A-Z]", word) or word.lower().partition("-")[0] in known:
        return ""
    return _near_word(word, known)


def _near_word(word: str, known: Sequence[str]) -> str:
    spelt = {key: one.spelt for key, one in _glossary().items() if not any(_key(verb) in key for verb in _CHANGING)}
    spelt |= {_key(verb): "" for verb in known}
    near = difflib.get_close_matches(_key(word), spelt, n=1, cutoff=_CLOSE_WORD)
    return spelt[near[0]] if near else ""


def nearest(word: str, verbs: Sequence[str]) -> list[str]:
    """The verb that was most likely meant, in a list; empty if none is near, or the nearest one changes the cluster."""
    if (meant := _MEANT.get(word, "")) in verbs:
        return [meant]
    near = difflib.get_close_matches(word, verbs, n=1, cutoff=_CLOSE)
    return [verb for verb in near if verb not in _CHANGING]


def from_kubectl(words: Sequence[str]) -> Sequence[str]:
    """Turns `kubectl describe pod trainer-0 -n ml` into `why trainer-0 -n ml`; any other words stay unchanged."""
    if not words or words[0] != _KUBECTL.name:
        return words
    try:
        piped = _PIPED.fullmatch(" ".join(words[1:]))
        typed = piped[1].split() if piped else [*words[1:]]
        given = _KUBECTL.make_context(_KUBECTL.name, typed).params
    except click.ClickException:
        return words
    namespace = ["-n", given["namespace"]] if given["namespace"] else []
    match given["words"]:
        case ("describe" | "get", "pod" | "pods" | "po", name, *others) if not name.startswith("-"):
            return ["why", name, *namespace, *others]
        case ("describe" | "get", about, *others) if about.startswith(("pod/", "pods/", "po/")):
            return ["why", about.partition("/")[2], *namespace, *others]
        case _:
            return words


def straight_option(word: str) -> str:
    """The word with hyphens for an option's dashes: `——lang` is `--lang`, `–n` is `-n`. Other words are unchanged."""
    found = _OPTION.match(word)
    if found is None or found[1].isascii():
        return word
    is_long = len(word[found.end(1) :].partition("=")[0]) > 1 and (len(found[1]) > 1 or found[1] in _LONG_DASHES)
    return f"{'--' if is_long else '-'}{word[found.end(1) :]}"


def read(grammar: Grammar, words: Sequence[str]) -> Any:
    """The request in the words: a `ParsedQuestion`, or what a surface's own command returns. Raises UsageError."""
    words = from_kubectl(words)
    until = list(words).index("because") if "because" in words else len(words)
    words = [*map(straight_option, words[:until]), *words[until:]]
    try:
        return grammar.main(_options_last(grammar, words), prog_name=grammar.name, standalone_mode=False)
    except click.ClickException as error:
        from handlers.parsing.click_words import what_click_says  # noqa: PLC0415  # words that are understood need none

        context = getattr(error, "ctx", None)
        if isinstance(error, click.MissingParameter) and context and error.param:
            verb, flags = context.info_name, error.param.opts if error.param.param_type_name == "option" else ()
            what = f"{'/'.join(flags)} {error.param.metavar or error.param.human_readable_name}".strip()
            raise _how_to(Text("error-command.needs", verb=verb, what=what), grammar, context) from error
        raise _how_to(what_click_says(error), grammar, context) from error


def _how_to(message: Prose, grammar: Grammar, context: click.Context | None) -> UsageError:
    verb = None if context is None or isinstance(context.command, Grammar) else context
    example = (verb.command.epilog or "").removeprefix("Example: ") if verb else ""
    error = UsageError(message, example=example)
    error.usage = context.get_usage() if context else f"Usage: {grammar.name} VERB …"
    error.more = f"More: {grammar.name} help {verb.info_name}" if verb else f"More: {grammar.name} help"
    return error


def _options_last(grammar: Grammar, words: Sequence[str]) -> list[str]:
    words = list(words)
    flags = {flag for option in grammar.options() for flag in option.opts if option.param_type_name == "option"}
    options: list[list[str]] = []
    while words and words[0].split("=")[0] in flags:
        taken = 1 if "=" in words[0] or len(words) == 1 else 2
        options, words = [*options, words[:taken]], words[taken:]
    if words[:1] == ["help"]:
        options = [option for option in options if option[0].startswith("--lang")]  # no other bears on what it says
    moved = [word for option in options for word in option]
    if " ".join(words[:2]).lower() in {*grammar.commands, *grammar.later}:  # a verb of two words
        words = [" ".join(words[:2]).lower(), *words[2:]]
    asked = words[: words.index("because") if "because" in words else None]
    if {"--help", "-h"} & {*asked} or not asked:  # click's own help is in English
        language = [f"--lang={named}" for named in re.findall(r"--lang[= ](\w+)", " ".join([*moved, *asked]))]
        return ["help", *(word for word in words[:1] if not word.startswith("-")), *language]
    return [*words[:1], *moved, *words[1:]]
