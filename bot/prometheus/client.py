"""Prometheus' HTTP API: instant queries, which answer every question that the bot has.

The API: https://prometheus.io/docs/prometheus/latest/querying/api/
"""

import asyncio
import ssl
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from sys import intern
from typing import NamedTuple

import httpx
import msgspec

from bot.errors import SourceError
from bot.hami.metrics.exposition import Sample, finite
from bot.kube.client.pod_http import CONNECT_S, bounded
from bot.prometheus import Labels
from bot.report import one_line
from bot.texts import Prose, Text

WITHIN_S = 30.0
LARGEST_ANSWER = 64 * 1024 * 1024
"""The most bytes of an answer: some 200,000 samples."""
_LONGEST_REASON = 300
_NAMED = b'{"__name__":"'
"""The bytes with which Prometheus begins a series: its labels are sorted."""


class Address(NamedTuple):
    """The URL of a Prometheus and how the bot logs in: by a bearer token, by user and password, or not at all.

    `ca_file` holds the certificates that are trusted in place of the system's.
    """

    url: str
    token: str = ""
    user: str = ""
    password: str = ""
    ca_file: Path | None = None


class _Series(msgspec.Struct, gc=False):
    metric: msgspec.Raw
    value: tuple[float, str]


class _QueryData(msgspec.Struct, rename={"kind": "resultType"}):
    kind: str = ""
    result: msgspec.Raw = msgspec.Raw(b"[]")


class _PrometheusAnswer(msgspec.Struct, rename={"error_type": "errorType"}):
    status: str = ""
    data: _QueryData = msgspec.field(default_factory=_QueryData)
    error_type: str = ""
    error: str = ""


class PrometheusClient:
    """A Prometheus asked over HTTP. No error repeats a secret; redirects are not followed."""

    def __init__(self, address: Address, *, within_s: float = WITHIN_S, limit_bytes: int = LARGEST_ANSWER) -> None:
        self._address = address
        self._within_s = within_s
        self._limit_bytes = limit_bytes
        self._verify: ssl.SSLContext | bool | None = None if address.url.startswith("https:") else False

    async def query(self, expression: str, at: datetime, labels: Labels | None = None) -> list[Sample]:
        """The samples of an instant query; see `bot.prometheus.Prometheus.query`. Raises SourceError."""
        try:
            async with asyncio.timeout(self._within_s):
                status, body, cut = await self._post(expression, at)
        except TimeoutError as error:
            hint = Text("error-usage.ask-prometheus-load")
            raise self._failed(Text("error-usage.no-answer-within", seconds=f"{self._within_s:g}"), hint) from error
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ssl.SSLError) as error:
            hint = Text("error-usage.check-url-and-way")
            raise self._failed(self._without_secrets(str(error) or type(error).__name__), hint) from error
        if cut:
            why = Text("error-usage.answer-is-too-long", most=f"{self._limit_bytes:,}")
            raise self._failed(why, Text("error-usage.set-url-of-one-cluster"))
        if status in (401, 403):
            raise self._failed(f"HTTP {status}", Text("error-usage.check-credentials"))
        return self._samples(status, body, {} if labels is None else labels)

    async def _post(self, expression: str, at: datetime) -> tuple[int, bytes, bool]:
        address = self._address
        if self._verify is None:  # reading the system's certificates takes longer than most answers
            own = address.ca_file
            self._verify = ssl.create_default_context(cafile=own) if own else httpx.create_ssl_context(trust_env=False)
        auth = httpx.BasicAuth(address.user, address.password) if address.user else None
        headers = {"Authorization": f"Bearer {address.token}"} if address.token else {}
        timeout = httpx.Timeout(self._within_s, connect=CONNECT_S)
        async with (
            httpx.AsyncClient(
                verify=self._verify, timeout=timeout, trust_env=False, auth=auth, headers=headers
            ) as client,
            client.stream(
                "POST", f"{address.url}/api/v1/query", data={"query": expression, "time": at.timestamp()}
            ) as answer,
        ):
            body, cut = await bounded(answer.aiter_bytes(), self._limit_bytes)
            return answer.status_code, body, cut

    def _samples(self, status: int, body: bytes, known: Labels) -> list[Sample]:
        try:
            answer = msgspec.json.decode(body, type=_PrometheusAnswer)
            if answer.status == "success" and answer.data.kind == "vector":
                return list(_samples(msgspec.json.decode(answer.data.result, type=list[_Series]), known))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            why = Text("error-usage.not-prometheus-json", status=status)
            raise self._failed(why, Text("error-usage.check-url-itself")) from error
        message = f"HTTP {status}, {answer.data.kind or 'no data'}"
        message = f"{answer.error_type}: {answer.error}" if answer.error else message
        raise self._failed(self._without_secrets(message), Text("error-usage.ask-by-hand"))

    def _without_secrets(self, text: str) -> str:
        for secret in (self._address.token, self._address.password):
            text = text.replace(secret, "…") if secret else text
        return one_line(text, _LONGEST_REASON)

    def _failed(self, reason: Prose, hint: Prose) -> SourceError:
        return SourceError(Text("error-usage.query", url=self._address.url, reason=reason), hint=hint)


def _samples(series: Iterable[_Series], known: Labels) -> Iterator[Sample]:
    for measured in series:
        text = measured.value[1]
        if (value := finite(text)) is None:
            continue
        written = bytes(measured.metric)
        name, rest = "", written[1:]
        if written.startswith(_NAMED):
            end = written.index(b'"', len(_NAMED))
            name, rest = written[len(_NAMED) : end].decode(), written[end + 2 :]
        labels = known.get(rest)
        if labels is None:
            # Most values are of many series: a namespace, a container, a GPU.
            decoded = msgspec.json.decode(b"{" + (rest or b"}"), type=dict[str, str])
            read = {label: intern(word) for label, word in decoded.items()}
            if "__name__" in read:  # written otherwise than Prometheus does
                name, labels = read.pop("__name__"), read
            else:
                labels = known[rest] = read
        yield Sample(name, labels, value, "", text)
