"""The prose of reports, one TOML file per language beside this module.

Codes, quotes and commands are never translated. A text is a `str.format` template; `tests/test_texts.py` checks that
every language has the same keys with the same placeholders, and that the code uses no other.
"""

import tomllib
from functools import lru_cache
from importlib.resources import files
from typing import Literal, get_args

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = get_args(Language)


class Texts:
    """The texts of one language: `say("running.claim", pod="ml/trainer-0", node="gpu-1")`."""

    def __init__(self, language: Language) -> None:
        self.language = language
        self.templates = _templates(language)

    def __call__(self, key: str, **values: object) -> str:
        """The text for the key with the values filled in. An unknown key is a bug and raises KeyError."""
        return self.templates[key].format_map(values)

    def __contains__(self, key: str) -> bool:
        return key in self.templates


@lru_cache(maxsize=len(LANGUAGES))
def _templates(language: Language) -> dict[str, str]:
    document = tomllib.loads(files(__name__).joinpath(f"{language}.toml").read_text(encoding="utf-8"))
    return {f"{section}.{key}": text for section, texts in document.items() for key, text in texts.items()}
