"""Holds blocks and views against what Slack takes, the table of `rules`, and against one budget of all text together. A
violation has the shape of an entry of `errors` in the answer of Slack's method `blocks.validate`.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from bot.slack.render.text import length, total_text
from sandbox.slack import rules

# Undocumented: messages of 11,341 to 13,297 characters over all their blocks were refused (bolt-js#2509, #2867).
TOTAL_REFUSED = 13_000
DATA_TABLE_TOTAL = 10_000
_TABLES = ("table", "data_table")
_ONE = {"type": "max_items", "max": 1}


class Violation(NamedTuple):
    """One thing Slack would refuse. `pointer` is a JSON pointer into the array of blocks, or into the view."""

    code: str
    message: str
    field: str
    pointer: str
    constraint: dict[str, Any]


def validate_blocks(blocks: Any) -> list[Violation]:
    """What Slack would refuse of a message's blocks; any JSON may be given."""
    found = list(_items(rules.MESSAGE, blocks, ""))
    whole = _objects(blocks)
    found += _twice(whole, "")
    for at in [at for at, block in enumerate(whole) if block.get("type") in _TABLES][1:]:
        found.append(Violation("only_one_table_allowed", "only one table is allowed", "", f"/{at}", _ONE))
    characters = total_text([block.get("text") for block in whole if block.get("type") == "markdown"])
    if characters > rules.MARKDOWN_TOTAL:
        found.append(
            _failed("too long over all markdown blocks", "", "max_length", max=rules.MARKDOWN_TOTAL, got=characters)
        )
    for at, block in enumerate(whole):
        found += _data_table(block, f"/{at}") if block.get("type") == "data_table" else ()
    total = total_text(whole)
    if total >= TOTAL_REFUSED:
        limit = {"type": "max_length", "max": TOTAL_REFUSED - 1, "got": total}
        found.append(Violation("msg_blocks_too_long", "too long over all blocks", "", "", limit))
    return found


def validate_view(view: Any) -> list[Violation]:
    """What Slack would refuse of a modal or a home tab; any JSON may be given."""
    found = list(_typed(rules.VIEW, view, ""))
    if not isinstance(view, dict):
        return found
    view = cast("dict[str, Any]", view)
    whole = _objects(view.get("blocks"))
    found += _twice(whole, "/blocks")
    if view.get("type") == "modal" and "submit" not in view and any(block.get("type") == "input" for block in whole):
        found.append(_failed("a view with an input block needs submit", "/submit", "required"))
    return found


def _data_table(block: Mapping[str, Any], at: str) -> Iterator[Violation]:
    """Rows of one length, a heading without rich text, and the limit of all cells together."""
    rows = [row for row in block.get("rows") or () if isinstance(row, list)]
    if len({len(row) for row in rows}) > 1:
        yield _failed("all rows need the same number of cells", f"{at}/rows", "same_length")
    if rows and any(isinstance(cell, dict) and cell.get("type") == "rich_text" for cell in rows[0]):
        yield _failed("the heading takes no rich_text", f"{at}/rows/0", "type")
    if (got := total_text(rows)) > DATA_TABLE_TOTAL:
        yield _failed("too long over all cells", f"{at}/rows", "max_length", max=DATA_TABLE_TOTAL, got=got)


# ------------------------------------------------------------------------------------------------------- the walk


def _failed(message: str, pointer: str, constraint: str, **details: Any) -> Violation:
    field = pointer.rpartition("/")[2]
    return Violation("failed_constraint", message, field, pointer, {"type": constraint, **details})


def _check(kind: rules.Kind, value: Any, at: str) -> Iterator[Violation]:
    return _CHECKS[type(kind)](kind, value, at)


def _string(kind: rules.String, value: Any, at: str) -> Iterator[Violation]:
    if not isinstance(value, str):
        yield _failed("must be a string", at, "string")
    elif len(value) < kind.least:
        yield _failed(f"must be more than {kind.least - 1} characters", at, "min_length", min=kind.least)
    elif kind.most is not None and length(value) > kind.most:
        yield _failed(f"must be less than {kind.most + 1} characters", at, "max_length", max=kind.most)


def _url(kind: rules.Url, value: Any, at: str) -> Iterator[Violation]:
    yield from _string(rules.String(kind.most), value, at)
    if isinstance(value, str) and not value.startswith(("https://", "http://")):
        yield _failed("must be an http or https URL", at, "format", expected="url")


def _one_of(kind: rules.OneOf, value: Any, at: str) -> Iterator[Violation]:
    if value not in kind.values:
        yield _failed("unsupported value", at, "enum", expected=list(kind.values), got=value)


def _number(kind: rules.Number, value: Any, at: str) -> Iterator[Violation]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        yield _failed("must be a number", at, "number")
    elif value < kind.least or (kind.most is not None and value > kind.most):
        yield _failed("is out of range", at, "range", min=kind.least, max=kind.most)


def _flag(_: rules.Flag, value: Any, at: str) -> Iterator[Violation]:
    if not isinstance(value, bool):
        yield _failed("must be a boolean", at, "boolean")


def _items(kind: rules.Items, value: Any, at: str) -> Iterator[Violation]:
    if not isinstance(value, list | tuple):
        yield _failed("must be an array", at, "array")
        return
    value = cast("Sequence[Any]", value)
    if len(value) < kind.least:
        yield _failed(f"no fewer than {kind.least} items required", at, "min_items", min=kind.least)
    if kind.most is not None and len(value) > kind.most:
        yield _failed(f"no more than {kind.most} items allowed", at, "max_items", max=kind.most)
    for number, item in enumerate(value):
        yield from _check(kind.of, item, f"{at}/{number}")


def _shape(kind: rules.Shape, value: Any, at: str, *, named: tuple[str, ...] = ()) -> Iterator[Violation]:
    if not isinstance(value, dict):
        yield _failed("must be an object", at, "object")
        return
    value = cast("dict[str, Any]", value)
    for name in kind.needs:
        if name not in value:
            yield _failed(f"missing required field: {name}", f"{at}/{name}", "required")
    if kind.needs_one and not any(name in value for name in kind.needs_one):
        yield _failed("missing required field", at, "required", expected=list(kind.needs_one))
    for name, item in value.items():
        if (field := kind.fields.get(name)) is not None:
            yield from _check(field, item, f"{at}/{name}")
        elif not kind.more and name not in named:
            yield _failed(f"unknown field: {name}", f"{at}/{name}", "additional_property")


def _typed(kind: rules.Typed, value: Any, at: str) -> Iterator[Violation]:
    if not isinstance(value, dict):
        yield _failed("must be an object", at, "object")
        return
    name = cast("dict[str, Any]", value).get("type")
    shape = kind.shapes.get(name) if isinstance(name, str) else None
    if shape is None:
        yield _failed("unsupported type", f"{at}/type", "enum", expected=sorted(kind.shapes), got=name)
    else:
        yield from _shape(shape, value, at, named=("type",))


_CHECKS: dict[type, Callable[[Any, Any, str], Iterator[Violation]]] = {
    rules.String: _string,
    rules.Url: _url,
    rules.OneOf: _one_of,
    rules.Number: _number,
    rules.Flag: _flag,
    rules.Items: _items,
    rules.Shape: _shape,
    rules.Typed: _typed,
}


# ---------------------------------------------------------------------------------------- what no shape can tell


def _objects(blocks: Any) -> list[Mapping[str, Any]]:
    """The blocks that are objects, at their places: anything else is an empty one."""
    if not isinstance(blocks, list | tuple):
        return []
    return [cast("dict[str, Any]", block) if isinstance(block, dict) else {} for block in cast("Sequence[Any]", blocks)]


def _twice(blocks: Sequence[Mapping[str, Any]], at: str) -> Iterator[Violation]:
    """A block_id twice among the blocks, an action_id twice in one block."""
    names = Counter[str]()
    for number, block in enumerate(blocks):
        name = block.get("block_id")
        if isinstance(name, str):
            names[name] += 1
            if names[name] > 1:
                yield _failed("block_id is used twice", f"{at}/{number}/block_id", "unique", got=name)
        actions = Counter(_actions(block))
        for action in [action for action, count in actions.items() if count > 1]:
            yield _failed("action_id is used twice in a block", f"{at}/{number}", "unique", got=action)


def _actions(block: Mapping[str, Any]) -> Iterator[str]:
    inside = [block.get("accessory"), block.get("element"), *_objects(block.get("elements"))]
    for element in inside:
        action = cast("dict[str, Any]", element).get("action_id") if isinstance(element, dict) else None
        if isinstance(action, str):
            yield action
