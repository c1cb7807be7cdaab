"""Ten minutes without Slack in the middle of a storm: HTTP intake, store, causes, outbox and Slack, in virtual time."""

import itertools
import json
import re
from collections import Counter
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from bot.endpoint import ALERTS_PATH
from handlers.oncall.keeper import Keeper
from handlers.oncall.setup import posts_of
from sandbox.serving import Served
from sandbox.slack import Fault
from tests.oncall.bot import BEARER, GIVEN, webhook
from tests.oncall.rig import Rig, on_rig, text
from tests.oncall.storm import ALERTS, PODS, SECONDS
from tests.playbooks.world import Object, bind_error, cluster, gpu, gpu_node, none_of, pod, record, refused, running

OUTAGE_S = 600.0
BODIES = 20
NAMES = ("GPUPodPending", "KubePodNotReady")
BY_SEVERITY = {"critical": "scheduler-degraded", "warning": "card-insufficient-memory", "info": "node-lock-held"}
SAID = ("info", "warning", "warning")
"""The severity that Alertmanager gives the alerts about a pod of that number: no higher than what is found."""
_NO_ANSWER = 'Post "https://127.0.0.1:443/filter": dial tcp 127.0.0.1:443: connect: connection refused'


def waiting(number: int) -> Object:
    """The least severe come first, so that the order of their arrival is not the one that is wanted."""
    name = f"trainer-{number}"
    match number % 3:
        case 0:
            locked = bind_error("node gpu-1 has been locked within 5m0s", 20)  # it is not any more
            return pod(name, gpu(memory=100), said=locked)
        case 1:
            return pod(name, gpu(memory=8000), said=refused(none_of(1, "1 1/1 CardInsufficientMemory")))
        case _:
            return pod(name, gpu(memory=100), said=refused(_NO_ANSWER))


def a_cluster(folder: Path) -> Path:
    holder = running("holder", "gpu-1", ("GPU-gpu-1", 12_000, 10), namespace="other")
    return record(folder, cluster(gpu_node("gpu-1"), holder, *map(waiting, range(PODS))))


async def posted(address: str, client: aiohttp.ClientSession, number: int) -> None:
    """One body of Alertmanager's, and again every third, as when its answer was lost."""
    size = ALERTS // BODIES
    name, first = NAMES[number * size // PODS], number * size % PODS
    body = webhook(*(f"trainer-{number}" for number in range(first, first + size)), alertname=name)
    for alert in body["alerts"]:
        alert["fingerprint"] = f"{name}{alert['labels']['pod']}".replace("-", "")
        alert["labels"]["severity"] = SAID[int(alert["labels"]["pod"].removeprefix("trainer-")) % 3]
    for _ in range(1 + (number % 3 == 0)):
        async with client.post(f"{address}{ALERTS_PATH}", data=json.dumps(body).encode(), headers=BEARER) as answer:
            assert (answer.status, await answer.text()) == (200, "ok\n")


async def no_pager(_: object) -> None:
    raise AssertionError("no pager posts here")


async def storm(rig: Rig, keeper: Keeper) -> None:
    """A thousand alerts in a minute, each body answered at once whatever Slack does."""
    application = web.Application()
    application.router.add_post(ALERTS_PATH, posts_of(GIVEN, keeper.take, lambda: False, no_pager)[ALERTS_PATH])
    async with Served(application) as served, aiohttp.ClientSession() as client:
        for number in range(BODIES):
            await posted(served.url, client, number)
            await turn(rig, keeper, SECONDS / BODIES)


async def turn(rig: Rig, keeper: Keeper, seconds: float) -> None:
    """A pass, and one try of what is to be said: `Rig.send` would try on until Slack is there again."""
    await keeper.look()
    for channel in await rig.store.outbox.channels():
        await rig.outbox.step(channel)
    await rig.bot.clock.advance(seconds)


@pytest.mark.few(0)  # a thousand alerts: left to `make test-all`
@on_rig(a_cluster, new=True)
async def test_after_ten_minutes_without_slack_in_a_storm_everything_comes_by_severity_and_once(rig: Rig) -> None:
    ends = rig.now + OUTAGE_S
    rig.bot.slack.faults.append(Fault("outage", until=ends))
    keeper = rig.keeper()
    await storm(rig, keeper)
    while rig.now < ends:
        await turn(rig, keeper, 30)
    assert rig._said() == []
    await rig.passes(180, keeper, step_s=30)

    heads = [text(head) for head in rig.heads()]
    assert [severity for head in heads for severity in re.findall(r"Open, (\w+): ", head)[:1]] == list(BY_SEVERITY)
    assert all(code in head for code, head in zip(BY_SEVERITY.values(), heads, strict=True))
    counts = [re.search(r"(\d+) of (\d+) pods still affected, (\d+) alerts", head) for head in heads]
    assert [(int(found[1]), int(found[2])) for found in counts if found] == [(166, 166), (167, 167), (167, 167)]
    assert sum(int(found[3]) for found in counts if found) == ALERTS
    assert [len(rig.replies(head)) for head in rig.heads()] == [1, 1, 1]
    assert await rig.store.alerts.unsorted(1) == []
    assert await rig.store.outbox.channels() == []
    calls = [call for call in rig.bot.slack.journal.of("api") if call.at >= ends]
    assert Counter(call.status for call in calls) == {200: len(calls)}
    posts = [call.at for call in calls if call.title == "chat.postMessage"]
    assert len(posts) == 6
    assert all(later - earlier >= 1.0 for earlier, later in itertools.pairwise(posts))
