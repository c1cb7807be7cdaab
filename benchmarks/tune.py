"""`tune` as a whole process on 5,000 nodes, with a Prometheus that has 100,000 series of their containers."""

import asyncio
import json
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

from benchmarks.processes import HAMI_BOT, made_up_cluster, measure_runs
from benchmarks.rows import Row
from bot.hami.fit.allocated_totals import build_ledger
from bot.hami.version import NEWEST_READ
from bot.kube.client.connect import open_cluster
from playbooks.gather.scheduling import gather_holders

NODES, PODS, SERIES = 5_000, 50_000, 100_000
RUNS = 3
BUDGET_S, BUDGET_MB = 3.0, 250.0
_FIGURES = {
    "hami_vgpu_memory_used_bytes": "4294967296",
    "hami_vgpu_memory_limit_bytes": "8589934592",
    "hami_container_device_utilization_ratio": "40",
    "hami_container_last_kernel_elapsed_seconds": "6",
}


def rows() -> list[Row]:
    """Time and memory of the same runs."""
    with (
        made_up_cluster(NODES, PODS) as kubeconfig,
        _prometheus(asyncio.run(_shares(kubeconfig))) as url,
        tempfile.TemporaryDirectory() as folder,
    ):
        settings = Path(folder) / "settings.yaml"
        cluster = {"kubeconfig": str(kubeconfig), "prometheus": {"url": url}}
        settings.write_text(json.dumps({"clusters": {"big": cluster}}))  # JSON is YAML
        runs = measure_runs([*HAMI_BOT, "tune", "--config", str(settings)], RUNS)
    met = runs.median_s < BUDGET_S and runs.peak_mb < BUDGET_MB
    what = f"tune, cold process, {NODES:,} nodes, {PODS:,} pods, {SERIES:,} series"
    return [Row(what, str(runs), f"< {BUDGET_S:g} s, < {BUDGET_MB:g} MB", met, "none")]


async def _shares(kubeconfig: Path) -> list[dict[str, str]]:
    """The labels of what each pod holds of a GPU, as many as make the series."""
    async with await open_cluster(kubeconfig=kubeconfig) as cluster:
        ledger = build_ledger(await gather_holders(cluster, "hami-scheduler"), NEWEST_READ)
    shares = [
        {"namespace": holding.namespace, "pod": holding.name, "container": "main", "device_uuid": uuid}
        for some in ledger.by_node.values()
        for holding in some
        for uuid in holding.shares
    ]
    wanted = SERIES // len(_FIGURES)
    more = [{**shares[number % len(shares)], "container": f"more-{number}"} for number in range(wanted - len(shares))]
    return [*shares[:wanted], *more]


@contextmanager
def _prometheus(shares: list[dict[str, str]]) -> Iterator[str]:
    """Answers what `tune` asks as a Prometheus would, from memory."""
    now = {
        name: _vector([({"__name__": name, **share}, value) for share in shares]) for name, value in _FIGURES.items()
    }
    peaks, hours = (_vector([(share, value) for share in shares]) for value in ("4294967296", "168"))
    known = _vector([({}, str(len(shares)))])

    def answer(query: str) -> bytes:
        """No share is outside the bounds of its limit, and none used more cores than it requested."""
        if query.startswith("count("):
            return known if "(hami_" in query else _vector([])
        if query.startswith("avg_") or " and " in query:
            return _vector([])
        of_a_week = hours if query.startswith("count") else peaks
        return now.get(query) or (of_a_week if "(hami_" in query else _vector([]))

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            query = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())["query"][0]
            body = answer(query)
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def _vector(series: list[tuple[dict[str, str], str]]) -> bytes:
    result = [{"metric": metric, "value": [0, value]} for metric, value in series]
    """As Prometheus writes it."""
    return json.dumps(
        {"status": "success", "data": {"resultType": "vector", "result": result}}, separators=(",", ":")
    ).encode()
