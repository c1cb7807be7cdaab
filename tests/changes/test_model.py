"""Whatever is done in whatever order: raise, extend, revert, edits by others, crashes, lost answers, time. Always:

- A pass without a failure at or after the deadline (the API server's clock) leaves no record on the object, whatever
  became of the database, unless others made our value stand there twice; with one pass every 15 s that is the deadline
  and 30 s, also when one of two passes fails.
- If nobody else edited the Deployment, it is then as it was, to the byte.
- What somebody else wrote is never overwritten: a bot's write to the pod template puts its own words in the place of
  those it noted, or its one element back among whatever others wrote, in one list of one container, and nothing else.
- Of each change there is one raise, one revert and one forgetting at most on one object, whoever makes them.
- Nothing is undone before its deadline unless somebody asked for that.
- A record is dropped without an undoing only where our element is not there any more.
- A raise that is refused writes nothing.
- A record that somebody damages or removes keeps nothing raised, as long as the journal has its copy.
- In the end no change is left open in the journal, none is told as ended that is open, and one that ended by a revert
  is told so unless somebody else's edit came after.

The rules of a bot's writes are checked at every write (tests/changes/memory.py).
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from bot.changes.changer import Changer
from bot.changes.deadline import LONGEST_S
from bot.changes.decide import DueChange, decide
from bot.changes.journal import KnownChange
from bot.changes.kinds import KINDS, VERBOSITY
from bot.changes.plan import Plan, Raise, annotation
from bot.changes.record import KEY, Record, read_record, write_record
from bot.errors import BotError
from bot.kube.client.writer import OutcomeUnknown
from tests.changes.deployments import EXTENDER, KUBE_SCHEDULER, NOW, new_value, wants
from tests.changes.memory import NAME, NAMESPACE, Cluster, MemoryJournal, Replica, Trouble, scheduler
from tests.changes.records import DAMAGES
from tests.changes.rig import NEWEST, Killed, Rig, Steps, When, rig
from tests.sampling import examples

Edit = Callable[[dict[str, Any]], None]


def _containers(one: dict[str, Any]) -> list[dict[str, Any]]:
    return one["spec"]["template"]["spec"]["containers"]


def _extender(one: dict[str, Any]) -> dict[str, Any]:
    return next((each for each in _containers(one) if each["name"] == EXTENDER), {"args": []})


def _helm_resets(one: dict[str, Any]) -> None:
    one["spec"] = scheduler()["spec"]


def _respelled(word: str) -> list[str]:
    return ["--v", word.removeprefix("-v=")] if word.startswith("-v=") else [word]


def _level_once(words: list[str]) -> None:
    """Of several the first is kept."""
    places = [at for at, word in enumerate(words) if word.startswith("-v=") or words[at - 1 : at] == ["--v"]]
    for at in reversed(places[1:]):
        del words[at if words[at].startswith("-v=") else at - 1 : at + 1]


EDITS: dict[str, Edit] = {
    "a word": lambda object_: _extender(object_)["args"].append("--foreign"),
    "a word off": lambda object_: _extender(object_).update(
        args=[each for each in _extender(object_)["args"] if each != "--debug"]
    ),
    "respelled": lambda object_: _extender(object_).update(
        args=[part for each in _extender(object_)["args"] for part in _respelled(each)]
    ),
    "the level twice": lambda object_: _extender(object_)["args"].extend(
        each for each in _extender(object_)["args"][:3] if each.startswith("-v=")
    ),
    "the level once": lambda object_: _level_once(_extender(object_)["args"]),
    "another level": lambda object_: _extender(object_).update(args=["scheduler", "-v=2"]),
    "the words back": lambda object_: _extender(object_).update(args=["scheduler", "-v=4", "--debug"]),
    "helm resets": _helm_resets,
    "another container": lambda object_: _containers(object_)[-1].update(image="c"),
    "an annotation": lambda object_: object_["metadata"]["annotations"].update(note="x"),
    "replicas": lambda object_: object_["spec"].update(replicas=3),
    "the record off": lambda object_: object_["metadata"]["annotations"].pop(KEY, None),
    "the record broken": lambda object_: object_["metadata"]["annotations"].update({KEY: "{"}),
    "the record mended": lambda deployment: (
        deployment["metadata"]["annotations"].pop(KEY)
        if deployment["metadata"]["annotations"].get(KEY) == "{"
        else None
    ),
    "reordered": lambda object_: _containers(object_).reverse(),
    "one injected": lambda object_: _containers(object_).insert(
        0, {"name": f"new-{len(_containers(object_))}", "image": "n"}
    ),
    "renamed": lambda object_: _extender(object_).update(name="scheduler"),
    "named back": lambda object_: next((x for x in _containers(object_) if x["name"] == "scheduler"), {}).update(
        name=EXTENDER
    ),
}
HARMLESS = ["a word", "another container", "an annotation", "the words back", "helm resets", "reordered"]

bots = st.integers(0, 2)
cuts = st.none() | st.tuples(st.integers(0, 9), st.sampled_from(["before", "after"]))
troubles: st.SearchStrategy[Trouble] = st.sampled_from(
    ["down", "lost, done", "lost, not done", "500, done", "500, not done"]
)


seconds = st.sampled_from([60, 600, 3600])
levels = st.sampled_from("567")
several = st.permutations([("kube-qps", "50"), ("kube-burst", "99"), ("kube-timeout", "30")]).map(lambda all_: all_[:2])
wishes = st.one_of(
    st.builds(lambda level, lasts: wants(VERBOSITY, level, EXTENDER, lasts, "U1"), levels, seconds),
    st.builds(
        lambda level, lasts: wants(VERBOSITY, level, KUBE_SCHEDULER, lasts, "U1", means="debug-flags"),
        levels,
        seconds,
    ),
    st.builds(
        lambda kind, lasts: wants(kind, new_value(kind), EXTENDER, lasts, "U1"),
        st.sampled_from([container for container in KINDS.values() if EXTENDER in container.containers]),
        seconds,
    ),
    st.builds(lambda flags, lasts: Raise(tuple(flags), EXTENDER, lasts, by="U1"), several, seconds),
)


class Undisturbed(RuleBasedStateMachine):
    """Three replicas, two with wrong clocks, of which one is too wrong to raise anything; one journal, one Deployment
    that nobody else edits.
    """

    @initialize(wanted=wishes, bot=bots, cut=cuts)
    def begin(self, wanted: Raise, bot: int, cut: Any) -> None:
        self.cluster = Cluster()
        self.journal = MemoryJournal()
        self.replicas = [Replica(self.cluster, self.journal, skew) for skew in (0, 45, 10_800)]
        self.made = 0
        self.disturbed = self.damaged = False
        self._raise(bot, wanted, cut, lambda: None)

    @rule(bot=bots, wanted=wishes, cut=cuts, late_s=st.sampled_from([0, 0, 130]))
    def raise_(self, bot: int, wanted: Raise, cut: Any, late_s: float) -> None:
        def meanwhile() -> None:
            self.cluster.now += late_s

        self._raise(bot, wanted, cut, meanwhile)

    @rule(bot=bots, skew_s=st.sampled_from([0, 45, -45, 10_800, -10_800]))
    def a_clock_is_set(self, bot: int, skew_s: float) -> None:
        self.replicas[bot].skew_s = skew_s

    @rule(bot=bots, ahead_s=st.sampled_from([30, 10_800, 86_400]))
    def it_was_raised_with_a_wrong_clock(self, bot: int, ahead_s: float) -> None:
        """As somebody did who went by a clock of their own; the next pass of whoever works counts from then."""
        record = self.cluster.record()
        if record and record.since <= self.cluster.now:
            self.cluster.misdate(record, ahead_s)
            self._pass(bot, None)

    @rule(damage=st.sampled_from(sorted(DAMAGES)))
    def the_record_is_damaged(self, damage: str) -> None:
        record = self.cluster.record()
        if record and isinstance(self.journal.rows.get(record.id), KnownChange):
            self.damaged = True
            self.cluster.damage(DAMAGES[damage](write_record(record)))

    @rule(bot=bots, seconds=st.sampled_from([60, 900, 7200]), cut=cuts)
    def extend(self, bot: int, seconds: int, cut: Any) -> None:
        record = self.cluster.record()
        until = max(record.deadline if record else 0, self.cluster.now) + seconds
        self._act(bot, cut, lambda changer: changer.extend(NAMESPACE, NAME, until, by="U2"))

    @rule(bot=bots, cut=cuts)
    def revert_now(self, bot: int, cut: Any) -> None:
        record = self.cluster.record()
        self.cluster.asked_early.update([record.id] if record else self.journal.rows)
        self._act(bot, cut, lambda changer: changer.revert(NAMESPACE, NAME, by="U2"))

    @rule(bot=bots, cut=cuts)
    def one_pass(self, bot: int, cut: Any) -> None:
        self._pass(bot, cut)

    @rule(
        bot=bots, other=bots, at=st.integers(0, 9), when=st.sampled_from(["before", "after"]), act=st.sampled_from("pr")
    )
    def one_stands_still_while_another_acts(self, bot: int, other: int, at: int, when: When, act: str) -> None:
        """In the midst of a pass of one, another passes (p) or reverts (r)."""

        async def meanwhile() -> None:
            if record := self.cluster.record():
                changer = self.replicas[other].changer()
                if act == "r":
                    self.cluster.asked_early.add(record.id)
                await _told(changer.passes.reconcile() if act == "p" else changer.revert(NAMESPACE, NAME, by="U2"))

        self.disturbed = True
        asyncio.run(_told(self.replicas[bot].changer(Steps(at, when, meanwhile)).passes.reconcile()))

    @rule(seconds=st.sampled_from([15, 60, 600, 4000]), at_work=st.sets(bots, min_size=1))
    def time_passes(self, seconds: int, at_work: set[int]) -> None:
        """Some bots pass just before and after a deadline, and at the end."""
        until = self.cluster.now + seconds
        record = self.cluster.record()
        stops = {record.deadline - 2, record.deadline, record.deadline + 15} if record else set()
        for moment in sorted({*(stop for stop in stops if self.cluster.now < stop < until), until}):
            self.cluster.now = moment
            for bot in at_work:
                self._pass(bot, None)

    @rule(
        bot=bots,
        what=st.sampled_from(["next", "next", "next", "cut off", "back", "down", "up", "lost"]),
        trouble=troubles,
    )
    def trouble_comes(self, bot: int, what: str, trouble: Trouble) -> None:
        """The next write fails; a replica is cut off; the database is down or lost."""
        way = self.replicas[bot].way
        if what == "next":
            way.next = trouble
        elif what in ("cut off", "back"):
            way.down = what == "cut off"
        else:
            self.disturbed = True
            self.journal.down = what == "down"
            if what == "lost" and not self.damaged:
                self.journal.rows.clear()

    # ------------------------------------------------------------------------------------------------ what must hold

    @invariant()
    def nothing_is_told_as_ended_that_is_open(self) -> None:
        record = self.cluster.record() if hasattr(self, "cluster") else None
        if record and self.cluster.foreign_edits == 0:
            assert self.journal.ends().get(record.id) in (None, "never-raised")

    def teardown(self) -> None:
        if not hasattr(self, "cluster"):
            return
        self.journal.down, self.cluster.storm = False, 0
        if self.cluster.foreign_edits:
            self.cluster.edit(EDITS["the level once"])
        for replica in self.replicas:
            replica.way.down, replica.way.next = False, None
        self._pass(0, None)
        record = self.cluster.record()
        assert not record or record.since <= self.cluster.now + 5
        assert not record or record.deadline - record.since <= LONGEST_S
        opened, live = asyncio.run(self.journal.opened()), self.cluster.found()
        if live and any(change.uid != live["metadata"]["uid"] for change in opened):
            self.cluster.edit(EDITS["helm resets"])  # on another object nothing is undone without a record
        deadlines = [change.record.deadline for change in opened]
        self.cluster.now = max(self.cluster.now + 200, record.deadline if record else 0, *deadlines)
        self._pass(0, None)
        self._pass(1, None)
        assert [change.record for change in asyncio.run(self.journal.opened())] == []
        assert self.cluster.record() is None
        if self.cluster.foreign_edits == 0:
            assert json.dumps(self.cluster.live()["spec"]) == self.cluster.original
            assert set(self.cluster.levels.values()) == {"3"}
        self._true_ends()

    def _true_ends(self) -> None:
        for change, end in self.journal.ends().items():
            raised = self.cluster.done["raise", change] > 0
            if not raised:
                assert end in ("never-raised", "replaced"), (change, end)
            elif not self.cluster.foreign_edits:
                assert end == "reverted" or (end == "never-raised" and self.disturbed), (change, end)

    def _raise(self, bot: int, wanted: Raise, cut: Any, between: Callable[[], None]) -> None:
        self.made += 1

        async def act(changer: Changer) -> None:
            plan = await changer.plan(NAMESPACE, NAME, wanted, NEWEST, f"c{self.made}")
            if isinstance(plan, Plan):
                between()
                await changer.raise_(plan, NEWEST)

        self._act(bot, cut, act)

    def _act(self, bot: int, cut: Any, act: Callable[[Changer], Awaitable[object]]) -> None:
        done = +self.cluster.done
        self.disturbed |= cut is not None or self.replicas[bot].way.next is not None
        steps = Steps(*cut) if cut else Steps()
        refused = asyncio.run(_told(act(self.replicas[bot].changer(steps))))
        if refused and "nothing was changed" in refused:
            left = self.cluster.done - done
            assert left["raise", f"c{self.made}"] in (0, left["forget", f"c{self.made}"]), "a refused raise wrote"

    def _pass(self, bot: int, cut: Any) -> None:
        one = self.replicas[bot]
        self.disturbed |= cut is not None
        failed, armed = one.way.failed, one.way.next
        began = self.cluster.now
        killed = asyncio.run(_told(one.changer(Steps(*cut) if cut else Steps()).passes.reconcile()))
        record = self.cluster.record()
        if killed is None and failed == one.way.failed and not armed and record:
            due = decide(self.cluster.live(), began)
            unclear = isinstance(due, DueChange) and due.event.kind == "failed"
            assert began < record.deadline or unclear, "it is overdue after a good pass"
            assert not unclear or self.cluster.foreign_edits, "it is unclear where nobody else edited"


class World(Undisturbed):
    """The same, and others who edit the Deployment, delete it and make it anew."""

    backup: dict[str, Any] | None = None

    @rule(bot=bots, wanted=wishes, name=st.sampled_from(HARMLESS), storm=st.integers(0, 3))
    def raise_while_somebody_edits(self, bot: int, wanted: Raise, name: str, storm: int) -> None:
        def edit() -> None:
            self.cluster.edit(EDITS[name])
            self.cluster.storm = storm

        self._raise(bot, wanted, None, edit)
        self.cluster.storm = 0

    @rule(name=st.sampled_from(sorted(EDITS)))
    def somebody_edits(self, name: str) -> None:
        self.cluster.edit(EDITS[name])

    @rule(
        bot=bots, at=st.integers(0, 5), when=st.sampled_from(["before", "after"]), name=st.sampled_from(sorted(EDITS))
    )
    def somebody_edits_in_the_midst_of_a_pass(self, bot: int, at: int, when: When, name: str) -> None:
        async def edit() -> None:
            self.cluster.edit(EDITS[name])

        asyncio.run(_told(self.replicas[bot].changer(Steps(at, when, edit)).passes.reconcile()))

    @rule(again=st.sampled_from(["new", "backup", "gone", "keep a backup", "keep a backup"]))
    def it_is_deleted_and_made_anew(self, again: str) -> None:
        if again == "keep a backup":
            self.backup = self.cluster.found()
            return
        self.cluster.remove()
        if again != "gone":
            self.made += 1
            self.cluster.create(f"u-{self.made + 1}", self.backup if again == "backup" else None)


async def _told(work: Awaitable[object]) -> str | None:
    """What a person is told; None if it went well."""
    try:
        await work
    except (BotError, Killed) as error:
        return str(error) or "killed"
    return None


SETTINGS = settings(
    max_examples=examples(60),
    stateful_step_count=15,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    database=None,
)


def test_every_order_of_events_ends_well_where_nobody_else_edits() -> None:
    run_state_machine_as_test(Undisturbed, settings=SETTINGS)


def test_every_order_of_events_ends_well_whatever_others_do() -> None:
    run_state_machine_as_test(World, settings=SETTINGS)


# ------------------------------------------------------------------------------------ the same over real sockets

Act = Callable[[Rig, Changer], Awaitable[object]]
ACTS: dict[str, Act] = {
    "extend": lambda _, bot: bot.extend(NAMESPACE, NAME, NOW + 900, by="U2"),
    "revert": lambda _, bot: bot.revert(NAMESPACE, NAME, by="U2"),
    "pass": lambda _, bot: bot.passes.reconcile(),
}
events = st.lists(
    st.tuples(st.sampled_from(sorted(ACTS)), cuts, st.booleans(), st.sampled_from([0, 0, 30, 570])), max_size=5
)


@settings(
    max_examples=8, phases=[Phase.generate], deadline=None, suppress_health_check=list(HealthCheck), database=None
)
@given(begun=cuts, then=events, edit=st.booleans())
def test_orders_of_events_over_real_sockets_and_a_real_database(
    begun: Any, then: list[Any], edit: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    async def run() -> None:
        async with rig(tmp_path_factory.mktemp("rig")) as here:
            await _told(here.raise_(here.bot(Steps(*begun) if begun else Steps())))
            for name, cut, lost, later in then:

                async def unknown() -> None:
                    raise OutcomeUnknown("the connection was closed")

                steps = Steps(*cut, unknown if lost else None) if cut else Steps()
                await _told(ACTS[name](here, here.bot(steps)))
                here.now += later
            if edit:
                await here.edit(lambda spec: spec["template"]["spec"]["containers"][1]["args"].append("--foreign"))
            record = read_record(annotation(await here.live()) or "")
            due = record.deadline - NOW if isinstance(record, Record) else 0
            await here.passes(due, due + 15, due + 30, here.now - NOW + 200, bots=(here.bot(), here.bot()))
            live = await here.live()
            assert annotation(live) is None
            if edit:
                here.before["template"]["spec"]["containers"][1]["args"].append("--foreign")
            assert json.dumps(live["spec"]) == json.dumps(here.before)
            assert await here.store.changes("lab").opened() == []

    asyncio.run(run())
