"""A made-up cluster as a process whose nodes change without end once it is told to: `python -m benchmarks.busy_server`.

The first line on stdout is said when it answers. Every line on stdin is a number: how many nodes change a second.
"""

import asyncio
import gc
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sandbox.apiserver import ApiServer
from sandbox.synthetic import synthetic_cluster

_TURN_S = 0.02
_CATCH_UP = 3
"""So many turns' changes are made in one at most."""
_HANDSHAKE = "hami.io/node-handshake"


async def _serve(nodes: int, pods: int, kubeconfig: Path) -> None:
    gc.disable()
    server = ApiServer(synthetic_cluster(nodes, pods))
    gc.freeze()
    gc.enable()
    async with server:
        kubeconfig.write_text(server.kubeconfig())  # noqa: ASYNC240  # a few bytes, before anyone is served
        print("ready", flush=True)
        churn = asyncio.create_task(_change_nodes(server, nodes, 0))
        while line := await asyncio.to_thread(sys.stdin.readline):
            churn.cancel()
            churn = asyncio.create_task(_change_nodes(server, nodes, int(line)))
        churn.cancel()
        await asyncio.gather(churn, return_exceptions=True)


async def _change_nodes(server: ApiServer, nodes: int, per_s: int) -> None:
    """One node after the other answers a handshake and reports to be alive, as kubelets and device plugins do.

    On a machine that is too busy they are fewer: catching up without end would leave no time to answer anybody.
    """
    began, done = time.monotonic(), 0
    while per_s:
        due = int((time.monotonic() - began) * per_s)
        for _ in range(min(due - done, round(_CATCH_UP * per_s * _TURN_S))):
            name = f"gpu-node-{done % nodes:05d}"
            node: Any = server.object("nodes", "", name)
            now = datetime.now(UTC)  # noqa: TID251  # it plays a cluster
            node["metadata"]["annotations"][_HANDSHAKE] = f"Requesting_{now:%Y-%m-%d %H:%M:%S}"
            for condition in node["status"]["conditions"]:
                condition["lastHeartbeatTime"] = f"{now:%Y-%m-%dT%H:%M:%SZ}"
            server.write("nodes", node)
            done += 1
        await asyncio.sleep(_TURN_S)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])))
