"""How the work for a text grows with the text: measured in CPU time of this thread, which no other process takes."""

import gc
import time
from collections.abc import Callable

_ROUNDS = 5
_LEAST_S = 0.001
"""Less than this is as good as nothing: what is compared with it may be eight times as much."""


def grows_faster(work: Callable[[str], object], text: Callable[[int], str], length: int) -> str:
    """What it took, where a text four times as long takes clearly more than four times the work; empty else.

    A quadratic step takes sixteen times as much; the limit is eight. What is quick enough at once is not repeated.
    """
    long = _cost(work, text(4 * length), 8 * _LEAST_S)
    if long <= 8 * _LEAST_S:
        return ""
    short = max(_cost(work, text(length), _LEAST_S), _LEAST_S)
    if long > 8 * short:
        long = min(long, _cost(work, text(4 * length), 8 * short))
    is_so = long > 8 * short
    return f"{length}: {short * 1000:.1f} ms, {4 * length}: {long * 1000:.1f} ms" if is_so else ""


def _cost(work: Callable[[str], object], text: str, enough: float) -> float:
    """The least that it took in a few rounds, of which none comes after one of that little."""
    least = float("inf")
    gc.disable()
    try:
        for _ in range(_ROUNDS):
            begun = time.thread_time()
            work(text)
            least = min(least, time.thread_time() - begun)
            if least <= enough:
                break
    finally:
        gc.enable()
    return least
