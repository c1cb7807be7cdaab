"""The recorded cases: a profile, the arguments, and what the real tool printed."""

import json
from pathlib import Path
from typing import Any, NamedTuple

DATA = Path(__file__).parent / "data"
PROFILES = DATA / "profiles"
_FLAGS = {"sort": {"cum": "-cum"}, "granularity": {"lines": "-lines"}, "mode": {"base": "", "diff_base": ""}}


class Case(NamedTuple):
    """`words` is what stands behind `profile top`."""

    name: str
    words: list[str]
    expected: str
    legacy: bool


def cases() -> list[Case]:
    """All of them, those in formats of old included."""
    return [_case(load) for load in json.loads((DATA / "cases.json").read_text())]


def combinations() -> list[Case]:
    """Options drawn by lot over our profiles, with what the real tool printed for them."""
    return [_combination(load) for load in json.loads((DATA / "combinations.json").read_text(encoding="utf-8"))]


def _combination(one: dict[str, Any]) -> Case:
    words = [word.replace("=profiles/", f"={PROFILES}/") for word in one["words"]]
    name = " ".join([Path(one["profile"]).name, *one["words"]])
    return Case(name, [*words, str(DATA / one["profile"])], one["expected"], legacy=False)


def _case(one: dict[str, Any]) -> Case:
    words = [_word(name, value) for name, value in one["args"].items()]
    if "base" in one:
        words += [f"-{one['args']['mode']}", str(DATA / one["base"])]
    words.append(str(DATA / one["profile"]))
    expected = (DATA / one["expected"]).read_bytes().decode()
    return Case(one["name"], [word for word in words if word], expected, one["format"] == "legacy")


def _word(name: str, value: Any) -> str:
    if name in _FLAGS:
        return _FLAGS[name].get(value, "")
    return f"--{name}={str(value).lower() if isinstance(value, bool) else value}"
