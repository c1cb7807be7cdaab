"""Verbs as tools: a verb's parameters as JSON Schema, and the arguments of a call as the words of a shell."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import click
import msgspec

from bot.errors import UsageError
from bot.report import Report
from bot.texts import Text
from playbooks.fit.manifest import STANDARD_INPUT, Manifest, ManifestFile
from playbooks.playbook import Playbook

MOST = 8
"""How many tools a server offers: each of them takes room in the client's context."""
USUAL = ("why", "fit", "pending", "nodes", "gpus", "quota", "status", "tune")
MANIFEST = "manifest"
_TEXT: dict[str, Any] = {"type": "string"}


def input_schema(playbook: Playbook, clusters: Sequence[str]) -> dict[str, Any]:
    """What a call may say. `clusters`: those to choose from; none where the server reads one only."""
    taken = _taken(playbook)
    properties = {name: _described(parameter) for name, parameter in taken.items()}
    if manifest_of(playbook):
        properties[MANIFEST] = _TEXT | {"description": "A Pod or a List of Pods, as YAML or JSON, in place of a file."}
    required = [name for name, parameter in taken.items() if parameter.required]
    if clusters:
        properties["cluster"] = _TEXT | {"enum": list(clusters), "description": "Which cluster to read."}
        required.append("cluster")
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def output_schema() -> dict[str, Any]:
    """The schema of a report (docs/report.schema.json), with an object at its root as the protocol demands."""
    schema = msgspec.json.schema(Report)
    return {**schema["$defs"]["Report"], "$defs": schema["$defs"]}


def manifest_of(playbook: Playbook) -> str:
    """The parameter that takes a manifest's file in a shell; empty where there is none."""
    return next(
        (parameter.name or "" for parameter in playbook.parameters if isinstance(parameter.type, ManifestFile)), ""
    )


def given_as_file(playbook: Playbook, text: object) -> dict[str, Any]:
    """Defaults, as click takes them, with which the text is the manifest that a shell reads from standard input."""
    if not isinstance(text, str):
        raise UsageError(Text("error-mcp.manifest-is-no-text", text=repr(text)))
    return {playbook.verb: {manifest_of(playbook): [Manifest(STANDARD_INPUT, text)]}}


def typed_words(playbook: Playbook, arguments: Mapping[str, Any]) -> list[str]:
    """The same question in a shell. What begins with a hyphen is no option there. Raises UsageError."""
    taken = _taken(playbook)
    if unknown := sorted(set(arguments) - set(taken)):
        known = ", ".join(taken) or "none"
        raise UsageError(
            Text("error-mcp.has-no-parameter", verb=playbook.verb, unknown=repr(unknown[0])),
            hint=Text("error-mcp.its-parameters", known=known),
        )
    options, rest = list[str](), list[str]()
    for name, parameter in taken.items():
        value = arguments.get(name)
        if value is None:
            continue
        if not isinstance(parameter, click.Option):
            rest += _several(name, value) if parameter.nargs == -1 else [_one(name, value)]
        elif not parameter.is_flag:
            options += [f"{_flag(parameter)}={choice}" for choice in _values(name, value, parameter)]
        elif not isinstance(value, bool):
            raise UsageError(Text("error-mcp.true-false", name=name, value=repr(value)))
        elif value:
            options.append(_flag(parameter))
    return [playbook.verb, *options, "--", *rest]


def _taken(playbook: Playbook) -> dict[str, click.Parameter]:
    """The parameters that a call may name: none that has a file read."""
    return {
        parameter.name: parameter
        for parameter in playbook.parameters
        if parameter.name and _schema(parameter.type) is not None
    }


def _schema(kind: Any) -> dict[str, Any] | None:
    match kind:
        case click.Choice():
            return _TEXT | {"enum": list(cast("click.Choice[str]", kind).choices)}
        case click.IntRange():
            limits = {"minimum": kind.min, "maximum": kind.max}
            return {"type": "integer"} | {name: value for name, value in limits.items() if value is not None}
        case click.types.BoolParamType():
            return {"type": "boolean"}
        case click.types.IntParamType():
            return {"type": "integer"}
        case click.types.FloatParamType():
            return {"type": "number"}
        case click.types.StringParamType():
            return _TEXT
        case _:
            return None


def _described(parameter: click.Parameter) -> dict[str, Any]:
    schema = _schema(parameter.type) or _TEXT
    if parameter.nargs == -1 or parameter.multiple:
        schema = {"type": "array", "items": schema}
    parts = [parameter.metavar or "", getattr(parameter, "help", None) or ""]
    return schema | {"description": " ".join(filter(None, parts))}


def _flag(option: click.Option) -> str:
    return max(option.opts, key=len)


def _values(name: str, value: Any, option: click.Option) -> list[str]:
    return _several(name, value) if option.multiple else [_one(name, value)]


def _several(name: str, value: Any) -> list[str]:
    if not isinstance(value, list):
        raise UsageError(Text("error-mcp.list-texts", name=name, value=repr(value)))
    return [_one(name, item) for item in cast("list[Any]", value)]


def _one(name: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise UsageError(Text("error-mcp.text-number", name=name, value=repr(value)))
    return str(value)
