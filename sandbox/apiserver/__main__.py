"""Serves a made-up cluster, or a recording, until interrupted: `python -m sandbox.apiserver --nodes 5000 --pods 50000`.
The first line on stdout is the server's URL; it is written when the server answers.
"""

import asyncio
import gc
import signal
from datetime import UTC, datetime
from pathlib import Path

import click

from sandbox.apiserver import ApiServer, Timing
from sandbox.synthetic import synthetic_cluster

_RENEW_S = 5  # a third of the 15 s that kube-scheduler's Lease lasts


@click.command()
@click.option("--nodes", type=click.IntRange(min=1), help="How many nodes a made-up cluster has.")
@click.option("--pods", type=click.IntRange(min=0), help="How many pods it has.")
@click.option("--pending", type=click.IntRange(min=1), default=1, help="How many of them wait for a GPU.")
@click.option("--limited", type=click.IntRange(min=0), default=0, help="In how many namespaces with a quota they do.")
@click.option("--recording", type=click.Path(exists=True, path_type=Path), help="A recording to serve instead.")
@click.option("--port", type=int, default=0, help="The port on 127.0.0.1; a free one unless given.")
@click.option("--kubeconfig-out", type=click.Path(path_type=Path), help="Where to write a kubeconfig for the server.")
@click.option("--live", is_flag=True, help="As if recorded now; Deployments roll out and Leases are renewed.")
def main(
    *,
    nodes: int | None,
    pods: int | None,
    pending: int,
    limited: int,
    recording: Path | None,
    port: int,
    kubeconfig_out: Path | None,
    live: bool,
) -> None:
    """Serve a cluster on 127.0.0.1 until interrupted."""
    if (recording is None) == (nodes is None or pods is None):
        raise click.UsageError("give either --nodes and --pods, or --recording")
    timing = Timing(renew_s=_RENEW_S) if live else None
    gc.disable()  # a large cluster is millions of small objects, none of them in a cycle
    if recording:
        now = datetime.now(UTC) if live else None  # noqa: TID251  # it plays a cluster
        server = ApiServer.from_recording(recording, shift_to=now, timing=timing, port=port)
    else:
        made_up = synthetic_cluster(nodes or 1, pods or 0, pending=pending, limited=limited)
        server = ApiServer(made_up, timing=timing, port=port)
    gc.enable()
    asyncio.run(_serve(server, kubeconfig_out))


async def _serve(server: ApiServer, kubeconfig_out: Path | None) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with server:
        if kubeconfig_out:
            kubeconfig_out.write_text(server.kubeconfig())  # noqa: ASYNC240  # a few bytes, before anyone is served
        click.echo(server.url)
        await stopped.wait()


if __name__ == "__main__":
    main()
