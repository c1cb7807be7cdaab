"""Killed at every step from an approver's click to the change, or its extension: what the cards say is so.

A step is a call of the store, of the outbox, of the writer or of the capture. Another process goes on, and looks again
when nobody can be at it any more, then at the deadline. What must hold:

- No card says for ever that something is being made.
- What says that it is in effect, or extended, is; what was not done is told as that.
- At the deadline the original is back.
- The audit log has every decision and every event once.
"""

import json
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.changes.plan import Raise, annotation
from bot.kube.client.connect import open_cluster, open_writer
from bot.kube.client.responses import ServerClock
from bot.settings.schema import AccessSettings, Settings
from bot.slack.calls import open_client
from bot.slack.gateway import Gateway
from bot.slack.outbox import Outbox
from bot.store import open_store
from bot.texts import Texts
from handlers.changes.draft import Person
from handlers.changes.service import ChangeService
from handlers.changes.setup import ChangeDeps, ChangeSupervisor
from handlers.deps import Deps
from playbooks.playbook import Sources
from sandbox.apiserver import ApiServer
from sandbox.slack import SlackServer
from tests.changes.crashes import CaseByCase, crash_points
from tests.changes.rig import Killed, Steps, When
from tests.sampling import Sample
from tests.slack.bot import RECORDING
from tests.slack.changing import ADA, EXTENDER, LINUS, NAME, NAMESPACE, QUICK, ROOM

BY_TWO = AccessSettings(operators=(ADA,), approvers=(LINUS,), two_person=True)
BY_ONE = BY_TWO.model_copy(update={"two_person": False})
TEN_MINUTES = Raise((("profiling", "true"),), EXTENDER, 600.0, "it hangs", "")
UNDERWAY = 200.0
"""Seconds after which nobody is at it any more."""
NOT_BEGUN = ("Approved, but not done", "Never made")
BEGUN = ("Rolling out", "In effect", "Extended")


@dataclass(kw_only=True)
class Place(CaseByCase):
    """A workspace beside the cluster."""

    room: str

    @asynccontextmanager
    async def process(
        self, access: AccessSettings, steps: Steps | None = None
    ) -> AsyncGenerator[tuple[ChangeService, ChangeSupervisor]]:
        """A bot, all but its listeners and its clock; with `steps` one that may be killed."""
        steps = steps or Steps()

        @asynccontextmanager
        async def sources(_: str) -> AsyncGenerator[Sources]:
            yield Sources(self.cluster)

        @asynccontextmanager
        async def writing(_: str) -> AsyncGenerator[Any]:
            yield steps.of(self.writer)

        async def capture(_cluster: str, _found: object, out: Path) -> str:
            async def write() -> str:
                out.write_bytes(b"kept")  # noqa: ASYNC240  # a few bytes
                return "captured"

            return await steps.take("capture", write)

        async with open_store(f"sqlite:///{self.database}", now=self.now) as store:
            outbox = Outbox(store, self.gateway)
            deps = Deps(
                gateway=self.gateway,
                outbox=steps.of(outbox),
                store=_SteppedStore(store, steps),
                work=None,
                open_sources=sources,
                clusters=(),
                channels={},
                say=Texts("en"),
                bot_user="",
                now=self.now,
            )
            here = ChangeSupervisor(Settings(access=access), (), sources, ChangeDeps(writing, capture), self.now)
            yield here.begin(deps), here

    def cards(self) -> dict[str, str]:
        """The headline of each card, by its key."""
        return {key: json.loads(content)["text"] for key, content in self.rows("select key, content from outbox")}


class _SteppedStore:
    def __init__(self, store: Any, steps: Steps) -> None:
        self._store, self._steps = store, steps

    def __getattr__(self, name: str) -> Any:
        return self._steps.of(self._store).__getattr__(name)

    @property
    def audit(self) -> Any:
        return self._steps.of(self._store.audit)

    @property
    def approvals(self) -> Any:
        return self._steps.of(self._store.approvals)

    def changes(self, cluster: str) -> Any:
        return self._steps.of(self._store.changes(cluster))


async def _asked(place: Place) -> str:
    """A raise that waits for its approval; its key."""
    async with place.process(BY_TWO) as (service, _):
        who = Person(ADA, place.room)
        _, draft = await service.offer(who, "", TEN_MINUTES)
        await service.confirm(who, draft)
        return draft.id


async def _longer_asked(place: Place) -> str:
    """An extension that waits for its approval, of a change that is made; its key."""
    async with place.process(BY_ONE) as (service, _):
        who = Person(ADA, place.room)
        _, draft = await service.offer(who, "", TEN_MINUTES)
        await service.confirm(who, draft)
    await place.rolled_out()  # which changes the object, and an approval is for the object as it is
    async with place.process(BY_TWO) as (service, _):
        await service.extend(who, "", f"{NAMESPACE}/{NAME}", draft.id, 1200, key="asked")
    [(key,)] = place.rows("select id from approvals")
    return key


ASKED: dict[str, Callable[[Place], Awaitable[str]]] = {"a raise": _asked, "an extension": _longer_asked}


async def _approve(place: Place, key: str, steps: Steps | None = None) -> None:
    [(digest,)] = place.rows(f"select digest from approvals where id = '{key}'")  # our own
    async with place.process(BY_TWO, steps) as (service, _):
        await service.approving.approve(Person(LINUS, place.room), key, digest)


async def _goes_on(place: Place, *at: float) -> None:
    """Another process makes its passes so many seconds after the beginning."""
    async with place.process(BY_TWO) as (service, here):
        writable = await here.writable("")
        for moment in at:
            place.ahead_s = moment
            await writable.changer.passes.reconcile()
            await service.approving.look_after()


async def _one_case(place: Place, asked: str, at: int, when: When) -> None:
    await place.new_case()
    key = await ASKED[asked](place)
    with pytest.raises(Killed):
        await _approve(place, key, Steps(at, when))
    await _goes_on(place, 15, UNDERWAY)
    record = json.loads(annotation(await place.live()) or "null")
    [(state,)] = place.rows(f"select state from approvals where id = '{key}'")  # our own
    card = place.cards()[f"change:{key}"]
    if asked == "a raise":
        truth = BEGUN if record else ("Pending approval",) if state == "pending" else NOT_BEGUN
    else:
        longer = bool(record and record.get("extended"))
        truth = ("Approved and done",) if longer else ("Pending approval", "Approved, but not done")
        own = place.cards()[f"change:{record['id']}"]
        assert own.startswith(("Extended", "In effect"))
        assert f"|{record['at']}>" in own  # Slack shows it as the reader's time
    assert card.startswith(truth), (state, record, card)
    await _goes_on(place, 601 + UNDERWAY, 1801 + UNDERWAY, 3600)
    live = await place.live()
    assert live["spec"] == place.before
    assert annotation(live) is None
    assert {one for (one,) in place.rows("select state from approvals")} <= {"done", "not-done", "expired"}
    told = Counter(place.rows("select action, outcome from audit where outcome != 'requested'"))
    assert max(told.values()) == 1, told
    assert not any(card.startswith(("Approved, being made", "Waits")) for card in place.cards().values())


@asynccontextmanager
async def a_place(folder: Path) -> AsyncGenerator[Place]:
    places: list[Place] = []

    def clock() -> datetime:
        """A pretended cluster of today; its time passes with the bot's."""
        ahead_s = places[0].ahead_s if places else 0.0
        return datetime.now(UTC) + timedelta(seconds=ahead_s)  # noqa: TID251

    async with AsyncExitStack() as stack:
        slack = await stack.enter_async_context(SlackServer(deadline_s=60))
        recorded = ApiServer.from_recording(RECORDING, shift_to=clock(), timing=QUICK, clock=clock)
        server = await stack.enter_async_context(recorded)
        config = folder / "kubeconfig"
        config.write_text(server.kubeconfig())
        cluster = await stack.enter_async_context(await open_cluster(kubeconfig=config))
        writer = await stack.enter_async_context(await open_writer(kubeconfig=config))
        gateway = Gateway(*await stack.enter_async_context(open_client(slack.api_url, slack.bot_token)))
        places.append(
            Place(cluster=cluster, writer=writer, gateway=gateway, room=slack.workspace.channel_id(ROOM), folder=folder)
        )
        writer.clock = ServerClock(lambda: time.monotonic() + places[0].ahead_s)
        yield places[0]


@pytest.mark.parametrize("asked", ASKED)
async def test_killed_after_the_yes_the_card_tells_what_is_so(
    asked: str, tmp_path: Path, record_property: Callable[[str, object], None], sample: Sample
) -> None:
    async with a_place(tmp_path) as place:
        await place.new_case()
        steps = Steps()
        await _approve(place, await ASKED[asked](place), steps)
        await _goes_on(place, 3600)
        decided = steps.names.index("decide")
        cases = sample([point for point in crash_points(steps.names) if point[0] >= decided], 2)
        for at, when in cases:
            await _one_case(place, asked, at, when)
        record_property("crash_points", len(cases))


async def test_killed_while_it_expires_it_is_told_once_that_nobody_approved_it(
    tmp_path: Path, record_property: Callable[[str, object], None], sample: Sample
) -> None:
    async with a_place(tmp_path) as place:
        await place.new_case()
        await _asked(place)
        steps = Steps()
        await _late(place, steps)
        points = sample(crash_points(steps.names), 2)
        for at, when in points:
            await place.new_case()
            key = await _asked(place)
            with pytest.raises(Killed):
                await _late(place, Steps(at, when))
            await _goes_on(place, 700)
            assert place.cards()[f"change:{key}"].startswith("Nobody approved in time")
            assert place.rows("select count(*) from audit where outcome = 'expired'") == [(1,)]
        record_property("crash_points", len(points))


async def test_killed_while_it_is_refused_the_card_tells_what_was_decided(
    tmp_path: Path, record_property: Callable[[str, object], None], sample: Sample
) -> None:
    async with a_place(tmp_path) as place:
        await place.new_case()
        steps = Steps()
        await _refuse(place, await _asked(place), steps)
        points = sample(crash_points(steps.names), 2)
        for at, when in points:
            await place.new_case()
            key = await _asked(place)
            with pytest.raises(Killed):
                await _refuse(place, key, Steps(at, when))
            await _goes_on(place, 15)
            [(state,)] = place.rows(f"select state from approvals where id = '{key}'")  # our own
            headline = {"pending": "Pending approval", "refused": "Not approved"}[state]
            assert place.cards()[f"change:{key}"].startswith(headline)
            told = place.rows("select count(*) from audit where outcome = 'refused-by-approver'")
            assert told == [(int(state == "refused"),)]
        record_property("crash_points", len(points))


async def _refuse(place: Place, key: str, steps: Steps) -> None:
    [(digest,)] = place.rows(f"select digest from approvals where id = '{key}'")  # our own
    async with place.process(BY_TWO, steps) as (service, _):
        await service.approving.refuse(Person(LINUS, place.room), key, digest)


async def _late(place: Place, steps: Steps) -> None:
    async with place.process(BY_TWO, steps) as (service, _):
        place.ahead_s = 601
        await service.approving.look_after()
