"""`python -m bot`, and the console command `hami-bot`."""

import sys


def main() -> None:
    """The console command. A table of a profile is made without what the other verbs import, most of its time."""
    if sys.argv[1:2] == ["profile"] and sys.argv[2:3] in (["top"], ["list"], ["compare"], ["hints"]):
        from handlers.profiles.shell import main as profile  # noqa: PLC0415

        sys.exit(profile(sys.argv[2:]))
    from bot.main import main as everything  # noqa: PLC0415

    everything()


if __name__ == "__main__":
    main()
