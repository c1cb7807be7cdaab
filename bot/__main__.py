"""The entry points: `python -m bot`, and the console commands `hami-bot` and `kubectl-hami`."""

import gc
import sys
from typing import TYPE_CHECKING

from bot.errors import UsageError
from bot.texts import Text

if TYPE_CHECKING:
    from bot.texts import Language
    from handlers.cluster_choice import ClusterChoice


def kubectl() -> None:
    """The console command `kubectl-hami`, which kubectl runs as `kubectl hami`."""
    main("kubectl hami")


def main(program: str = "hami-bot") -> None:
    """The console command `hami-bot`; `program` is what a person typed before the verb. Garbage collection is off from
    the start: in a command that ends it would only walk the modules and the cluster's objects, 0.2 s on 5,000 nodes.
    """
    gc.disable()
    try:
        run(program)
    finally:
        gc.freeze()  # else Python walks all of it once more when it ends: 0.2 s


def run(program: str = "hami-bot") -> None:
    """Runs the command line and ends the process. A profile's tables import no other verb: 0.1 s instead of 0.3 s."""
    if sys.argv[1:2] == ["profile"] and sys.argv[2:3] in (["top"], ["list"], ["compare"], ["hints"]):
        from handlers.profiles.shell import main as profile  # noqa: PLC0415

        sys.exit(profile(sys.argv[2:]))
    from handlers.shell import Processes, main  # noqa: PLC0415

    sys.exit(main(Processes(_serve, _demo), sys.argv[1:], program))


async def _serve(where: "ClusterChoice") -> None:
    from bot.main import serve  # noqa: PLC0415  # slack-bolt and SQLAlchemy take half a second

    await serve(where)


async def _demo(port: int, language: "Language") -> None:
    try:
        from sandbox.demo import run as run_demo  # noqa: PLC0415  # the one command that knows the sandbox
    except ModuleNotFoundError as error:
        raise UsageError(
            Text("error-serve.image-has-no-demo"), hint=Text("error-serve.install-hami-bot-with-pip")
        ) from error

    gc.enable()
    await run_demo(port, language)


if __name__ == "__main__":
    main()
