"""Instant queries to a real Prometheus, and to servers that answer otherwise."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from bot.errors import SourceError
from bot.hami.metrics.exposition import Sample
from bot.prometheus import Labels
from bot.prometheus.client import LARGEST_ANSWER, WITHIN_S, Address, PrometheusClient
from bot.texts import in_english
from tests.prometheus.server import WEEK_ENDS, prometheus_of_the_week, prometheus_that_scrapes

AT = datetime(2026, 11, 22, tzinfo=UTC)
VECTOR = '{"status":"success","data":{"resultType":"vector","result":[]}}'


def ask(
    address: Address,
    query: str = "up",
    at: datetime = AT,
    *,
    within_s: float = WITHIN_S,
    most: int = LARGEST_ANSWER,
    known: Labels | None = None,
) -> list[Sample]:
    return asyncio.run(PrometheusClient(address, within_s=within_s, limit_bytes=most).query(query, at, known))


@pytest.fixture(scope="module")
def week(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with prometheus_of_the_week("range.om.gz", tmp_path_factory.mktemp("week")) as url:
        yield url


@pytest.mark.process
def test_the_peak_of_a_week_is_asked_for_as_of_a_time(week: str) -> None:
    found = ask(Address(week), 'max_over_time(hami_vgpu_memory_used_bytes{pod="bert-0"}[7d])', WEEK_ENDS)
    assert [round(sample.value / 2**20) for sample in found] == [13506]
    assert found[0].labels["namespace"] == "nlp"


@pytest.mark.process
def test_a_sample_is_quoted_as_the_text_format_has_it(tmp_path: Path) -> None:
    text = 'hami_vgpu_memory_used_bytes{namespace="n",pod="a\\"b"} 5\nhami_vgpu_memory_used_bytes{pod="c"} NaN\n'
    with prometheus_that_scrapes({"monitor": text}, tmp_path) as url:
        now = datetime.now(UTC)  # noqa: TID251  # Prometheus keeps what it scrapes under the machine's time
        (sample,) = ask(Address(url), "hami_vgpu_memory_used_bytes", now)
    assert (sample.name, sample.labels["pod"], sample.value) == ("hami_vgpu_memory_used_bytes", 'a"b', 5.0)
    assert sample.line.startswith("hami_vgpu_memory_used_bytes{")
    assert 'pod="a\\"b"' in sample.line


@pytest.mark.process
def test_a_query_that_is_wrong_is_refused_with_prometheus_words(week: str) -> None:
    with pytest.raises(SourceError, match="bad_data: invalid parameter") as refused:
        ask(Address(week), "sum(")
    assert f"{week}/api/v1/query" in in_english(refused.value.message)


def test_a_prometheus_that_is_down_is_named() -> None:
    with pytest.raises(SourceError) as failed:
        ask(Address("http://127.0.0.1:1"))
    assert in_english(failed.value.message).startswith("POST http://127.0.0.1:1/api/v1/query: ")
    assert "prometheus.url" in in_english(failed.value.hint)


def test_certificates_that_cannot_be_read_are_named() -> None:
    with pytest.raises(SourceError, match="No such file"):
        ask(Address("https://127.0.0.1:1", ca_file=Path("/nowhere/ca.pem")))


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_login_says_which_settings_to_check(status: int) -> None:
    with answering("denied", status=status) as server, pytest.raises(SourceError, match=f"HTTP {status}") as failed:
        ask(Address(server.url, token="s3cret"))
    assert "prometheus.token" in in_english(failed.value.hint)
    assert "s3cret" not in str(failed.value)


@pytest.mark.parametrize(
    ("login", "header"),
    [({"token": "s3cret"}, "Bearer s3cret"), ({"user": "ada", "password": "pw"}, "Basic YWRhOnB3"), ({}, "")],
)
def test_it_logs_in_as_the_settings_say(login: dict[str, str], header: str) -> None:
    with answering(VECTOR) as server:
        assert ask(Address(server.url, **login)) == []  # type: ignore[arg-type]
    assert server.logins == [header]


def test_a_redirect_is_not_followed() -> None:
    with (
        answering(VECTOR) as elsewhere,
        answering("", status=307, location=elsewhere.url) as server,
        pytest.raises(SourceError, match="HTTP 307"),
    ):
        ask(Address(server.url, token="s3cret"))
    assert elsewhere.logins == []


def test_a_secret_that_comes_back_in_an_error_is_not_repeated() -> None:
    text = '{"status":"error","errorType":"bad_data","error":"no tenant s3cret"}'
    with answering(text, status=400) as server, pytest.raises(SourceError, match="no tenant …") as failed:
        ask(Address(server.url, token="s3cret"))
    assert "s3cret" not in str(failed.value)


def test_an_answer_that_is_too_large_is_not_read_to_its_end() -> None:
    with answering("x" * 5000) as server, pytest.raises(SourceError, match="more than 1,000 bytes"):
        ask(Address(server.url), most=1000)


def test_one_that_does_not_answer_is_left() -> None:
    with answering(None) as server, pytest.raises(SourceError, match=r"no answer within 0\.05 s"):
        ask(Address(server.url), within_s=0.05)


@pytest.mark.parametrize(
    "text",
    ["<html>Grafana</html>", "{}", '{"status":"success","data":{"resultType":"matrix","result":[]}}', '{"status":5}'],
)
def test_what_is_no_vector_is_an_error(text: str) -> None:
    with answering(text) as server, pytest.raises(SourceError):
        ask(Address(server.url))


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, text: str | None, status: int, location: str) -> None:
        self.answer = text, status, location
        self.logins: list[str] = []
        self.over = threading.Event()
        super().__init__(("127.0.0.1", 0), _Query)
        self.url = f"http://127.0.0.1:{self.server_port}"


class _Query(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        self.server.logins.append(self.headers.get("Authorization", ""))
        self.rfile.read(int(self.headers["Content-Length"]))
        text, status, location = self.server.answer
        if text is None:
            self.server.over.wait()
            return
        self.send_response(status)
        if location:
            self.send_header("Location", location)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:  # type: ignore[override]
        pass


@contextmanager
def answering(text: str | None, *, status: int = 200, location: str = "") -> Iterator[_Server]:
    """A server that answers everything so; None: it never does."""
    with _Server(text, status, location) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        try:
            yield server
        finally:
            server.over.set()
            server.shutdown()


@pytest.mark.parametrize(
    "series",
    [
        '{"__name__":"used","pod":"a"}',
        '{"__name__": "used", "pod": "a"}',
        '{"pod":"a","__name__":"used"}',
        '{"pod":"a"}',
        '{"__name__":"used"}',
        "{}",
    ],
    ids=["as Prometheus writes it", "with blanks", "sorted otherwise", "no name", "a name alone", "nothing"],
)
def test_a_series_is_read_however_its_labels_are_written(series: str) -> None:
    result = f'[{{"metric":{series},"value":[0,"5"]}},{{"metric":{series},"value":[0,"NaN"]}}]'
    text = f'{{"status":"success","data":{{"resultType":"vector","result":{result}}}}}'
    with answering(text) as server:
        (sample,) = ask(Address(server.url))
    assert sample.name == ("used" if "used" in series else "")
    assert sample.labels == ({"pod": "a"} if "pod" in series else {})
    assert sample.number == "5"


@pytest.mark.process
def test_series_with_the_same_labels_share_them_while_somebody_asks_for_that() -> None:
    series = '{"metric":{"__name__":"used","pod":"a"},"value":[0,"5"]}'
    text = f'{{"status":"success","data":{{"resultType":"vector","result":[{series}]}}}}'
    with answering(text) as server:
        known: Labels = {}
        first, second = ask(Address(server.url), known=known)[0], ask(Address(server.url), known=known)[0]
        third = ask(Address(server.url))[0]
    assert first.labels is second.labels
    assert first.labels == third.labels
    assert first.labels is not third.labels
