"""How incidents are looked after, by the settings."""

import time
from collections.abc import Callable
from typing import NamedTuple

from bot.settings.oncall import PagerDutySettings
from bot.triage.routes import Route
from bot.triage.state import IncidentTimes

PATIENCE_S = 60.0
"""So long a cluster that cannot be read keeps alerts waiting for their cause."""


class Plan(NamedTuple):
    """How incidents are looked after. An alert is about the one of `clusters` that it names, else about `usual`.

    `owner` is this process's name and no other's, `pass_s` is in seconds; for `pagerduty` see `Rota`. If more than
    `threads_per_minute` open in a channel, one thread there gathers the rest; 0 is no limit. New alerts go where the
    first of the `routes` sends them that matches their labels, else to `channel`; a thread stays where it is.
    """

    channel: str
    terms: IncidentTimes
    clusters: tuple[str, ...]
    usual: str
    owner: str
    pass_s: float = 5.0
    clock: Callable[[], float] = time.monotonic
    pagerduty: PagerDutySettings | None = None
    threads_per_minute: int = 0
    routes: tuple[Route, ...] = ()
