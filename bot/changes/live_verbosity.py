"""A level set in the running kube-schedulers, which need no restart for it (their PUT /debug/flags/v)."""

from bot.changes.flags import Object, find_spot, last_set
from bot.changes.record import Record
from bot.errors import NotFound, SourceError
from bot.kube.client.writer import Writer


async def set_running(writer: Writer, deployment: Object, record: Record, level: str) -> int:
    """For a change by `debug-flags`, nothing else: sets every running kube-scheduler of the Deployment; how many.

    One that ended has the level of its words; an empty `level` is the one without a flag. One that cannot be set keeps
    none of the others from it. Raises the SourceError of the first of those.
    """
    if record.means != "debug-flags":
        return 0
    namespace, _, _ = record.target.partition("/")
    unset: list[SourceError] = []
    count = 0
    for pod in await writer.pods_of(deployment):
        try:
            await writer.set_verbosity(namespace, pod, level or record.kind.values.default)
            count += 1
        except NotFound:
            continue
        except SourceError as error:
            unset.append(error)
    if unset:
        raise unset[0]
    return count


def level_now(deployment: Object, record: Record) -> str:
    """The level that the container's words say now, empty if none."""
    spot = find_spot(deployment, record.container)
    found = last_set(spot, record.kind.flag) if spot else None
    return found.value if found and record.kind.values.is_value(found.value) else ""
