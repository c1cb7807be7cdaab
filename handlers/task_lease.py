"""Who does what of several replicas. It saves work: nothing rests on its being one process alone.

One scope is the cluster: its open changes are reverted by whoever holds its Lease (`bot.kube.client.leader`), because
the record of a change stands on the cluster's objects, and bots with different databases, or none, may look after them.
The other scope is the database: incidents, pages, digests and messages stand there and are nobody's who cannot reach
it. A lease is a row of it. Digests and messages are claimed one by one, so that replicas share them.
"""

from handlers.deps import Deps


class TaskLease:
    """A lease in the store: one process of those that share it does a periodic task.

    `owner` is this process's name alone. The lease lasts `lasts_s` seconds from the last time that `is_mine` asked for
    it; then another may take it.
    """

    def __init__(self, deps: Deps, name: str, owner: str, lasts_s: float) -> None:
        self._deps = deps
        self._name = name
        self._owner = owner
        self._lasts_s = lasts_s
        self._ask_again_at = 0.0

    async def is_mine(self) -> bool:
        """Asks the store only when it may have passed to another: writing every few seconds wears a disk out."""
        now = self._deps.now()
        if now < self._ask_again_at:
            return True
        mine = await self._deps.store.task_leases.hold(self._name, self._owner, self._lasts_s)
        self._ask_again_at = now + self._lasts_s / 3 if mine else 0.0
        return mine
