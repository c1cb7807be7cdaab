"""The soak's own account: what it would say of a bot that loses something, or does it twice."""

import json
from collections import Counter
from typing import Any

import pytest

from benchmarks.soak.account import account
from benchmarks.soak.deeds import Deed
from benchmarks.soak.hours import Sample, judged
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


# ------------------------------------------------------------------------------------- one process for many hours


def samples(**at_the_end: float) -> list[Sample]:
    """Of a hundred rounds: warm after twenty, the last ten as given."""
    warm = Sample(rss_mb=100.0, tasks=30, descriptors=20, threads=8)
    return [warm._replace(rss_mb=60.0)] * 20 + [warm] * 70 + [warm._replace(**at_the_end)] * 10


@pytest.mark.parametrize(
    ("at_the_end", "wrong"),
    [
        ({}, []),
        ({"rss_mb": 104.0, "tasks": 32, "descriptors": 22}, []),
        ({"rss_mb": 106.0}, ["memory grew by 6.0%, more than 5%"]),
        ({"tasks": 40}, ["tasks grew from 30 to 40"]),
        ({"descriptors": 50}, ["descriptors grew from 20 to 50"]),
        ({"rss_mb": 80.0, "threads": 4}, []),
    ],
    ids=["the same", "a little more", "memory", "tasks", "connections", "less"],
)
def test_the_end_is_held_against_the_time_after_warm_up(at_the_end: dict[str, float], wrong: list[str]) -> None:
    assert judged(samples(**at_the_end))[1] == wrong
