"""YAML from people and clusters: whatever is in it, it gives plain values or a ValueError."""

from typing import Any

import yaml

_TIMESTAMP = "tag:yaml.org,2002:timestamp"
_DEEPEST = 200


def parse_documents(text: str) -> list[Any]:
    """Every document of the text, times left as the text they are in the API. Raises ValueError with a short reason."""
    loader = _loader()
    try:
        deep = _is_deep(text, loader)
        documents: list[Any] = [] if deep else list(yaml.load_all(text, Loader=loader))
    except (yaml.YAMLError, RecursionError, ValueError, LookupError, AttributeError, TypeError) as error:
        # The safe loader answers an explicit tag on a wrong value (`!!bool maybe`) with whatever it stumbles over.
        raise ValueError(" ".join(f"{type(error).__name__}: {error}".split())[:200]) from error
    if deep:
        raise ValueError("nested too deeply")
    return documents


def _is_deep(text: str, loader: Any) -> bool:
    """Whether to refuse the text unread: libyaml's loader recurses until the process dies, its parser does not."""
    depth = 0
    parser: Any = yaml
    for event in parser.parse(text, Loader=loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _DEEPEST:
            return True
    return False


def _loader() -> Any:
    """A safe loader without times; the fast one where libyaml is."""
    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    resolvers = {
        first: [resolver for resolver in known if resolver[0] != _TIMESTAMP]
        for first, known in base.yaml_implicit_resolvers.items()
    }
    return type("PlainLoader", (base,), {"yaml_implicit_resolvers": resolvers})
