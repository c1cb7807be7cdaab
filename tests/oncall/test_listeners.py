"""What Slack waits for before a mention is acked."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any

from slack_bolt.async_app import AsyncBoltRequest

from bot.slack.app import build_app
from bot.store import Store
from handlers import question_listeners
from handlers.inbox import Inbox
from handlers.oncall.digests import Digests
from handlers.oncall.listeners import register
from handlers.oncall.service import TriageService
from tests.oncall.rig import Rig, on_rig
from tests.slack.outbox_support import ONCALL


class _Hanging:
    """The store, of which no incident can be read before `again`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.again = asyncio.Event()
        self.incidents = SimpleNamespace(of_thread=self._of_thread)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def _of_thread(self, channel: str, thread_ts: str) -> Any:
        await self.again.wait()
        return await self._store.incidents.of_thread(channel, thread_ts)


def mentioned_below(head: dict[str, Any]) -> AsyncBoltRequest:
    event = {"type": "app_mention", "user": "U0ADA00001", "channel": ONCALL, "text": "<@U0BOT> mute 2h"}
    event |= {"ts": head["ts"], "thread_ts": head["ts"]}
    body: dict[str, Any] = {"type": "event_callback", "team_id": "T0", "event_id": "Ev1", "event": event}
    return AsyncBoltRequest(body=json.dumps(body), mode="socket_mode")


@on_rig(1, new=True)
async def test_the_ack_of_a_word_in_a_thread_does_not_wait_for_a_store_that_hangs(rig: Rig) -> None:
    store = _Hanging(rig.store)
    inbox = Inbox(rig.deps(store))

    async def lets_in(_: dict[str, Any]) -> bool:
        return True

    identity = await rig.bot.gateway.identity()
    app = build_app(rig.bot.slack.api_url, "xoxb-1", identity, inbox.deps.work.kept, lets_in=lets_in)
    triage = register(app, inbox, TriageService(inbox.deps, rig.keeper(), ()), Digests(inbox.deps))
    question_listeners.register(app, inbox, [triage])
    await rig.bot.slack.say("ada", ONCALL, "look at this")
    [head] = [
        message for _, message in rig.bot.slack.workspace.everything(ONCALL) if message.get("text") == "look at this"
    ]
    assert (await app.async_dispatch(mentioned_below(head))).status == 200
    store.again.set()
    while "I read “mute 2h”" not in str([*rig.bot.slack.workspace.everything(ONCALL)]):
        await rig.send()
