"""`profile top | list | compare | hints` in Slack: about kept profiles only, since files would be the bot's own."""

from collections.abc import Awaitable, Callable, Sequence

from bot.errors import NotFound, UsageError
from bot.pprof.decode import read
from bot.pprof.quotes import SourcedProfile
from bot.report import Report, in_words
from bot.slack.message import File, Message
from bot.slack.render.prose import render_help
from bot.slack.render.report import render_report
from bot.store.profiles import ProfileRows
from bot.texts import Text, Texts
from handlers.parsing.slack_words import join_words
from handlers.profiles.analyses import check_named, explained
from handlers.profiles.kept_files import Contents, answer_about, contents_of
from handlers.profiles.kept_lookup import is_reference
from handlers.profiles.options import PROGRAM, Words, profiles_named, read_words
from playbooks.profile.request import KINDS

_SHOWN = 6000
"""Characters that are shown; a longer text is in a file as well."""
_OF_A_SHELL = "source"
_EXAMPLES = {
    "top": "profile top cpu-1a2b3c4d",
    "list": "profile list Filter cpu-1a2b3c4d",
    "compare": "profile compare cpu-1a2b3c4d cpu-5e6f7a8b",
    "hints": "profile hints cpu-1a2b3c4d",
}

Run = Callable[[Callable[[], Message], Sequence[bytes]], Awaitable[Message]]
"""Computes the message; beside the job it is given the profiles that it reads."""


async def study(words: Sequence[str], rows: ProfileRows, now: float, say: Texts, run: Run) -> Message:
    """The answer, which `run` computes. Raises UsageError and NotFound for words that name no kept profile."""
    try:
        asked = read_words(words[1:])
        say = Texts(asked.options["lang"]) if "lang" in asked.options else say
        contents = await _contents(words, asked, rows, now)

        def answer() -> Message:
            if words[0] not in ("compare", "hints"):
                return _text(words, asked, contents)
            report = in_words(_explained(words, asked, contents, now), say)
            again = join_words(["profile", *words])
            return render_report(report, say, channel_buttons=False, words=again, everything=True)

        return await run(answer, [content.content for content in contents.values()])
    except UsageError as error:
        if error.example and not error.example.startswith(PROGRAM):  # such a one is for a shell
            raise
        advice = Text("error-profile.kept-lists-them") if error.example else error.advice
        raise UsageError(error.message, hint=advice, example=_EXAMPLES[words[0]]) from error


async def _contents(words: Sequence[str], asked: Words, rows: ProfileRows, now: float) -> Contents:
    if _OF_A_SHELL in asked.options:
        raise UsageError(Text("error-profile.source-is-for-shell"))
    named = profiles_named(words[0], asked)
    if unknown := [name for name in named if not is_reference(name)]:
        hint = Text("error-profile.name-one-by-id", kind=KINDS[0])
        raise NotFound(Text("error-profile.no-profile-is-kept", profile=repr(unknown[0])), hint=hint)
    return await contents_of(named, rows, now)


def _text(words: Sequence[str], asked: Words, contents: Contents) -> Message:
    text = answer_about(words[0], asked, contents)
    shown = render_help(text)
    if len(text) <= _SHOWN:
        return shown
    file = File(f"profile-{words[0]}.txt", text.encode("utf-8", "surrogateescape"), join_words(["profile", *words]))
    return shown._replace(files=(file,))


def _explained(words: Sequence[str], asked: Words, contents: Contents, now: float) -> Report:
    check_named(words[0], asked)
    named = [contents[name] for name in asked.plain]
    taken = [SourcedProfile(read(profile.content), profile.id, profile.id) for profile in named]
    return explained(words[0], taken, asked, now)
