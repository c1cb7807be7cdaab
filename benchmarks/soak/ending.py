"""The folder of a run, and how its process ends."""

import asyncio
import shutil
import sys
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, NoReturn


def run_and_exit(name: str, soak: Callable[[Path], Coroutine[Any, Any, bool]]) -> NoReturn:
    """Runs the soak in a new folder of that name, which is kept where something was wrong; then the process ends."""
    folder = Path(tempfile.mkdtemp(prefix=f"hami-bot-{name}-"))
    is_well = asyncio.run(soak(folder))
    if is_well:
        shutil.rmtree(folder)
    else:
        print(f"The bot's log, its settings and its store are kept in {folder}")
    sys.exit(0 if is_well else 1)
