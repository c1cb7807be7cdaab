"""JSON patch (RFC 6902), exactly: operations are applied in order, and all or none of them."""

import copy
import re
from collections.abc import Callable, Sequence
from typing import Any

_INDEX = re.compile(r"0|[1-9][0-9]*", re.ASCII)


class PatchError(Exception):
    """An operation that cannot be applied: a failed test, a path that is not there, a bad operation."""


def apply_json_patch(document: Any, operations: Sequence[Any]) -> Any:
    """The patched document; the given one is left as it is. Raises PatchError."""
    document = copy.deepcopy(document)
    for operation in operations:
        if not isinstance(operation, dict) or operation.get("op") not in _OPERATIONS:
            raise PatchError(f"no operation: {operation!r}")
        document = _OPERATIONS[operation["op"]](document, operation)
    return document


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal: 1 is 1.0, but not true."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def _steps(operation: dict[str, Any], name: str = "path") -> list[str]:
    pointer = operation.get(name)
    if not isinstance(pointer, str) or (pointer and not pointer.startswith("/")):
        raise PatchError(f"{name} is no JSON pointer: {pointer!r}")
    if re.search(r"~(?![01])", pointer):
        raise PatchError(f"{name} has a bad escape: {pointer!r}")
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


def _value(operation: dict[str, Any]) -> Any:
    if "value" not in operation:
        raise PatchError(f"{operation['op']} without a value")
    return copy.deepcopy(operation["value"])


def _index(step: str, length: int) -> int:
    """The place in a list that has to be below that length."""
    if not _INDEX.fullmatch(step) or int(step) >= length:
        raise PatchError(f"no index of a list with {length} places: {step!r}")
    return int(step)


def _child(container: Any, step: str) -> Any:
    if isinstance(container, list):
        return container[_index(step, len(container))]
    if isinstance(container, dict) and step in container:
        return container[step]
    raise PatchError(f"nothing at {step!r}")


def _at(document: Any, steps: Sequence[str]) -> Any:
    for step in steps:
        document = _child(document, step)
    return document


def _add_at(document: Any, steps: Sequence[str], value: Any) -> Any:
    if not steps:
        return value
    parent, last = _at(document, steps[:-1]), steps[-1]
    if isinstance(parent, list):
        parent.insert(len(parent) if last == "-" else _index(last, len(parent) + 1), value)
    elif isinstance(parent, dict):
        parent[last] = value
    else:
        raise PatchError(f"nothing can be added at {last!r}")
    return document


def _remove_at(document: Any, steps: Sequence[str]) -> Any:
    if not steps:
        raise PatchError("the whole document cannot be removed")
    parent, last = _at(document, steps[:-1]), steps[-1]
    _child(parent, last)
    del parent[int(last) if isinstance(parent, list) else last]
    return document


def _add(document: Any, operation: dict[str, Any]) -> Any:
    return _add_at(document, _steps(operation), _value(operation))


def _remove(document: Any, operation: dict[str, Any]) -> Any:
    return _remove_at(document, _steps(operation))


def _replace(document: Any, operation: dict[str, Any]) -> Any:
    steps, value = _steps(operation), _value(operation)
    if not steps:
        return value
    parent, last = _at(document, steps[:-1]), steps[-1]
    _child(parent, last)
    parent[int(last) if isinstance(parent, list) else last] = value
    return document


def _move(document: Any, operation: dict[str, Any]) -> Any:
    source, target = _steps(operation, "from"), _steps(operation)
    if target[: len(source)] == source and target != source:
        raise PatchError("nothing can be moved into itself")
    moved = _at(document, source)
    return _add_at(_remove_at(document, source), target, moved)


def _copy(document: Any, operation: dict[str, Any]) -> Any:
    source, target = _steps(operation, "from"), _steps(operation)
    return _add_at(document, target, copy.deepcopy(_at(document, source)))


def _test(document: Any, operation: dict[str, Any]) -> Any:
    steps, value = _steps(operation), _value(operation)
    if not same(_at(document, steps), value):
        raise PatchError(f"test failed: {operation['path']}")
    return document


_OPERATIONS: dict[str, Callable[[Any, dict[str, Any]], Any]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}
