"""What `playbooks.api` promises, one line for each name, field and argument: `python -m tests.own_api` writes it."""

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec

from bot.kube.models import Kind
from playbooks import api

PROMISED = Path(__file__).parent / "own_api.txt"


def lines() -> list[str]:
    """`Answer.verdict`, `Cluster.list(labels)`, `PODS -> Pod`; the fields of fields as well."""
    found: set[str] = set()
    for name in api.__all__:
        found.update(_told(name, getattr(api, name)))
    return sorted(found)


def _told(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, Kind):
        yield f"{name} -> {value.type.__name__}"
    elif isinstance(value, type) and issubclass(value, msgspec.Struct):
        yield from _fields(value)
        if value.__module__.startswith("playbooks.own"):
            yield from (f"{name}.{member}" for member, held in vars(value).items() if isinstance(held, property))
    elif isinstance(value, type):
        members = {*getattr(value, "_fields", ()), *(var for var in vars(value) if not var.startswith("_"))}
        for member in sorted(members):
            held = getattr(value, member, None)
            yield from _arguments(f"{name}.{member}", held) if inspect.isfunction(held) else [f"{name}.{member}"]
        # Who is given a Cluster or a Hami makes none.
        yield from _arguments(name, value.__init__) if name in ("Sheet", "UsageError") else [name]
    elif inspect.isfunction(value):
        yield from _arguments(name, value)
    else:
        yield f"{name} = {', '.join(map(str, get_args(value)))}"


def _arguments(name: str, function: Any) -> Iterator[str]:
    yield name
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name != "self":
            needed = "" if parameter.default is inspect.Parameter.empty else " optional"
            yield f"{name}({parameter.name}){needed}"


def _fields(struct: type[msgspec.Struct]) -> Iterator[str]:
    yield struct.__name__
    for field, held in get_type_hints(struct).items():
        yield f"{struct.__name__}.{field}"
        for inner in (held, *get_args(held), *(more for arg in get_args(held) for more in get_args(arg))):
            if isinstance(inner, type) and issubclass(inner, msgspec.Struct) and inner is not struct:
                yield from _fields(inner)


if __name__ == "__main__":
    PROMISED.write_text("\n".join(lines()) + "\n", encoding="utf-8")
