"""`python -m bot`, and the console command `hami-bot`."""

import gc
import sys


def main() -> None:
    """The console command.

    The collector is off from the beginning: all that it could do for a command that ends is walk its modules, a tenth
    of the time that importing them takes, and then the cluster's objects, a third of the time on 5,000 nodes.
    """
    gc.disable()
    try:
        _run()
    finally:
        gc.freeze()  # else Python walks all of it once more when it ends: 0.3 s


def _run() -> None:
    """A table of a profile is made without what the other verbs import, most of its time."""
    if sys.argv[1:2] == ["profile"] and sys.argv[2:3] in (["top"], ["list"], ["compare"], ["hints"]):
        from handlers.profiles.shell import main as profile  # noqa: PLC0415

        sys.exit(profile(sys.argv[2:]))
    from bot.main import main as everything  # noqa: PLC0415

    everything()


if __name__ == "__main__":
    main()
