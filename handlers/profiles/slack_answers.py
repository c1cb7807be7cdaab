"""`profile top | list | compare | hints` in Slack: about kept profiles only, since files would be the bot's own."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from functools import partial

from bot.errors import NotFound, UsageError
from bot.kube.times import format_time
from bot.pprof.decode import read
from bot.pprof.findings import explain, symptom_table
from bot.pprof.quotes import SourcedProfile
from bot.pprof.versions import comparison_tables, explain_change
from bot.report import Finding, Report, Subject, Table, in_words, new_report
from bot.slack.message import File, Message
from bot.slack.render.prose import render_help
from bot.slack.render.report import render_report
from bot.store.profiles import ProfileRows
from bot.texts import Text, Texts
from handlers.parsing.slack_words import join_words
from handlers.profiles.kept_files import Contents, answer_about, contents_of
from handlers.profiles.kept_lookup import is_reference
from handlers.profiles.options import COMPARE_EXAMPLE, PROGRAM, Words, profiles_named, read_words
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
        return await _studied(words, rows, now, say, run)
    except UsageError as error:
        if error.example and not error.example.startswith(PROGRAM):  # such a one is for a shell
            raise
        advice = Text("error-profile.kept-lists-them") if error.example else error.advice
        raise UsageError(error.message, hint=advice, example=_EXAMPLES[words[0]]) from error


async def _studied(words: Sequence[str], rows: ProfileRows, now: float, say: Texts, run: Run) -> Message:
    asked = read_words(words[1:])
    if _OF_A_SHELL in asked.options:
        raise UsageError(Text("error-profile.source-is-for-shell"))
    named = profiles_named(words[0], asked)
    if unknown := [name for name in named if not is_reference(name)]:
        hint = Text("error-profile.name-one-by-id", kind=KINDS[0])
        raise NotFound(Text("error-profile.no-profile-is-kept", profile=repr(unknown[0])), hint=hint)
    contents = await contents_of(named, rows, now)
    say = Texts(asked.options["lang"]) if "lang" in asked.options else say
    read_there = [content.content for content in contents.values()]
    if words[0] in ("compare", "hints") and named:
        return await run(partial(_explained, words, asked, contents, now, say), read_there)
    return await run(partial(_text, words, asked, contents), read_there)


def _text(words: Sequence[str], asked: Words, contents: Contents) -> Message:
    text = answer_about(words[0], asked, contents)
    shown = render_help(text)
    if len(text) <= _SHOWN:
        return shown
    file = File(f"profile-{words[0]}.txt", text.encode("utf-8", "surrogateescape"), join_words(["profile", *words]))
    return shown._replace(files=(file,))


def _explained(words: Sequence[str], asked: Words, contents: Contents, now: float, say: Texts) -> Message:
    named = [contents[name] for name in asked.plain]
    taken = [SourcedProfile(read(profile.content), profile.id, profile.id) for profile in named]
    kind = asked.options.get("sample_index", "")
    if words[0] == "compare":
        if len(taken) < 2:
            raise UsageError(Text("error-profile.name-at-least-two"), example=COMPARE_EXAMPLE)
        findings = explain_change(taken, sample_index_name=kind)
        tables = comparison_tables(taken, say, sample_index_name=kind)
    else:
        findings = explain(taken[0], sample_index_name=kind)
        tables = () if findings else (symptom_table(say),)
    report = _report(", ".join(profile.object for profile in taken), findings, tables, now, say)
    again = join_words(["profile", *words])
    return render_report(report, say, channel_buttons=False, words=again, everything=True)


def _report(about: str, findings: tuple[Finding, ...], tables: tuple[Table, ...], now: float, say: Texts) -> Report:
    made = new_report(
        playbook="profile",
        cluster="",
        taken_at=format_time(datetime.fromtimestamp(now, UTC)),
        subject=Subject("Profile", "", about),
        verdict=None if findings else Text("profile-hint.none"),
        findings=findings,
        tables=tables,
    )
    return in_words(made, say)
