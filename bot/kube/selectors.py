"""Kubernetes label and field selectors, evaluated here for sources that have no API server to do it.

Grammar: k8s.io/apimachinery/pkg/labels/selector.go and fields/selector.go, without the labels' `<` and `>`.
A text that is neither raises ValueError, and so does a field that the object does not have: an empty answer would claim
that there is no such object.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache

import msgspec

from bot.kube.models import Resource

Labels = Mapping[str, str]

_NAME = r"[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?"
_KEY = rf"(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?/)?{_NAME}"
_TERM = re.compile(
    rf"\s*(?:!\s*(?P<absent>{_KEY})"
    rf"|(?P<set_key>{_KEY})\s+(?P<set_op>in|notin)\s*\((?P<values>[^()]*)\)"
    rf"|(?P<key>{_KEY})\s*(?P<op>==?|!=)\s*(?P<value>(?:{_NAME})?)"
    rf"|(?P<present>{_KEY}))\s*(?:,(?=\s*\S)|\Z)",
    re.ASCII,
)
_VALUE = re.compile(rf"\s*((?:{_NAME})?)\s*", re.ASCII)

# A comma, an equals sign and a backslash stand in a value only behind a backslash.
_FIELD_TERM = re.compile(r"(?P<path>[^\\,=!]+)(?P<op>!=|==?)(?P<value>(?:[^\\,=]|\\[\\,=])*)")
_FIELD_SEPARATOR = re.compile(r",((?:[^\\,]|\\.?)*)", re.DOTALL)


@lru_cache(maxsize=64)
def label_matcher(selector: str) -> Callable[[Labels | None], bool]:
    """A test of labels against the selector; the empty selector matches everything."""
    terms: list[Callable[[Labels], bool]] = []
    position = 0 if selector.strip() else len(selector)
    while position < len(selector):
        if not (term := _TERM.match(selector, position)):
            raise ValueError(f"not a label selector: {selector!r}")
        terms.append(_label_term(term))
        position = term.end()
    return lambda labels: all(term(labels or {}) for term in terms)


def _label_term(term: re.Match[str]) -> Callable[[Labels], bool]:
    if absent := term["absent"]:
        return lambda labels: absent not in labels
    if present := term["present"]:
        return lambda labels: present in labels
    if key := term["set_key"]:
        values = {_label_value(value) for value in term["values"].split(",")}
        if term["set_op"] == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    key, value = term["key"], term["value"]
    if term["op"] == "!=":
        return lambda labels: labels.get(key) != value
    return lambda labels: labels.get(key) == value


def _label_value(text: str) -> str:
    if not (value := _VALUE.fullmatch(text)):
        raise ValueError(f"not a label value: {text!r}")
    return value[1]


@lru_cache(maxsize=64)
def field_matcher(selector: str) -> Callable[[Resource], bool]:
    """A test of an object against the selector; the empty selector matches everything.

    Paths are the API's (`involvedObject.name`). The test raises ValueError for a field that the model does not have.
    """
    terms: list[tuple[list[str], bool, str]] = []
    for text in filter(None, _FIELD_SEPARATOR.findall("," + selector)):
        if not (term := _FIELD_TERM.fullmatch(text)):
            raise ValueError(f"not a field selector: {selector!r}")
        value = re.sub(r"\\(.)", r"\1", term["value"])
        terms.append((term["path"].split("."), term["op"] != "!=", value))
    return lambda item: all((_field(item, path) == value) is wanted for path, wanted, value in terms)


def _field(item: object, path: list[str]) -> str:
    """The field as the API compares it: absent as the empty text, a boolean as true or false."""
    for name in path:
        if item is None:
            return ""
        attribute = _attributes(type(item)).get(name) if isinstance(item, msgspec.Struct) else None
        if attribute is None:
            raise ValueError(f"field label not supported: {'.'.join(path)}")
        item = getattr(item, attribute)
    if isinstance(item, bool):
        return str(item).lower()
    if isinstance(item, str | int | None):
        return "" if item is None else str(item)
    raise ValueError(f"field label not supported: {'.'.join(path)}")


@lru_cache(maxsize=64)
def _attributes(model: type[msgspec.Struct]) -> dict[str, str]:
    return dict(zip(model.__struct_encode_fields__, model.__struct_fields__, strict=True))
