"""Several replicas of the bot that work on the same changes and the same store."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from bot.changes.changer import Changer
from bot.changes.plan import Raise
from bot.slack.outbox import Outbox
from bot.store import Store
from bot.texts import Texts
from handlers.deps import Deps
from tests.changes.deployments import NOW
from tests.changes.memory import Cluster, MemoryJournal, Replica, Trouble
from tests.changes.rig import LEVEL, raised

UNUSED: Any = None


def lent_of(store: Store, now: Callable[[], float], clusters: tuple[str, ...]) -> Deps:
    """What needs neither Slack nor what is read of a cluster."""
    return Deps(
        gateway=UNUSED,
        outbox=Outbox(store, UNUSED),
        store=store,
        work=UNUSED,
        open_sources=UNUSED,
        clusters=clusters,
        channels={},
        say=Texts("en"),
        bot_user="",
        now=now,
    )


TROUBLES: tuple[Trouble, ...] = ("down", "lost, done", "lost, not done", "500, done", "500, not done")
Record = Callable[[str, object], None]


class Several:
    """Replicas of one bot. `bots` is how many."""

    def __init__(self, bots: int = 2, skews: Sequence[float] = (0, 0, 0)) -> None:
        self.cluster = Cluster()
        self.journal = MemoryJournal()
        self.replicas = [Replica(self.cluster, self.journal, skew) for skew in skews[:bots]]

    async def raise_(self, bot: Changer, wanted: Raise = LEVEL) -> None:
        await raised(bot, wanted)

    async def passes(self, *at: float) -> None:
        """At each of these times (seconds after the beginning) every replica makes its pass."""
        for moment in at:
            self.cluster.now = max(self.cluster.now, NOW + moment)
            for replica in self.replicas:
                await replica.changer().passes.reconcile()

    def is_as_before(self) -> bool:
        return json.dumps(self.cluster.live()["spec"]) == self.cluster.original and self.cluster.record() is None

    def assert_undone(self) -> None:
        assert self.is_as_before()
        assert self.cluster.done["revert", "c1"] == self.cluster.done["raise", "c1"]
