"""What was worked out of single objects, kept until they change: of thousands few do from one question to the next."""

from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

from bot.kube.models import Resource

Kept = dict[Hashable, Any]
"""What was worked out of a cluster's objects, by what it is. It is looked up again only for the same objects."""

R = TypeVar("R", bound=Resource)
T = TypeVar("T")


def of_each(kept: Kept | None, work_out: Callable[[R], T], items: Iterable[R]) -> list[T]:
    """What `work_out` makes of each object, in their order.

    With `kept` only of those that it was not given the last time; of these objects alone something is kept then. It
    has to be a function of the object and of nothing else.
    """
    if kept is None:
        return [work_out(item) for item in items]
    known: dict[int, tuple[R, T]] = kept.get(work_out, {})
    found, results = dict[int, tuple[R, T]](), list[T]()
    for item in items:
        entry = known.get(id(item))
        if entry is None or entry[0] is not item:  # the address of one that is gone may be another's now
            entry = item, work_out(item)
        found[id(item)] = entry
        results.append(entry[1])
    kept[work_out] = found
    return results
