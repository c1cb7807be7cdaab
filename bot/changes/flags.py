"""Where a container's flag stands and what the list of words is with another value: pure, on the Deployment as it is.

Flags are read as pflag reads them (github.com/spf13/pflag, `parseArgs`): the last one wins, `--` ends them. HAMi's
charts keep binary and flags in `command`, the public guides in `args`; kubelet runs the two lists one after the other.
"""

import re
from typing import Any, Literal, NamedTuple, cast

from bot.texts import Text, in_english

Object = dict[str, Any]
"""An object of the API as its JSON is."""
Field = Literal["command", "args"]

_SHELL = re.compile(r"\s-{1,2}[A-Za-z]")


class Flag(NamedTuple):
    """A flag by its name without hyphens; a bool takes no word of its own."""

    name: str
    is_bool: bool = False

    @property
    def shown(self) -> str:
        """The flag as people write it: `-v`, `--profiling`."""
        return f"-{self.name}" if self.is_short else f"--{self.name}"

    @property
    def is_short(self) -> bool:
        """The flag has one letter: its value may follow without a sign, as in `-v4`."""
        return len(self.name) == 1


class Unsuitable(ValueError):  # noqa: N818  # what the person is told
    """The container's flags cannot be changed as words; `reason` says why."""

    def __init__(self, reason: Text) -> None:
        super().__init__(in_english(reason))
        self.reason = reason


class ArgumentList(NamedTuple):
    """A container's words. `place` is its index among the containers; a list that is not there is empty."""

    container: str
    place: int
    command: tuple[str, ...]
    args: tuple[str, ...]

    def words(self, field: Field) -> tuple[str, ...]:
        return self.command if field == "command" else self.args

    def path(self, field: Field) -> str:
        """The list as a JSON pointer into the Deployment."""
        return f"/spec/template/spec/containers/{self.place}/{field}"


class Set(NamedTuple):
    """A flag that is set: in which list, at which word, and its value. `spelling` is all before the value.

    Of `-v 4` the value stands in a word of its own: `at` is that word and the spelling is empty.
    """

    field: Field
    at: int
    spelling: str
    value: str


def find_spot(deployment: Object, container: str) -> ArgumentList | None:
    """The container with that name, wherever it stands; None when there is none (or two)."""
    found = [(index, spec) for index, spec in enumerate(containers(deployment)) if spec.get("name") == container]
    if len(found) != 1:
        return None
    index, spec = found[0]
    return ArgumentList(container, index, _words(spec.get("command")), _words(spec.get("args")))


def with_words(spot: ArgumentList, field: Field, words: tuple[str, ...]) -> ArgumentList:
    """The container if that list held these words."""
    return spot._replace(command=words) if field == "command" else spot._replace(args=words)


def containers(deployment: Object) -> list[Object]:
    """The containers of the pod template, as they are."""
    found = part_of(part_of(part_of(deployment, "spec"), "template"), "spec").get("containers")
    return cast(list[Object], found) if isinstance(found, list) else []


def part_of(thing: Object, name: str) -> Object:
    """What stands under the name, empty where that is no object."""
    found = thing.get(name)
    return cast(Object, found) if isinstance(found, dict) else {}


def target_of(deployment: Object) -> str:
    """`namespace/name` of the Deployment."""
    meta = part_of(deployment, "metadata")
    return f"{meta.get('namespace', '')}/{meta.get('name', '')}"


def _words(value: Any) -> tuple[str, ...]:
    return tuple(str(word) for word in cast(list[Any], value)) if isinstance(value, list) else ()


def sets_of(spot: ArgumentList, flag: Flag) -> list[Set]:
    """Every setting of the flag, in the order in which they are read: the last one counts."""
    found: list[Set] = []
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


def last_set(spot: ArgumentList, flag: Flag) -> Set | None:
    """The setting of the flag that counts; None when it is not set."""
    found = sets_of(spot, flag)
    return found[-1] if found else None


def _read(words: tuple[str, ...], at: int, flag: Flag) -> Set | None:
    word = words[at]
    match = re.fullmatch(rf"(--?{re.escape(flag.name)}=)(.*)", word, re.DOTALL)
    if match:
        return Set("command", at, match[1], match[2])
    if word in (f"-{flag.name}", f"--{flag.name}"):
        if flag.is_bool:
            return Set("command", at, f"{word}=", "true")
        return Set("command", at + 1, "", words[at + 1]) if at + 1 < len(words) else None
    match = re.fullmatch(rf"(-{re.escape(flag.name)})(\d+)", word) if flag.is_short else None
    return Set("command", at, match[1], match[2]) if match else None


def with_value(spot: ArgumentList, flag: Flag, value: str) -> tuple[Field, tuple[str, ...]]:
    """The list that changes, and its words with the flag at `value`: in place and in its own spelling, else appended.

    Raises Unsuitable where words cannot say it: flags inside a shell line, or an image that brings its own.
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
