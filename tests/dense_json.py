"""JSON that a person compares: what fits on a line stands on one."""

import json
from typing import Any, cast

_WIDTH = 120


def dense_json(value: Any) -> str:
    """Objects and lists of at most 120 characters are one line each, so that a diff shows a row as a row."""
    return f"{_dense(value, '')}\n"


def _dense(value: Any, indent: str) -> str:
    short = json.dumps(value, ensure_ascii=False)
    if len(indent) + len(short) <= _WIDTH or not isinstance(value, dict | list) or not value:
        return short
    inner = f"{indent} "
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value).items()
        parts = [f"{inner}{json.dumps(name, ensure_ascii=False)}: {_dense(part, inner)}" for name, part in fields]
        return "{\n" + ",\n".join(parts) + f"\n{indent}}}"
    parts = [inner + _dense(part, inner) for part in cast("list[Any]", value)]
    return "[\n" + ",\n".join(parts) + f"\n{indent}]"
