"""YAML from people and clusters: whatever is in it, it gives plain values or a ValueError."""

import re
from typing import Any

import yaml

_TIMESTAMP = "tag:yaml.org,2002:timestamp"
_DEEPEST = 500
_BRACKET = re.compile(r"[\[\]{}]")
_NESTED_ON_ONE_LINE = re.compile(r"(?:[-?][ \t]+){100}")


def parse_documents(text: str) -> list[Any]:
    """Every document of the text, times left as the text they are in the API. Raises ValueError with a short reason."""
    if _nested_too_deeply(text):
        raise ValueError("nested too deeply")  # libyaml's loader recurses until the process dies
    try:
        return list(yaml.load_all(text, Loader=_loader()))  # pyright: ignore[reportUnknownArgumentType]
    except (yaml.YAMLError, RecursionError, ValueError, LookupError, AttributeError, TypeError) as error:
        # The safe loader answers an explicit tag on a wrong value (`!!bool maybe`) with whatever it stumbles over.
        raise ValueError(" ".join(f"{type(error).__name__}: {error}".split())[:200]) from error


def _nested_too_deeply(text: str) -> bool:
    if _NESTED_ON_ONE_LINE.search(text):
        return True
    depth = 0
    for bracket in _BRACKET.finditer(text):
        depth = depth + 1 if bracket[0] in "[{" else max(0, depth - 1)
        if depth > _DEEPEST:
            return True
    return False


def _loader() -> Any:
    """A safe loader without times; the fast one where libyaml is."""
    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    resolvers = {
        first: [one for one in known if one[0] != _TIMESTAMP] for first, known in base.yaml_implicit_resolvers.items()
    }
    return type("PlainLoader", (base,), {"yaml_implicit_resolvers": resolvers})
