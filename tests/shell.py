"""The command line asked about a recording, in a process or over a socket."""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sandbox.apiserver import ApiServer
from tests.cases_support import CASES

ROOT = Path(__file__).parents[1]
RECORDING = str(CASES / "hami-2.10" / "recording.tar.gz")
POD = "ml/s03-card-insufficient-memory"


def hami_bot(*words: str, env: dict[str, str] | None = None, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own, with nothing of ours in its environment."""
    clean = {
        name: value
        for name, value in os.environ.items()  # noqa: TID251  # handed on to the process
        if not name.startswith(("HAMI_BOT_", "KUBE", "COLUMNS"))
    }
    return subprocess.run(
        [sys.executable, "-m", "bot", *words],
        cwd=ROOT,
        env={**clean, "HOME": "/nonexistent", **(env or {})},
        input=stdin,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


@contextmanager
def served(folder: Path, **options: Any) -> Iterator[Path]:
    """A recording behind a real socket, in a thread of its own; the kubeconfig to reach it."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = ApiServer.from_recording(Path(RECORDING), **options)
    try:
        asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result()
        config = folder / "kubeconfig"
        config.write_text(server.kubeconfig(token=options.get("wrong_token")))
        yield config
    finally:
        asyncio.run_coroutine_threadsafe(server.__aexit__(None, None, None), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
