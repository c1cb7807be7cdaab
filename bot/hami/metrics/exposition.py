"""Samples of metrics as Prometheus' text format writes them, of the names that are wanted."""

import math
import re
from collections.abc import Collection, Mapping
from typing import NamedTuple

_SAMPLE = re.compile(r"^([A-Za-z_:][\w:]*)(?:\{(.*)\})?[ \t]+(\S+)", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": "\n"}
_WRITTEN = re.compile(r'["\\\n]')


class Sample(NamedTuple):
    """One figure: as a line of the text format, or as `number` stands in JSON beside the labels."""

    name: str
    labels: Mapping[str, str]
    value: float
    text: str = ""
    number: str = ""

    @property
    def line(self) -> str:
        """What says so, verbatim: the line, or what JSON has as the text format writes it."""
        return self.text or f"{self.name}{_shown(self.labels)} {self.number}"


def read_samples(text: str, wanted: Collection[str]) -> list[Sample]:
    """The samples of these names, in the text's order.

    The first of several with one name and the same labels counts. What is no finite number is no sample.
    """
    read: dict[tuple[str, str], Sample] = {}
    decoded: dict[str, Mapping[str, str]] = {}
    for found in _SAMPLE.finditer(text):
        name, labels, number = found.groups()
        if name not in wanted or (name, labels) in read:
            continue
        value = _number(number)
        if value is None:
            continue
        # An exporter gives the figures of one container the same labels in the same order.
        if labels not in decoded:
            decoded[labels] = _labels(labels or "")
        read[name, labels] = Sample(name, decoded[labels], value, found[0])
    return list(read.values())


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _labels(text: str) -> dict[str, str]:
    labels: list[tuple[str, str]] = _LABEL.findall(text)
    if "\\" not in text:
        return dict(labels)
    return {name: _ESCAPE.sub(lambda found: _ESCAPED.get(found[1], found[1]), value) for name, value in labels}


def _shown(labels: Mapping[str, str]) -> str:
    pairs = ",".join(f'{name}="{_WRITTEN.sub(_escaped, value)}"' for name, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""


def _escaped(found: re.Match[str]) -> str:
    return "\\n" if found[0] == "\n" else f"\\{found[0]}"
