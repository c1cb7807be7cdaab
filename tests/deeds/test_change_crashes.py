"""A change that a person confirms, prolongs, ends or decides on, killed at every write: done once, or told.

What an approver decided, and no process takes up again, is over nevertheless: cards tell what is so, nothing stays.
"""

import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from bot.changes.plan import Raise
from bot.settings.schema import AccessSettings
from bot.slack.render.blocks import value_of
from bot.slack.render.change import APPROVE, EXTEND, REFUSE, REVERT, CardButton
from handlers.changes.draft import Person
from handlers.parsing.question import Question
from tests.changes.rig import Killed, When, crash_points
from tests.deeds.rig import BY_ONE, BY_TWO, UNDERWAY, Bot, Life, Place, a_place
from tests.sampling import Sample
from tests.slack.changing import ADA, EXTENDER, LINUS, NAME, NAMESPACE

TARGET = f"{NAMESPACE}/{NAME}"
PROFILING = Raise((("profiling", "true"),), EXTENDER, 600.0, "it hangs", "")
LATER_S = 1801 + UNDERWAY
"""After the deadline of a change, extended or not."""
DONE, UNDONE = "Done; follow the card", "this was not done"
NOWHERE = "http://127.0.0.1:9/none"


class Deed(NamedTuple):
    """What a person does: its kind, who asked with which words, its details."""

    kind: str
    asked: Question
    details: dict[str, Any]


class Case(NamedTuple):
    """`before` prepares it; `done` is the line of the audit log that tells that it is done, `patches` how often the
    template was written by then; the card of what an approver decided begins with one of `card` then. Where it is not
    done, the card of the change begins with one of `else_card`. `own`: the only write that no other case has; at all
    others that one is killed.
    """

    before: Callable[[Place], Awaitable[Deed]]
    access: AccessSettings
    done: tuple[str, str]
    patches: int
    else_card: tuple[str, ...] = ()
    own: str = ""
    card: tuple[str, ...] = ()

    def points(self, names: list[str]) -> list[tuple[int, When]]:
        points = crash_points(names)
        return [point for point in points if self.own in names[max(point[0] - 1, 0) : point[0] + 1]] or points


async def _draft(bot: Bot, place: Place) -> Any:
    _, draft = await bot.change.offer(Person(ADA, place.room), "", PROFILING)
    return draft


async def _by_form(place: Place) -> Deed:
    async with place.bot() as bot:
        return Deed("change-confirm", place.asked(), {"draft": await _draft(bot, place)})


async def _by_button(place: Place) -> Deed:
    return (await _by_form(place))._replace(asked=place.asked(response_url=NOWHERE, beside=False))


async def _made(place: Place) -> str:
    async with place.bot() as bot:
        draft = await _draft(bot, place)
        await bot.change.confirm(Person(ADA, place.room), draft)
    await place.rolled_out()
    place.writer.template_writes = 0
    return draft.id


def _press(place: Place, name: str, key: str, digest: str = "", user: str = ADA) -> Deed:
    value = value_of(CardButton(key, "", TARGET, digest))
    return Deed("change-press", place.asked(user=user), {"name": name, "value": value})


async def _extend(place: Place) -> Deed:
    return _press(place, EXTEND, await _made(place))


async def _revert(place: Place) -> Deed:
    return _press(place, REVERT, await _made(place))


async def _extend_in_words(place: Place) -> Deed:
    await _made(place)
    return Deed("change", place.asked("profiling extend 10m"), {})


async def _revert_in_words(place: Place) -> Deed:
    await _made(place)
    return Deed("change", place.asked("profiling off"), {})


async def _waiting(place: Place) -> tuple[str, str]:
    async with place.bot(BY_TWO) as bot:
        draft = await _draft(bot, place)
        await bot.change.confirm(Person(ADA, place.room), draft)
    [(digest,)] = place.rows("select digest from approvals")
    return draft.id, digest


async def _approve(place: Place) -> Deed:
    return _press(place, APPROVE, *await _waiting(place), user=LINUS)


async def _approve_extension(place: Place) -> Deed:
    change = await _made(place)  # and rolled out: an approval is for the object as it is
    async with place.bot(BY_TWO) as bot:
        await bot.change.extend(Person(ADA, place.room), "", TARGET, change, 1200, key="asked")
    [(key, digest)] = place.rows("select id, digest from approvals")
    return _press(place, APPROVE, key, digest, user=LINUS)


async def _refuse(place: Place) -> Deed:
    return _press(place, REFUSE, *await _waiting(place), user=LINUS)


MADE = ("Rolling out", "In effect", "Extended")
CASES: dict[str, Case] = {
    "raise by the form": Case(_by_form, BY_ONE, ("raise", "raised"), 1, ("Never made",)),
    "raise by the button": Case(_by_button, BY_ONE, ("raise", "raised"), 1, ("Never made",), own="respond"),
    "raise that needs an approval": Case(_by_form, BY_TWO, ("raise", "asked"), 0),
    "extend": Case(_extend, BY_ONE, ("extend", "extended"), 0),
    "extend in words": Case(_extend_in_words, BY_ONE, ("extend", "extended"), 0, own="first"),
    "revert": Case(_revert, BY_ONE, ("revert", "reverted"), 1),
    "revert in words": Case(_revert_in_words, BY_ONE, ("revert", "reverted"), 1, own="first"),
    "approve": Case(_approve, BY_TWO, ("raise", "raised"), 1, ("Approved, but not done", "Never made"), card=MADE),
    "approve an extension": Case(
        _approve_extension, BY_TWO, ("extend", "extended"), 0, ("Approved, but not done",), card=("Approved and done",)
    ),
    "refuse": Case(_refuse, BY_TWO, ("approve", "refused-by-approver"), 0, card=("Not approved",)),
}


async def _killed(place: Place, case: Case, at: int | None, when: When = "before") -> tuple[Life, Counter[Any], Deed]:
    """A process that was killed there; what the audit log had before the deed; and the deed."""
    await place.new_case()
    deed, life = await case.before(place), Life(at, when)
    before = place.audited()
    async with place.bot(case.access, life) as bot:
        await bot.does(*deed)
    assert life.dead == (at is not None)
    return life, before, deed


async def _one_case(place: Place, case: Case, at: int, when: When) -> None:
    life, before, deed = await _killed(place, case, at, when)
    kept = place.is_kept()
    place.ahead_s = 5
    async with place.bot(case.access) as bot:
        await bot.resumes()
    told, patches = place.told(deed.asked.user), place.writer.template_writes
    await place.goes_on(15, UNDERWAY)
    audited = place.audited() - before
    assert kept == (at > 0 or when == "after")
    if not kept:
        assert (told, patches, audited[case.done]) == ([], 0, 0)
        return
    assert 1 <= len(told) <= 1 + ("ephemeral" in life.names[: at + (when == "after")]), told
    assert max(audited.values(), default=1) == 1, audited
    is_done = audited[case.done] == 1 or case.done[1] == "asked"
    assert not any((UNDONE if is_done else DONE) in text for text in told), told
    assert is_done or deed.kind != "change-confirm" or UNDONE in told[-1], told
    if case.done[1] != "asked" and not audited[case.done]:
        assert case.else_card
        assert any(answer.startswith(case.else_card) for answer in place.answers().values()), place.answers()
        assert patches == 0
        return
    assert patches == case.patches
    if case.done[1] == "asked":
        assert place.rows("select count(*) from approvals") == [(1,)]
    if case.card:
        assert _card(place).startswith(case.card)
    await _is_over(place)


def _card(place: Place) -> str:
    """Of what an approver decided."""
    [(key,)] = place.rows("select id from approvals")
    return place.answers()[f"change:{key}"]


async def _is_over(place: Place) -> None:
    await place.goes_on(LATER_S, 3600)
    assert (await place.live())["spec"] == place.before
    assert await place.record() is None
    assert max(place.audited().values()) == 1
    assert {one for (one,) in place.rows("select state from approvals")} <= {"done", "not-done", "expired", "refused"}
    assert not any(card.startswith(("Approved, being made", "Waits")) for card in place.answers().values())


async def _taken_up_by_nobody(place: Place, case: Case, at: int, when: When) -> None:
    await _killed(place, case, at, when)
    await place.goes_on(15, UNDERWAY)
    record = await place.record()
    is_done = record and (record.get("extended") or case.done[0] == "raise")
    assert _card(place).startswith(case.card if is_done else case.else_card)
    if record:
        own = place.answers()[f"change:{record['id']}"]
        assert own.startswith(MADE)
        assert f"|{record['at']}>" in own  # Slack shows it as the reader's time
    await _is_over(place)


@pytest.mark.parametrize("name", CASES)
async def test_killed_at_any_write_a_change_is_made_once_or_told(
    name: str, tmp_path: Path, record_property: Callable[[str, object], None], sample: Sample
) -> None:
    async with a_place(tmp_path) as place:
        life, before, _ = await _killed(place, CASES[name], None)
        assert CASES[name].done[1] == "asked" or (place.audited() - before)[CASES[name].done] == 1
        await place.goes_on(LATER_S)
        points = sample(CASES[name].points(life.names), 1)
        for at, when in points:
            await _one_case(place, CASES[name], at, when)
            if await place.record():
                await place.goes_on(LATER_S)
        record_property("crash_points", len(points))


@pytest.mark.parametrize("name", ["approve", "approve an extension"])
async def test_what_was_approved_and_nobody_takes_up_again_ends_and_its_card_tells_what_is_so(
    name: str, tmp_path: Path, record_property: Callable[[str, object], None], sample: Sample
) -> None:
    async with a_place(tmp_path) as place:
        life, *_ = await _killed(place, CASES[name], None)
        await place.goes_on(LATER_S)
        noted = range(life.names.index("decide") + 1, life.names.index("ephemeral"))
        points = sample(noted, 1)
        for at in points:
            await _taken_up_by_nobody(place, CASES[name], at, "before")
        record_property("crash_points", len(points))


async def test_killed_while_it_expires_it_is_told_once_that_nobody_approved_it(
    tmp_path: Path, record_property: Callable[[str, object], None], sample: Sample
) -> None:
    async def late(place: Place, at: int | None, when: When) -> list[str]:
        await place.new_case()
        await _waiting(place)
        async with place.bot(BY_TWO, life := Life(at, when)) as bot:
            place.ahead_s = 601
            with contextlib.suppress(Killed):
                await bot.change.approving.look_after()
        assert life.dead == (at is not None)
        await place.goes_on(700)
        assert _card(place).startswith("Nobody approved in time")
        assert place.rows("select count(*) from audit where outcome = 'expired'") == [(1,)]
        return life.names

    async with a_place(tmp_path) as place:
        points = sample(crash_points(await late(place, None, "before")), 2)
        for at, when in points:
            await late(place, at, when)
        record_property("crash_points", len(points))


WRITES = {"claim_all": 0, "first": 1}
"""Of a revert that is asked for in words, the first two."""
SKEWS = [10_800, -10_800, 0]


async def _killed_revert_in_words(place: Place, skew_s: float, write: str) -> None:
    """Of a change that is made, told to a bot with a wrong clock that was killed just after that write."""
    await place.new_case()
    await _made(place)
    place.skew_s = skew_s
    async with place.bot(BY_ONE, life := Life(WRITES[write], "after")) as bot:
        await bot.does("change", place.asked("profiling off"), {})
    assert life.names[-1] == write, life.names


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("skew_s", SKEWS)
async def test_a_resumed_revert_ends_ones_own_change_whatever_the_clock_says(
    skew_s: float, write: str, tmp_path: Path
) -> None:
    async with a_place(tmp_path) as place:
        await _killed_revert_in_words(place, skew_s, write)
        place.ahead_s = 5
        async with place.bot() as bot:
            await bot.resumes()
        assert await place.record() is None, place.told()


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("skew_s", SKEWS)
async def test_a_resumed_revert_leaves_a_newer_change_whatever_the_clock_says(
    skew_s: float, write: str, tmp_path: Path
) -> None:
    async with a_place(tmp_path) as place:
        await _killed_revert_in_words(place, skew_s, write)
        place.ahead_s, place.skew_s = 60, 0
        async with place.bot() as bot:
            await bot.change.revert(Person(LINUS, place.room), "", TARGET, "")
        await place.rolled_out()
        newer = await _made(place)
        place.ahead_s, place.skew_s = 65, skew_s
        async with place.bot() as bot:
            await bot.resumes()
        assert (await place.record() or {}).get("id") == newer, place.told()
        assert "another" in place.told()[-1]
