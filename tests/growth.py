"""How the work for a text grows with the text: measured in CPU time of this thread, which no other process takes."""

import gc
import time
from collections.abc import Callable

_ROUNDS = 5
_LEAST_S = 0.0005
"""Less than this is as good as nothing: what is compared with it may be eight times as much."""


def grows_faster(work: Callable[[str], object], text: Callable[[int], str], length: int) -> str:
    """What it took, where a text four times as long takes clearly more than four times the work; empty else.

    A quadratic step takes sixteen times as much; the limit is eight.
    """
    short, long = (_cost(work, text(size)) for size in (length, 4 * length))
    is_so = long > 8 * max(short, _LEAST_S)
    return f"{length}: {short * 1000:.1f} ms, {4 * length}: {long * 1000:.1f} ms" if is_so else ""


def _cost(work: Callable[[str], object], text: str) -> float:
    taken = list[float]()
    gc.disable()
    try:
        for _ in range(_ROUNDS):
            begun = time.thread_time()
            work(text)
            taken.append(time.thread_time() - begun)
    finally:
        gc.enable()
    return min(taken)
