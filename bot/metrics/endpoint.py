"""Answers GET /metrics. What the looks saw is made into text after each look, so a scrape writes text."""

import asyncio
from collections.abc import Callable, Mapping
from typing import NamedTuple

from aiohttp import web
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from bot.endpoint import Handler, is_bearer
from bot.metrics.families import OfBot, OfClusters
from bot.metrics.figures import ClusterFigures, Figures

METRICS_PATH = "/metrics"
_MOST_FORMATS = 4
_THIS_MACHINE = ("127.0.0.1", "::1", "::ffff:127.0.0.1")
"""No other loopback address: a service mesh's sidecar passes on anybody's requests as 127.0.0.6."""
_END = b"# EOF\n"
"""The end of OpenMetrics."""

Encode = Callable[[Collector], bytes]


class _Kept(NamedTuple):
    """The text of the clusters in one format."""

    encode: Encode
    of: Mapping[str, ClusterFigures | None]
    text: bytes


class Exposition:
    """The figures as text, in each format that was asked for so far."""

    def __init__(self, figures: Figures) -> None:
        self.figures = figures
        self._own = OfBot(figures)
        self._kept: dict[str, _Kept] = {}

    async def text(self, accept: str) -> tuple[bytes, str]:
        """The whole exposition and its content type, in the best format that the header `Accept` allows."""
        try:
            encode, content_type = choose_encoder(accept)
        except (TypeError, ValueError):  # of a version that is no number
            encode, content_type = choose_encoder("")
        kept = self._kept.get(content_type)
        if kept is None or kept.of is not self.figures.clusters:
            kept = await self._keep(content_type, encode)
        return kept.text + encode(self._own), content_type

    async def renew(self) -> None:
        """Makes the text of what the looks have seen before the next scrape needs it. To be called after a look."""
        for content_type, kept in list(self._kept.items()):
            if kept.of is not self.figures.clusters:
                await self._keep(content_type, kept.encode)

    async def _keep(self, content_type: str, encode: Encode) -> _Kept:
        clusters = self.figures.clusters
        text = await asyncio.to_thread(encode, OfClusters(clusters))
        if content_type not in self._kept and len(self._kept) >= _MOST_FORMATS:
            self._kept.clear()  # a client may ask for as many as it likes
        kept = self._kept[content_type] = _Kept(encode, clusters, text.removesuffix(_END))
        return kept


def metrics_route(exposition: Exposition, token: str) -> Handler:
    """What answers `METRICS_PATH`. Without a token only a client on the same machine is answered."""

    async def metrics(request: web.Request) -> web.Response:
        if not _may_read(request, token):
            text = (
                "the bearer token is missing or wrong\n" if token else "set metrics.token to be read from elsewhere\n"
            )
            return web.Response(status=401, text=text, headers={"WWW-Authenticate": 'Bearer realm="metrics"'})
        body, content_type = await exposition.text(request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})

    return metrics


def _may_read(request: web.Request, token: str) -> bool:
    if token:
        return is_bearer(request.headers.get("Authorization", ""), token)
    return request.remote in _THIS_MACHINE
