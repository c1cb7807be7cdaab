"""Answers `profile top`, `list`, `compare` and `hints`; slow modules are loaded only for what is asked."""

from typing import TYPE_CHECKING

from bot.errors import UsageError
from bot.texts import Text
from handlers.profiles.answers_in_files import EXAMPLE, FILTERS, Load, Words, load_file

if TYPE_CHECKING:  # it takes as long to import as a small table to make
    from pathlib import Path


def answer_study(study: str, asked: Words, config: "Path | None" = None, load: Load = load_file) -> str:
    """The text of a study (one of `STUDIES`); `config` is the settings file. Raises UsageError, SourceError."""
    if study == "top":
        files, given = asked
        if len(files) != 1:
            several = Text("error-profile.name-one-profile-not", count=len(files), files=" ".join(files))
            raise UsageError(several if files else Text("error-profile.name-one-profile"), example=EXAMPLE)
        from bot.pprof.graph import Trim  # noqa: PLC0415  # as `decode.read`
        from bot.pprof.top import Options, top  # noqa: PLC0415

        rows = {name: given[name] for name in Trim._fields if name in given}
        trim = Trim(**rows, inlines=not given.get("noinlines"))
        chosen = {name: given[name] for name in Options._fields if given.get(name)}
        filters = {name: given[name] for name in FILTERS if name in given}
        options = Options(**chosen, trim=trim, filters=filters)
        base = given.get("diff_base") or given.get("base")
        profiles = [load(path)[0] for path in (files[0], base) if path]
        return top(*profiles, diff=bool(given.get("diff_base")), options=options)
    if study in ("list", "compare", "hints"):
        from handlers.profiles import analyses  # noqa: PLC0415  # all of pprof's comparing

        if study == "list":
            return analyses.list_text(asked, load)
        return analyses.study_text(study, asked, config, load)
    raise UsageError(Text("error-profile.no-profile-command", study=repr(study)), example=EXAMPLE)
