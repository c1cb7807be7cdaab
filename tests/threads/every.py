"""Every thread, in the order of `docs/incidents.md`."""

from tests.threads import core, limits, plugin, scheduling, starts, vendors, webhook
from tests.threads.thread import Thread

THREADS: tuple[Thread, ...] = (
    *webhook.THREADS,
    *scheduling.THREADS,
    *plugin.THREADS,
    *starts.THREADS,
    *core.THREADS,
    *limits.THREADS,
    *vendors.THREADS,
)
