"""The links of on-call: where alerts arrive, who is called, and the pagers. Nothing is posted that anybody sees."""

import asyncio
from urllib.parse import urlsplit

import httpx

from bot.endpoint import ALERTS_PATH
from bot.errors import SourceError
from bot.pager import PAGERDUTY, WEBHOOK
from bot.report import one_line
from bot.settings.oncall import OncallSettings, PagerDutySettings
from bot.settings.schema import Settings
from bot.slack.calls import proxy_for
from bot.texts import Text
from handlers.doctor.links import Link, broken
from handlers.oncall.calling import on_call_now

_WITHIN_S = 10.0
_ANY_HOST = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]", "::": "[::1]"}  # noqa: S104  # read, not bound
_UNAUTHORIZED = 401


async def examine_oncall(settings: Settings, oncall: OncallSettings) -> list[Link]:
    """The alerts' address, PagerDuty's schedules, and each pager."""
    paging = oncall.paging
    pagers = {PAGERDUTY: paging.pagerduty, WEBHOOK: paging.webhook}
    asked = [_alerts(settings.http.bind)]
    asked += [_on_call(oncall.pagerduty)] if oncall.pagerduty else []
    asked += [_pager(name, pager.url) for name, pager in pagers.items() if pager]
    return await asyncio.gather(*asked)


async def _alerts(bind: str) -> Link:
    """Whether the running bot takes alerts there: without credentials it asks for them, and keeps nothing."""
    host, _, port = bind.rpartition(":")
    url = f"http://{_ANY_HOST.get(host, host)}:{port}{ALERTS_PATH}"
    try:
        status = await _status("POST", url)
    except SourceError:
        return Link("alert-endpoint", "degraded", Text("doctor.alerts-nobody", url=url), Text("doctor.alerts-fix"))
    if status != _UNAUTHORIZED:
        seen = Text("doctor.alerts-other", url=url, status=status)
        return Link("alert-endpoint", "degraded", seen, Text("doctor.alerts-fix"))
    return Link("alert-endpoint", "ok", Text("doctor.alerts", url=url))


async def _on_call(pagerduty: PagerDutySettings) -> Link:
    schedules = ", ".join(pagerduty.schedules)
    try:
        people = await on_call_now(pagerduty)
    except SourceError as error:
        return Link("on-call", "degraded", error.message, Text("doctor.on-call-fix"))
    if not people:
        nobody = Text("doctor.nobody-on-call", schedules=schedules)
        return Link("on-call", "degraded", nobody, Text("doctor.on-call-fix"))
    return Link("on-call", "ok", Text("doctor.on-call", count=len(people), schedules=schedules))


async def _pager(name: str, url: str) -> Link:
    """Whether its server answers. Of the address only the server is shown: the rest may be a secret."""
    parts = urlsplit(url)
    server = f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}"
    try:
        await _status("HEAD", url, shown=server)
    except SourceError as error:
        return broken("pager", error, name, "degraded")._replace(fix=Text("doctor.pager-fix"))
    return Link("pager", "ok", Text("doctor.pager", server=server), about=name)


async def _status(method: str, url: str, shown: str = "") -> int:
    """The status of the answer, whose body nobody reads. Raises SourceError."""
    try:
        async with (
            asyncio.timeout(_WITHIN_S),
            httpx.AsyncClient(proxy=proxy_for(url), trust_env=False, timeout=_WITHIN_S) as client,
            client.stream(method, url) as answer,
        ):
            return answer.status_code
    except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, ValueError, ImportError) as error:
        why = one_line(str(error).replace(url, shown), 200) or type(error).__name__
        raise SourceError(f"{method} {shown or url}: {why}") from error
