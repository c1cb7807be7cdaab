"""Answers `hami-bot profile list`, `compare` and `hints`: costs by line; changes beyond chance; what stands out."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from bot.errors import UsageError
from bot.kube.times import format_time
from bot.pprof.compare import compared_type, explain_change
from bot.pprof.findings import SourcedProfile, explain
from bot.pprof.graph import Trim
from bot.pprof.listing import Source, SourceLinks, below, function_lines, listing, read_versions
from bot.pprof.profile import sample_index
from bot.pprof.top import Options, prepared, top, total_of
from bot.render.terminal import terminal
from bot.report import Report, Subject, in_words, new_report
from bot.settings import load_settings
from bot.texts import Language, Text, Texts
from handlers.profiles.answers_in_files import COMPARE_EXAMPLE, HINTS_EXAMPLE, LIST_EXAMPLE, Load, Words
from handlers.shell_output import has_colours, width

_MOST_ROWS = 10


def list_text(asked: Words, load: Load) -> str:
    """Source lines, with costs, of functions that match a regular expression. Raises UsageError and SourceError."""
    if len(asked.plain) != 2:
        raise UsageError(Text("error-profile.name-function-one-profile"), example=LIST_EXAMPLE)
    function, file = asked.plain
    options = asked.options
    versions, folders = read_versions(options.get("versions", "")), options.get("source", "")
    profile = prepared(load(file)[0])
    index = sample_index(profile, options.get("sample_index", ""))
    if folders:
        for known in profile.functions:
            known.filename = below(known.filename, folders)
    found = function_lines(profile, index, function)
    source = _reader(folders) if folders else None
    unit, total = profile.sample_types[index].unit, total_of(profile, index)
    return listing(found, total, unit, source=source, link=SourceLinks(profile, versions).link)


def _reader(folders: str) -> Source:
    """Reads below the folders and nowhere else: the paths come from a foreign process."""

    def lines(file: str) -> list[str]:
        for folder in map(Path, folders.split(":")):
            parts = Path(below(file, str(folder))).parts
            for start in range(len(parts)):  # the longest end of the path that is there: a checkout has any name
                path = folder.joinpath(*parts[start:]).resolve()
                if path.is_relative_to(folder.resolve()) and path.is_file():
                    text = path.read_bytes().decode("utf-8", "surrogateescape")
                    return text.replace("\r\n", "\n").removesuffix("\n").split("\n")
        if file.startswith("/"):
            raise FileNotFoundError(f"open {file}: no such file or directory")
        raise FileNotFoundError(f"could not find file {file} on path {folders}")

    return lines


def texts(asked: Words, config: Path | None) -> Texts:
    """The texts in the language that the words ask for, else in that of the settings."""
    language: Language | None = asked.options.get("lang")
    settings = None if language else load_settings(config)
    return Texts(language or (settings.language if settings else "en"))


def study_text(study: str, asked: Words, config: Path | None, load: Load) -> str:
    """The text that `compare` or `hints` shows in a terminal. Raises UsageError and SourceError."""
    versions, say = profiles_of(study, asked, load), texts(asked, config)
    report = in_words(explained(study, versions, asked, time.time()), say)
    text = terminal(report, say, width=width(), colour=has_colours())
    if study != "compare" or len(versions) != 2:
        return text
    kind = asked.options.get("sample_index", "")
    before, after = (sourced.profile for sourced in versions)
    kind = kind or compared_type(after)
    options = Options(sample_index=kind, trim=Trim(cum=True, nodecount=_MOST_ROWS))
    difference = top(after, before, diff=True, options=options)
    named = f" -sample_index={kind}" if kind else ""
    return f"{text}\ngo tool pprof -top -cum -nodecount={_MOST_ROWS}{named} -diff_base:\n{difference}"


def profiles_of(study: str, asked: Words, load: Load) -> list[SourcedProfile]:
    """The named profiles in order. Raises SourceError; UsageError for fewer than two (`compare`), not one (`hints`)."""
    if study == "compare" and len(asked.plain) < 2:
        raise UsageError(Text("error-profile.name-at-least-two"), example=COMPARE_EXAMPLE)
    if study == "hints" and len(asked.plain) != 1:
        raise UsageError(Text("error-profile.name-one-profile"), example=HINTS_EXAMPLE)
    return [SourcedProfile(profile, name, Path(name).name) for profile, name in map(load, asked.plain)]


def explained(study: str, taken: Sequence[SourcedProfile], asked: Words, now: float) -> Report:
    """The report of `compare` on what changed from the first to the last profile, or of `hints` on what stands out in
    one.

    `taken` has the oldest first, `now` is in unix seconds. Raises UsageError and SourceError for profiles that do not
    suit.
    """
    kind = asked.options.get("sample_index", "")
    if study == "compare":
        findings, table = explain_change(taken, sample_index_name=kind)
        tables = (table,)
    else:
        findings = explain(taken[0], sample_index_name=kind)
        tables = ()
    return new_report(
        playbook="profile",
        cluster="",
        taken_at=format_time(datetime.fromtimestamp(now, UTC)),
        subject=Subject("Profile", "", ", ".join(sourced.object for sourced in taken)),
        verdict=None if findings else Text("profile-hint.none"),
        findings=findings,
        tables=tables,
    )
