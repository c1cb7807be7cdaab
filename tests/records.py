"""A temporary change as it is noted: the extender's -v from 4 to 5 for ten minutes."""

from bot.changes.record import Record

RECORD = Record(
    v=1,
    id="0123456789ab",
    target="hami-system/hami-scheduler",
    flag="v",
    container="vgpu-scheduler-extender",
    field="command",
    words_before=("-v=4",),
    words_after=("-v=5",),
    old="4",
    new="5",
    means="patch",
    raised_at="2026-11-21T05:00:00Z",
    at="2026-11-21T05:10:00Z",
    by="U0ADA00001",
)
