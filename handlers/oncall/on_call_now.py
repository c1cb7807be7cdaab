"""Who is called: whom PagerDuty's schedules have on call, then the rota of the settings, which needs nobody's answer.

GET /oncalls as PagerDuty's REST API v2 documents it: entries with `user` (`email` only with `include[]=users`),
`schedule` and `escalation_level`; `more` says that there is another page. A key that may only read is enough.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Mapping, Sequence

import httpx
import msgspec

from bot.errors import BotError, SourceError
from bot.kube.client.pod_http import bounded
from bot.report import one_line
from bot.settings.oncall import PagerDutySettings
from bot.slack.calls import proxy_for
from bot.texts import Prose, Text
from bot.unexpected_errors import bugs_as_errors

ON_CALL = "?"
"""Stands for whom PagerDuty has on call while that was not asked yet."""
KEPT_S = 60.0
"""So long an answer is held for true, and a failure for lasting."""
WITHIN_S = 10.0
"""A whole answer, all of its pages."""
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
    """Who is called, in this order. It is asked for when somebody has to be, and kept for a minute."""

    def __init__(self, usual: Sequence[str], pagerduty: PagerDutySettings | None, clock: Callable[[], float]) -> None:
        self._usual = tuple(usual)
        self._pagerduty = pagerduty
        self._clock = clock
        self._kept: tuple[float, tuple[str, ...]] | None = None
        self._strangers: set[str] = set()
        self._bugs: set[str] = set()

    def known(self, for_s: float = KEPT_S) -> tuple[str, ...] | None:
        """Slack's ids of people and user groups as of `for_s` ago at most; None: that has to be asked first (`now`)."""
        if self._pagerduty is None:
            return self._usual
        return self._kept[1] if self._kept and self._clock() - self._kept[0] < for_s else None

    def expected(self) -> tuple[str, ...]:
        """What was last known of it, however old: for saying who is called next, not for calling."""
        known = self.known(math.inf)
        return (ON_CALL, *self._usual) if known is None else known

    async def now(self) -> tuple[str, ...]:
        """The same, asked for if need be. Raises nothing: whatever goes wrong with PagerDuty is logged, and then it is
        the rota of the settings.
        """
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
        """Empty, and once in the log, for somebody whom the settings do not know."""
        found = people.get((user.email or "").casefold(), "")
        if not found and user.id not in self._strangers:
            self._strangers.add(user.id)
            log.error("%s is on call, but oncall.pagerduty.people does not say who that is in Slack", _named(user))
        return found


async def on_call_now(settings: PagerDutySettings) -> list[_User]:
    """Those whom the schedules have on call now, in the schedules' order. Raises SourceError."""
    try:
        async with asyncio.timeout(WITHIN_S):
            entries = await _entries(settings)
    except TimeoutError as error:
        raise _failed(settings, Text("error-usage.no-answer-within", seconds=f"{WITHIN_S:g}")) from error
    except httpx.LocalProtocolError as error:  # whose text quotes the header that has the token
        raise _failed(settings, Text("error-oncall.token-one-line")) from error
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
    async with _client(settings) as client:
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


def _client(settings: PagerDutySettings) -> httpx.AsyncClient:
    try:
        return httpx.AsyncClient(proxy=proxy_for(settings.url), trust_env=False)
    except (httpx.InvalidURL, ValueError, ImportError) as error:
        raise _failed(settings, Text("error-oncall.not-through-proxy", why=one_line(str(error), 200))) from error


def _named(user: _User) -> str:
    return one_line(f"PagerDuty's user {user.summary or ''} ({user.id})", 100)


def _failed(settings: PagerDutySettings, what: Prose) -> SourceError:
    return SourceError(Text("error-oncall.get-oncalls", url=settings.url, what=what))
