"""Python's garbage collector and its memory, as a command that ends and a bot that stays need them."""

import contextlib
import ctypes
import gc

COLLECT_EVERY = 50_000, 20, 20
"""Python's default looks for garbage after every 700 objects: a question about 5,000 nodes makes 100,000."""


def keep_what_is_loaded() -> None:
    """Turns the collector on, for a process that stays: what is loaded now is not looked at any more."""
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_EVERY)


def give_back() -> None:
    """Gives the system what is free again: after lists of thousands that is 10 MB which glibc would keep.

    Does nothing where the C library is another.
    """
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
