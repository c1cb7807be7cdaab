"""Finds a team's own playbooks: Python files in the folder of the settings, and installed packages.

A file's name is its verb, and so is an entry point's in the group `hami_bot.playbooks`. Nothing is imported before its
verb is asked, and one that does not work takes nothing else with it.
"""

import importlib
import importlib.metadata
import logging
import os
import re
import stat
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from bot.changes.kinds import VERBS
from bot.texts import Text, in_english
from playbooks.own.interface import OwnPlaybookError, WrongPlaybookError, check, told_by_name
from playbooks.playbook import Playbook, load

GROUP = "hami_bot.playbooks"
AGAIN_S = 1.0
"""Seconds that a question waits for the import of a changed file: the whole bot waits meanwhile, and Slack only 3 s."""
log = logging.getLogger(__name__)
_COMMANDS = (
    "audit demo doctor help init mcp oncall record revert revert-overdue serve triage undo unwatch version watch"
)
RESERVED = frozenset(_COMMANDS.split()).union(VERBS)
"""Verbs of a shell and of Slack that are no playbooks. A test compares them with both grammars."""
_VERB = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


class OwnSource(NamedTuple):
    """A team's own playbook that was found. `place` is for people: the file, or the package."""

    verb: str
    place: str
    file: str
    read: Callable[[], Any]


class LeftOut(NamedTuple):
    """A team's own playbook that cannot be asked: why, and what to do."""

    why: Text
    fix: Text
    verb: str = ""


class Own(NamedTuple):
    """A team's own playbooks that were found, by their verbs, and those that are left out."""

    sources: Mapping[str, OwnSource]
    left_out: tuple[LeftOut, ...]


_folder: Callable[[], Path | None] = lambda: None  # noqa: E731  # until `use` names one


def use(folder: Callable[[], Path | None]) -> None:
    """Sets the folder of a team's own playbooks; `folder` is called at the first verb that is not the bot's own."""
    global _folder  # noqa: PLW0603  # a process has one set of verbs, as it has one set of ours
    _folder = folder
    own.cache_clear()
    _read.cache_clear()
    _imported_once.clear()
    _imports.clear()


@cache
def own() -> Own:
    """A team's own playbooks, in the folder and in installed packages; looked for only once."""
    folder = _folder()
    sources, left_out = dict[str, OwnSource](), list[LeftOut]()
    if folder is not None and not folder.is_dir():
        missing = Text("own-playbook.folder", place=str(folder))
        left_out.append(LeftOut(missing, Text("own-playbook.folder-fix", place=str(folder))))
    files = [file for file in sorted(folder.glob("*.py")) if not file.name.startswith("_")] if folder else []
    found = [
        OwnSource(file.stem.replace("_", "-"), str(file), str(file), lambda file=file: _imported(file))
        for file in files
    ]
    for installed in sorted(importlib.metadata.entry_points(group=GROUP), key=lambda entry_point: entry_point.name):
        package = installed.dist.name if installed.dist else "an installed package"
        file = f"{installed.module.replace('.', '/')}.py"  # as far as that can be told without importing it
        found.append(OwnSource(installed.name, f"{installed.value} of {package}", file, installed.load))
    for source in found:
        if not _VERB.fullmatch(source.verb):
            no_verb = Text("own-playbook.name", place=source.place, verb=source.verb)
            left_out.append(LeftOut(no_verb, Text("own-playbook.name-fix"), source.verb))
        elif source.verb in sources or source.verb in load() or source.verb in RESERVED:
            taken = Text("own-playbook.taken", place=source.place, verb=source.verb)
            left_out.append(LeftOut(taken, Text("own-playbook.taken-fix"), source.verb))
        else:
            sources[source.verb] = source
    return Own(sources, tuple(left_out))


def _imported(file: Path) -> Any:
    """The file's PLAYBOOK. Raises WrongPlaybookError without one, and what the file itself raises."""
    module = ModuleType(f"hami_bot_own_{file.stem}")
    module.__file__ = str(file)
    sys.modules[module.__name__] = module  # dataclasses look their module up
    # No bytecode is kept: two edits within a second would not be told apart.
    exec(compile(file.read_bytes(), str(file), "exec"), module.__dict__)  # noqa: S102  # which is what it is there for
    if not hasattr(module, "PLAYBOOK"):
        raise WrongPlaybookError(f"{file.name} has no PLAYBOOK")
    return module.PLAYBOOK


_imported_once: set[str] = set()
"""The verbs that were imported before, also those whose import failed."""
_imports: dict[tuple[str, int], Future[Any]] = {}
"""The running imports, by the verb and when its file changed."""


def playbook(verb: str) -> Playbook:
    """The playbook of a verb of `own`, imported again if its file changed. Raises OwnPlaybookError if that fails."""
    try:
        changed_at = Path(own().sources[verb].file).stat().st_mtime_ns
    except OSError:
        changed_at = 0
    read = _read(verb, changed_at)
    if isinstance(read, OwnPlaybookError):
        raise OwnPlaybookError(read.message, hint=read.advice)
    return read


@cache
def _read(verb: str, changed_at: int) -> Playbook | OwnPlaybookError:
    """Raises OwnPlaybookError, which is not remembered, while the import goes on: it may be done when asked again."""
    from playbooks.own import running  # noqa: PLC0415  # a verb of ours does without it

    source, begun = own().sources[verb], (verb, changed_at)
    within_s = AGAIN_S if verb in _imported_once else running.LONGEST_S
    _imported_once.add(verb)
    if begun in _imports and not _imports[begun].done():
        raise OwnPlaybookError(
            Text("error-own.playbook-is-still-being-imported", verb=verb),
            hint=Text("error-command.ask-again-in-a-moment"),
        )
    _imports[begun] = importing = _imports.get(begun) or running.begun_aside(source.read)
    try:
        with told_by_name(verb, source.file):
            read = running.adapted(verb, check(running.done_within(importing, within_s)), source.file)
    except OwnPlaybookError as error:
        if isinstance(error.__cause__, running.TookTooLongError):
            raise
        read = error
    del _imports[begun]
    return read


def writable_by_all() -> list[str]:
    """The paths of the folder and its files that every user of the machine may change; none on a read-only file system.
    A mounted ConfigMap is read-only, though its folder has the mode 0777.
    """
    folder = _folder()
    if folder is None or not folder.is_dir() or os.statvfs(folder).f_flag & os.ST_RDONLY:
        return []
    files = filter(Path.exists, sorted(folder.glob("*.py")))
    return [str(path) for path in (folder, *files) if path.stat().st_mode & stat.S_IWOTH]


def import_all() -> list[tuple[OwnSource, OwnPlaybookError | None]]:
    """Imports every playbook that was found; gives the error of each, None if it works."""
    return [(source, _error(source.verb)) for source in own().sources.values()]


def log_left_out() -> None:
    """Logs a line for each playbook that cannot be asked."""
    for left_out in own().left_out:
        log.warning("%s", in_english(left_out.why))


def _error(verb: str) -> OwnPlaybookError | None:
    try:
        playbook(verb)
    except OwnPlaybookError as error:
        return error
    return None


def verbs() -> tuple[str, ...]:
    """Every verb that reads a cluster: the bot's own, then those of playbooks that a team added."""
    return (*load(), *own().sources)


def find(verb: str) -> Playbook:
    """The playbook of one of the `verbs`. Raises OwnPlaybookError for a team's that does not work."""
    return importlib.import_module(load()[verb]).PLAYBOOK if verb in load() else playbook(verb)
