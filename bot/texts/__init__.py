"""The prose for users: a `Text` is a key and values, `Texts` puts it into words in one language.

The words stand in the TOML files beside this module, one per subject: `claim.en = …` and below it `claim.zh = …`.
Codes, quotes and commands are never translated. A text is a `str.format` template; where a word goes with a number,
`{count(is|are)}` is its first form for a `count` of one and its second for any other. A text that may be about another
vendor's devices says `{GPU}`, `{GPUs}`, `{a_GPU}` or `{A_GPU}`, which no caller gives: they become GPUs unless the
answer has another word for them (`Texts.about`). Chinese has one form, `{GPU}`, and a blank between a Chinese character
and a Latin word, none between two Chinese characters: a blank beside a placeholder is decided once the value is there,
whose inside is never touched. `tests/test_texts.py` checks that every language has the same keys with the same
placeholders, and that the code uses no other.
"""

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Literal, TypeVar, cast, get_args

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = get_args(Language)
Kind = Literal["columns", "states", "titles", "sources", "help"]
"""Kinds of words that programs read in English: a column, a state, a table's title, a source, a sentence of help."""
_FORMS = re.compile(r"\{((\w+)\(([^|(){}]*)\|([^|(){}]*)\))\}")

T = TypeVar("T")
_LINES: Mapping[Language, re.Pattern[str]] = {
    language: re.compile(rf"^([^=\n]+)\.{language}( = .*)$", re.MULTILINE) for language in LANGUAGES
}
_FACT = re.compile(r'^(?:\w+|".*") = .*$', re.MULTILINE)
GPU = "GPU"
NOUN_VALUE = "gpu"
_ANY_DEVICE = "device"
_DEVICE: Mapping[Language, str] = {"en": "device", "zh": "设备"}
_SPOKEN_WITH_A_VOWEL = "AEFHILMNORSX"
"""Initials whose names begin with a vowel: an NPU, an MLU, an XPU."""

_OPEN = "\ufdd0"
"""Stands for a blank beside a placeholder until its value is there: no text holds this noncharacter of Unicode."""
_BESIDE_VALUE = re.compile(r"(?<=\}) | (?=\{)")
_WIDE = "\u3001-\u3003\u3008-\u3011\uff01-\uff60"
_CHINESE = f"\u3400-\u4dbf\u4e00-\u9fff{_WIDE}"
_NEEDLESS = f"(?<=[{_CHINESE}])%s(?=[{_CHINESE}])|(?<=[{_WIDE}])%s|%s(?=[{_WIDE}])"
"""A pattern of blanks between two Chinese characters, or beside Chinese punctuation."""
_NEEDLESS_BLANK, _NEEDLESS_OPEN = (re.compile(_NEEDLESS.replace("%s", blank)) for blank in (" ", _OPEN))


Form = tuple[str, str, str, str]
"""A word of a template that goes with a number: what stands in the braces, the number's name, and the two forms."""


class Text:
    """Something to say, before it is words: `Text("running.claim", pod="ml/trainer-0", node="gpu-1")`. A value is a
    string, a number, another text, or a sequence of these, which is told as a list. `gpu`, where it is given, is the
    word for the devices that this text and the texts in it speak of.
    """

    __slots__ = ("key", "values")

    def __init__(self, key: str, /, **values: object) -> None:
        self.key = key
        self.values: Mapping[str, object] = values

    @property
    def data(self) -> Mapping[str, Any]:
        """The text's values as JSON has them: a text among them is a mapping of its key and its values."""
        return {name: _data(value) for name, value in self.values.items()}

    def about(self, noun: str) -> "Text":
        """The text with `noun` as the word for its devices; `device` is of any vendor."""
        return self if noun == GPU or NOUN_VALUE in self.values else Text(self.key, **{**self.values, NOUN_VALUE: noun})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Text) and (self.key, self.values) == (other.key, other.values)

    def __hash__(self) -> int:
        return hash((self.key, tuple(self.values)))

    def __repr__(self) -> str:
        return f"Text({', '.join([repr(self.key), *(f'{name}={value!r}' for name, value in self.values.items())])})"

    def __str__(self) -> str:
        raise TypeError(f"{self!r} is no words yet: Texts puts it into words")

    def __format__(self, spec: str) -> str:
        return str(self)


def _data(value: object) -> Any:
    match value:
        case Text() if value.key == _LISTED and len(value.values) == 1:
            return _data(value.values["parts"])  # as any list, which is told in the same words
        case Text():
            return {"key": value.key, "values": value.data}
        case list() | tuple() if type(cast("object", value)) in _SEQUENCES:
            return [_data(part) for part in cast("Sequence[object]", value)]
        case None | str() | int() | float() | dict():
            return cast("Any", value)
        case _:
            return str(value)


Prose = Text | str
"""Something to tell: a text of ours, or words that are used as they are."""

_SEQUENCES = (list, tuple)
"""Types of values that are told as a list; a version is a tuple too, but of another type."""
LITERAL = "literal"
"""The key of a text whose words are given with it, in each language."""
_FITTING = "fitting"
_UNSTOPPED = "unstopped"
_TOGETHER = "together"
_MADE = "made"
_NAMED = "named"
_LISTED, _CLAUSES, _SENTENCES, _SPACED = "listed", "clauses", "sentences", "spaced"
_JOINED: Mapping[str, Mapping[Language, str]] = {
    _LISTED: {"en": ", ", "zh": "、"},
    _CLAUSES: {"en": "; ", "zh": "；"},
    _SENTENCES: {"en": " ", "zh": ""},
    _SPACED: {"en": " ", "zh": " "},
}
_OF_CHINESE = {", ": "，", ": ": "：", "; ": "；"}
_OF_PARTS = frozenset({*_JOINED, _TOGETHER, _UNSTOPPED, _FITTING, _MADE})


def stored_text(key: str, values: Mapping[str, Any]) -> Text:
    """A `Text` with a stored key and stored values."""
    return Text(key, **values)


def literal(en: str, zh: str = "") -> Text:
    """A `Text` of given words, such as those in a table of faults; `zh` defaults to the English."""
    return Text(LITERAL, en=en, zh=zh or en)


def listed(parts: Iterable[Prose]) -> Text:
    """A `Text` that lists the parts: `a, b`."""
    return Text(_LISTED, parts=tuple(parts))


def some_names(names: Sequence[Prose], shown: int = 3) -> Prose:
    """A list of at most `shown` parts: `a, b, c`, or `a, b and 5 more`."""
    if len(names) <= shown:
        return listed(names) if len(names) > 1 else [*names, ""][0]
    return Text("words.and-more", names=listed(names[: shown - 1]), more=len(names) - shown + 1)


def clauses(parts: Iterable[Prose]) -> Text:
    """A `Text` of clauses in one sentence: `a; b`."""
    return Text(_CLAUSES, parts=tuple(parts))


def spaced(*parts: Prose) -> Text:
    """A `Text` of the parts with blanks between them, without those that are empty."""
    return Text(_SPACED, parts=tuple(part for part in parts if part))


def together(*parts: Prose, by: str = "") -> Text:
    """A `Text` of the parts with `by` between them, without empty ones; Chinese has its own commas and colons."""
    return Text(_TOGETHER, parts=tuple(part for part in parts if part), by=by)


def unstopped(prose: Prose) -> Text:
    """A `Text` of a sentence without its full stop, to stand within another."""
    return Text(_UNSTOPPED, parts=(prose,))


def fitting(forms: Iterable[Prose], limit: int) -> Text:
    """A `Text` that becomes the first of `forms` with at most `limit` characters, or the last where none fits."""
    return Text(_FITTING, parts=tuple(forms), limit=limit)


def longest(prose: Prose) -> Text | None:
    """The first form of a `fitting` text, however long; None of other prose."""
    if not isinstance(prose, Text) or prose.key != _FITTING:
        return None
    return Text(_FITTING, **{**prose.values, "limit": sys.maxsize})


def sentences(*parts: Prose) -> Text:
    """A `Text` of sentences one after the other, without those that are empty."""
    return Text(_SENTENCES, parts=tuple(part for part in parts if part))


def beginning(prose: Prose, limit: int) -> Prose:
    """The first of several sentences, as many as fit `limit` characters, but at least one; other prose unchanged."""
    if not isinstance(prose, Text) or prose.key != _SENTENCES:
        return prose
    parts, noun = cast("Sequence[Prose]", prose.values["parts"]), str(prose.values.get(NOUN_VALUE, GPU))
    forms = (sentences(*parts[:count]) for count in range(len(parts), 0, -1))
    return fitting(forms, limit).about(noun) if parts else prose


def named(word: str, kind: Kind) -> Text:
    """A `Text` of a word that programs read in English, such as a column's name; `kind` says what the word names."""
    return Text(_NAMED, word=word, kind=kind)


def made(make: Callable[..., str], *parts: Prose) -> Text:
    """A `Text` that `make` makes of the parts once they are words, to cut and escape for a medium; never stored."""
    return Text(_MADE, make=make, parts=parts)


class Texts:
    """The texts of one language: `say("running.claim", pod="ml/trainer-0", node="gpu-1")` or `say.words(text)`."""

    def __init__(self, language: Language, noun: str = GPU) -> None:
        """`noun` is the word for the devices; `device` is of any vendor."""
        self.language: Language = language
        self.noun = noun
        noun = _DEVICE[language] if noun == _ANY_DEVICE else noun
        self._to_fill = _to_fill(language, noun)
        self._forms = _forms(language, noun)
        self._noun = noun

    @property
    def templates(self) -> Mapping[str, str]:
        """Every text with its placeholders, by key."""
        sections = (_section(self.language, self._noun, section) for section in _sections())
        return {key: text for section in sections for key, text in section.items()}

    def about(self, noun: str) -> "Texts":
        """The texts of this language with `noun` as the word for devices; `device` is of any vendor."""
        return Texts(self.language, noun)

    def __call__(self, key: str, /, **values: object) -> str:
        """The words of the text `key`, with the values filled in. An unknown key is a bug and raises KeyError."""
        for name, value in values.items():
            if not isinstance(value, str):
                values[name] = self._value(value)
        for placeholder, name, one, many in self._forms[key]:
            values[placeholder] = one if str(values[name]) == "1" else many
        text = self._to_fill[key].format_map(values)
        return _NEEDLESS_OPEN.sub("", text).replace(_OPEN, " ") if _OPEN in text else text

    def words(self, prose: Prose) -> str:
        """The prose in this language; a string is returned as it is."""
        return prose if isinstance(prose, str) else self.filled(prose.key, prose.values)

    def name(self, word: str, kind: Kind = "columns") -> str:
        """The word for people, in this language, for a word that programs read in English."""
        return word if self.language == "en" else _named(word, kind)

    def filled(self, key: str, values: Mapping[str, object]) -> str:
        """The words of the text `key` with these values; `key` may be one that joins others."""
        noun = values.get(NOUN_VALUE)
        if noun is not None and noun != self.noun:
            return self.about(str(noun)).filled(key, values)
        if key == LITERAL:
            return str(values[self.language])
        if key == _NAMED:
            return self.name(str(values["word"]), cast("Kind", values["kind"]))
        if key not in _OF_PARTS:
            return self(key, **values)
        parts = [str(self._value(part)) for part in cast("Sequence[object]", values["parts"])]
        if key == _TOGETHER:
            by = str(values["by"])
            return (by if self.language == "en" else _OF_CHINESE.get(by, by)).join(parts)
        if key == _UNSTOPPED:
            return parts[0].rstrip(".。 ")
        if key == _FITTING:
            return next((form for form in parts if len(form) <= cast("int", values["limit"])), parts[-1])
        if key == _MADE:
            return cast("Callable[..., str]", values["make"])(*parts)
        return _JOINED[key][self.language].join(filter(None, parts))

    def _value(self, value: object) -> object:
        match value:
            case Text():
                return self.words(value)
            case {"key": str(key), "values": dict()}:  # as JSON has it
                return self.filled(key, cast("Mapping[str, Any]", value)["values"])
            case list() | tuple() if type(cast("object", value)) in _SEQUENCES:
                parts = (str(self._value(part)) for part in cast("Sequence[object]", value))
                return _JOINED[_LISTED][self.language].join(parts)
            case _:
                return value

    def __contains__(self, key: str) -> bool:
        try:
            self._forms[key]
        except KeyError:
            return False
        return True


class OwnTexts(Texts):
    """Texts that an operator's own playbook brings along, by language; in English where a language lacks one."""

    def __init__(self, language: Language, texts: Mapping[str, Mapping[str, str]]) -> None:
        self.language = language
        self.noun = GPU
        any_language = {name: text for own in texts.values() for name, text in own.items()}
        templates = {**any_language, **texts.get("en", {}), **texts.get(language, {})}
        self._to_fill = _open_beside_values(templates) if language == "zh" else templates
        self._forms = _forms_in(templates)


def in_english(prose: Prose) -> str:
    """The prose in English, where no reader's language is known: logs, the audit log, an object of the cluster."""
    return prose if isinstance(prose, str) else Texts("en").words(prose)


class _BySection(dict[str, T]):
    """What is made of the texts, a section at a time: a question needs a few of some two hundred."""

    def __init__(self, read: Callable[[str], Mapping[str, T]]) -> None:
        super().__init__()
        self._read = read

    def __missing__(self, key: str) -> T:
        found = self._read(key.partition(".")[0])
        self.update(found)
        return found[key]


@cache
def _sections() -> Mapping[str, bytes]:
    """The sections of all files, unread: to read all of them takes 50 ms. A file begins with a comment."""
    files = (file.read_bytes() for file in Path(__file__).parent.glob("*.toml"))
    parts = (part.partition(b"]\n") for text in files for part in text.split(b"\n[")[1:])
    return {name.decode(): texts for name, _, texts in parts}


@lru_cache(maxsize=2048)
def _section(language: Language, noun: str, section: str) -> dict[str, str]:
    import tomllib  # noqa: PLC0415  # whoever asks for a language's name alone needs none

    texts = tomllib.loads("\n".join(map("".join, _LINES[language].findall(_sections()[section].decode()))))
    return {f"{section}.{key}": _about(noun, text) for key, text in texts.items()}


def facts(section: str) -> Mapping[str, Any]:
    """The entries of a TOML section that are no texts, and so the same in each language."""
    import tomllib  # noqa: PLC0415  # as above

    return tomllib.loads("\n".join(_FACT.findall(_sections()[section].decode())))


@cache
def _names(kind: Kind) -> tuple[Mapping[str, str], Sequence[tuple[re.Pattern[str], str]]]:
    """The Chinese of words, and of those with `{}` for a part that has a name itself or stays as it is."""
    words = facts(f"names-{kind}")
    forms = [
        (re.compile(re.escape(word).replace(r"\{\}", "(.+?)")), told) for word, told in words.items() if "{}" in word
    ]
    return words, forms


@lru_cache(maxsize=4096)
def _named(word: str, kind: Kind) -> str:
    words, forms = _names(kind)
    if word in words:
        return words[word]
    for form, told in forms:
        if found := form.fullmatch(word):
            return told.format(*(_named(part, kind) for part in found.groups()))
    return word


def _about(noun: str, text: str) -> str:
    if "GPU" not in text:
        return text
    article = "an" if noun.isupper() and noun[0] in _SPOKEN_WITH_A_VOWEL else "a"
    text = text.replace("{GPU}", noun).replace("{GPUs}", f"{noun}s")
    text = text.replace("{a_GPU}", f"{article} {noun}").replace("{A_GPU}", f"{article.capitalize()} {noun}")
    return text if noun.isascii() else _NEEDLESS_BLANK.sub("", text)


@lru_cache(maxsize=32)
def _to_fill(language: Language, noun: str) -> dict[str, str]:
    if language != "zh":
        return _BySection(lambda section: _section(language, noun, section))
    return _BySection(lambda section: _open_beside_values(_section(language, noun, section)))


def _open_beside_values(templates: Mapping[str, str]) -> dict[str, str]:
    return {key: _BESIDE_VALUE.sub(_OPEN, text) for key, text in templates.items()}


@lru_cache(maxsize=32)
def _forms(language: Language, noun: str) -> dict[str, list[Form]]:
    return _BySection(lambda section: _forms_in(_section(language, noun, section)))


def _forms_in(templates: Mapping[str, str]) -> dict[str, list[Form]]:
    return {key: _FORMS.findall(text) for key, text in templates.items()}
