"""Kubernetes label and field selectors, evaluated here for sources that have no API server to do it.

Grammar: k8s.io/apimachinery/pkg/labels/selector.go and fields/selector.go. A text that is neither raises ValueError.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

Labels = Mapping[str, str]

_KEY = r"[A-Za-z0-9][\w./-]*"
_TERM = re.compile(
    rf"\s*(?:!\s*(?P<absent>{_KEY})"
    rf"|(?P<set_key>{_KEY})\s+(?P<set_op>in|notin)\s*\((?P<values>[^()]*)\)"
    rf"|(?P<key>{_KEY})\s*(?P<op>==?|!=)\s*(?P<value>[\w.-]*)"
    rf"|(?P<present>{_KEY}))\s*(?:,|$)"
)


@lru_cache(maxsize=64)
def label_matcher(selector: str) -> Callable[[Labels | None], bool]:
    """A test of labels against the selector; the empty selector matches everything."""
    terms: list[Callable[[Labels], bool]] = []
    position = 0
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
        values = {value.strip() for value in term["values"].split(",")}
        if term["set_op"] == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    key, value = term["key"], term["value"]
    if term["op"] == "!=":
        return lambda labels: labels.get(key) != value
    return lambda labels: labels.get(key) == value


@lru_cache(maxsize=64)
def field_matcher(selector: str) -> Callable[[Any], bool]:
    """A test of an object (a narrow model) against the selector; the empty selector matches everything."""
    terms: list[tuple[list[str], bool, str]] = []
    for term in filter(None, selector.split(",")):
        path, operator, value = re.split(r"(!=|==?)", term, maxsplit=1) if "=" in term else ("", "", "")
        if not path:
            raise ValueError(f"not a field selector: {selector!r}")
        terms.append((path.split("."), operator != "!=", value))
    return lambda item: all((_field(item, path) == value) is wanted for path, wanted, value in terms)


def _field(item: Any, path: list[str]) -> str:
    for name in path:
        item = getattr(item, re.sub(r"(?<=[a-z])([A-Z])", lambda upper: "_" + upper[0].lower(), name), None)
    return item or ""
