"""Python's garbage collector and memory: settings for a command that ends and for a bot that stays."""

import contextlib
import ctypes
import gc

COLLECT_EVERY = 50_000, 20, 20
"""Thresholds of garbage collection. Python's default is 700 objects; a question about 5,000 nodes makes 100,000."""


def keep_what_is_loaded() -> None:
    """Turns garbage collection on for a process that stays, without the objects that exist now."""
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_EVERY)


def give_back() -> None:
    """Returns free memory to the system, with glibc only, which keeps 10 MB after lists of thousands."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
