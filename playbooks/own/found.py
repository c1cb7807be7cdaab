"""Where playbooks of one's own are: Python files in the folder of the settings, and installed packages.

A file's name is its verb, and so is an entry point's in the group `hami_bot.playbooks`. Nothing is imported before its
verb is asked, and one that does not work takes nothing else with it.
"""

import importlib.metadata
import importlib.util
import logging
import re
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, cast

from bot.texts import Texts
from playbooks.own import shape
from playbooks.own.running import OwnPlaybookError, WrongPlaybookError, adapted, told_by_name
from playbooks.playbook import Playbook, load

GROUP = "hami_bot.playbooks"
log = logging.getLogger(__name__)
RESERVED = frozenset(
    {
        *(
            "audit",
            "demo",
            "doctor",
            "help",
            "init",
            "kube-burst",
            "kube-qps",
            "kube-timeout",
            "mcp",
            "oncall",
            "profiling",
        ),
        *("record", "revert-overdue", "serve", "triage", "verbosity", "version"),
    }
)
"""Verbs of a shell and of Slack that are no playbooks. A test compares them with both grammars."""
_VERB = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


class Source(NamedTuple):
    """One playbook that was found. `place` is for people: the file, or the package."""

    verb: str
    place: str
    file: str
    read: Callable[[], Any]


class LeftOut(NamedTuple):
    """One that cannot be asked, and why: `name` (it is no verb), `taken`, or `folder` (not there)."""

    place: str
    why: str
    verb: str = ""


class Own(NamedTuple):
    """All that were found, by their verbs, and those that are left out."""

    sources: Mapping[str, Source]
    left_out: tuple[LeftOut, ...]


def _nowhere() -> Path | None:
    return None


_folder: Callable[[], Path | None] = _nowhere


def use(folder: Callable[[], Path | None]) -> None:
    """From now on the playbooks of that folder can be asked. It is called when the first verb is not one of ours."""
    global _folder  # noqa: PLW0603  # a process has one set of verbs, as it has one set of ours
    _folder = folder
    own.cache_clear()
    playbook.cache_clear()


@cache
def own() -> Own:
    """What is there. Looked for once."""
    folder = _folder()
    sources, left_out = dict[str, Source](), list[LeftOut]()
    if folder is not None and not folder.is_dir():
        left_out.append(LeftOut(str(folder), "folder"))
    for one in [*_files(folder), *_installed()]:
        if not _VERB.fullmatch(one.verb):
            left_out.append(LeftOut(one.place, "name", one.verb))
        elif one.verb in sources or one.verb in load() or one.verb in RESERVED:
            left_out.append(LeftOut(one.place, "taken", one.verb))
        else:
            sources[one.verb] = one
    return Own(sources, tuple(left_out))


def _files(folder: Path | None) -> list[Source]:
    files = sorted(folder.glob("*.py")) if folder is not None else []
    return [
        Source(file.stem.replace("_", "-"), str(file), str(file), lambda file=file: _imported(file))
        for file in files
        if not file.name.startswith("_")
    ]


def _imported(file: Path) -> Any:
    name = f"hami_bot_own_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module.PLAYBOOK


def _installed() -> list[Source]:
    found = sorted(importlib.metadata.entry_points(group=GROUP), key=lambda one: one.name)
    return [Source(one.name, f"{one.value} of {_package(one)}", _file(one), one.load) for one in found]


def _package(one: importlib.metadata.EntryPoint) -> str:
    return one.dist.name if one.dist else "an installed package"


def _file(one: importlib.metadata.EntryPoint) -> str:
    """The module's file, as far as that can be told without importing it."""
    return f"{one.module.replace('.', '/')}.py"


@cache
def playbook(verb: str) -> Playbook:
    """The playbook of a verb that `own` found. Raises OwnPlaybookError if it cannot be imported or is none."""
    source = own().sources[verb]
    with told_by_name(verb, source.file):
        made: object = source.read()
        if not isinstance(made, shape.Playbook):
            raise WrongPlaybookError(f"PLAYBOOK is of the type {type(made).__name__}, not playbooks.api.Playbook")
        return adapted(verb, cast("shape.Playbook[Any]", made), source.file)


def import_all() -> list[tuple[Source, OwnPlaybookError | None]]:
    """All that were found, each with why it does not work, if so."""
    return [(source, _error(source.verb)) for source in own().sources.values()]


def log_left_out() -> None:
    """A line in the log for each that cannot be asked."""
    say = Texts("en")
    for one in own().left_out:
        log.warning("%s", say(f"own-playbook.{one.why}", place=one.place, verb=one.verb))


def _error(verb: str) -> OwnPlaybookError | None:
    try:
        playbook(verb)
    except OwnPlaybookError as error:
        return error
    return None
