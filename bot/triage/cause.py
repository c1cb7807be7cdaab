"""The cause of alerts: what several of them have in common, so that they are one incident."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from bot.report import SEVERITIES, NextAction, Severity
from bot.texts import Prose, stored_text

STORM = "alert-storm"
"""The code of a cause that gathers the alerts of many causes, because too many threads opened at once."""
_LEVELS: Mapping[str, Severity] = {
    "critical": "critical", "page": "critical", "emergency": "critical", "error": "critical",
    "warning": "warning", "warn": "warning",
    "info": "info", "information": "info", "none": "info",
}  # fmt: skip
"""The severity that an alert's label stands for; people write many words, because there is no standard."""


class Cause(msgspec.Struct, frozen=True):
    """What several alerts have in common. `signature` is equal for equal causes (`playbooks.rules.waiting.alike`).
    `code` is the finding's, `STORM` for what gathers many causes, empty where nothing was found; then `why_not` says
    why, and `labels` (`instance=db-1`) are some of the first alert's. `claim` is about `subject` (`ns/pod` or a node,
    empty if the alert named neither); it is empty where `key` and `values` tell it. `nodes` are those that the cause
    lies in; `graph` is the http(s) address that shows an alert's expression, or empty. `step` is the first thing to do
    about it, or None. `verb` is the question that explains it, empty where the subject says which. `gpu` are the values
    of the text about the GPU that an alert names and who holds it.
    """

    signature: str
    code: str
    claim: str
    severity: Severity
    subject: str = ""
    nodes: tuple[str, ...] = ()
    why_not: str = ""
    labels: tuple[str, ...] = ()
    graph: str = ""
    step: NextAction | None = None
    key: str = ""
    values: Mapping[str, Any] = {}
    verb: str = ""
    gpu: Mapping[str, Any] = {}

    @property
    def text(self) -> Prose:
        """The finding's claim as prose."""
        return stored_text(self.key, self.values) if self.key else self.claim


def level_of(label: str) -> Severity | None:
    """The severity that an alert's label stands for; None for a label that is not known."""
    return _LEVELS.get(label.casefold())


def severest(found: Severity, labels: Iterable[str]) -> Severity:
    """The highest severity among `found` and the alerts' labels that are known."""
    return max([found, *filter(None, map(level_of, labels))], key=SEVERITIES.index)


def gathering(channel: str, claim: str) -> Cause:
    """The cause that stands for the alerts of many causes in a channel."""
    signature = hashlib.sha256(msgspec.json.encode((STORM, channel))).hexdigest()[:16]
    return Cause(signature, STORM, claim, "warning")
