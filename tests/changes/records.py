"""A record of a change as a workload carries it, and the ways in which it can be damaged."""

import json
from collections.abc import Callable

from bot.changes.record import Record

RECORD = Record(
    v=1, id="c1", target="a/b", flag="v", container="c", field="args", words_before=("-v=4",), words_after=("-v=5",),
    old="4", new="5", means="patch", raised_at="2026-11-21T05:00:00Z", at="2026-11-21T05:10:00Z", by="U1",
)  # fmt: skip


DAMAGES: dict[str, Callable[[str], str | None]] = {
    "off": lambda _: None,
    "broken": lambda _: "{",
    "cut": lambda text: text[: len(text) // 2],
    "of another version": lambda text: text.replace('"v":1', '"v":2'),
    "edited": lambda text: json.dumps(json.loads(text) | {"new": "1", "to": ["other"]}),
    "copied from elsewhere": lambda text: json.dumps(json.loads(text) | {"target": "a/b"}),
}
"""What becomes of the record under our key."""
