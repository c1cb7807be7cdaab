"""Triage threads and digests in Slack: the buttons of heads, forms, and `triage`, `oncall` and `digest` in words."""

import re
from collections.abc import Awaitable, Callable
from typing import Any, get_args

import msgspec

from bot.digest.schedule import is_zone
from bot.errors import UsageError
from bot.finding_codes import LOSES_NODE
from bot.slack.app import App
from bot.slack.message import Message
from bot.slack.render import blocks
from bot.slack.render.blocks import read_value
from bot.slack.render.digest import AT, INPUT, WHEN, ZONE, DigestPlace
from bot.slack.render.digest import FORM as DIGEST_FORM
from bot.slack.render.digest import OPEN as OPEN_DIGEST
from bot.slack.render.digest import form as digest_form
from bot.slack.render.prose import error_line
from bot.slack.render.triage import FORM, MUTE, NOTE, PERSON, TEXT, TriageForm, form
from bot.slack.render.triage_head import ACT, OPEN, REMIND, CauseChoice, IncidentButton, ReminderChoice, render_head
from bot.store.incidents import IncidentRow, head_key
from bot.texts import Text
from bot.triage.state import Deed
from handlers.changes.draft import Person
from handlers.inbox import Inbox
from handlers.oncall.calling import IN_WORDS, PRESSED, SUBMITTED
from handlers.oncall.digests import AddDigest, Digests, Stop, read_digest
from handlers.oncall.service import IncidentDeed, TriageService
from handlers.oncall.words import DEEDS, DIGEST_EXAMPLE, read_mute, read_reminder, read_words
from handlers.parsing.question import (
    HeardWords,
    Question,
    Verb,
    as_delivered,
    clicked,
    first_action,
    join_words,
    plain_text,
    split_words,
    without_invisible,
)
from handlers.parsing.slack_grammar import BOT
from handlers.user_actions import TOO_LATE_S, AcceptedDeed, ActionKind

_OURS = re.compile(r"\s*(?:--cluster[= ]\S+\s+)?(?:(?:triage|oncall)\b|digest(?:\s+(?!--)\S|\s*$))", re.IGNORECASE)
_IN_SHORT = re.compile(rf"\s*(?:{'|'.join(DEEDS)}|export|remind)\b", re.IGNORECASE)
_PERHAPS_OURS = re.compile(rf"{_OURS.pattern}|{_IN_SHORT.pattern}", re.IGNORECASE)
_FREE_TEXT = re.compile(r"\s*(triage)\s+(note|close)((?:\s+[0-9a-f]{8})?)\s+(.*)", re.IGNORECASE | re.DOTALL)
_MENTIONED = re.compile(r"<@([UW][A-Z0-9]+)(?:\|[^>]*)?>|<!subteam\^(S[A-Z0-9]+)(?:\|[^>]*)?>")
_LONGEST_NOTE, _LONGEST_ERROR = 1500, 500

_NOTE = re.compile(r"\s*triage\s+note\b", re.IGNORECASE)
NOTE_LASTS_S = 7 * 86400.0
"""Seconds after which a note is too late: a week, because a note is true however late it comes."""


def register(app: App, inbox: Inbox, triage: TriageService | None, digests: Digests) -> Verb:
    """Listens to forms and buttons of heads; returns the row of on-call's verbs for the table of verbs."""
    window = _OncallWindow(inbox, triage, digests)
    app.action(re.compile(f"^{re.escape(ACT)}"))(window.pressed)
    app.action(OPEN)(window.chosen)
    app.action(REMIND)(window.chosen)
    app.view(FORM)(window.submitted)
    app.action(OPEN_DIGEST)(window.digest_pressed)
    app.view(DIGEST_FORM)(window.digest_submitted)
    return Verb(_PERHAPS_OURS, window.ask, window.takes)


class _IncidentInWords(msgspec.Struct, frozen=True):
    """What was written. `in_short`: without the word `triage`, so that it may be a question."""

    in_short: bool = False


class _HeadPress(msgspec.Struct, frozen=True):
    """A button of a head: what it does, to which incident. Either may be made up."""

    deed: str
    incident: str


class _Form(msgspec.Struct, frozen=True):
    """A submitted form: what it does to which incident, and what stands in it; a forged one has none of these."""

    deed: Deed
    incident: str
    text: str = ""
    to: str = ""
    mute: str = ""

    @property
    def words(self) -> str:
        more = self.text or (f"@{self.to}" if self.to else "") or self.mute
        return f"@{BOT} triage {self.deed} {self.incident} {more}".strip()


class _OncallWindow:
    def __init__(self, inbox: Inbox, triage: TriageService | None, digests: Digests) -> None:
        self._inbox = inbox
        self._given = triage
        self._digests = digests
        self._say = inbox.deps.say
        add = inbox.kinds.add
        self._in_words = add(ActionKind(IN_WORDS, _IncidentInWords, self._answer, may_be_question=True))
        self._of_head = add(ActionKind(PRESSED, _HeadPress, self._pressed, again=_words_of_press))
        self._to_open = add(ActionKind("triage-open", _HeadPress, self._open, is_live=True, again=_words_of_press))
        self._to_open_digest = add(ActionKind("digest-open", DigestPlace, self._open_digest, is_live=True))
        self._of_digest = add(ActionKind("digest-form", DigestPlace, self._add_digest))
        self._of_menu = add(ActionKind("triage-open-cause", CauseChoice, self._chosen))
        self._of_reminder = add(ActionKind("triage-remind", ReminderChoice, self._remind))
        self._of_form = add(ActionKind(SUBMITTED, _Form, self._submitted, again=lambda _, typed: typed.words))

    @property
    def _triage(self) -> TriageService:
        if self._given is None:
            raise UsageError(
                Text("error-oncall.bot-opens-no-triage-threads"),
                hint=Text("error-oncall.settings-lack-oncall-see-docs"),
            )
        return self._given

    def takes(self, asked: HeardWords) -> bool:
        """Whether the words are on-call's, or may act on the thread's incident: no ack waits for the store to know."""
        if asked.surface == "button":
            return False
        is_short = self._given and asked.question.thread_ts and _IN_SHORT.match(asked.words)
        return bool(_OURS.match(asked.words) or is_short)

    async def ask(self, asked: HeardWords) -> None:
        question, in_short = asked.question, not _OURS.match(asked.words)
        if in_short:
            question = msgspec.structs.replace(question, words=f"triage {question.words}")
        lasts_s = NOTE_LASTS_S if _NOTE.match(question.words) else TOO_LATE_S
        await self._inbox.do(asked.key, self._in_words, question, _IncidentInWords(in_short), lasts_s=lasts_s)

    async def _answer(self, taken: AcceptedDeed[_IncidentInWords]) -> None:
        key, question = taken.key, taken.asked
        rows = self._inbox.deps.store.incidents
        if taken.details.in_short and not await rows.of_thread(
            question.channel, question.thread_ts
        ):  # there it means nothing of ours
            words = question.words.removeprefix("triage ")
            public = msgspec.structs.replace(question, words=words, public=True, beside=False)
            await self._inbox.ask_typed(f"{key}/asked", public)
            return
        if not await self._inbox.is_asked(taken):
            return
        await self._inbox.show(key, question, self._said(taken))

    async def _said(self, taken: AcceptedDeed[Any]) -> str | Message:
        key, question = taken.key, taken.asked
        who = Person(question.user, question.channel)
        cluster, words = _without_options(_words(question.words))
        if words and words[0].casefold() == "digest":
            about = self._inbox.deps.the_cluster(cluster, question.channel)
            zone = await self._digests.zone_of(who.user) if len(words) > 2 else ""
            return await self._digests.do(key, who, read_digest(words[1:], zone), about)
        asked = read_words(words, mentioned=not question.response_url)
        if asked.what == "list":
            return await self._triage.listed()
        if asked.what == "report":
            if asked.posted == "off":  # also where there are no incidents any more
                return await self._digests.do(key, who, Stop(), "")
            triage = self._triage
            if asked.posted is None:
                return await triage.report()
            return await self._digests.do(key, who, AddDigest(asked.posted, "oncall"), "")
        row = await self._triage.find(who, asked.incident, question.thread_ts)
        if asked.what == "show":
            return render_head(await self._triage.head(row)).in_words(self._say)
        if asked.what == "export":
            # Into the thread, where everybody concerned sees it: a file cannot be shown to one person alone.
            message, name = await self._triage.export(who, row), f"{head_key(row.id)}:export:{key}"
            await self._inbox.deps.outbox.put(name, row.channel, message, thread_ts=row.thread_ts)
            return self._say("triage.done")
        if asked.what == "remind":
            return await self._reminding(who, row, asked.seconds, question.asked_at)
        wanted = IncidentDeed(asked.what, asked.text, asked.to, asked.seconds, asked.node)
        return await self._triage.act(who, row, wanted, taken)

    # ------------------------------------------------------------------------------------------ buttons, the form

    async def pressed(self, ack: Any, body: dict[str, Any]) -> None:
        await ack()
        action = first_action(body)
        deed = str(action.get("action_id", "")).removeprefix(ACT)
        pressed = read_value(str(action.get("value", "")), IncidentButton)
        press = _HeadPress(deed, pressed.incident if pressed and deed in get_args(Deed) else "")
        wants_form = deed in ("note", "handover", "mute") and bool(press.incident)
        kind = self._to_open if wants_form else self._of_head
        await self._inbox.do(body["trigger_id"], kind, self._clicked(body), press)

    async def _about(
        self, taken: AcceptedDeed[Any], name: str, does: Callable[[Person, IncidentRow], Awaitable[str]]
    ) -> None:
        """Does it to the incident that is named; a form or a button that names none is audited as forged."""
        who, incident = Person(taken.asked.user, taken.asked.channel), taken.details.incident

        async def done() -> str:
            if not incident:
                raise await self._triage.refuse_forged(who, name)
            return await does(who, await self._triage.find(who, incident))

        await self._inbox.show(taken.key, taken.asked, done())

    async def _pressed(self, taken: AcceptedDeed[_HeadPress]) -> None:
        deed: Any = taken.details.deed
        await self._about(taken, deed, lambda who, row: self._triage.act(who, row, IncidentDeed(deed), taken))

    async def _open(self, taken: AcceptedDeed[_HeadPress]) -> None:
        """Opens a form; the deed's key is the trigger."""
        press, channel = taken.details, taken.asked.channel
        deed: Any = press.deed
        who = Person(taken.asked.user, channel)
        row = await self._triage.find(who, press.incident) if deed == "mute" else None
        lost = row.cause.nodes if row and row.cause.code in LOSES_NODE else ()
        view = form(deed, press.incident, channel, lost)
        await self._inbox.deps.gateway.open_view(taken.key, blocks.in_words(view, self._say))

    async def submitted(self, ack: Any, body: dict[str, Any]) -> None:
        view: dict[str, Any] = body["view"]
        about = read_value(view.get("private_metadata") or "", TriageForm)
        user: str = body["user"]["id"]
        question = self._question(user, about.channel if about else user, "")
        state: dict[str, Any] = view.get("state") or {}
        values: dict[str, Any] = state.get("values") or {}
        if str(_input(values, PERSON).get("selected_user") or "") == self._inbox.deps.bot_user:
            await ack(response_action="errors", errors={PERSON: self._say("triage.not-me")})
            return
        await ack()
        chosen: dict[str, Any] = _input(values, MUTE).get("selected_option") or {}
        note = plain_text(without_invisible(str(_input(values, NOTE).get("value") or "")))
        typed = _Form(
            about.deed if about else "note",
            about.incident if about else "",
            " ".join(note.split())[:_LONGEST_NOTE],
            str(_input(values, PERSON).get("selected_user") or ""),
            str(chosen.get("value") or ""),
        )
        lasts_s = NOTE_LASTS_S if typed.deed == "note" else TOO_LATE_S
        await self._inbox.do(f"{view['id']}:{view['hash']}", self._of_form, question, typed, lasts_s=lasts_s)

    async def _submitted(self, taken: AcceptedDeed[_Form]) -> None:
        typed = taken.details

        def acted(who: Person, row: IncidentRow) -> Awaitable[str]:
            seconds, node = read_mute(typed.mute.split()) if typed.deed == "mute" else (0.0, "")
            wanted = IncidentDeed(typed.deed, typed.text, typed.to, seconds, node)
            return self._triage.act(who, row, wanted, taken)

        await self._about(taken, "form", acted)

    async def chosen(self, ack: Any, body: dict[str, Any]) -> None:
        """Takes a name chosen in the menu of a thread that gathers many causes, or a time in the menu *Remind me*."""
        await ack()
        action, key, question = first_action(body), body["trigger_id"], self._clicked(body)
        option: dict[str, Any] = action.get("selected_option") or {}
        value = str(option.get("value") or "")
        if action.get("action_id") == OPEN:
            await self._inbox.do(key, self._of_menu, question, read_value(value, CauseChoice) or CauseChoice("", ""))
        else:
            when = read_value(value, ReminderChoice) or ReminderChoice("", "")
            await self._inbox.do(key, self._of_reminder, question, when)

    async def _chosen(self, taken: AcceptedDeed[CauseChoice]) -> None:
        name, again = taken.details.name, taken.resumed
        await self._about(taken, "open", lambda who, row: self._triage.open_cause(who, row, name, is_again=again))

    async def _remind(self, taken: AcceptedDeed[ReminderChoice]) -> None:
        words, at = taken.details.when.split(), taken.asked.asked_at
        await self._about(taken, "remind", lambda who, row: self._reminding(who, row, read_reminder(words), at))

    async def _reminding(self, who: Person, row: IncidentRow, seconds: float, at: float) -> str:
        return await self._triage.remind(who, row, seconds, at, await self._digests.zone_of(who.user))

    # ---------------------------------------------------------------------------------------- the form of digests

    async def digest_pressed(self, ack: Any, body: dict[str, Any]) -> None:
        await ack()
        pressed = self._clicked(body)
        place = DigestPlace(self._cluster_in(str(first_action(body).get("value", ""))), pressed.channel)
        question = self._question(pressed.user, pressed.channel, DIGEST_EXAMPLE)
        await self._inbox.do(body["trigger_id"], self._to_open_digest, question, place)

    async def _open_digest(self, taken: AcceptedDeed[DigestPlace]) -> None:
        """Opens a form; the deed's key is the trigger."""
        view = digest_form(taken.details, await self._digests.zone_of(taken.asked.user))
        await self._inbox.deps.gateway.open_view(taken.key, blocks.in_words(view, self._say))

    async def digest_submitted(self, ack: Any, body: dict[str, Any]) -> None:
        view: dict[str, Any] = body["view"]
        try:
            words = _digest_in(view)
        except UsageError as error:
            wrong = WHEN if is_zone(_value(view, ZONE)) else ZONE
            await ack(response_action="errors", errors={wrong: error_line(error, self._say)[:_LONGEST_ERROR]})
            return
        await ack()
        user: str = body["user"]["id"]
        metadata: str = view.get("private_metadata") or ""
        place = read_value(metadata, DigestPlace) or DigestPlace()
        details = DigestPlace(self._cluster_in(metadata), place.channel or user)
        question = self._question(user, details.channel, words)
        await self._inbox.do(f"{view['id']}:{view['hash']}", self._of_digest, question, details)

    async def _add_digest(self, taken: AcceptedDeed[DigestPlace]) -> None:
        who, asked = Person(taken.asked.user, taken.asked.channel), read_digest(split_words(taken.asked.words)[1:])
        added = self._digests.do(taken.key, who, asked, taken.details.cluster)
        await self._inbox.show(taken.key, taken.asked, added)

    def _cluster_in(self, value: str) -> str:
        """The cluster that a value names; empty, for the usual one, where the settings have none of that name."""
        named = (read_value(value, DigestPlace) or DigestPlace()).cluster
        return named if named in self._inbox.deps.clusters else ""

    def _question(self, user: str, channel: str, words: str) -> Question:
        return Question(words=words, user=user, channel=channel, asked_at=self._inbox.deps.now(), beside=True)

    def _clicked(self, body: dict[str, Any]) -> Question:
        container: dict[str, Any] = body.get("container") or {}
        return clicked(body, self._inbox.deps.now(), thread_ts=container.get("thread_ts", ""))


def _words_of_press(_: Question, press: _HeadPress) -> str:
    """As typed anywhere; a note and a handover lack what the form would have asked for."""
    more = {"note": " …", "handover": " @…"}.get(press.deed, "")
    return f"@{BOT} triage {press.deed} {press.incident}{more}"


def _input(values: dict[str, Any], block: str) -> dict[str, Any]:
    inputs: dict[str, Any] = values.get(block) or {}
    return inputs.get(TEXT) or {}


def _digest_in(view: dict[str, Any]) -> str:
    # They follow the verb: a leading `*` is no mark of a list.
    when, zone = (split_words(f"digest {as_delivered(_value(view, block))}")[1:] for block in (WHEN, ZONE))
    if len(when) == 1 and not when[0][:1].isdigit():  # days alone; a cron expression has its time
        when = [*when, _value(view, AT, "selected_time")]
    asked = read_digest([*when, *zone]) if when and zone else None
    if not isinstance(asked, AddDigest):
        raise UsageError(Text("error-oncall.digest-needs-days-time"), example=DIGEST_EXAMPLE)
    return join_words(["digest", *when, *zone])


def _value(view: dict[str, Any], block: str, field: str = "value") -> str:
    return str(view["state"]["values"][block][INPUT].get(field) or "").strip()


def _words(text: str) -> list[str]:
    """The words; a note is one of them, with its apostrophes. People who are mentioned stay ids."""
    text = _MENTIONED.sub(lambda found: f"@{found[1] or found[2]}", text)
    if free := _FREE_TEXT.fullmatch(text):
        note = " ".join(plain_text(free[4]).split())[:_LONGEST_NOTE]
        return [free[1], free[2], *free[3].split(), *([note] if note else [])]
    return split_words(text)


def _without_options(words: list[str]) -> tuple[str, list[str]]:
    """The cluster that the words name, and the words without it and without the language; a note keeps its own."""
    named, left, rest = {"--cluster": ""}, list[str](), iter(words)
    for word in rest:
        flag, given, value = word.partition("=")
        if flag in ("--cluster", "--lang") and " " not in word and (value := value if given else next(rest, "")):
            named[flag] = value
        else:
            left.append(word)
    return named["--cluster"], left
