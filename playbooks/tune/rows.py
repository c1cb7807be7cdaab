"""A piece of advice: a row of the table `advice`, and what stands behind it."""

from typing import Literal, NamedTuple

from bot.report import Confidence, Evidence, NextAction, Severity, Sheet
from bot.texts import Prose

Topic = Literal[
    "kube-qps",
    "kube-burst",
    "kube-timeout",
    "node-lock-timeout",
    "scheduler-resources",
    "memory-scaling",
    "core-scaling",
    "split-count",
    "core-policy",
    "library-log",
    "scheduling-policy",
    "memory-limit-low-use",
    "memory-limit-high-use",
    "idle-holder",
    "monitor-gap",
]
Direction = Literal["raise", "lower", "keep", "cannot-tell", "refuse", "repair"]


class AdviceRow(NamedTuple):
    """The fields are the table's columns. `object` is empty where the advice is about the whole cluster."""

    topic: Topic
    direction: Direction
    object: str
    current: Prose
    recommended: Prose
    why: Prose


ADVICE = Sheet(
    "advice",
    AdviceRow,
    brief={"topic": "topic", "current": "now", "recommended": "then", "object": "of", "direction": "do", "why": "why"},
    together=3,
    tells_findings=True,
)


class Advice(NamedTuple):
    """A row with its proof. `claim` is the sentence with the arithmetic: every number of it stands in `evidence`.

    `severity` and `confidence` are of the finding that raise, lower, refuse and repair become; `actions` say where in
    the chart's values it is set, what it risks and how to check it afterwards. `of_symptom` is false where it rests on
    something else than the symptom that the guide's table of scenarios has for the topic.
    """

    row: AdviceRow
    claim: Prose
    severity: Severity = "info"
    confidence: Confidence = "confirmed"
    evidence: tuple[Evidence, ...] = ()
    actions: tuple[NextAction, ...] = ()
    of_symptom: bool = True

    @property
    def changes(self) -> bool:
        """Whether something is to be changed or repaired, or must not be changed."""
        return self.row.direction in ("raise", "lower", "refuse", "repair")
