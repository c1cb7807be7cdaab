"""What Slack delivered to the bot and what the bot acknowledged, sent and did later."""

from typing import Any

from sandbox.slack import Ack, SlackServer
from sandbox.slack.payloads import interaction


def acks(slack: SlackServer, containing: str) -> int:
    return len([call for call in slack.journal.of("ack", containing) if call.ok])


async def sent(slack: SlackServer, kind: str, **payload: Any) -> Ack:
    """An interaction that is not made by the pretended client, and so can be anything."""
    made = interaction(slack._world, kind, "U0ADA00001") | {"trigger_id": "1.2.3"} | payload
    return await slack._world.delivery.send("interactive", made, kind)


async def later(slack: SlackServer) -> None:
    """Comes back when a question that was asked now is answered: what was asked before would have been, too."""
    await slack.say("linus", slack.dm("linus"), "help")
    await slack.wait_for(channel=slack.dm("linus"), containing="You can ask")
