"""A real Prometheus on a loopback port: with the recorded week, or scraping recorded texts."""

import gzip
import json
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlencode, urlsplit
from urllib.request import urlopen

import pytest

DATA = Path(__file__).parent / "data"
WEEK_ENDS = datetime(2026, 11, 22, 1, 0, tzinfo=UTC)
_LISTENING = re.compile(r'msg="Listening on" address=(\S+)')
_READY = "Server is ready"


@contextmanager
def prometheus_of_the_week(recorded: str, folder: Path, *, target: str = "") -> Iterator[str]:
    """The address of a Prometheus whose data are those of `data/RECORDED`.

    `target` is the namespace that the scrape set in place of the exporter's, which stays as exported_namespace.
    """
    text, blocks = folder / "range.om", folder / "blocks"
    series = gzip.decompress((DATA / recorded).read_bytes())
    if target:
        series = series.replace(b'namespace="', f'namespace="{target}",exported_namespace="'.encode())
    text.write_bytes(series)
    make = [program("promtool"), "tsdb", "create-blocks-from", "openmetrics", str(text), str(blocks)]
    subprocess.run(make, check=True, capture_output=True)
    with _running(folder, blocks, "{}") as url:
        yield url


@contextmanager
def prometheus_that_scrapes(texts: Mapping[str, str], folder: Path) -> Iterator[str]:
    """The address of a Prometheus that has scraped each of these texts, once at least."""
    with _Exporters(texts) as exporters:
        jobs = "".join(
            f"- job_name: '{name}'\n  honor_labels: true\n  metrics_path: /{name}\n"
            f"  static_configs: [{{targets: ['{exporters.address}']}}]\n"
            for name in texts
        )
        config = f"global: {{scrape_interval: 1s, scrape_timeout: 1s}}\nscrape_configs:\n{jobs}"
        with _running(folder, folder / "blocks", config) as url:
            _wait_until_scraped(url, len(texts))
            yield url


@contextmanager
def prometheus_that_scrapes_at(address: str, token: str, folder: Path, until: str) -> Iterator[str]:
    """The address of a Prometheus that scrapes /metrics of this address with the token, and has had that series."""
    target = f"authorization: {{credentials: {token}}}\n  static_configs: [{{targets: ['{urlsplit(address).netloc}']}}]"
    jobs = f"- job_name: bot\n  honor_labels: true\n  {target}\n"
    config = f"global: {{scrape_interval: 1s, scrape_timeout: 1s}}\nscrape_configs:\n{jobs}"
    with _running(folder, folder / "blocks", config) as url:
        while not asked(url, until):
            time.sleep(0.05)
        yield url


def asked(url: str, query: str) -> list[Any]:
    """What Prometheus answers an instant query. Raises HTTPError for a query that it does not take."""
    with urlopen(f"{url}/api/v1/query?{urlencode({'query': query})}") as answer:
        return json.load(answer)["data"]["result"]


def _wait_until_scraped(url: str, jobs: int) -> None:
    """`up` is stored together with the samples of its scrape."""
    while len(asked(url, "up==1")) < jobs:
        time.sleep(0.05)


class _Exporters(ThreadingHTTPServer):
    """Serves each text under its name."""

    daemon_threads = True

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts
        super().__init__(("127.0.0.1", 0), _Scrape)
        self.address = f"127.0.0.1:{self.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    def text_of(self, path: str) -> bytes:
        return self._texts[path.lstrip("/")].encode()


class _Scrape(BaseHTTPRequestHandler):
    server: _Exporters

    def do_GET(self) -> None:
        body = self.server.text_of(self.path)
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:  # type: ignore[override]
        pass


@contextmanager
def _running(folder: Path, blocks: Path, config: str) -> Iterator[str]:
    settings = folder / "prometheus.yml"
    settings.write_text(config)
    arguments = [
        f"--config.file={settings}",
        f"--storage.tsdb.path={blocks}",
        "--storage.tsdb.retention.time=100y",
        "--web.listen-address=127.0.0.1:0",
    ]
    command = [program("prometheus"), *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=folder) as process:
        try:
            yield f"http://{_address(process)}"
        finally:
            process.kill()


def _address(process: subprocess.Popen[str]) -> str:
    """Where it listens, once it has said so and that it is ready, in any order. The rest is thrown away."""
    assert process.stderr is not None
    address, ready, lines = "", False, []
    for line in process.stderr:
        lines.append(line)
        if found := _LISTENING.search(line):
            address = found[1]
        ready = ready or _READY in line
        if ready and address:
            threading.Thread(target=lambda: [None for _ in process.stderr or ()], daemon=True).start()
            return address
    raise AssertionError(f"Prometheus ended: {''.join(lines)}")


def program(name: str) -> str:
    """Where it is; the test is skipped where it is not installed."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"no {name} is installed; .ci/run installs it")
    return found
