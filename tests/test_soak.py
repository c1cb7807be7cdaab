"""The soak's own account: what it would say of a bot that loses something, or does it twice."""

import json
from collections import Counter
from typing import Any

import pytest

from benchmarks.soak.account import account
from benchmarks.soak.deeds import Deed
from benchmarks.soak.place import INCIDENTS, person, seed_of
from benchmarks.soak.store import Contents, Event
from sandbox.slack import SlackServer

WHO = person(1)
NOTE = Deed("note", 1, WHO, acked_at=100.0)
ALERT = Deed("alert", 1, "alertmanager", "f1", acked_at=100.0)


def contents(**given: Any) -> Contents:
    nothing = Contents({}, {}, [], Counter(), {}, {}, Counter(), [])
    return nothing._replace(**given)


def workspace(*replies: str, told: str = "") -> SlackServer:
    """A triage thread with these replies; `told` is for the eyes of who did the deed."""
    slack = SlackServer(seed=seed_of(3), deadline_s=60)
    head = {"ts": "1.000000", "text": "the head", "bot_id": "B0HAMIBOT1"}
    slack.workspace.add(INCIDENTS, head)
    for number, text in enumerate(replies):
        reply = {"ts": f"2.00000{number}", "thread_ts": head["ts"], "text": text, "bot_id": "B0HAMIBOT1"}
        slack.workspace.add(INCIDENTS, reply)
    if told:
        slack.workspace.add_ephemeral(INCIDENTS, WHO, {"ts": "3.000000", "text": told})
    return slack


def noted(times: int) -> dict[str, list[Event]]:
    return {WHO: [Event("3fa29c1b", number, 101.0, "noted", json.dumps(NOTE.name)) for number in range(times)]}


@pytest.mark.parametrize(
    ("replies", "times", "told", "wanted"),
    [
        ((NOTE.name,), 1, "", (1, 0, 0, 0)),
        ((), 0, "this was not done", (0, 1, 0, 0)),
        ((), 0, "Looking at the cluster: note", (0, 0, 1, 0)),
        ((), 1, "", (0, 0, 1, 0)),
        ((NOTE.name, NOTE.name), 1, "", (0, 0, 0, 1)),
        ((NOTE.name,), 2, "", (0, 0, 0, 1)),
    ],
    ids=["done", "told", "lost", "in no thread", "shown twice", "noted twice"],
)
def test_a_note_is_done_once_told_as_not_done_lost_or_done_twice(
    replies: tuple[str, ...], times: int, told: str, wanted: tuple[int, int, int, int]
) -> None:
    [row] = account([NOTE], workspace(*replies, told=told), contents(events=noted(times)))
    assert (row.once, row.told, len(row.lost), len(row.doubled)) == wanted


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        ([("3fa29c1b", "firing")], (1, 0, 0)),
        ([], (0, 1, 0)),
        ([("", "firing")], (0, 1, 0)),
        ([("3fa29c1b", "firing"), ("3fa29c1b", "firing")], (0, 0, 1)),
    ],
    ids=["in one incident", "not kept", "in no incident", "twice"],
)
def test_an_alert_that_was_taken_is_in_one_incident(rows: list[tuple[str, str]], wanted: tuple[int, int, int]) -> None:
    [row] = account([ALERT], workspace(), contents(alerts={"f1": rows}))
    assert (row.once, len(row.lost), len(row.doubled)) == wanted


def test_what_nobody_acked_is_not_lost() -> None:
    [row] = account([Deed("note", 1, WHO)], workspace(), contents())
    assert (row.sent, row.acked, row.lost) == (1, 0, [])
