"""Slack's Home tab: open changes and incidents, what to try, who may do what, and a form for a question.

Questions asked there are answered in direct messages. The tab is published whenever somebody opens it, and reads
nothing from a cluster.
"""

import logging
from functools import partial
from typing import Any

from bot.access import groups_in, role_of
from bot.settings.schema import AccessSettings
from bot.slack.app import App
from bot.slack.people import Groups
from bot.slack.render import blocks
from bot.slack.render.change import what, where
from bot.slack.render.home import OPEN_FORM, HomeContent, render_home
from bot.slack.render.prose import in_words
from bot.slack.render.triage_head import Head
from bot.store import StoreError
from bot.texts import Text
from handlers.deps import Deps
from handlers.inbox import Inbox
from handlers.oncall.service import TriageService
from handlers.parsing.question import Question, as_delivered, normalise
from handlers.parsing.slack_grammar import example
from handlers.user_actions import NOTHING, AcceptedDeed, ActionKind, Nothing
from playbooks.own.discovery import find

FORM = "ask"
_BLOCK, _INPUT = "question", "text"

log = logging.getLogger(__name__)


def register(app: App, inbox: Inbox, access: AccessSettings, triage: TriageService | None) -> None:
    """Listens to the Home tab, its button and its form. It shows incidents if `triage` is given."""
    groups = Groups(inbox.deps.gateway, groups_in(access))

    async def open_form(taken: AcceptedDeed[Nothing]) -> None:
        asked = blocks.asking(
            Text("desk.ask-label"),
            blocks.text_input(_INPUT, placeholder=find("why").example),
            _BLOCK,
            hint=Text("desk.ask-hint"),
        )
        view = blocks.modal(Text("desk.ask-title"), [asked], submit=Text("desk.ask-submit"), callback_id=FORM)
        await inbox.deps.gateway.open_view(taken.key, blocks.in_words(view, inbox.deps.say))

    to_open = inbox.kinds.add(ActionKind("ask-open", Nothing, open_form, is_live=True))

    async def opened(body: dict[str, Any], event: dict[str, Any]) -> None:
        if event.get("tab") == "home":
            publish = partial(_publish, inbox, access, groups, triage, event["user"])
            inbox.deps.work.start(body["event_id"], publish, regardless=True)

    async def form_wanted(ack: Any, body: dict[str, Any]) -> None:
        await ack()
        await inbox.do(body["trigger_id"], to_open, _question(inbox, body["user"]["id"]), NOTHING)

    async def submitted(ack: Any, body: dict[str, Any]) -> None:
        await ack()
        view = body["view"]
        words = view["state"]["values"][_BLOCK][_INPUT].get("value") or ""
        question = _question(inbox, body["user"]["id"], normalise(as_delivered(words)))
        await inbox.ask_typed(f"{view['id']}:{view['hash']}", question)

    app.event("app_home_opened")(opened)
    app.action(OPEN_FORM)(form_wanted)
    app.view(FORM)(submitted)


def _question(inbox: Inbox, user: str, words: str = "") -> Question:
    """Makes a question that is answered in the person's direct messages: for Slack a user's id is a channel there."""
    return Question(words=words, user=user, channel=user, asked_at=inbox.deps.now(), public=True)


async def _publish(
    inbox: Inbox, access: AccessSettings, groups: Groups, triage: TriageService | None, user: str
) -> None:
    deps = inbox.deps
    opened: list[Text] = []
    incidents: list[Head] = []
    unread = ""
    try:
        opened = await _opened(deps, user)
        incidents = await triage.heads() if triage else []
    except StoreError as error:
        unread, _ = in_words(error, deps.say)
    seen = HomeContent(
        opened=opened,
        unread=unread,
        running=len(deps.work) - 1,  # this one is running too
        waiting=deps.outbox.waiting(),
        clusters=deps.clusters,
        role=role_of(access, user, await groups.of(user)),
        two_person=access.two_person,
        incidents=incidents,
    )
    await deps.gateway.publish_home(user, blocks.in_words(render_home(seen, example(())), deps.say))


async def _opened(deps: Deps, user: str) -> list[Text]:
    changes = [
        (cluster, change.record)
        for cluster in deps.clusters or ("",)
        for change in await deps.store.changes(cluster).opened()
    ]
    changes.sort(key=lambda change: change[1].by != user)
    return [
        Text(
            "desk.home-change",
            what=what(record),
            where=where(record, cluster),
            until=record.at,
            who=Text("desk.home-you" if record.by == user else "desk.home-somebody"),
        )
        for cluster, record in changes
    ]
