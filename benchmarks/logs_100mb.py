"""`logs` as a whole process on a scheduler whose extender has written 100 MB: searched as it arrives, not held."""

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.processes import ENVIRONMENT, HAMI_BOT, measure_runs
from benchmarks.rows import Row
from bot.kube.hami_pods import EXTENDER_CONTAINER

SIZE = 100 * 1024 * 1024
RUNS = 3
BUDGET_CPU_S, BUDGET_MB = 3.0, 100.0

_HAMI, _SCHEDULER = "hami-system", "hami-scheduler-0"
_LINE = (
    'I1121 05:00:00.%06d   15866 device.go:729] "scoring pod" pod="ml/other-%d" device="GPU-%d" Memreq=1000 '
    "MemPercentagereq=101 Coresreq=0 Nums=1 device index=3\n"
)
_EVERY = 5000
"""Of so many lines one run of our pod's is one: about 300 runs in all."""


def rows() -> list[Row]:
    """CPU time and memory are the bot's own; most of the time on the clock is the server's, which stamps each line."""
    with _served() as kubeconfig:
        command = [*HAMI_BOT, "logs", "ml/wl-1", "--kubeconfig", str(kubeconfig)]
        runs = measure_runs(command, RUNS)
    met = runs.cpu_s < BUDGET_CPU_S and runs.peak_mb < BUDGET_MB
    what = f"logs of a pod in {SIZE // 1024 // 1024} MB"
    return [Row(what, str(runs), f"< {BUDGET_CPU_S:g} s of CPU, < {BUDGET_MB:g} MB", met, "none")]


@contextmanager
def _served() -> Iterator[Path]:
    """The kubeconfig of the cluster, which a process of its own serves: what we hold would count as the bot's."""
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        command = [sys.executable, "-m", "benchmarks.logs_100mb", "serve", str(kubeconfig)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, env=ENVIRONMENT) as server:
            if not (server.stdout and server.stdout.readline()):
                sys.exit(f"{' '.join(command)} did not start")
            yield kubeconfig
            if server.stdin:
                server.stdin.close()


async def _serve(kubeconfig: Path) -> None:
    """Serves until standard input ends."""
    from sandbox.apiserver import ApiServer  # noqa: PLC0415  # only the serving process needs it

    logs = {(_HAMI, _SCHEDULER, EXTENDER_CONTAINER): _log()}
    async with ApiServer({"pods": [_scheduler()]}, logs=logs) as server:
        await asyncio.to_thread(kubeconfig.write_text, server.kubeconfig(), encoding="utf-8")
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)


def _log() -> bytes:
    """Lines of other pods, and now and then a run of ours."""
    block = b"".join((_LINE % (number, number, number)).encode() for number in range(_EVERY)) + _run()
    return block * (SIZE // len(block) + 1)


def _run() -> bytes:
    head = "I1121 05:00:00.000001   15866 "
    texts = (
        'scheduler.go:1] "Starting schedule filter process" pod="wl-1" uuid="u1" namespace="ml"',
        'score.go:1] "NodeUnfitPod" pod="ml/wl-1" node="gpu-1" reason="8/8 CardInsufficientMemory"',
    )
    return "".join(f"{head}{text}\n" for text in texts).encode()


def _scheduler() -> dict[str, object]:
    labels = {"app.kubernetes.io/component": "hami-scheduler"}
    containers = [{"name": EXTENDER_CONTAINER, "image": "projecthami/hami:v2.10.0", "command": ["scheduler", "-v=4"]}]
    metadata = {"name": _SCHEDULER, "namespace": _HAMI, "uid": "u", "labels": labels}
    return {"metadata": metadata, "spec": {"containers": containers}, "status": {"phase": "Running"}}


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        asyncio.run(_serve(Path(sys.argv[2])))
    else:
        for row in rows():
            print(f"{row.what}: {row.ours} ({row.budget}: {'met' if row.met else 'MISSED'})")
