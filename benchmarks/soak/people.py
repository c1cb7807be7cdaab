"""What people and Alertmanager do to the bot meanwhile, at random."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from random import Random

from benchmarks.soak import seen
from benchmarks.soak.alerts import Alertmanager
from benchmarks.soak.deeds import Book, Deed, Kind, named
from benchmarks.soak.place import DIGESTS, INCIDENTS, PODS, ROOM, Place, person
from sandbox.slack import Ack
from sandbox.slack.errors import SlackError

_EVERY_S = 1.2
_PATIENCE_S = 45.0
_ID = re.compile(r"digest stop ([0-9a-f]{6,})")


class People:
    """Does deeds and writes each into the book, with whether it was acked."""

    def __init__(self, place: Place, random: Random, book: Book, alerts: Alertmanager) -> None:
        self._place = place
        self._slack = place.slack
        self._random = random
        self._book = book
        self._deeds: list[tuple[int, Callable[[int], Awaitable[None]]]] = [
            (30, alerts.fire),
            (8, alerts.resolve),
            (20, self._note),
            (5, self._note_by_form),
            (8, self._ack),
            (5, self._take),
            (5, self._mute),
            (4, self._handover),
            (4, self._digest),
            (3, self._stop_digest),
            (8, self._question),
        ]

    async def run(self, until: float) -> None:
        """Until that time.monotonic(); what was begun by then is done to its end."""
        weights = [weight for weight, _ in self._deeds]
        async with asyncio.TaskGroup() as group:
            while time.monotonic() < until and not self._book.is_full:
                await asyncio.sleep(self._random.expovariate(1 / _EVERY_S))
                [(_, deed)] = self._random.choices(self._deeds, weights)
                group.create_task(self._tried(deed, self._book.number()))

    async def _tried(self, deed: Callable[[int], Awaitable[None]], number: int) -> None:
        try:
            await deed(number)
        except SlackError as error:  # what they saw is not there any more
            self._book.not_possible[f"{deed.__name__.strip('_')}: {error.word}"] += 1

    # --------------------------------------------------------------------------------------------- incidents

    async def _note(self, number: int) -> None:
        await self._act("note", number, f"note {named(number)}")

    async def _note_by_form(self, number: int) -> None:
        who, head = person(number), self._head()
        if head is None:
            return
        await self._slack.click(who, "triage:note", channel=INCIDENTS, message_ts=head["ts"])
        if await self._form(who) is None:
            self._book.not_possible["note by form: none was opened"] += 1
            return
        typed = {"type": "plain_text_input", "value": named(number)}
        await self._do("note", number, self._slack.submit(who, {"note": {"text": typed}}))

    async def _ack(self, number: int) -> None:
        await self._press_or_act("ack", number)

    async def _take(self, number: int) -> None:
        await self._press_or_act("take", number)

    async def _mute(self, number: int) -> None:
        await self._act("mute", number, f"mute {self._random.randint(1, 5)}m")

    async def _handover(self, number: int) -> None:
        await self._act("handover", number, "handover @grace", by_mention=True)

    async def _press_or_act(self, kind: Kind, number: int) -> None:
        head = self._head()
        if head is None or self._random.random() < 0.5 or f"triage:{kind}" not in seen.buttons(head):
            await self._act(kind, number, kind)
            return
        click = self._slack.click(person(number), f"triage:{kind}", channel=INCIDENTS, message_ts=head["ts"])
        await self._do(kind, number, click)

    async def _act(self, kind: Kind, number: int, words: str, *, by_mention: bool = False) -> None:
        head = self._head()
        if head is None:
            return
        who = person(number)
        if by_mention or self._random.random() < 0.6:
            triage = self._random.choice(("triage ", ""))
            sent = self._slack.mention(who, INCIDENTS, f"{triage}{words}", thread_ts=head["ts"])
        else:
            verb, _, rest = words.partition(" ")
            incident = seen.key_of(head).removeprefix("triage:")
            sent = self._slack.command(who, INCIDENTS, f"triage {verb} {incident} {rest}".strip())
        await self._do(kind, number, sent)

    def _head(self) -> seen.Message | None:
        """Of any incident, if there is one."""
        found = seen.heads(self._slack)
        return self._random.choice(found) if found else None

    # ----------------------------------------------------------------------------------- digests, questions

    async def _digest(self, number: int) -> None:
        due = datetime.now(UTC) + timedelta(minutes=self._random.randint(2, 5))  # noqa: TID251  # people know the time
        words = f"digest daily {due:%H:%M} UTC"
        await self._do("digest", number, self._slack.command(person(number), self._random.choice(DIGESTS), words))

    async def _stop_digest(self, number: int) -> None:
        channel = self._random.choice(DIGESTS)
        said = (
            message for own in self._slack.workspace.channels[channel].ephemerals.values() for message in own.values()
        )
        ids = sorted({found for message in said for found in _ID.findall(seen.text_of(message))})
        if ids:
            words = f"digest stop {self._random.choice(ids)}"
            await self._do("digest stop", number, self._slack.command(person(number), channel, words))

    async def _question(self, number: int) -> None:
        words = f"why {self._random.choice(PODS)}"
        await self._do("question", number, self._slack.command(person(number), ROOM, words))

    # ----------------------------------------------------------------------------------------------- changes

    async def change(self, until: float) -> None:
        """Raises the scheduler's verbosity, again and again, one at a time, until that time.monotonic()."""
        while time.monotonic() < until and not self._book.is_full:
            await self._tried(self._raise, self._book.number())
            while self._place.is_changed and time.monotonic() < until:
                await asyncio.sleep(self._random.uniform(5, 40))
                [deed] = self._random.choices((self._extend, self._revert, _nothing), (2, 3, 3))
                await self._tried(deed, self._book.number())
            await asyncio.sleep(self._random.uniform(1, 10))

    async def _raise(self, number: int) -> None:
        who, words = person(number), f"verbosity 5 for 1m because {named(number)}"
        if self._random.random() < 0.5:
            await self._slack.command(who, ROOM, words)
            form = await self._form(who, wanted="submit")
            if form is None:
                self._book.not_possible["raise: no form"] += 1
                return
            because = {"because": {"text": {"type": "plain_text_input", "value": named(number)}}}
            await self._do("raise", number, self._slack.submit(who, because, view_id=form["id"]))
            return
        await self._slack.mention(who, ROOM, words)
        offer = await self._seen(
            lambda: next((message for message in seen.told(self._slack, who) if _is_offer(message)), None)
        )
        if offer is None:
            self._book.not_possible["raise: no offer"] += 1
            return
        await self._do("raise", number, self._slack.click(who, "change:confirm", channel=ROOM, message_ts=offer["ts"]))

    async def _extend(self, number: int) -> None:
        await self._do("extend", number, self._slack.mention(person(number), ROOM, "verbosity extend 1m"))

    async def _revert(self, number: int) -> None:
        who, cards = person(number), seen.cards(self._slack, ROOM)
        if cards and self._random.random() < 0.6:
            sent = self._slack.click(who, "change:revert", channel=ROOM, message_ts=cards[-1]["ts"])
        else:
            sent = self._slack.command(who, ROOM, "verbosity revert")
        await self._do("revert", number, sent)

    # ----------------------------------------------------------------------------------------------- sending

    async def _do(self, kind: Kind, number: int, sent: Awaitable[Ack]) -> None:
        deed = Deed(kind, number, person(number))
        ack = await sent
        self._book.done(deed)
        if ack.ok:
            deed.acked()

    async def _form(self, who: str, wanted: str = "blocks") -> seen.Message | None:
        """The form that was opened for them, once it has that; None if none comes."""
        return await self._seen(lambda: next((view for view in self._slack.views(who) if view.get(wanted)), None))

    async def _seen(self, look: Callable[[], seen.Message | None]) -> seen.Message | None:
        try:
            return await self._slack.wait_for(look, seconds=_PATIENCE_S)
        except TimeoutError:
            return None


async def _nothing(number: int) -> None:
    """It is left to its deadline."""
    del number


def _is_offer(message: seen.Message) -> bool:
    return "change:confirm" in seen.buttons(message)
