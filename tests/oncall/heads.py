"""Heads of incidents as they are shown, people who take them, and texts meant to break them."""

from bot.slack.render.triage_head import Head
from bot.triage.cause import Cause
from bot.triage.state import Call, Incident, MuteUntil, State
from bot.triage.summary import Counts
from handlers.changes.draft import Person
from tests.slack.outbox_support import ONCALL

HOSTILE = "<!channel> <@U0EVIL> *b* `c` | http://evil \u202e\n# x " + "x" * 3000
CAUSE = Cause(
    "s", HOSTILE, HOSTILE, "critical", HOSTILE, (HOSTILE,) * 50, HOSTILE, (HOSTILE,) * 9, f"https://p/{'x' * 1900}"
)


def head(state: State) -> Head:
    incident = Incident(state, 1.0, owner=HOSTILE, muted_until=MuteUntil(1_800_000_000.0))
    return Head(
        "0123abcd",
        HOSTILE,
        CAUSE,
        incident,
        Counts(3, 1000, 3, 500, (HOSTILE,) * 20, (HOSTILE,) * 20, (HOSTILE,) * 9, (HOSTILE,)),
        1.8e9,
        call=Call(HOSTILE, 1.8e9),
    )


ADA, GRACE = Person("U0ADA00001", ONCALL), Person("U0GRACE001", ONCALL)
