"""A change whose end is told: its kind, its namespace and the pod it is about."""

from bot.changes.record import VERSION, Record
from bot.kube.hami_pods import EXTENDER_CONTAINER

NAMESPACE, POD = "hami-system", "hami-scheduler"
LEVEL = Record(
    v=VERSION,
    id="c1",
    target=f"{NAMESPACE}/hami-scheduler",
    flag="v",
    container=EXTENDER_CONTAINER,
    field="command",
    words_before=("scheduler", "-v=2"),
    words_after=("scheduler", "-v=4"),
    old="2",
    new="4",
    means="patch",
    raised_at="2026-11-21T11:55:00Z",
    at="2026-11-21T12:05:00Z",
    by="U1",
)
