"""The prose of reports, one TOML file per language beside this module.

Codes, quotes and commands are never translated. A text is a `str.format` template; where a word goes with a number,
`{count(is|are)}` is its first form for a `count` of one and its second for any other. `tests/test_texts.py` checks that
every language has the same keys with the same placeholders, and that the code uses no other.
"""

import re
import tomllib
from functools import lru_cache
from importlib.resources import files
from typing import Literal, NamedTuple, get_args

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = get_args(Language)
_FORMS = re.compile(r"\{((\w+)\(([^|(){}]*)\|([^|(){}]*)\))\}")


class Form(NamedTuple):
    """A word of a template that goes with the number `name`; `placeholder` is what stands in the braces."""

    placeholder: str
    name: str
    one: str
    many: str


class Texts:
    """The texts of one language: `say("running.claim", pod="ml/trainer-0", node="gpu-1")`."""

    def __init__(self, language: Language) -> None:
        self.language: Language = language
        self.templates = _templates(language)

    def __call__(self, key: str, **values: object) -> str:
        """The text for the key with the values filled in. An unknown key is a bug and raises KeyError."""
        for form in _forms(self.language)[key]:
            values[form.placeholder] = form.one if str(values[form.name]) == "1" else form.many
        return self.templates[key].format_map(values)

    def __contains__(self, key: str) -> bool:
        return key in self.templates


@lru_cache(maxsize=len(LANGUAGES))
def _templates(language: Language) -> dict[str, str]:
    document = tomllib.loads(files(__name__).joinpath(f"{language}.toml").read_text(encoding="utf-8"))
    return {f"{section}.{key}": text for section, texts in document.items() for key, text in texts.items()}


@lru_cache(maxsize=len(LANGUAGES))
def _forms(language: Language) -> dict[str, tuple[Form, ...]]:
    return {key: tuple(Form(*one) for one in _FORMS.findall(text)) for key, text in _templates(language).items()}
