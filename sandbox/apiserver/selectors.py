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

_INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")

# Selectable field -> the places in the object that it is read from: the first that is set counts.
_FIELDS: dict[str, dict[str, tuple[str, ...]]] = {
    "Pod": {
        name: (name,)
        for name in (
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        )
    },
    "Node": {"spec.unschedulable": ("spec.unschedulable",)},
    "Namespace": {"status.phase": ("status.phase",)},
    "Event": {
        **{f"involvedObject.{name}": (f"involvedObject.{name}",) for name in _INVOLVED},
        "reason": ("reason",),
        "reportingComponent": ("reportingComponent",),
        "source": ("source.component", "reportingComponent"),
        "type": ("type",),
    },
    "Job": {"status.successful": ("status.succeeded",)},
}
_UNSET = {"spec.hostNetwork": "false", "spec.unschedulable": "false", "status.successful": "0"}


def selectable_fields(kind: str, item: Mapping[str, Any]) -> dict[str, str]:
    """The fields of an object that a field selector may name, as the text that they are compared as."""
    metadata = item["metadata"]
    fields = {"metadata.name": metadata["name"], "metadata.namespace": metadata.get("namespace", "")}
    for name, places in _FIELDS.get(kind, {}).items():
        found = next(filter(None, (_at(item, place) for place in places)), _UNSET.get(name, ""))
        fields[name] = "true" if found is True else str(found)
    return fields


def _at(item: Any, place: str) -> Any:
    for step in place.split("."):
        item = item.get(step) if isinstance(item, Mapping) else None
    return item


def field_selector(kind: str, text: str) -> Test:
    """A test of an object's selectable fields. Raises the server's 400 for one that the kind does not support."""
    supported = {"metadata.name", "metadata.namespace", *_FIELDS.get(kind, ())}
    terms: list[tuple[str, bool, str]] = []
    for term in filter(None, text.split(",")):
        found = re.fullmatch(r"(.*?)(!=|==|=)(.*)", term)
        if not found:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        if found[1] not in supported:
            raise bad_request(_unsupported(kind, found[1]))
        terms.append((found[1], found[2] != "!=", found[3]))
    return lambda fields: all((fields[name] == value) is wanted for name, wanted, value in terms)


def _unsupported(kind: str, field: str) -> str:
    if kind == "Job":
        return f'field label "{field}" not supported for Job'
    if kind in _FIELDS:
        return f"field label not supported: {field}"
    return f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"'


def label_selector(text: str) -> Test:
    """A test of an object's labels. Raises the server's 400 for a text that is no selector."""
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
    return lambda labels: all(test(labels) for test in tests)


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
