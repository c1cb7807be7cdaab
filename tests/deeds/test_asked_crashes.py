"""Digests, forms, profiles and the Home tab, killed at every write: there once, answered once, or told as not done."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from bot.slack.question_tasks import KEEPING_S
from handlers.parsing.question import Question
from tests.changes.rig import When, crash_points
from tests.deeds.rig import KEY, Bot, Life, Place, a_place
from tests.sampling import Sample
from tests.slack.changing import ADA

MANIFEST = """
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers:
  - name: a
    image: a
    resources: {limits: {nvidia.com/gpu: 1}}
"""
QUESTION = "question in a thread that is no incident's"
DIGEST = "digest daily 09:00 UTC"


class Case(NamedTuple):
    """A deed of this kind; a form's question has none. `done` is its line of the audit log, `digests` how many there
    are then. `privately`: one person alone is answered; an answer that a kill cut off may come to them again.
    `answered` is the key of an answer that everybody sees.
    """

    kind: str
    asked: Callable[[Place], Question]
    details: Mapping[str, Any] = MappingProxyType({})
    done: str = ""
    digests: int = 0
    privately: bool = True
    there_before: bool = False
    answered: str = KEY
    only_kept: bool = False
    """From there on it is another case: it is killed around its being kept."""


def _digest(place: Place) -> Question:
    return place.asked(DIGEST)


CASES: dict[str, Case] = {
    "digest in words": Case("triage", _digest, done="digest-add", digests=1),
    "digest by the form": Case("digest-form", _digest, {"cluster": ""}, "digest-add", 1, only_kept=True),
    "digest stop": Case(
        "triage", lambda place: place.asked(f"digest stop {_id(place)}"), done="digest-stop", there_before=True
    ),
    "fit by the form": Case("", lambda place: place.asked("fit", manifest=MANIFEST)),
    "question on the Home tab": Case(
        "", lambda place: place.asked("status", channel=ADA, public=True), privately=False
    ),
    QUESTION: Case(
        "triage",
        lambda place: place.asked("triage status", thread_ts="1.000001"),
        {"in_short": True},
        privately=False,
        answered=f"{KEY}/asked",
    ),
    "cancel of a profile": Case("profile-cancel", lambda place: place.asked()),
}


def _id(place: Place) -> str:
    [(one,)] = place.rows("select id from digests")
    return str(one)


async def _does(bot: Bot, case: Case, asked: Question) -> None:
    if case.kind:
        await bot.does(case.kind, asked, dict(case.details))
        return
    await bot.inbox.ask_typed(KEY, asked)
    await bot.ended()


async def _killed(place: Place, case: Case, at: int | None, when: When = "before") -> Life:
    await place.new_case()
    if case.there_before:
        async with place.bot() as bot:
            await bot.does("triage", _digest(place), key="earlier")
        place.shown = len(place.said())
    asked, life = case.asked(place), Life(at, when)
    async with place.bot(life=life) as bot:
        await _does(bot, case, asked)
    assert life.dead == (at is not None)
    return life


def _holds(place: Place, case: Case, most: int) -> None:
    told, answers = place.told(), place.answers()
    if case.privately:
        assert 1 <= len(told) <= most, told
    else:
        assert list(answers) == [case.answered]
    if case.done:
        assert place.audited()[case.done, "done"] == 1
        assert max(place.audited().values()) == 1
        assert place.rows("select count(*) from digests where stopped = 0") == [(case.digests,)]
    assert place.rows("select count(*) from seen where state = 'running'") == [(0,)]


@pytest.mark.parametrize("name", CASES)
async def test_killed_at_any_write_what_was_asked_is_done_and_answered_once(
    name: str, tmp_path: Path, record_property: Callable[[str, object], None], sample: Sample
) -> None:
    case = CASES[name]
    async with a_place(tmp_path) as place:
        points = crash_points((await _killed(place, case, None)).names)
        points = sample(points[: 2 if case.only_kept else None], 1)
        _holds(place, case, 1)
        for at, when in points:
            life = await _killed(place, case, at, when)
            kept = place.is_kept()
            assert kept == (at > 0 or when == "after")
            async with place.bot() as bot:
                await bot.resumes()
            if kept:
                _holds(place, case, 1 + ("ephemeral" in life.names[: at + (when == "after")]))
            else:
                assert (place.told(), place.answers(), place.audited()[case.done, "done"]) == ([], {}, 0)
        record_property("crash_points", len(points))


class _SlowToKeep:
    """A store that keeps what a deed asks only once that deed is done, or else after longer than acks wait."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.kept: list[str] = []
        self._deed_done = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def claim_all(self, entries: Mapping[str, str], *given: Any, **more: Any) -> Any:
        if any(entry.endswith("/asked") for entry in entries):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._deed_done.wait(), KEEPING_S + 1)
        claimed = await self._store.claim_all(entries, *given, **more)
        self.kept += [f"claimed {entry}" for entry in entries]
        return claimed

    async def done_all(self, keys: Any) -> Any:
        ended = await self._store.done_all(keys)
        self.kept += [f"done {key}" for key in keys]
        if KEY in keys:
            self._deed_done.set()
        return ended


async def test_a_deed_that_asks_a_question_is_done_only_when_the_question_is_kept(tmp_path: Path) -> None:
    async with a_place(tmp_path) as place:
        await place.new_case()
        stores: list[_SlowToKeep] = []

        def slow(store: Any) -> _SlowToKeep:
            stores.append(_SlowToKeep(store))
            return stores[0]

        async with place.bot(store_of=slow) as bot:
            await bot.does("triage", CASES[QUESTION].asked(place), {"in_short": True})
        asked, done = f"claimed {KEY}/asked", f"done {KEY}"
        assert [key for key in stores[0].kept if key in {asked, done}] == [asked, done]
