"""`profile top` beside `go tool pprof -top` on the same file: whole processes, the same text."""

import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.made_up_profile import write_profile
from benchmarks.processes import ENVIRONMENT, HAMI_BOT, measure_runs
from benchmarks.rows import Row

SIZES = ((10_000, 3_000), (110_000, 12_000), (300_000, 20_000))
"""Samples and functions."""
RUNS = 3
WANTED = 1.5
_MEGABYTE = 1e6


def rows() -> list[Row]:
    """One per size. The Go tool is in the dependency group `bench`; its first run compiles it, which takes a while."""
    found: list[Row] = []
    go = _go()
    with tempfile.TemporaryDirectory() as folder:
        for samples, functions in SIZES:
            file = Path(folder) / f"{samples}.pb.gz"
            size = write_profile(file, samples=samples, functions=functions)
            what = f"profile top, {samples:,} samples, {functions:,} functions, {size / _MEGABYTE:.1f} MB uncompressed"
            found.append(
                _row(what, [*HAMI_BOT, "profile", "top", str(file)], go and [go, "tool", "pprof", "-top", str(file)])
            )
    return found


def _go() -> str | None:
    """The tool itself: what the package installs beside Python is a script that starts it, which takes longer."""
    script = shutil.which("go", path=sysconfig.get_path("scripts")) or shutil.which("go")
    if not script:
        return None
    root = subprocess.run([script, "env", "GOROOT"], check=True, capture_output=True, text=True).stdout.strip()
    return str(Path(root) / "bin" / "go")


def _row(what: str, command: Sequence[str], peer: Sequence[str] | None) -> Row:
    budget = f"{WANTED:g} x faster than the peer, same text"
    ours = measure_runs(command, RUNS)
    if not peer:
        return Row(what, str(ours), budget, False, "go tool pprof: not installed (dependency group bench)")
    theirs = measure_runs(peer, RUNS)
    same = _output(command) == _output(peer)
    ratio, work = theirs.median_s / ours.median_s, theirs.cpu_s / ours.cpu_s
    text = f"{ratio:.1f} x faster, {work:.1f} x less CPU, {'the same text' if same else 'ANOTHER TEXT'}"
    return Row(what, f"{ours}\n{text}", budget, same and ratio >= WANTED, f"go tool pprof: {theirs}")


def _output(command: Sequence[str]) -> bytes:
    return subprocess.run(command, check=True, capture_output=True, env=ENVIRONMENT).stdout
