"""Python's garbage collector, as a command that ends and a bot that stays need it."""

import gc

COLLECT_EVERY = 50_000, 20, 20
"""Python's default looks for garbage after every 700 objects: a question about 5,000 nodes makes 100,000."""


def keep_what_is_loaded() -> None:
    """Turns the collector on, for a process that stays: what is loaded now is not looked at any more."""
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_EVERY)
