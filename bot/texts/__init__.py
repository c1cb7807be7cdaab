"""The prose of reports, one TOML file per language beside this module.

Codes, quotes and commands are never translated. A text is a `str.format` template; where a word goes with a number,
`{count(is|are)}` is its first form for a `count` of one and its second for any other. `tests/test_texts.py` checks that
every language has the same keys with the same placeholders, and that the code uses no other. They speak of GPUs; an
answer about another vendor's devices puts its own word in their place (`Texts.about`).

Chinese has a blank between a Chinese character and a Latin word, none between two Chinese characters. A template cannot
know which of them a value begins and ends with, so a blank beside a placeholder is decided once the value is there.
What stands inside a value, such as a quote or a command, is never touched.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Literal, NamedTuple, get_args

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = get_args(Language)
_FORMS = re.compile(r"\{((\w+)\(([^|(){}]*)\|([^|(){}]*)\))\}")

_GPU = "GPU"
_DEVICE: Mapping[Language, str] = {"en": "device", "zh": "设备"}
_NOUN = re.compile(r"\bGPU(s?)\b(?! Operator)", re.ASCII)
_ARTICLE = re.compile(r"\b([Aa]) GPU\b(?! Operator)", re.ASCII)
_SPOKEN_WITH_A_VOWEL = "AEFHILMNORSX"
"""Initials whose names begin with one: an NPU, an MLU, an XPU."""

_OPEN = "\ufdd0"
"""Stands for a blank beside a placeholder until its value is there: no text holds this noncharacter of Unicode."""
_BESIDE_VALUE = re.compile(r"(?<=\}) | (?=\{)")
_WIDE = "\u3001-\u3003\u3008-\u3011\uff01-\uff60"
_CHINESE = f"\u3400-\u4dbf\u4e00-\u9fff{_WIDE}"
_NEEDLESS = f"(?<=[{_CHINESE}])%s(?=[{_CHINESE}])|(?<=[{_WIDE}])%s|%s(?=[{_WIDE}])"
"""A blank between two Chinese characters, or beside Chinese punctuation."""
_NEEDLESS_BLANK, _NEEDLESS_OPEN = (re.compile(_NEEDLESS.replace("%s", blank)) for blank in (" ", _OPEN))


class Form(NamedTuple):
    """A word of a template that goes with the number `name`; `placeholder` is what stands in the braces."""

    placeholder: str
    name: str
    one: str
    many: str


class Texts:
    """The texts of one language: `say("running.claim", pod="ml/trainer-0", node="gpu-1")`."""

    def __init__(self, language: Language, noun: str = _GPU) -> None:
        """`noun`: what the devices are called."""
        self.language: Language = language
        self.templates = _templates(language, noun)
        self._to_fill = _to_fill(language, noun)
        self._forms = _forms(language, noun)

    def about(self, noun: str) -> "Texts":
        """The same texts about devices that are called so; `device` is of any vendor."""
        return Texts(self.language, _DEVICE[self.language] if noun == "device" else noun)

    def __call__(self, key: str, **values: object) -> str:
        """The text for the key with the values filled in. An unknown key is a bug and raises KeyError."""
        for form in self._forms[key]:
            values[form.placeholder] = form.one if str(values[form.name]) == "1" else form.many
        text = self._to_fill[key].format_map(values)
        return _NEEDLESS_OPEN.sub("", text).replace(_OPEN, " ") if _OPEN in text else text

    def clauses(self, parts: Iterable[str]) -> str:
        """The clauses as one: `a; b`."""
        return self.semicolon.join(parts)

    @property
    def semicolon(self) -> str:
        """What stands between two clauses."""
        return "；" if self.language == "zh" else "; "

    def sentences(self, *parts: str) -> str:
        """The sentences one after the other, without those that are empty."""
        return ("" if self.language == "zh" else " ").join(filter(None, parts))

    def listed(self, parts: Iterable[str]) -> str:
        """Words of ours in a row: `a, b`."""
        return ("、" if self.language == "zh" else ", ").join(parts)

    def __contains__(self, key: str) -> bool:
        return key in self.templates


class OwnTexts(Texts):
    """Texts that a playbook of somebody's own brings along, by language; in English where a language has none."""

    def __init__(self, language: Language, texts: Mapping[str, Mapping[str, str]]) -> None:
        self.language = language
        any_language = {name: text for own in texts.values() for name, text in own.items()}
        self.templates = {**any_language, **texts.get("en", {}), **texts.get(language, {})}
        self._to_fill = _open_beside_values(self.templates) if language == "zh" else self.templates
        self._forms = _forms_in(self.templates)


@lru_cache(maxsize=32)
def _templates(language: Language, noun: str) -> dict[str, str]:
    if noun != _GPU:
        return {key: _about(noun, text) for key, text in _templates(language, _GPU).items()}
    import tomllib  # noqa: PLC0415  # whoever asks for a language's name alone needs neither: 10 ms of a small table
    from importlib.resources import files  # noqa: PLC0415

    document = tomllib.loads(files(__name__).joinpath(f"{language}.toml").read_text(encoding="utf-8"))
    return {f"{section}.{key}": text for section, texts in document.items() for key, text in texts.items()}


def _about(noun: str, text: str) -> str:
    article = "an" if noun.isupper() and noun[0] in _SPOKEN_WITH_A_VOWEL else "a"
    text = _ARTICLE.sub(lambda found: f"{article.capitalize() if found[1] == 'A' else article} GPU", text)
    text = _NOUN.sub(lambda found: f"{noun}{found[1]}", text)
    return text if noun.isascii() else _NEEDLESS_BLANK.sub("", text)


@lru_cache(maxsize=32)
def _to_fill(language: Language, noun: str) -> dict[str, str]:
    templates = _templates(language, noun)
    return _open_beside_values(templates) if language == "zh" else templates


def _open_beside_values(templates: Mapping[str, str]) -> dict[str, str]:
    return {key: _BESIDE_VALUE.sub(_OPEN, text) for key, text in templates.items()}


@lru_cache(maxsize=32)
def _forms(language: Language, noun: str) -> dict[str, tuple[Form, ...]]:
    return _forms_in(_templates(language, noun))


def _forms_in(templates: Mapping[str, str]) -> dict[str, tuple[Form, ...]]:
    return {key: tuple(Form(*groups) for groups in _FORMS.findall(text)) for key, text in templates.items()}
