"""Words that prove a fault of a GPU node or container, as data: the TOML files beside this module. To add a fault, give
the log it stands in, its words, the HAMi versions, finding code, meaning, fix, source and a real line.
"""

import re
import tomllib
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from itertools import chain
from typing import Literal, NamedTuple

import msgspec

from bot.finding_codes import Code
from bot.hami.version import Version, is_among
from bot.texts import Text, literal, unstopped

Where = Literal[
    "plugin-log",
    "monitor-log",
    "driver-log",
    "workload-log",
    "scheduler-log",
    "extender-log",
    "container-message",
    "scheduler-message",
    "kubelet-message",
    "event-message",
]
"""Where a fault's words stand: in a log, or in a text of the API. `scheduler-log` is the log of a HAMi scheduler's
container that does not serve, `extender-log` that of an extender that does.
"""
_FILES = ("vendors", "plugin", "kubelet", "start", "core", "scheduler")
CORE_HEADER = r"\[(?:HAM[Ii]-core|4pdvGPU) [^\]\n]{1,200}\]:? ?"
"""A regular expression for the beginning of a line of HAMi-core; `4pdvGPU` is its older name."""
_TOLD: tuple[Where, ...] = ("container-message", "event-message")
_SHORT, _BEFORE = 200, 60
LONGEST = 65_536
"""How many characters of a line are searched; programs that print a whole object in one line have their words early."""


_NAME = re.compile(r"\(\?P<\w+>")
_NO_CLASS = "no class"
_PARTS = re.compile(r"\[\[([<>=.\d ]+|no class): (.*?)(?: \| (.*?))?\]\]")


class SignatureText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a signature means, and the fix, in whole sentences of one language.

    `[[<=2.9: this
    that]]` gives `this` for these versions or an unknown one, else `that`; `[[no class: this
    that]]` gives `this` for a pod without NVIDIA's runtime class; `{file}` is what the group `file` matched.
    """

    means: str
    fix: str


class Signature(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One fault by its words: `match` is a substring, or with `regex` a regular expression.

    `versions` is like `>=2.5 <=2.9`, or `all`. `core`: the words follow HAMi-core's header. `source`: the threads, or
    the HAMi version and file, that show it. `looks`: the fix changes nothing, always or for a pod with NVIDIA's runtime
    class.
    """

    id: str
    where: tuple[Where, ...]
    match: str
    code: Code
    example: str
    source: str
    en: SignatureText
    zh: SignatureText
    versions: str = "all"
    regex: bool = False
    core: bool = False
    looks: Literal["", "always", "classed"] = ""

    @property
    def pattern(self) -> str:
        words = self.match if self.regex else re.escape(self.match)
        return f"{CORE_HEADER}(?:{words})" if self.core else words

    @property
    def recreates(self) -> bool:
        """Whether the fix is to create the pod anew."""
        return self.en.fix.startswith("Recreate the pod")

    def holds_for(self, version: Version | None) -> bool:
        """Whether this version of HAMi prints the fault's words; an unknown version may."""
        return version is None or is_among(version, self.versions)


class Hit(NamedTuple):
    """A signature and the text where it was found, verbatim: a line of a log, or of a workload's log only the words.

    `line` counts from 0; `version` is that of the program that printed it. `classed`: its pod has NVIDIA's runtime
    class.
    """

    signature: Signature
    quote: str
    line: int = 0
    version: Version | None = None
    classed: bool = False

    @property
    def means(self) -> Text:
        return literal(self._said(self.signature.en.means), self._said(self.signature.zh.means))

    @property
    def fix(self) -> Text:
        """The fix as a step's label, without the full stop."""
        return unstopped(literal(self._said(self.signature.en.fix), self._said(self.signature.zh.fix)))

    @property
    def fix_looks(self) -> bool:
        """Whether the fix only tells where to look."""
        return self.signature.looks == "always" or (self.classed and self.signature.looks == "classed")

    @property
    def is_past(self) -> bool:
        """Whether the words are known for a bug that this version does not have, so that the cause may be another."""
        return any(that and not self._holds(when) for when, _, that in _PARTS.findall(self.signature.en.means))

    def _said(self, text: str) -> str:
        named = _compiled(self.signature.pattern).search(self.quote)
        for name, words in (named.groupdict() if named else {}).items():
            text = text.replace(f"{{{name}}}", words or "")
        said = _PARTS.sub(lambda part: part[2] if self._holds(part[1]) else part[3] or "", text)
        return " ".join(said.split())

    def _holds(self, when: str) -> bool:
        if when == _NO_CLASS:
            return not self.classed
        return self.version is None or is_among(self.version, when)


def find(where: Where, texts: Iterable[str], version: Version | None = None) -> list[Hit]:
    """The signatures in the lines, in the files' order, each with the last line that has it."""
    known = _signatures(where)
    either = _either(where)
    last: dict[str, Hit] = {}
    for number, line in enumerate(texts):
        if not either.search(line, 0, LONGEST):
            continue
        for signature in known:
            if (words := _compiled(signature.pattern).search(line, 0, LONGEST)) and signature.holds_for(version):
                quote = words[0] if where == "workload-log" else line
                last[signature.id] = Hit(signature, _told(quote, words) if where in _TOLD else quote, number, version)
    return [last[signature.id] for signature in known if signature.id in last]


def _told(text: str, words: re.Match[str]) -> str:
    """The part of a long message that has the words: its line, or what stands around them."""
    if len(text) <= _SHORT:
        return text
    start = max(text.rfind("\n", 0, words.start()), text.rfind(" ", 0, max(0, words.start() - _BEFORE))) + 1
    return text[start:].partition("\n")[0] if "\n" not in words[0] else text[start : words.end()]


@cache
def signatures() -> Sequence[Signature]:
    """All signatures in the files' order: those that explain more come first."""
    texts = (files(__name__).joinpath(f"{name}.toml").read_text(encoding="utf-8") for name in _FILES)
    listed = (msgspec.convert(tomllib.loads(text)["signature"], tuple[Signature, ...]) for text in texts)
    return list(chain.from_iterable(listed))


@cache
def _signatures(where: Where) -> Sequence[Signature]:
    return tuple(signature for signature in signatures() if where in signature.where)


@cache
def _either(where: Where) -> re.Pattern[str]:
    found = [signature.pattern for signature in _signatures(where) if not signature.core]
    if core := [signature.pattern.removeprefix(CORE_HEADER) for signature in _signatures(where) if signature.core]:
        found.append(f"{CORE_HEADER}(?:{'|'.join(core)})")
    return re.compile("|".join(f"(?:{_NAME.sub('(?:', pattern)})" for pattern in found) or r"(?!)")


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
