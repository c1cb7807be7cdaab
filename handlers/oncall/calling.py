"""Who is called for an incident: how bad it is now, who is due, and what a last resort is told.

People whom PagerDuty's schedules have on call come first, then the rota of the settings, which needs no answer of
PagerDuty. GET /oncalls as PagerDuty's REST API v2 documents it: entries with `user` (`email` only with
`include[]=users`), `schedule` and `escalation_level`; `more` says that there is another page. A key that may only read
is enough.
"""

import asyncio
import contextlib
import logging
import math
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

import httpx
import msgspec

from bot.errors import BotError, SourceError, bugs_as_errors
from bot.kube.client.pod_http import bounded
from bot.report import one_line
from bot.settings.oncall import PagerDutySettings
from bot.slack.calls import proxy_for
from bot.slack.render.blocks import Draft
from bot.slack.render.triage_head import render_last_resort
from bot.store.incidents import IncidentRow
from bot.texts import Prose, Text
from bot.triage.cause import severest
from bot.triage.routes import Route
from bot.triage.state import CALLS, Call, Extent, IncidentTimes, News, next_call, pass_time
from bot.triage.summary import Counts
from handlers.oncall.words import DEEDS
from handlers.user_actions import read_deed

PRESSED, SUBMITTED, IN_WORDS = "triage-press", "triage-form", "triage"
"""The names of the kinds of deeds about an incident: a pressed button, a submitted form, typed words."""

PATIENCE_S = 60.0
"""Seconds for which a cluster that cannot be read keeps alerts waiting for their cause."""


class OncallPlan(msgspec.Struct, frozen=True):
    """How incidents are looked after. An alert is about the one of `clusters` that it names, else `usual`.

    `owner` is a name that only this process has, `pass_s` is in seconds; for `pagerduty` see `Rota`. If more than
    `threads_per_minute` open in a channel, one thread there gathers the rest; 0 is no limit. New alerts go where the
    first of the `routes` that matches their labels sends them, else to `channel`; a thread stays where it is.
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


ON_CALL = "?"
"""Stands for the people whom PagerDuty has on call, until PagerDuty was asked."""
KEPT_S = 60.0
"""Seconds for which PagerDuty's last answer, or its failure, is used without asking again."""
WITHIN_S = 10.0
"""Seconds that a whole answer of PagerDuty, with all of its pages, may take."""
LARGEST_PAGE = 2 * 1024 * 1024
_PAGE, _MOST_PAGES = 100, 20
_MEANINGS = {
    401: Text("error-oncall.unknown-token"),
    403: Text("error-oncall.token-may-not"),
    404: Text("error-oncall.no-such-schedules"),
    429: Text("error-oncall.asked-too-often"),
}

log = logging.getLogger(__name__)


class _User(msgspec.Struct):
    id: str
    email: str | None = ""
    summary: str | None = ""


class _Schedule(msgspec.Struct):
    id: str


class _OnCall(msgspec.Struct):
    user: _User
    schedule: _Schedule | None = None
    escalation_level: int = 0


class _Page(msgspec.Struct):
    oncalls: list[_OnCall]
    more: bool = False


class Rota:
    """Who is called for incidents, in this order. It asks PagerDuty, at most once a minute, when a call is due."""

    def __init__(self, usual: Sequence[str], pagerduty: PagerDutySettings | None, clock: Callable[[], float]) -> None:
        self._usual = tuple(usual)
        self._pagerduty = pagerduty
        self._clock = clock
        self._kept: tuple[float, tuple[str, ...]] | None = None
        self._strangers: set[str] = set()
        self._bugs: set[str] = set()

    def known(self, for_s: float = KEPT_S) -> tuple[str, ...] | None:
        """Slack's ids of the people and groups to call, if asked in the last `for_s` seconds; None: call `now`."""
        if self._pagerduty is None:
            return self._usual
        return self._kept[1] if self._kept and self._clock() - self._kept[0] < for_s else None

    def expected(self) -> tuple[str, ...]:
        """The rota as it was last known, however old: to say who is called next, not to call."""
        known = self.known(math.inf)
        return (ON_CALL, *self._usual) if known is None else known

    async def now(self) -> tuple[str, ...]:
        """The rota, asked for if need be; the settings' rota if PagerDuty fails, which is logged. Raises nothing."""
        known = self.known()
        if known is not None or self._pagerduty is None:
            return known or self._usual
        users: list[_User] = []
        try:
            with bugs_as_errors(self._bugs):
                users = await on_call_now(self._pagerduty)
        except BotError as error:
            log.warning("whom PagerDuty has on call is not known, the rota of the settings is called: %s", error)
        first = filter(None, (self._in_slack(user, self._pagerduty.people) for user in users))
        found = tuple(dict.fromkeys((*first, *self._usual)))
        self._kept = self._clock(), found
        return found

    def _in_slack(self, user: _User, people: Mapping[str, str]) -> str:
        found = people.get((user.email or "").casefold(), "")
        if not found and user.id not in self._strangers:
            self._strangers.add(user.id)
            named = one_line(f"PagerDuty's user {user.summary or ''} ({user.id})", 100)
            log.error("%s is on call, but oncall.pagerduty.people does not say who that is in Slack", named)
        return found


async def on_call_now(settings: PagerDutySettings) -> list[_User]:
    """The people whom the PagerDuty schedules have on call now, in the schedules' order. Raises SourceError."""
    try:
        async with asyncio.timeout(WITHIN_S):
            entries = await _entries(settings)
    except TimeoutError as error:
        raise _failed(settings, Text("error-usage.no-answer-within", seconds=f"{WITHIN_S:g}")) from error
    except httpx.HTTPError as error:
        raise _failed(settings, one_line(str(error), 200) or type(error).__name__) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _failed(settings, Text("error-oncall.no-answer-of-pagerduty")) from error
    order = {schedule: number for number, schedule in enumerate(settings.schedules)}
    wanted = [entry for entry in entries if entry.schedule and entry.schedule.id in order]
    wanted.sort(key=lambda entry: (order[entry.schedule.id] if entry.schedule else 0, entry.escalation_level))
    if not wanted:
        log.warning("PagerDuty has nobody on call now in the schedules %s", ", ".join(settings.schedules))
    return [entry.user for entry in wanted]


async def _entries(settings: PagerDutySettings) -> list[_OnCall]:
    headers = {
        "Authorization": f"Token token={settings.token.get_secret_value()}",
        "Accept": "application/vnd.pagerduty+json;version=2",
    }
    asked = {"schedule_ids[]": settings.schedules, "include[]": "users", "earliest": "true", "limit": _PAGE}
    found: list[_OnCall] = []
    try:
        opened = httpx.AsyncClient(proxy=proxy_for(settings.url), trust_env=False)
    except (httpx.InvalidURL, ValueError, ImportError) as error:
        raise _failed(settings, Text("error-oncall.not-through-proxy", why=one_line(str(error), 200))) from error
    async with opened as client:
        for number in range(_MOST_PAGES):
            params, url = {**asked, "offset": number * _PAGE}, f"{settings.url}/oncalls"
            async with client.stream("GET", url, params=params, headers=headers, timeout=WITHIN_S) as answer:
                if answer.status_code != 200:
                    status = f"HTTP {answer.status_code}"
                    what = _MEANINGS.get(answer.status_code)
                    raise _failed(settings, Text("error.at", place=status, why=what) if what else status)
                body, cut = await bounded(answer.aiter_bytes(), LARGEST_PAGE)
            if cut:
                raise _failed(settings, Text("error-oncall.more-than-bytes", most=f"{LARGEST_PAGE:,}"))
            page = msgspec.json.decode(body, type=_Page)
            found += page.oncalls
            if not page.more:
                break
    return found


def _failed(settings: PagerDutySettings, what: Prose) -> SourceError:
    return SourceError(Text("error-oncall.get-oncalls", url=settings.url, what=what))


_CALM = frozenset(DEEDS.values()) - {"note"}
"""Deeds after which nobody needs to be called."""
_WORDS = re.compile(
    rf"\s*(?:--cluster[= ]\S+\s+)?triage\s+({'|'.join(DEEDS)})\b(?:\s+([0-9a-f]{{8}})\b)?", re.IGNORECASE
)


class _Deed(msgspec.Struct, frozen=True):
    """As much as counts here of the details of a button and of a form. Both may be made up."""

    deed: str = ""
    incident: str = ""


def incidents_acted_on(payloads: Iterable[str]) -> set[str | tuple[str, str]]:
    """Reads the stored deeds; gives the incidents that need no call because of one, such as an acknowledgement. An
    incident is given by its id, or by the channel and `ts` of its thread.
    """
    found: set[str | tuple[str, str]] = set()
    for kept in filter(None, map(read_deed, payloads)):
        asked, what, incident = kept.asked, "", ""
        if kept.kind == IN_WORDS and (words := _WORDS.match(asked.words)):
            what, incident = DEEDS[words[1].casefold()], words[2] or ""
        elif kept.kind in {PRESSED, SUBMITTED}:
            with contextlib.suppress(msgspec.DecodeError):  # of another version
                details = msgspec.json.decode(kept.details, type=_Deed)
                what, incident = details.deed, details.incident
        if what in _CALM:
            found.add(incident or (asked.channel, asked.thread_ts))
    return found


def extent_of(row: IncidentRow, counts: Counts) -> Extent:
    """How bad the incident is now, by its cause and the counts of its alerts."""
    return Extent(
        severest(row.cause.severity, counts.severities), counts.pods_firing or counts.nodes_firing or counts.firing
    )


def call_to_come(row: IncidentRow, counts: Counts, terms: IncidentTimes, rota: Sequence[str]) -> Call | None:
    """The call that comes next if nothing changes, with that rota; None if none comes."""
    firing, extent = counts.firing > 0, extent_of(row, counts)
    return next_call(row.incident, msgspec.structs.replace(terms, rota=tuple(rota)), firing=firing, extent=extent)


def terms_now(terms: IncidentTimes, rota: Rota) -> IncidentTimes:
    """The incident times with the present rota; without anybody to call until the rota was asked for."""
    known = rota.known()
    return msgspec.structs.replace(terms, call_s=0.0) if known is None else msgspec.structs.replace(terms, rota=known)


def needs_rota(
    rows: Sequence[IncidentRow], counts: Mapping[str, Counts], terms: IncidentTimes, rota: Rota, now: float
) -> bool:
    """Whether the rota has to be asked for, because somebody is due to be called. Once everybody was called, it is
    asked for no more often than people are called.
    """
    if rota.known() is not None:
        return False
    probed = msgspec.structs.replace(terms, rota=rota.known(terms.call_s) or (ON_CALL,))
    for row in rows:
        some = counts[row.id]
        step = pass_time(row.incident, now, probed, firing=some.firing > 0, extent=extent_of(row, some))
        if any(news.turn in CALLS for news in step.news):
            return True
    return False


def last_resort_message(row: IncidentRow, news: News, link: str) -> tuple[str, Draft] | None:
    """Whom to tell as an incident's last resort, and what; None for a user group, or the thread's own channel."""
    if news.turn != "last-resort" or news.detail.startswith("S") or news.detail == row.channel:
        return None
    return news.detail, render_last_resort(row.id, row.cause.text, link)
