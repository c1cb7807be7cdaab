"""The form that adds a digest to a channel: its button, and what was typed into it."""

from functools import partial
from typing import Any

from bot.digest.schedule import is_zone
from bot.errors import UsageError
from bot.slack.app import App
from bot.slack.render.digest_form import FORM, INPUT, OPEN, WHEN, ZONE, Place, form, read_place
from bot.slack.render.prose import progress
from handlers.changes.terms import Person
from handlers.desk import DONE, Desk
from handlers.oncall.digests import Add, Digests, read_digest
from handlers.oncall.words import DIGEST_EXAMPLE
from handlers.question import Question
from handlers.words import as_delivered, split_words

_LONGEST_ERROR = 500


def register(app: App, desk: Desk, digests: Digests) -> None:
    """Listens to the button and to the form."""

    async def pressed(ack: Any, body: dict[str, Any]) -> None:
        await ack()
        user: str = body["user"]["id"]
        room: dict[str, Any] = body.get("channel") or {}
        actions: list[dict[str, Any]] = body["actions"]
        place = Place(_cluster(str(actions[0].get("value", "")), desk), room.get("id") or user)
        key: str = body["trigger_id"]
        desk.do(key, partial(_show, desk, key, place), _question(desk, user, place.channel))

    async def submitted(ack: Any, body: dict[str, Any]) -> None:
        view: dict[str, Any] = body["view"]
        try:
            asked = _asked(view)
        except UsageError as error:
            wrong = WHEN if is_zone(_value(view, ZONE)) else ZONE
            await ack(response_action="errors", errors={wrong: f"{error.message}. {error.hint}"[:_LONGEST_ERROR]})
            return
        await ack()
        user: str = body["user"]["id"]
        metadata: str = view.get("private_metadata") or ""
        question = _question(desk, user, read_place(metadata).channel or user)
        key = f"{view['id']}:{view['hash']}"

        async def add() -> None:
            told = await digests.do(key, Person(user, question.channel), asked, _cluster(metadata, desk))
            await desk.reply(key, question).answer(progress(told) if isinstance(told, str) else told, mark=DONE)

        desk.do(key, add, question)

    app.action(OPEN)(pressed)
    app.view(FORM)(submitted)


def _asked(view: dict[str, Any]) -> Add:
    """What was typed. Raises UsageError for anything but a digest's time."""
    when, zone = _typed(view, WHEN), _typed(view, ZONE)
    asked = read_digest([*when, *zone]) if when and zone else None
    if not isinstance(asked, Add):
        raise UsageError("a digest needs its days and its time", hint=f"For example: {DIGEST_EXAMPLE}")
    return asked


def _typed(view: dict[str, Any], block: str) -> list[str]:
    """The words of a field. Raises UsageError."""
    return split_words(as_delivered(_value(view, block)))


def _value(view: dict[str, Any], block: str) -> str:
    return str(view["state"]["values"][block][INPUT].get("value") or "").strip()


def _cluster(value: str, desk: Desk) -> str:
    """The cluster that a value names; empty, for the usual one, where the settings have none of that name."""
    named = read_place(value).cluster
    return named if named in desk.lent.clusters else ""


def _question(desk: Desk, user: str, channel: str) -> Question:
    return Question(words="digest", user=user, channel=channel, asked_at=desk.lent.now(), beside=True)


async def _show(desk: Desk, trigger_id: str, place: Place) -> None:
    await desk.lent.gateway.open_view(trigger_id, form(place, desk.lent.say))
