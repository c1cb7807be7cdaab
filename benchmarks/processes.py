"""Whole processes, as a person starts them: what they take, and the made-up cluster that they read."""

import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

_AS_INSTALLED = (
    "import sys; sys.modules.update(dict.fromkeys(('rich', 'pygments')));"  # 3 MB that httpx imports where they are
    "from bot.__main__ import main; main()"
)
HAMI_BOT = (sys.executable, "-c", _AS_INSTALLED)
"""What `hami-bot` runs, without two packages of the dependency group `dev` that no installed bot has."""
_MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024
# Without bytecode an import is a compilation, which no installed bot pays.
ENVIRONMENT = {
    name: value
    for name, value in os.environ.items()  # noqa: TID251  # what the measured processes inherit
    if name != "PYTHONDONTWRITEBYTECODE"
}


LONGEST_S = 180
"""A process that takes longer for one thing has failed at it."""


class GaveUpError(RuntimeError):
    """A measured process did not start, took longer than any could, or ended."""


class Usage(NamedTuple):
    """What one process took. `peak_mb` is never less than what this process holds when it starts the other."""

    wall_s: float
    cpu_s: float
    peak_mb: float


class Runs(NamedTuple):
    """Several runs of the same command: the medians, and the highest peak."""

    fastest_s: float
    median_s: float
    cpu_s: float
    peak_mb: float

    def __str__(self) -> str:
        wall = f"{self.median_s:.2f} s (fastest {self.fastest_s:.2f} s)"
        return f"{wall}, {self.cpu_s:.2f} s of CPU, {self.peak_mb:.0f} MB"


def measure(command: Sequence[str]) -> Usage:
    """Run the command to its end, its output unread.

    Raises GaveUpError where it cannot be started, CalledProcessError with what it said on stderr where it fails.
    """
    with tempfile.TemporaryFile() as said:
        started = time.perf_counter()
        try:
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said, env=ENVIRONMENT)
        except OSError as error:
            raise GaveUpError(f"{command[0]} cannot be started: {error.strerror}") from error
        limit = threading.Timer(LONGEST_S, os.kill, (process.pid, signal.SIGKILL))
        limit.start()
        _, status, used = os.wait4(process.pid, 0)
        limit.cancel()
        wall_s = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said.seek(0)
            raise subprocess.CalledProcessError(process.returncode, list(command), stderr=said.read().decode())
    return Usage(wall_s, used.ru_utime + used.ru_stime, used.ru_maxrss * _MAXRSS_UNIT / 1e6)


def measure_runs(command: Sequence[str], runs: int) -> Runs:
    """What so many runs took. A first one, not counted, warms caches."""
    measure(command)
    used = [measure(command) for _ in range(runs)]
    wall_s = [usage.wall_s for usage in used]
    return Runs(
        min(wall_s), median(wall_s), median(usage.cpu_s for usage in used), max(usage.peak_mb for usage in used)
    )


def heard(process: subprocess.Popen[str]) -> str:
    """The next line that the process says; it has to be told to say one line at a time. Raises GaveUpError."""
    assert process.stdout
    if not select.select([process.stdout], [], [], LONGEST_S)[0]:
        raise GaveUpError(f"{process.args} said nothing for {LONGEST_S} s")
    line = process.stdout.readline()
    if not line:
        raise GaveUpError(f"{process.args} ended")
    return line


def made_up_cluster(nodes: int, pods: int, *, pending: int = 1, limited: int = 0) -> AbstractContextManager[Path]:
    """The kubeconfig of a made-up cluster (`sandbox.synthetic`) that a process of its own serves meanwhile."""
    return _served("--nodes", str(nodes), "--pods", str(pods), "--pending", str(pending), "--limited", str(limited))


def recorded_cluster(recording: Path) -> AbstractContextManager[Path]:
    """The kubeconfig of a recorded cluster that a process of its own serves meanwhile, as if recorded now."""
    return _served("--recording", str(recording), "--live")


@contextmanager
def _served(*options: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        command = [sys.executable, "-m", "sandbox.apiserver", *options, "--kubeconfig-out", str(kubeconfig)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as server:
            try:
                heard(server)
                yield kubeconfig
            finally:
                server.terminate()
