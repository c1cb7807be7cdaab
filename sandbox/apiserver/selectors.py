"""Label and field selectors over plain API objects, with the server's own errors for those it refuses.

Grammar and texts: k8s.io/apimachinery pkg/labels/selector.go, pkg/fields/selector.go, and the field label conversions
of each API group. Written apart from `bot.kube.selectors` on purpose: tests compare the two.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from sandbox.apiserver.statuses import bad_request

Test = Callable[[Mapping[str, str]], bool]

_TOKEN = re.compile(r"\s*(==|!=|[=!,()<>]|[^\s=!,()<>]+)")
_SYMBOLS = frozenset({"==", "!=", "=", "!", ",", "(", ")", "<", ">", ""})

_POD = "spec.nodeName spec.restartPolicy spec.schedulerName spec.serviceAccountName spec.hostNetwork status.phase"
_INVOLVED = "kind namespace name uid apiVersion resourceVersion fieldPath"

# Selectable field -> the places in the object that it is read from: the first that is set counts.
_FIELDS: dict[str, dict[str, tuple[str, ...]]] = {
    "Pod": {name: (name,) for name in [*_POD.split(), "status.podIP", "status.nominatedNodeName"]},
    "Node": {"spec.unschedulable": ("spec.unschedulable",)},
    "Namespace": {"status.phase": ("status.phase",)},
    "Event": {
        **{f"involvedObject.{name}": (f"involvedObject.{name}",) for name in _INVOLVED.split()},
        "reason": ("reason",),
        "reportingComponent": ("reportingComponent",),
        "source": ("source.component", "reportingComponent"),
        "type": ("type",),
    },
    "Job": {"status.successful": ("status.succeeded",)},
}
_UNSET = {"spec.hostNetwork": "false", "spec.unschedulable": "false", "status.successful": "0"}
_STEPS = {
    kind: {name: [place.split(".") for place in places] for name, places in fields.items()}
    for kind, fields in _FIELDS.items()
}


def selectable_fields(kind: str, item: Mapping[str, Any]) -> dict[str, str]:
    """The fields of an object that a field selector may name, as the text that they are compared as."""
    metadata = item["metadata"]
    fields = {"metadata.name": metadata["name"], "metadata.namespace": metadata.get("namespace", "")}
    for name, places in _STEPS.get(kind, {}).items():
        for steps in places:
            value: Any = item
            for step in steps:
                value = (value or {}).get(step)
            if value:
                fields[name] = "true" if value is True else str(value)
                break
        else:
            fields[name] = _UNSET.get(name, "")
    return fields


def field_tests(kind: str, text: str) -> list[Test]:
    """Tests of an object's selectable fields. Raises the server's 400 for a field that the kind does not support."""
    supported = {"metadata.name", "metadata.namespace", *_FIELDS.get(kind, ())}
    tests: list[Test] = []
    for term in filter(None, text.split(",")):
        found = re.fullmatch(r"(.*?)(!=|==|=)(.*)", term)
        if not found:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        if found[1] not in supported:
            raise bad_request(_unsupported(kind, found[1]))
        tests.append(_field_test(*found.groups()))
    return tests


def _field_test(name: str, operator: str, value: str) -> Test:
    if operator == "!=":
        return lambda fields: fields[name] != value
    return lambda fields: fields[name] == value


def _unsupported(kind: str, field: str) -> str:
    if kind == "Job":
        return f'field label "{field}" not supported for Job'
    if kind in _FIELDS:
        return f"field label not supported: {field}"
    return f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"'


def label_tests(text: str) -> list[Test]:
    """Tests of an object's labels, all to be passed. Raises the server's 400 for a text that is no selector."""
    tokens = [token[1] for token in _TOKEN.finditer(text.rstrip())]
    tests: list[Test] = []
    while tokens:
        if tokens[0] in _SYMBOLS - {"!"}:
            raise bad_request(f"found '{tokens[0]}', expected: !, identifier, or 'end of string'")
        try:
            tests.append(_requirement(tokens))
        except ValueError as error:
            raise bad_request(f"unable to parse requirement: {error}") from error
        if not tokens:
            break
        if (separator := tokens.pop(0)) != ",":
            raise bad_request(f"found '{separator}', expected: ',' or 'end of string'")
        if not tokens or tokens[0] in _SYMBOLS - {"!"}:
            raise bad_request(f"found '{tokens[0] if tokens else ''}', expected: identifier after ','")
    return tests


def _requirement(tokens: list[str]) -> Test:
    """Takes one requirement off the front of the tokens."""
    if tokens[0] == "!":
        tokens.pop(0)
        absent = _identifier(tokens)
        return lambda labels: absent not in labels
    key = _identifier(tokens)
    if not tokens or tokens[0] == ",":
        return lambda labels: key in labels
    operator = tokens.pop(0)
    if operator in {"=", "==", "!="}:
        value = "" if not tokens or tokens[0] == "," else _identifier(tokens)
        wanted = operator != "!="
        return lambda labels: (labels.get(key) == value) is wanted
    if operator in {"in", "notin"}:
        values = _values(tokens)
        if operator == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if operator in {"<", ">"}:
        bound, sign = int(_identifier(tokens)), 1 if operator == ">" else -1
        return lambda labels: labels.get(key, "").isdecimal() and sign * (int(labels[key]) - bound) > 0
    raise ValueError(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")


def _identifier(tokens: list[str]) -> str:
    token = tokens.pop(0) if tokens else ""
    if token in _SYMBOLS:
        raise ValueError(f"found '{token}', expected: identifier")
    return token


def _values(tokens: list[str]) -> set[str]:
    if (opening := tokens.pop(0) if tokens else "") != "(":
        raise ValueError(f"found '{opening}' expected: '('")
    if ")" not in tokens:
        raise ValueError("found '', expected: ',' or ')'")
    end = tokens.index(")")
    inside, tokens[: end + 1] = "".join(tokens[:end]), []
    return set(inside.split(","))
