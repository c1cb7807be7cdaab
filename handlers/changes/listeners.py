"""Temporary changes in Slack: commands, mentions, the form, and the buttons of cards. A change is made only after the
person has seen it, in a form or in a message only they see, and confirmed it.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from bot.changes.kinds import VERBS
from bot.errors import BotError, UsageError
from bot.report import Report, in_words
from bot.slack.app import App
from bot.slack.message import Message
from bot.slack.render import blocks
from bot.slack.render.blocks import read_value
from bot.slack.render.change import (
    APPROVE,
    CANCEL,
    CONFIRM,
    EXTEND,
    FORM,
    LONGEST_REASON,
    REASON,
    REASON_TEXT,
    REFUSE,
    REVERT,
    CardButton,
    offer_form,
    offer_message,
    told_form,
    waiting_form,
)
from bot.slack.render.prose import render_error, render_help
from bot.slack.render.report import render_report
from bot.store.changes import EXPIRES_S
from bot.texts import Text, in_english
from handlers.changes.draft import (
    FRESH_S,
    ChangeDraft,
    ChangeOver,
    Person,
    Refused,
    as_typed,
    draft_words,
    is_reverting,
    read_draft,
    split_change,
    write_draft,
)
from handlers.changes.report import not_open_report, open_one, planned_report, shown_report
from handlers.changes.request import look, prepare
from handlers.changes.service import LONGER_S, ChangeService
from handlers.changes.stale_cards import edit_stale
from handlers.changes.words import HOW_TO_REVERT, ChangeAsked, Extend, Raise, Show
from handlers.inbox import Inbox
from handlers.parsing.question import (
    HeardWords,
    Question,
    Verb,
    as_delivered,
    begins_with,
    clicked,
    first_action,
    plain_text,
    without_invisible,
)
from handlers.parsing.slack_grammar import COMMAND, Help, example, understand
from handlers.user_actions import NOTHING, TOO_LATE_S, AcceptedDeed, ActionKind, D, NotDone, Nothing

Reply = Awaitable[str | Message | None]
"""The text or message to answer with, once awaited; None if the answer is shown elsewhere."""


def register(app: App, inbox: Inbox, changes: ChangeService) -> Verb:
    """Listens to the form and the buttons of cards; returns the row of all changing verbs for the table of verbs."""
    window = _ChangesWindow(inbox, changes)
    app.view(FORM)(window.submitted)
    app.action(CONFIRM)(window.confirmed)
    app.action(CANCEL)(window.cancelled)
    for action in (REVERT, EXTEND, APPROVE, REFUSE):
        app.action(action)(window.pressed)
    return Verb(CHANGE, window.ask)


CHANGE = begins_with(*VERBS, *HOW_TO_REVERT)
"""Matches words that ask for a change, or for the present values, by their first word."""


class _ChangeInWords(msgspec.Struct, frozen=True):
    """A request in words. `trigger_id` opens a form; empty if the person's client gave none."""

    trigger_id: str = ""


class _Confirmed(msgspec.Struct, frozen=True):
    """What a form or a button brought back; empty for what is none of ours."""

    draft: ChangeDraft | None = None

    @property
    def words(self) -> str:
        return f"{COMMAND} {draft_words(self.draft)}" if self.draft else ""


class _CardPress(msgspec.Struct, frozen=True):
    """A pressed button of a card and its value; `ts` is the card's, empty if only one person sees the card."""

    name: str
    value: str
    ts: str = ""


class _ChangesWindow:
    def __init__(self, inbox: Inbox, changes: ChangeService) -> None:
        self._inbox = inbox
        self._changes = changes
        self._say = inbox.deps.say
        add = inbox.kinds.add

        def told(reply: Callable[[AcceptedDeed[D]], Reply]) -> Callable[[AcceptedDeed[D]], Awaitable[None]]:
            return lambda taken: inbox.show(taken.key, taken.asked, reply(taken))

        async def cancel(_: AcceptedDeed[Nothing]) -> str:
            return self._say("card.cancelled")

        self._in_words = add(ActionKind("change", _ChangeInWords, told(self._answer)))
        self._of_draft = add(
            ActionKind("change-confirm", _Confirmed, told(self._confirm), again=lambda _, it: it.words)
        )
        self._of_offer = add(ActionKind("change-cancel", Nothing, told(cancel)))
        self._of_card = add(ActionKind("change-press", _CardPress, told(self._pressed)))

    # ----------------------------------------------------------------------------------------------- in words

    async def ask(self, asked: HeardWords) -> None:
        question = asked.question
        if value := asked.button:
            words = as_delivered(as_typed(value.words))
            if value.cluster in self._inbox.deps.clusters:
                words = f"--cluster {value.cluster} {words}"
            question = self._clicked(asked.body, words)
        in_words, reverts = _ChangeInWords(asked.trigger_id), is_reverting(question.words)
        await self._inbox.do(asked.key, self._in_words, question, in_words, regardless=reverts)

    async def _answer(self, taken: AcceptedDeed[_ChangeInWords]) -> str | Message | None:
        question, trigger_id = taken.asked, taken.details.trigger_id
        asked = understand(split_change(question.words))
        if isinstance(asked, Help):
            return render_help(asked.text)
        if not isinstance(asked, ChangeAsked):
            raise UsageError(Text("error-change.no-change"), example=example(("verbosity",)))
        who = Person(question.user, question.channel, question.thread_ts)
        cluster = self._changes.deps.the_cluster(asked.options.get("cluster") or "", question.channel)
        request = asked.request
        if isinstance(request, Raise) and not request.dry_run:
            if not trigger_id:
                return await self._offered(who, cluster, request)
            if taken.resumed:
                raise NotDone("live")
            return await self._form(who, cluster, request, trigger_id)
        async with self._inbox.deps.open_sources(cluster) as sources:
            found = await self._changes.with_copy(cluster, await look(sources, request))
        if isinstance(request, Raise):
            outcome = prepare(found, request, "dry-run", by=who.user, channel=who.channel)
            return self._report(planned_report(found, request, outcome), files=True)
        if isinstance(request, Show):
            # The verdict says what the table would.
            shown = shown_report(found, request, taken.asked.program)
            return self._report(msgspec.structs.replace(shown, tables=()))
        if (record := open_one(found, request)) is None:
            return self._report(not_open_report(found, request, COMMAND))
        if not await self._changes.is_meant(taken, cluster, record):
            raise Refused(self._say("card.another"), hint=self._say("card.another-hint"))
        if isinstance(request, Extend):
            return await self._changes.extend(who, cluster, found.target, record.id, request.seconds, key=taken.key)
        return await self._changes.revert(who, cluster, found.target, record.id)

    def _report(self, report: Report, *, files: bool = False) -> Message:
        said = in_words(report, self._say)
        return render_report(said, self._say, channel_buttons=False, words="", names=True, files=files)

    # ------------------------------------------------------------------------------------- shown and confirmed

    async def _form(self, who: Person, cluster: str, request: Raise, trigger_id: str) -> None:
        gateway = self._inbox.deps.gateway
        if denied := await self._changes.guard.denied(who, "raise", cluster):
            raise denied
        view = await gateway.open_view(trigger_id, blocks.in_words(waiting_form(), self._say))
        try:
            offer, draft = await self._changes.offer(who, cluster, request)
        except BotError as error:
            await gateway.update_view(view, blocks.in_words(told_form(render_error(error)), self._say))
            return
        await gateway.update_view(view, blocks.in_words(offer_form(offer, write_draft(draft)), self._say))

    async def _offered(self, who: Person, cluster: str, request: Raise) -> Message:
        if not request.because:
            raise UsageError(Text("error-change.give-reason-card-audit-log"), example=example((request.verb,)))
        offer, draft = await self._changes.offer(who, cluster, request)
        message = offer_message(offer, write_draft(draft))
        if message is None:
            raise UsageError(
                Text("error-change.reason-is-too-long"), hint=Text("error-change.use-fewer-words", command=COMMAND)
            )
        return message.in_words(self._say)

    async def submitted(self, ack: Any, body: dict[str, Any]) -> None:
        await ack()
        view = body["view"]
        draft = read_draft(view.get("private_metadata") or "")
        typed = view["state"]["values"].get(REASON, {}).get(REASON_TEXT, {}).get("value") or ""
        if draft:
            because = " ".join(plain_text(without_invisible(typed)).split())[:LONGEST_REASON]
            draft = msgspec.structs.replace(draft, request=msgspec.structs.replace(draft.request, because=because))
        user, key = body["user"]["id"], f"{view['id']}:{view['hash']}"
        channel, now = draft.request.channel if draft else user, self._inbox.deps.now()
        question = Question(words="", user=user, channel=channel, asked_at=now, beside=True)
        await self._inbox.do(key, self._of_draft, question, _Confirmed(draft), lasts_s=FRESH_S)

    async def confirmed(self, ack: Any, body: dict[str, Any]) -> None:
        await ack()
        draft = read_draft(first_action(body).get("value", ""))
        question = msgspec.structs.replace(self._clicked(body, ""), beside=False)
        if draft and draft.request.channel != question.channel:
            draft = None
        await self._inbox.do(body["trigger_id"], self._of_draft, question, _Confirmed(draft), lasts_s=FRESH_S)

    async def _confirm(self, taken: AcceptedDeed[_Confirmed]) -> str:
        who, draft = Person(taken.asked.user, taken.asked.channel), taken.details.draft
        if draft is None:
            raise await self._forged(who, "raise")
        return await self._changes.confirm(who, draft, again=taken.resumed)

    async def cancelled(self, ack: Any, body: dict[str, Any]) -> None:
        await ack()
        question = msgspec.structs.replace(self._clicked(body, ""), beside=False)
        await self._inbox.do(body["trigger_id"], self._of_offer, question, NOTHING)

    # ------------------------------------------------------------------------------------------ cards' buttons

    async def pressed(self, ack: Any, body: dict[str, Any]) -> None:
        await ack()
        action = first_action(body)
        place: dict[str, Any] = body.get("container") or {}
        ts = "" if place.get("is_ephemeral") else str(place.get("message_ts") or "")
        press = _CardPress(str(action.get("action_id")), str(action.get("value", "")), ts)
        lasts_s = EXPIRES_S if press.name in (APPROVE, REFUSE) else TOO_LATE_S
        question, reverts = self._clicked(body, ""), press.name == REVERT
        await self._inbox.do(body["trigger_id"], self._of_card, question, press, regardless=reverts, lasts_s=lasts_s)

    async def _pressed(self, taken: AcceptedDeed[_CardPress]) -> str:
        who, name = Person(taken.asked.user, taken.asked.channel), taken.details.name
        about = read_value(taken.details.value, CardButton)
        if about is None:
            raise await self._forged(who, name.rpartition(":")[2])
        try:
            return await self._press(taken, name, who, about)
        except ChangeOver:
            await edit_stale(self._inbox.deps, about, who.channel, taken.details.ts)
            raise

    async def _press(self, taken: AcceptedDeed[_CardPress], name: str, who: Person, about: CardButton) -> str:
        match name:
            case _ if name == REVERT:
                return await self._changes.revert(who, about.cluster, about.target, about.key, again=taken.resumed)
            case _ if name == EXTEND:
                return await self._changes.extend(who, about.cluster, about.target, about.key, LONGER_S, key=taken.key)
            case _ if taken.resumed and (decided := await self._changes.decided_before(who, about.key)):
                return decided
            case _ if name == APPROVE:
                return await self._changes.approving.approve(who, about.key, about.digest)
            case _:
                return await self._changes.approving.refuse(who, about.key, about.digest)

    async def _forged(self, who: Person, action: str) -> Refused:
        error = Refused(
            Text("error-change.bot-does-not-recognise-button"),
            hint=Text("error-change.ask-again-with", command=COMMAND),
        )
        await self._changes.guard.note_refusal(who, action, "", {"why": in_english(error.message)})
        return error

    def _clicked(self, body: Mapping[str, Any], words: str) -> Question:
        container: dict[str, Any] = body.get("container") or {}
        # A card that has a thread names it as its own: whoever clicks it in the channel looks there for the answer.
        thread: str = container.get("thread_ts", "")
        below = "" if thread == container.get("message_ts") else thread
        return clicked(body, self._inbox.deps.now(), words, below)
