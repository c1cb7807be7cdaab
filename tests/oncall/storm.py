"""A storm of alerts in virtual time: 1,000 in a minute about 500 pods of three causes, in bodies as Alertmanager's."""

import itertools
from typing import NamedTuple

from bot.triage.webhook import Alert
from tests.oncall.rig import Rig, pending, text

PODS, ALERTS, SECONDS = 500, 1000, 60
_BODIES = 20


class Weather(NamedTuple):
    """What a storm left: threads with what their heads say, how often Slack was called, and how densely."""

    heads: list[str]
    evidence: list[int]
    posts: int
    edits: int
    refused: int
    closest_s: float
    read: int
    kept: int


def alerts() -> list[Alert]:
    """Two alerts of different names about each pod, the pods in turns of cause."""
    return [pending(number, name=name) for name in ("GPUPodPending", "KubePodNotReady") for number in range(PODS)]


async def storm(rig: Rig) -> Weather:
    """Sends the storm, every third body twice, and lets the bot settle for two minutes."""
    every, keeper = alerts(), rig.keeper()
    size = len(every) // _BODIES
    start = rig.now
    for number in range(_BODIES):
        body = every[number * size : (number + 1) * size]
        for _ in range(1 + (number % 3 == 0)):
            await keeper.take(body)
        await keeper.look()
        await rig.send()
        await rig.bot.clock.advance(max(start + (number + 1) * SECONDS / _BODIES - rig.now, 0.0))
    await rig.passes(120, keeper, step_s=30)
    journal = rig.bot.slack.journal
    calls = [call for method in ("chat.postMessage", "chat.update") for call in journal.of("api", method)]
    times = sorted(call.at for call in calls)
    heads = rig.heads()
    counts = await rig.store.alerts.counts([row.id for row in await rig.store.incidents.opened()])
    return Weather(
        [text(head) for head in heads],
        [len(rig.replies(head)) for head in heads],
        len(journal.of("api", "chat.postMessage")),
        len(journal.of("api", "chat.update")),
        sum(1 for call in journal.of("api") if call.status == 429),
        min((later - earlier for earlier, later in itertools.pairwise(times)), default=0.0),
        rig.read,
        sum(count.alerts for count in counts.values()),
    )
