"""The form that adds a digest to a channel: its button, and what was typed into it."""

from typing import Any

import msgspec

from bot.digest.schedule import is_zone
from bot.errors import UsageError
from bot.slack.app import App
from bot.slack.render import blocks
from bot.slack.render.buttons import read_value
from bot.slack.render.digest import FORM, INPUT, OPEN, WHEN, ZONE, DigestPlace, form
from bot.slack.render.prose import error_line, progress
from bot.texts import Text
from handlers.changes.types import Person
from handlers.inbox import DONE, Inbox
from handlers.oncall.digests import AddDigest, Digests, read_digest
from handlers.oncall.words import DIGEST_EXAMPLE
from handlers.parsing.question import Question
from handlers.parsing.slack_words import as_delivered, join_words, split_words
from handlers.user_actions import AcceptedDeed, Kind

_LONGEST_ERROR = 500


class _Typed(msgspec.Struct, frozen=True):
    """A form that was submitted; its words are in the question. `cluster` is the one that it is for."""

    cluster: str


def register(app: App, inbox: Inbox, digests: Digests) -> None:
    """Listens to the button and to the form."""

    async def show(taken: AcceptedDeed[DigestPlace]) -> None:
        """Its key is the trigger."""
        await inbox.deps.gateway.open_view(taken.key, blocks.in_words(form(taken.details), inbox.deps.say))

    async def add(taken: AcceptedDeed[_Typed]) -> None:
        who = Person(taken.asked.user, taken.asked.channel)
        asked = read_digest(split_words(taken.asked.words)[1:])
        answer = await digests.do(taken.key, who, asked, taken.details.cluster)
        await inbox.reply(taken.key, taken.asked).answer(
            progress(answer) if isinstance(answer, str) else answer, mark=DONE
        )

    to_open = inbox.kinds.add(Kind("digest-open", DigestPlace, show, is_live=True))
    of_form = inbox.kinds.add(Kind("digest-form", _Typed, add))

    async def pressed(ack: Any, body: dict[str, Any]) -> None:
        await ack()
        user: str = body["user"]["id"]
        room: dict[str, Any] = body.get("channel") or {}
        actions: list[dict[str, Any]] = body["actions"]
        place = DigestPlace(_cluster(str(actions[0].get("value", "")), inbox), room.get("id") or user)
        await inbox.do(body["trigger_id"], to_open, _question(inbox, user, place.channel, DIGEST_EXAMPLE), place)

    async def submitted(ack: Any, body: dict[str, Any]) -> None:
        view: dict[str, Any] = body["view"]
        try:
            words = _asked(view)
        except UsageError as error:
            wrong = WHEN if is_zone(_value(view, ZONE)) else ZONE
            await ack(response_action="errors", errors={wrong: error_line(error, inbox.deps.say)[:_LONGEST_ERROR]})
            return
        await ack()
        user: str = body["user"]["id"]
        metadata: str = view.get("private_metadata") or ""
        question = _question(inbox, user, _place(metadata).channel or user, words)
        await inbox.do(f"{view['id']}:{view['hash']}", of_form, question, _Typed(_cluster(metadata, inbox)))

    app.action(OPEN)(pressed)
    app.view(FORM)(submitted)


def _asked(view: dict[str, Any]) -> str:
    """What was typed, in words. Raises UsageError for anything but a digest's time."""
    when, zone = _typed(view, WHEN), _typed(view, ZONE)
    asked = read_digest([*when, *zone]) if when and zone else None
    if not isinstance(asked, AddDigest):
        raise UsageError(Text("error-oncall.digest-needs-days-time"), example=DIGEST_EXAMPLE)
    return join_words(["digest", *when, *zone])


def _typed(view: dict[str, Any], block: str) -> list[str]:
    """The words of a field, which follow the verb: a leading `*` is no mark of a list. Raises UsageError."""
    return split_words(f"digest {as_delivered(_value(view, block))}")[1:]


def _value(view: dict[str, Any], block: str) -> str:
    return str(view["state"]["values"][block][INPUT].get("value") or "").strip()


def _cluster(value: str, inbox: Inbox) -> str:
    """The cluster that a value names; empty, for the usual one, where the settings have none of that name."""
    named = _place(value).cluster
    return named if named in inbox.deps.clusters else ""


def _place(value: str) -> DigestPlace:
    return read_value(value, DigestPlace) or DigestPlace()


def _question(inbox: Inbox, user: str, channel: str, words: str) -> Question:
    return Question(words=words, user=user, channel=channel, asked_at=inbox.deps.now(), beside=True)
