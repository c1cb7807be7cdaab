"""The command line asked about a recording, in a process or over a socket."""

import asyncio
import contextlib
import gc
import io
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from bot.__main__ import run
from sandbox.apiserver import ApiServer
from tests.cases_support import CASES

ROOT = Path(__file__).parents[1]
RECORDING = str(CASES / "hami-2.10" / "recording.tar.gz")
POD = "ml/s03-card-insufficient-memory"


def hami_bot(
    *words: str, env: dict[str, str] | None = None, stdin: str = "", folder: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    """Run the command in this process, with nothing of ours in its environment."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    given = {"argv": ["hami-bot", *words], "stdin": io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8")}
    try:
        with (
            mock.patch.multiple(sys, **given, stdout=out, stderr=err),
            mock.patch.dict(os.environ, _clean(env), clear=True),  # noqa: TID251  # as a process would have it
            contextlib.chdir(folder),
            pytest.raises(SystemExit) as ended,
        ):
            run()
    finally:
        gc.enable()
    code = ended.value.code
    told = [stream.seek(0) or stream.read() for stream in (out, err)]
    return subprocess.CompletedProcess(words, code if isinstance(code, int) else 0, *told)


def process(
    *words: str, env: dict[str, str] | None = None, stdin: Any = subprocess.DEVNULL, folder: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    """The same in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "bot", *words],
        cwd=folder,
        env=_clean(env) | {"PYTHONPATH": str(ROOT)},
        stdin=stdin,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


def _clean(env: dict[str, str] | None) -> dict[str, str]:
    ours = ("HAMI_BOT_", "KUBE", "COLUMNS")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}  # noqa: TID251  # handed on
    return {**kept, "HOME": "/nonexistent", **(env or {})}


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
