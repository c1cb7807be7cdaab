"""Alertmanager: it posts alerts, and tries again until the bot says that it took them."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from random import Random
from typing import Any

import aiohttp

from benchmarks.soak.deeds import Book, Deed, named
from benchmarks.soak.place import PODS, TOKEN, Place

_NAMES = ("GPUNodeDown", "VGPUMemoryHigh", "XidErrors")
_TRIES_S = 300.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 15.0


@asynccontextmanager
async def alertmanager(place: Place, random: Random, book: Book) -> AsyncGenerator["Alertmanager"]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=15)) as session:
        yield Alertmanager(place, random, book, session)


class Alertmanager:
    """`fire` and `resolve` are deeds of the book; their fingerprint is `about`."""

    def __init__(self, place: Place, random: Random, book: Book, session: aiohttp.ClientSession) -> None:
        self._place = place
        self._random = random
        self._book = book
        self._session = session
        self._firing: dict[str, dict[str, Any]] = {}

    async def fire(self, number: int) -> None:
        """One alert of one of several causes; of some it is critical."""
        labels = {"severity": self._random.choice(("critical", "warning", "warning", "info")), "soak": named(number)}
        if self._random.random() < 0.7:
            labels |= {"alertname": "GPUPodPending", "namespace": "ml", "pod": self._random.choice(PODS)}
        else:
            labels |= {"alertname": self._random.choice(_NAMES), "namespace": "ml"}
        alert: dict[str, Any] = {
            "status": "firing",
            "labels": labels,
            "annotations": {"summary": f"{named(number)} waits"},
            "startsAt": _now(),
            "endsAt": "0001-01-01T00:00:00Z",
            "fingerprint": f"{number:016x}",
        }
        deed = self._book.done(Deed("alert", number, "alertmanager", alert["fingerprint"]))
        if await self._taken(alert, deed):
            self._firing[alert["fingerprint"]] = alert

    async def resolve(self, number: int) -> None:
        """One of those that fire, if any was taken."""
        if not self._firing:
            return
        alert = self._firing.pop(self._random.choice(sorted(self._firing)))
        deed = self._book.done(Deed("resolved alert", number, "alertmanager", alert["fingerprint"]))
        await self._taken(alert | {"status": "resolved", "endsAt": _now()}, deed)

    async def _taken(self, alert: dict[str, Any], deed: Deed) -> bool:
        body = {"version": "4", "groupKey": "{}", "status": alert["status"], "receiver": "hami-bot", "alerts": [alert]}
        until, pause_s = time.monotonic() + _TRIES_S, _FIRST_PAUSE_S
        while time.monotonic() < until:
            if await self._post(json.dumps(body)):
                deed.acked()
                return True
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        return False

    async def _post(self, body: str) -> bool:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        try:
            async with self._session.post(self._place.alerts, data=body, headers=headers) as answer:
                return answer.status == 200
        except (aiohttp.ClientError, TimeoutError):
            return False


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")  # noqa: TID251  # Alertmanager's clock
