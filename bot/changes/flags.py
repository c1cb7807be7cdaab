"""Reads a container's flags, and makes its arguments with another value: pure, on the Deployment as it is.

Flags are read as pflag reads them (github.com/spf13/pflag, `parseArgs`): the last one wins, `--` ends them. HAMi's
charts keep binary and flags in `command`, the public guides in `args`; kubelet runs the two lists one after the other.
"""

import re
from typing import Any, Literal, NamedTuple, cast

from bot.texts import Text, in_english

Object = dict[str, Any]
"""An object of the Kubernetes API, as its JSON."""
Field = Literal["command", "args"]

_SHELL = re.compile(r"\s-{1,2}[A-Za-z]")


class Flag(NamedTuple):
    """A command line flag, by its name without hyphens; a bool flag takes no word as its value."""

    name: str
    is_bool: bool = False

    @property
    def shown(self) -> str:
        """The flag as people write it: `-v`, `--profiling`."""
        return f"-{self.name}" if self.is_short else f"--{self.name}"

    @property
    def is_short(self) -> bool:
        """Whether the flag has one letter: its value may then follow without a sign, as in `-v4`."""
        return len(self.name) == 1


class Unsuitable(ValueError):  # noqa: N818  # what the person is told
    """The container's flags cannot be changed in its command or args; `reason` says why."""

    def __init__(self, reason: Text) -> None:
        super().__init__(in_english(reason))
        self.reason = reason


class ArgumentList(NamedTuple):
    """A container's `command` and `args`, empty where it lacks them. `place` is its index in the pod template."""

    container: str
    place: int
    command: tuple[str, ...]
    args: tuple[str, ...]

    def words(self, field: Field) -> tuple[str, ...]:
        return self.command if field == "command" else self.args

    def path(self, field: Field) -> str:
        """The JSON pointer into the Deployment to the list `field`."""
        return f"/spec/template/spec/containers/{self.place}/{field}"


class FlagInWords(NamedTuple):
    """A setting of a flag: in which list, at which word, and its value; `spelling` is the word's text before the value.
    In `-v 4` the value is a word of its own: `at` is that word and the spelling is empty.
    """

    field: Field
    at: int
    spelling: str
    value: str


def find_spot(deployment: Object, container: str) -> ArgumentList | None:
    """The command and arguments of the container with that name; None where no container, or two, have it."""
    found = [(index, spec) for index, spec in enumerate(containers(deployment)) if spec.get("name") == container]
    if len(found) != 1:
        return None
    index, spec = found[0]
    return ArgumentList(container, index, _words(spec.get("command")), _words(spec.get("args")))


def with_words(spot: ArgumentList, field: Field, words: tuple[str, ...]) -> ArgumentList:
    """The container's `command` and `args`, with `words` as the list `field`."""
    return spot._replace(command=words) if field == "command" else spot._replace(args=words)


def containers(deployment: Object) -> list[Object]:
    """The containers of the Deployment's pod template, as their JSON."""
    found = part_of(part_of(part_of(deployment, "spec"), "template"), "spec").get("containers")
    return cast(list[Object], found) if isinstance(found, list) else []


def part_of(thing: Object, name: str) -> Object:
    """The object under the name, empty where the value is no object."""
    found = thing.get(name)
    return cast(Object, found) if isinstance(found, dict) else {}


def target_of(deployment: Object) -> str:
    """The `namespace/name` of the Deployment."""
    meta = part_of(deployment, "metadata")
    return f"{meta.get('namespace', '')}/{meta.get('name', '')}"


def _words(value: Any) -> tuple[str, ...]:
    return tuple(str(word) for word in cast(list[Any], value)) if isinstance(value, list) else ()


def sets_of(spot: ArgumentList, flag: Flag) -> list[FlagInWords]:
    """Every setting of the flag in the container's arguments, in the order in which they are read: the last counts."""
    found: list[FlagInWords] = []
    fields: tuple[Field, ...] = ("command", "args")
    for field in fields:
        words = spot.words(field)
        taken = False
        for at, word in enumerate(words):
            if taken:
                taken = False
            elif word == "--":
                return found
            elif setting := _read(words, at, flag):
                found.append(setting._replace(field=field))
                taken = setting.at > at
    return found


def last_set(spot: ArgumentList, flag: Flag) -> FlagInWords | None:
    """The setting of the flag that counts, which is the last; None when the flag is not set."""
    found = sets_of(spot, flag)
    return found[-1] if found else None


def _read(words: tuple[str, ...], at: int, flag: Flag) -> FlagInWords | None:
    word = words[at]
    match = re.fullmatch(rf"(--?{re.escape(flag.name)}=)(.*)", word, re.DOTALL)
    if match:
        return FlagInWords("command", at, match[1], match[2])
    if word in (f"-{flag.name}", f"--{flag.name}"):
        if flag.is_bool:
            return FlagInWords("command", at, f"{word}=", "true")
        return FlagInWords("command", at + 1, "", words[at + 1]) if at + 1 < len(words) else None
    match = re.fullmatch(rf"(-{re.escape(flag.name)})(\d+)", word) if flag.is_short else None
    return FlagInWords("command", at, match[1], match[2]) if match else None


def with_value(spot: ArgumentList, flag: Flag, value: str) -> tuple[Field, tuple[str, ...]]:
    """The list that changes, and its words with the flag at `value`: in place and in its own spelling, else appended.
    Raises Unsuitable where words cannot do it: flags inside a shell line, or an image with a command of its own.
    """
    if any(_SHELL.search(word) for word in (*spot.command, *spot.args)):
        raise Unsuitable(Text("refusal.shell-line", container=spot.container))
    now = last_set(spot, flag)
    if now is None:
        field: Field = "args" if spot.args else "command"
        if not spot.words(field):
            raise Unsuitable(Text("refusal.in-the-image", container=spot.container))
        if "--" in spot.words(field):
            raise Unsuitable(Text("refusal.ended-flags", container=spot.container))
        return field, (*spot.words(field), f"{flag.shown}={value}")
    words = list(spot.words(now.field))
    words[now.at] = f"{now.spelling}{value}"
    return now.field, tuple(words)
