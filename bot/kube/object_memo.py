"""Results worked out from single objects, kept until these change: few of thousands do between two questions."""

from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

from bot.kube.models import Resource

Kept = dict[Hashable, Any]
"""Results worked out from a cluster's objects, by a key of what they are; they hold for the same objects only."""

R = TypeVar("R", bound=Resource)
T = TypeVar("T")


def of_each(kept: Kept | None, work_out: Callable[[R], T], items: Iterable[R]) -> list[T]:
    """What `work_out` makes of each object, in the objects' order.

    With `kept` it is called only for objects that were not given the last time; results for other objects are
    forgotten. It has to be a function of the object and of nothing else.
    """
    if kept is None:
        return [work_out(item) for item in items]
    items = list(items)
    before, known = kept.get(work_out, ([], []))
    by_address: dict[int, T] = {}

    def moved(item: R) -> T:
        if not by_address:
            by_address.update(zip(map(id, before), known, strict=True))  # they are held: no other has their address
        return by_address[id(item)] if id(item) in by_address else work_out(item)

    if not before:
        results = list(map(work_out, items))
    elif len(items) == len(before):  # then most stand where they stood
        both = zip(items, before, known, strict=True)
        results = [result if item is old else moved(item) for item, old, result in both]
    else:
        results = list(map(moved, items))
    kept[work_out] = items, results
    return results.copy()
