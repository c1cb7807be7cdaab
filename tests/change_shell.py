"""A cluster over a socket whose changes the shell makes, and the shell as a process."""

import asyncio
import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bot.changes.plan import unfinished_rollout
from bot.changes.record import KEY
from sandbox.apiserver import ApiServer
from sandbox.apiserver.controllers import Timing
from tests.cases_support import CASES
from tests.changes.deployments import EXTENDER
from tests.shell import hami_bot, process

FAST = Timing(ready_s=0.05, gone_s=0.05, lease_s=0.05)
NAMESPACE, NAME = "hami-system", "hami-scheduler"


class Cluster:
    """A recorded cluster behind a socket, in a thread of its own, and the command that is pointed at it."""

    def __init__(self, folder: Path, version: str, **options: Any) -> None:
        self.folder = folder
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        recording = CASES / version / "recording.tar.gz"
        self.server = ApiServer.from_recording(recording, timing=FAST, **options)

    def do(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def start(self) -> None:
        self._thread.start()
        self.do(self.server.__aenter__())
        (self.folder / "kubeconfig").write_text(self.server.kubeconfig())

    def stop(self) -> None:
        self.do(self.server.__aexit__(None, None, None))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def hami_bot(self, *words: str) -> subprocess.CompletedProcess[str]:
        return hami_bot(*words, "--kubeconfig", str(self.folder / "kubeconfig"), folder=self.folder)

    def process(self, *words: str, stdin: Any = subprocess.DEVNULL) -> subprocess.CompletedProcess[str]:
        return process(*words, "--kubeconfig", str(self.folder / "kubeconfig"), stdin=stdin, folder=self.folder)

    @property
    def deployment(self) -> dict[str, Any]:
        async def read() -> dict[str, Any]:
            return self._read()

        return self.do(read())

    def _read(self) -> dict[str, Any]:
        return self.server.object("deployments.apps", NAMESPACE, NAME)

    @property
    def pods(self) -> set[str]:
        """The names of the scheduler's pods."""

        async def read() -> set[str]:
            return self._pods()

        return self.do(read())

    def _pods(self) -> set[str]:
        found = self.server._store.of("pods").select(NAMESPACE, "app.kubernetes.io/component=hami-scheduler")
        return {entry.key.partition("/")[2] for entry in found}

    def settled(self) -> None:
        """Waits until what was changed before has rolled out, and the pods of before are gone."""

        def goes_on() -> bool:
            now = self._read()
            return unfinished_rollout(now) is not None or len(self._pods()) > now["spec"]["replicas"]

        async def wait() -> None:
            async with asyncio.timeout(180):
                while goes_on():  # noqa: ASYNC110  # only the Deployment can tell
                    await asyncio.sleep(0.01)

        self.do(wait())

    def words(self, container: str = EXTENDER) -> list[str]:
        found = self.deployment["spec"]["template"]["spec"]["containers"]
        return next(entry["command"] for entry in found if entry["name"] == container)

    def writes(self) -> list[str]:
        return [
            f"{request.method} {request.path}"
            for request in self.server.requests
            if request.method not in ("GET", "POST") and "dryRun" not in request.query
        ]


@contextmanager
def cluster(folder: Path, version: str = "hami-2.10", **options: Any) -> Iterator[Cluster]:
    made = Cluster(folder, version, **options)
    made.start()
    try:
        yield made
    finally:
        made.stop()


def report_of(done: subprocess.CompletedProcess[str], code: int = 0) -> dict[str, Any]:
    assert done.returncode == code, done.stderr + done.stdout
    return json.loads(done.stdout)


def overdue(here: Cluster) -> None:
    """The open change as it is when its time is over and nobody was there."""

    async def edit() -> None:
        live = here.server.object("deployments.apps", "hami-system", "hami-scheduler")
        record = json.loads(live["metadata"]["annotations"][KEY])
        record |= {"raised_at": "2026-01-01T00:00:00Z", "at": "2026-01-01T00:10:00Z"}
        annotations = live["metadata"]["annotations"] | {KEY: json.dumps(record, separators=(",", ":"))}
        here.server.write("deployments.apps", live | {"metadata": live["metadata"] | {"annotations": annotations}})

    here.do(edit())
