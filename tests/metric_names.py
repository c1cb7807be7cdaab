"""The metrics of a bot in which everything has happened, scraped and taken apart."""

import asyncio
from typing import Any

import aiohttp
from aiohttp import web
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parsed

from bot import process_counters
from bot.finding_codes import CODES
from bot.metrics import (
    BotFigures,
    ClusterFigures,
    Exposition,
    Figures,
    PendingPod,
    count_pending,
    gaps_by_source,
    metrics_route,
)

OPEN_METRICS = "application/openmetrics-text; version=1.0.0"


async def scraped(figures: Figures, token: str = "", **headers: str) -> tuple[int, str]:
    """What a client on this machine is answered."""
    app = web.Application()
    app.router.add_get("/metrics", metrics_route(Exposition(figures), token))
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/metrics"
        async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as answer:
            return answer.status, await answer.text()
    finally:
        await runner.cleanup()


def text_of(figures: Figures) -> str:
    status, text = asyncio.run(scraped(figures, Accept=OPEN_METRICS))
    assert status == 200
    return text


def figures_of(**clusters: ClusterFigures | None) -> Figures:
    figures = Figures(lambda: True)
    figures.clusters = clusters
    return figures


def everything() -> Figures:
    """Figures with a value of each metric."""
    seen = ClusterFigures(
        count_pending(waiting(2, "ml")), {"free": 1}, {"A100": 7}, gaps_by_source(["nodes"]), 0.5, 1.8e9, cache_age_s=3
    )
    figures = figures_of(lab=seen)
    figures.bot = BotFigures(1, 0, {"open": 1}, 0, 0.0, 2, 1.5)
    process_counters.POD_STARTS.begin("lab")
    process_counters.ACKS.begin()
    process_counters.PLAYBOOKS.begin("why", "answered")
    process_counters.SCHEDULER_CALLS.begin("lab", "filter")
    process_counters.REFUSALS["lab", "CardInsufficientMemory"] += 0
    process_counters.KUBERNETES_REQUESTS["lab", "list", "200"] += 0
    return figures


def names_told() -> set[str]:
    """The name of every series that there can be."""
    return {sample.name for family in parsed(text_of(everything())) for sample in family.samples}


def waiting(
    count: int, namespace: str, code: Any = "card-insufficient-memory", age_s: float = 60.0
) -> list[PendingPod]:
    return [PendingPod(namespace, code, age_s, CODES[code].pending_class)] * count
