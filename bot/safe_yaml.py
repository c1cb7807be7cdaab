"""YAML from people and clusters: any text gives plain values, or a ValueError that repeats none of it."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec
import yaml

from bot.errors import WrongValue
from bot.texts import Prose, Text

_TIMESTAMP = "tag:yaml.org,2002:timestamp"
_DEEPEST = 200
_QUOTED = re.compile(r"""'.*'|".*\"""", re.DOTALL)


def parse_documents(text: str) -> list[Any]:
    """Every document of the text, times left as text. Raises WrongValue with a short reason that quotes nothing."""
    loader = _loader()
    try:
        deep = _is_deep(text, loader)
        documents: list[Any] = [] if deep else list(yaml.load_all(text, Loader=loader))
    except (yaml.YAMLError, RecursionError, ValueError, LookupError, AttributeError, TypeError) as error:
        # The safe loader answers an explicit tag on a wrong value (`!!bool maybe`) with whatever it stumbles over.
        raise WrongValue(reason(error)) from None
    if deep:
        raise WrongValue(Text("error-yaml.nested-too-deeply"))
    return documents


def reason(error: Exception) -> Prose:
    """Why a text cannot be read and where, without quoting it: a settings file, or a kubeconfig, holds secrets. `error`
    comes from a YAML or msgspec parser, which quote what they read: raise `from None`, or a traceback shows it.
    """
    match error:
        case yaml.MarkedYAMLError() if error.problem_mark:
            line, column = error.problem_mark.line + 1, error.problem_mark.column + 1
            return Text(
                "error-yaml.line-column", line=line, column=column, problem=_QUOTED.sub("…", error.problem or "")
            )
        case yaml.reader.ReaderError():
            return Text("error-yaml.character-not-allowed", position=error.position + 1)
        case msgspec.ValidationError():
            return _QUOTED.sub("…", str(error))
        case UnicodeDecodeError():
            return Text("error-yaml.not-utf-8", start=error.start + 1)
        case RecursionError():
            return Text("error-yaml.nested-too-deeply")
        case _:
            return Text("error-yaml.value-does-not-fit-tag")


def line_of(text: str, path: Sequence[str | int]) -> int:
    """The line of the node at `path` in the text's first document, or of the last key that is there; 0 without any."""
    reader: Any = yaml
    node, line = next(reader.compose_all(text, Loader=_loader()), None), 0
    for part in path:
        match node:
            case yaml.MappingNode():
                found = [(key, value) for key, value in node.value if key.value == str(part)]
            case yaml.SequenceNode() if isinstance(part, int) and part < len(node.value):
                found = [(node.value[part], node.value[part])]
            case _:
                found = []
        if not found:
            break
        key, node = found[-1]
        line = key.start_mark.line + 1
    return line


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
