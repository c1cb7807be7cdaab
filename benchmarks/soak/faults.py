"""What goes wrong meanwhile with Slack and with the API server, at random."""

import asyncio
import time
from collections import Counter
from random import Random

from benchmarks.soak.place import Place
from sandbox.apiserver.faults import Fault as ApiFault
from sandbox.slack import Fault

_EVERY_S = 8.0
_LASTS_S = 15.0
"""A fault of a few requests: a bot that begins asks Slack so seldom that it would last for minutes."""
_WRITES = r"^api/(chat\.(postMessage|update|postEphemeral)|files\.completeUploadExternal|views\.)"
_SLACK = {
    "outage": 2,
    "rate_limited": 3,
    "status": 3,
    "hang": 1,
    "hang_after": 3,
    "reset": 2,
    "reset_after": 3,
    "duplicate": 3,
    "cut": 2,
    "disconnect": 1,
}
_API = {"status": 4, "refuse": 2, "hang": 1, "cut": 2, "drop": 3, "gone": 1, "connections": 2}


class Faults:
    """Makes them; `made` counts them by name."""

    def __init__(self, place: Place, random: Random) -> None:
        self._place = place
        self._random = random
        self.made: Counter[str] = Counter()

    async def run(self, until: float) -> None:
        """Until that time.monotonic(), one every few seconds."""
        while (left := until - time.monotonic()) > 0:
            await asyncio.sleep(min(self._random.expovariate(1 / _EVERY_S), left))
            await self.one()

    async def one(self) -> None:
        """One of them, now."""
        if self._random.random() < 0.6:
            await self._slack()
        else:
            self._api()

    def end(self) -> None:
        """All is well from now on."""
        self._place.slack.faults.clear()
        self._place.cluster.faults.clear()

    async def _slack(self) -> None:
        slack, random = self._place.slack, self._random
        [kind] = random.choices(list(_SLACK), list(_SLACK.values()))
        self.made[f"Slack: {kind}"] += 1
        few, now = random.randint(1, 4), slack.clock.now()
        until = now + _LASTS_S
        match kind:
            case "outage":
                slack.faults.append(Fault("outage", since=now, until=now + random.uniform(5, 60)))
            case "rate_limited":
                retry = str(random.randint(1, 8))
                slack.faults.append(Fault("rate_limited", "^api/", times=few, retry_after=retry, until=until))
            case "status":
                status = random.choice((500, 502, 503))
                slack.faults.append(Fault("status", "^api/", times=few, status=status, until=until))
            case "duplicate":
                slack.faults.append(Fault("duplicate", "^delivery/", times=few, until=until))
            case "cut":
                slack.cut()
            case "disconnect":
                await slack.disconnect("refresh_requested", oldest_only=True)
            case "hang" | "hang_after" | "reset" | "reset_after":
                slack.faults.append(Fault(kind, _WRITES, until=until))
            case _:
                raise AssertionError(kind)

    def _api(self) -> None:
        cluster, random = self._place.cluster, self._random
        [kind] = random.choices(list(_API), list(_API.values()))
        few = random.randint(1, 5)
        match kind:
            case "status":
                status = random.choice((429, 500, 503))
                self._add(str(status), ApiFault("^/api", "status", status, times=few, retry_after=1))
            case "connections":
                self.made["API server: connections cut"] += 1
                cluster.cut_connections()
            case "drop" | "gone":
                self._add(kind, ApiFault("^/api", kind, times=few, events=random.randint(0, 3)))
            case "refuse" | "cut":
                self._add(kind, ApiFault("^/api", kind, times=few))
            case _:
                self._add("hang", ApiFault("^/api", "hang", times=1))

    def _add(self, name: str, fault: ApiFault) -> None:
        """For a while."""
        self.made[f"API server: {name}"] += 1
        faults = self._place.cluster.faults
        faults.append(fault)
        asyncio.get_running_loop().call_later(_LASTS_S, lambda: fault in faults and faults.remove(fault))
