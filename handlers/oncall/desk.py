"""Where people act on incidents: who may, what comes of it, and what they are told."""

import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

from bot.access import Denied
from bot.errors import BotError
from bot.slack.groups import Groups
from bot.slack.message import Message
from bot.slack.render.prose import progress, render_help
from bot.slack.render.triage import Happened, Head, render_timeline
from bot.store.audit import Line
from bot.store.incidents import Counts, Row
from bot.triage.state import Act, Deed, act
from handlers.changes.terms import AccessDenied, Person, Refused
from handlers.lent import Lent
from handlers.oncall.passes import Keeper, head_of

_PERSON = re.compile(r"[UWS][A-Z0-9]{2,63}")


class Wanted(NamedTuple):
    """A deed and what belongs to it; see `bot.triage.state.Act`."""

    deed: Deed
    text: str = ""
    to: str = ""
    seconds: float = 0.0


class TriageDesk:
    """Every method is safe to call with whatever a client made up, and raises only BotError."""

    def __init__(self, lent: Lent, keeper: Keeper, responders: Collection[str], rota: Sequence[str]) -> None:
        self._lent = lent
        self._rows = lent.store.incidents
        self._keeper = keeper
        self._rota = rota
        self._responders = frozenset(responders)
        self._groups = Groups(lent.gateway, tuple(sorted(one for one in responders if one.startswith("S"))))

    async def find(self, who: Person, incident_id: str, thread_ts: str = "") -> Row:
        """The incident that is named, or whose thread that is. Raises Refused."""
        row = (
            await self._rows.get(incident_id)
            if incident_id
            else await self._rows.of_thread(who.channel, thread_ts)
            if thread_ts
            else None
        )
        if row is None:
            raise Refused(self._lent.say("triage.unknown"), hint="oncall lists those that are open")
        return row

    async def act(self, who: Person, row: Row, wanted: Wanted) -> str:
        """Does it, once; what the person is told. The thread tells everybody."""
        await self._check(who, row, wanted.deed)
        self._check_complete(wanted)
        now = self._lent.now()
        done = Act(wanted.deed, who.user, now, wanted.text, wanted.to, now + wanted.seconds)
        step = await self._rows.change(
            row.id,
            lambda incident, _: act(incident, done),
            lambda step: _line(who, row, wanted.deed, step if isinstance(step, str) else "done"),
        )
        if step is None:
            raise Refused(self._lent.say("triage.unknown"))
        if isinstance(step, str):
            if step == "same":
                return self._lent.say("triage.same")
            raise Refused(self._lent.say(f"triage.is-{step}"))
        self._keeper.soon()
        return self._lent.say("triage.done")

    async def head(self, row: Row) -> Head:
        """What its head tells now."""
        counts = await self._rows.counts([row.id])
        return head_of(row, counts.get(row.id, Counts()))

    async def export(self, who: Person, row: Row) -> Message:
        """The timeline as a file, for the incident's channel. Raises Refused for somebody elsewhere."""
        if who.channel != row.channel:
            raise Refused(self._lent.say("triage.elsewhere"))
        happened = [Happened(one.at, one.news) for one in await self._rows.timeline(row.id)]
        file = render_timeline(await self.head(row), happened, self._lent.say)
        return progress(file.title)._replace(files=(file,))

    async def listed(self) -> Message:
        """The open incidents, one a line."""
        say = self._lent.say
        rows = [row for row in await self._rows.opened() if not row.incident.ended]
        if not rows:
            return progress(say("triage.none-open"))
        counts = await self._rows.counts([row.id for row in rows])
        told = [self._line(row, counts.get(row.id, Counts())) for row in rows]
        called = [self._lent.say("triage.rota", who=", ".join(self._rota))] if self._rota else []
        return render_help("\n".join([*told, *called]))

    def _line(self, row: Row, counts: Counts) -> str:
        say = self._lent.say
        return say(
            "triage.list-line",
            id=row.id,
            state=say(f"triage.state-{row.incident.state}"),
            count=f"{counts.pods_firing or counts.firing}/{counts.pods or counts.alerts}",
            owner=row.incident.owner or "-",
            verdict=row.cause.claim[:100],
        )

    async def refuse_forged(self, who: Person, name: str) -> BotError:
        """A button or form that is none of ours: written down, and what the person is told."""
        error = Refused("this button is not one of mine", hint="write in the thread: @hami-bot triage ack")
        await self._lent.store.audit.append(
            actor=who.user, action=f"triage-{name[:20]}", target="", outcome="refused", detail={"why": error.message}
        )
        return error

    async def _check(self, who: Person, row: Row, deed: Deed) -> None:
        append = self._lent.store.audit.append
        if who.channel != row.channel:
            await append(**_line(who, row, deed, "refused")._asdict())
            raise Refused(self._lent.say("triage.elsewhere"))
        if self._responders and not {who.user, *await self._groups.of(who.user)} & self._responders:
            await append(**_line(who, row, deed, "refused")._asdict())
            raise AccessDenied(Denied("you may not act on incidents", tuple(sorted(self._responders))))

    def _check_complete(self, wanted: Wanted) -> None:
        """What a client sent need not be what its form asks for."""
        if wanted.deed == "handover" and not _PERSON.fullmatch(wanted.to):
            raise Refused("it can be handed over to a person or a user group", hint="@hami-bot triage handover @ada")
        if wanted.deed == "note" and not wanted.text.strip():
            raise Refused("a note needs its text", hint="triage note rebooted gpu-7")


def _line(who: Person, row: Row, deed: Deed, outcome: str) -> Line:
    about = {"channel": who.channel, "cluster": row.cluster}
    return Line(who.user, f"triage-{deed}", f"incident:{row.id}", outcome, about)
