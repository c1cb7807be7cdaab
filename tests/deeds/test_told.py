"""What is not done, or not done again, is told to whoever did it, with the words that repeat it."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bot.errors import BotError
from bot.slack.question_tasks import OF_ONE, Asker
from bot.store import Store
from bot.store.base import BEAT_S, DROPPED, HOLDS_S, TRIES
from handlers.inbox import AT_ONCE
from handlers.parsing.question import Origin, Question
from handlers.user_actions import NOTHING, TOO_LATE_S, AcceptedDeed, ActionKind, Deed, Nothing
from sandbox.slack import Fault
from tests.changes.rig import Killed, When, crash_points
from tests.deeds.rig import KEY, Bot, Life, Place, a_place
from tests.sampling import Sample
from tests.scenes import as_test
from tests.slack.changing import ADA

TS = "1795365974.621041"
HEAP = "profile heap"


def _played(folder: Path, scene: Callable[[Place], Awaitable[None]]) -> None:
    async def play() -> None:
        async with asyncio.timeout(180), a_place(folder) as place:
            await place.new_case()
            await scene(place)

    asyncio.run(play())


async def _kept(place: Place, kind: str, words: str = "", details: Any = None, *, key: str = KEY, **more: Any) -> None:
    """A process took the deed, and ended before it did anything."""
    deed = Deed(kind, place.asked(words, **more), msgspec.Raw(msgspec.json.encode(details or {})))
    async with place.bot() as bot:
        await bot.deps.store.claim(key, msgspec.json.encode(deed).decode())


async def _told_after_a_restart(place: Place) -> str:
    for _ in range(2):
        async with place.bot() as bot:
            await bot.resumes()
    [told] = place.told()
    return told


# ---------------------------------------------------------------------------------------------- after a restart


async def test_a_profile_that_a_kill_cut_off_is_told_with_its_words_and_an_answer_stays(
    tmp_path: Path, record_property: Callable[[str, object], None], sample: Sample
) -> None:
    async def case(place: Place, at: int | None, when: When, away_s: float = 0.0) -> list[str]:
        await place.new_case()
        life = Life(at, when)
        async with place.bot(life=life) as bot:
            await bot.does("profile", place.asked(HEAP, public=True, asked_ts=TS, thread_ts=TS))
        assert life.dead == (at is not None)
        kept, answered = place.is_kept(), place.answers().get(KEY, "")
        place.ahead_s = away_s
        for _ in range(2):
            async with place.bot() as bot:
                await bot.resumes()
        told = place.answers().get(KEY, "")
        if not kept:
            assert told == ""
        elif "Memory in use of " in answered:
            assert told == answered
            assert place.told() == []
        else:
            assert "this was not done" in told
            assert HEAP in told
        return life.names

    async with a_place(tmp_path) as place:
        points = sample(crash_points(await case(place, None, "before")), 3)
        assert "Memory in use of " in place.answers()[KEY]
        for at, when in points:
            await case(place, at, when)
        await case(place, 1, "before", away_s=TOO_LATE_S + 1)
        record_property("crash_points", len(points) + 1)


@as_test(_played, "tmp_path")
async def test_deeds_of_somebody_of_another_organisation_are_not_carried_out_and_they_are_told_once(
    place: Place,
) -> None:
    for key in (KEY, "trigger-2", f"trigger-3{DROPPED}"):
        await _kept(place, "profile", HEAP, key=key, sent_by=Origin(ADA, (("T0PARTNER1", ""),), is_said=True))
    assert "You are from another one" in await _told_after_a_restart(place)
    assert place.answers() == {}
    assert place.rows("select key from seen where state != 'done'") == []


@as_test(_played, "tmp_path")
async def test_a_deed_of_somebody_whom_slack_does_not_name_waits_until_it_does_or_it_is_too_late(place: Place) -> None:
    for away_s, told in ((0, "the bot restarted while"), (TOO_LATE_S + 1, "the request was too old")):
        await place.new_case()
        await _kept(place, "profile", HEAP, sent_by=Origin(ADA), public=True, asked_ts=TS, thread_ts=TS)
        place.slack.faults.append(Fault("error", where="api/users.info", error="fatal_error", times=9))
        async with place.bot() as bot:
            await bot.resumes()
        assert (place.told(), place.answers()) == ([], {})
        if not away_s:
            place.slack.faults.clear()
        place.ahead_s = away_s
        async with place.bot() as bot:
            await bot.resumes()
        assert told in "".join(place.answers().values())
        where = place.rows("select channel from outbox")
        assert where == [(ADA if away_s else place.room,)], "what somebody unknown is told, nobody else reads"


@pytest.mark.parametrize(
    ("kind", "words", "details"),
    [
        ("fit-open", "fit", {}),
        ("ask-open", "", {}),
        ("digest-open", "digest daily 09:00 UTC", {"cluster": "", "channel": "C0GPUONC01"}),
        ("triage-open", "", {"deed": "mute", "incident": "3fa29c"}),
    ],
)
@as_test(_played, "tmp_path")
async def test_of_a_form_that_was_not_opened_the_person_is_told_once_after_a_restart(
    place: Place, *, kind: str, words: str, details: Any
) -> None:
    await _kept(place, kind, words, details)
    told = await _told_after_a_restart(place)
    assert "the bot restarted before it could open the form" in told
    assert (words or ("triage mute 3fa29c" if details else "press")) in told.replace("Press", "press")


@pytest.mark.parametrize(("kind", "details"), [("from-the-future", {}), ("change-confirm", {"draft": 7})])
@as_test(_played, "tmp_path")
async def test_a_deed_of_another_version_is_told_once_with_the_words_that_repeat_it(
    place: Place, *, kind: str, details: Any
) -> None:
    await _kept(place, kind, "verbosity 5", details)
    told = await _told_after_a_restart(place)
    assert "another version of the bot stored the request" in told
    assert "verbosity 5" in told


async def test_a_deed_that_was_given_up_is_told_whenever_a_process_ends_meanwhile(tmp_path: Path) -> None:
    async def case(place: Place, at: int | None, when: When) -> list[str]:
        await place.new_case()
        await _kept(place, "triage", "digest daily 09:00 UTC")
        place.change(f"update seen set tries = {TRIES}")
        life = Life(at, when)
        with contextlib.suppress(Killed):
            async with place.bot(life=life) as bot:
                await bot.resumes()
        for _ in range(2):
            async with place.bot() as bot:
                await bot.resumes()
        told, *again = place.told()
        assert "this was not done" in told
        assert "digest daily 09:00 UTC" in told
        assert not again or life.names[-1] == "done_all"  # killed when it was told, and not yet noted
        return life.names

    async with asyncio.timeout(180), a_place(tmp_path) as place:
        for at, when in crash_points(await case(place, None, "before")):
            await case(place, at, when)


async def _asks(bot: Bot, key: str, question: Question) -> None:
    """A process took the question, and left it."""
    await bot.deps.store.claim(key, msgspec.json.encode(question).decode())
    await bot.deps.store.let_go({key})


@as_test(_played, "tmp_path")
async def test_what_is_at_work_holds_up_no_question_that_a_process_left(place: Place) -> None:
    gate = asyncio.Event()

    async def hang() -> None:
        await gate.wait()

    async with place.bot() as bot:
        for number in range(AT_ONCE):
            bot.deps.work.start(f"{number}", hang, _untold)
        await _asks(bot, KEY, place.asked("status", channel=ADA, public=True))
        assert await bot.leftovers.resume() == 1
        gate.set()
        await bot.ended()
    assert list(place.answers()) == [KEY]


@as_test(_played, "tmp_path")
async def test_few_questions_that_a_process_left_are_answered_at_once_and_what_is_late_is_told_meanwhile(
    place: Place,
) -> None:
    question = place.asked("status", channel=ADA, public=True)
    asker, told = Asker(question.user, question.channel), ["late", f"tried{DROPPED}"]
    async with place.bot() as bot:
        async with contextlib.AsyncExitStack() as turns:
            for _ in range(OF_ONE):
                await turns.enter_async_context(bot.deps.work.turn(asker))
            for number in range(AT_ONCE + 1):
                await _asks(bot, f"{number}", question)
            await _asks(bot, told[0], msgspec.structs.replace(question, asked_at=place.now() - TOO_LATE_S - 1))
            await _asks(bot, told[1], question)
            assert await bot.leftovers.resume() == AT_ONCE
            assert await bot.leftovers.resume() == 0
            for key in told:
                await bot.deps.work.ended(key, within_s=60)
            assert sorted(place.answers()) == told
        await bot.ended()
        assert await bot.leftovers.resume() == 1
        await bot.ended()


async def _untold(error: BotError) -> None:
    raise AssertionError(error)


# ------------------------------------------------------------------------------------------------- another replica


@as_test(_played, "tmp_path")
async def test_a_deed_stays_its_replica_s_as_long_as_that_lives_however_long_it_takes(place: Place) -> None:
    begun, gate, done = asyncio.Event(), asyncio.Event(), list[str]()

    async def take_long(taken: AcceptedDeed[Nothing]) -> None:
        begun.set()
        await gate.wait()
        done.append(taken.key)

    asked = place.asked("profile cpu 200s")
    async with place.bot() as one, place.bot() as other:
        kind, _ = [bot.inbox.kinds.add(ActionKind("takes-long", Nothing, take_long)) for bot in (one, other)]
        await one.inbox.do(KEY, kind, asked, NOTHING, longest_s=330)
        await begun.wait()
        for _ in range(100):
            place.ahead_s += BEAT_S
            await one.deps.store.hold()
            assert await other.leftovers.resume() == 0
        gate.set()
        await one.ended()
        place.ahead_s += HOLDS_S
        assert await other.leftovers.resume() == 0
    assert done == [KEY]
    assert place.told() == []


@as_test(_played, "tmp_path")
async def test_of_several_deeds_one_ends_every_process_and_the_others_are_done(place: Place) -> None:
    done, begun = list[str](), asyncio.Event()

    async def kill(_: AcceptedDeed[Nothing]) -> None:
        begun.set()
        await asyncio.Event().wait()  # nothing else is done in this process

    async def do(taken: AcceptedDeed[Nothing]) -> None:
        done.append(taken.key)

    async with place.bot() as bot:
        for key, kind in (("a", "does"), ("b", "kills"), ("c", "does"), ("d", "does")):
            deed = Deed(kind, place.asked(f"do {key}"))
            await bot.deps.store.claim(key, msgspec.json.encode(deed).decode())
    async with asyncio.timeout(60):
        while not place.told():
            begun.clear()
            async with place.bot() as bot:
                bot.inbox.kinds.add(ActionKind("kills", Nothing, kill))
                bot.inbox.kinds.add(ActionKind("does", Nothing, do))
                await _until_killed(bot, begun)
    [told] = place.told()
    assert "do b" in told
    assert set(done) == {"a", "c", "d"}


@as_test(_played, "tmp_path")
async def test_while_one_that_may_end_processes_is_at_work_the_deeds_of_others_are_done(place: Place) -> None:
    begun, done, gate = asyncio.Queue[str](), asyncio.Event(), asyncio.Event()

    async def hang(taken: AcceptedDeed[Nothing]) -> None:
        begun.put_nowait(taken.key)
        await gate.wait()

    async def do(_: AcceptedDeed[Nothing]) -> None:
        done.set()

    for key in ("a", "b"):
        await _kept(place, "hangs", key=key)
    place.change("update seen set deaths = 6")
    async with place.bot() as bot:
        bot.inbox.kinds.add(ActionKind("hangs", Nothing, hang))
        bot.inbox.kinds.add(ActionKind("does", Nothing, do))
        async with asyncio.timeout(60):
            await bot.leftovers.resume()
            await bot.deps.store.claim("c", msgspec.json.encode(Deed("does", place.asked())).decode())
            await bot.deps.store.let_go({"c"})
            await bot.leftovers.resume()
            await done.wait()
        assert await begun.get() == "a"
        assert begun.empty()
        place.ahead_s += 300
        await bot.leftovers.resume()
        assert await begun.get() == "b"
        gate.set()
        await bot.ended()


async def _until_killed(bot: Bot, killed: asyncio.Event) -> None:
    """As far as the process comes."""
    works, dies = asyncio.create_task(bot.resumes()), asyncio.create_task(killed.wait())
    await asyncio.wait({works, dies}, return_when=asyncio.FIRST_COMPLETED)
    for task in (works, dies):
        task.cancel()
    await asyncio.gather(works, dies, return_exceptions=True)
    await bot.deps.work.drain(0)


# --------------------------------------------------------------------------------------------------- a slow store


class _Slow:
    """The store, which claims nothing until `gate` is set."""

    def __init__(self, store: Store, gate: asyncio.Event) -> None:
        self._store, self._gate = store, gate

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def claim_all(self, wanted: Any) -> set[str]:
        await self._gate.wait()
        return await self._store.claim_all(wanted)


@as_test(_played, "tmp_path")
async def test_what_a_slow_store_has_not_kept_in_time_is_told_with_its_words_and_never_done(place: Place) -> None:
    gate, words = asyncio.Event(), "digest daily 09:00 UTC"
    asked = place.asked(words)
    async with place.bot(store_of=lambda store: _Slow(store, gate), deed_s=0.01) as bot:
        known = bot.inbox.kinds.read(KEY, Deed("triage", asked))
        assert known
        await bot.inbox.do(KEY, known[0], asked, known[1].details)
        await place.slack.wait_for(place.told)
        gate.set()
        await bot.ended()
    [told] = place.told()
    assert "this was not done" in told
    assert words in told
    async with place.bot() as bot:
        await bot.resumes()
    assert len(place.told()) == 1
    assert place.rows("select 1 from digests") == []


# -------------------------------------------------------------------------------------------------------- SIGTERM


@as_test(_played, "tmp_path")
async def test_a_form_in_progress_at_a_stop_is_carried_out_after_the_start(place: Place) -> None:
    """A stop waits for its patience (`Work.drain`), here none, and cuts off what is not done by then."""
    asked = place.asked("digest daily 09:00 UTC")
    hanging = Hanging()
    async with place.bot(life=hanging) as bot:
        known = bot.inbox.kinds.read(KEY, Deed("digest-form", asked, msgspec.Raw(b'{"cluster":""}')))
        assert known
        await bot.inbox.do(KEY, known[0], asked, known[1].details)
        await hanging.reached.wait()
        assert await bot.deps.work.drain(0) == (1, 0)
    assert place.told() == []
    async with place.bot() as bot:
        await bot.resumes()
    [told] = place.told()
    assert "daily 09:00 UTC" in told
    assert place.rows("select count(*) from digests") == [(1,)]


class Hanging(Life):
    """A process whose digest is never added."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = asyncio.Event()

    async def take(self, name: str, step: Callable[[], Awaitable[Any]]) -> Any:
        if name == "add":
            self.reached.set()
            await asyncio.Event().wait()
        return await super().take(name, step)
