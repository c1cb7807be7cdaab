"""Proves every link between the bot and what it needs, one after the other. Nothing is posted that anybody sees."""

import asyncio
import shlex
import time
from urllib.parse import urlsplit

import httpx

from bot.endpoint import ALERTS_PATH
from bot.errors import SourceError, UsageError
from bot.pager import PAGERDUTY, WEBHOOK
from bot.report import one_line
from bot.settings import load_settings
from bot.settings.oncall import OncallSettings, PagerDutySettings
from bot.settings.schema import Settings
from bot.slack.calls import proxy_for
from bot.store import StoreError, open_beside
from bot.store.engine import NoStoreError, OlderStoreError
from bot.store.facts import Mark
from bot.texts import Prose, Text
from handlers.cluster_choice import ClusterChoice
from handlers.doctor.clusters import examine_cluster
from handlers.doctor.links import Link, broken
from handlers.doctor.selftest import BLIND, wrong_answer
from handlers.doctor.slack import examine_slack
from handlers.health_monitor import HEARD
from handlers.oncall.calling import on_call_now
from playbooks.own import discovery


async def examine(where: ClusterChoice) -> list[Link]:
    """Settings, Slack, the store, on-call, the bot's own reasoning, then each cluster of the settings, or the one that
    `where` names. Never raises.
    """
    try:
        settings = load_settings(where.config)
    except UsageError as error:
        return [broken("settings", error)]
    parts = await asyncio.gather(
        _bot(settings),
        _itself(),
        *(examine_cluster(cluster, settings) for cluster in _clusters(where, settings)),
    )
    return [link for part in parts for link in part]


async def _bot(settings: Settings | None) -> list[Link]:
    if settings is None:
        return [Link("settings", "degraded", Text("doctor.no-settings"), Text("doctor.no-settings-fix"))]
    clusters: Prose = ", ".join(settings.clusters) or Text("doctor.one-cluster")
    links = [Link("settings", "ok", Text("doctor.settings", clusters=clusters))]
    if settings.slack is None:
        return [*links, Link("slack-token", "degraded", Text("doctor.no-slack"), Text("doctor.no-slack-fix"))]
    links += [*await examine_slack(settings, settings.slack), *await examine_store(settings)]
    return [*links, *await examine_oncall(settings, settings.oncall)] if settings.oncall else links


async def _itself() -> list[Link]:
    if wrong := await wrong_answer():
        known = Link("self-test", "failed", Text("doctor.known-wrong", why=wrong), Text("doctor.known-fix"))
    else:
        known = Link("self-test", "ok", Text("doctor.known"))
    return [known, *examine_playbooks()]


def _clusters(where: ClusterChoice, settings: Settings | None) -> list[ClusterChoice]:
    typed = where.cluster or where.recording or where.kubeconfig or where.context
    if typed or settings is None or not settings.clusters:
        return [where]
    return [where._replace(cluster=name) for name in settings.clusters]


def examine_playbooks() -> list[Link]:
    """A line for each that was found. Imports all of them."""
    links = [
        Link("playbook", "degraded", error.message, error.hint, source.verb)
        if error
        else Link("playbook", "ok", Text("own-playbook.found", place=source.place), about=source.verb)
        for source, error in discovery.import_all()
    ]
    links += [
        Link("playbook", "degraded", left_out.why, left_out.fix, left_out.verb) for left_out in discovery.own().left_out
    ]
    for place in discovery.writable_by_all():
        fix = Text("own-playbook.writable-fix", place=shlex.quote(place))
        links.append(Link("playbook", "degraded", Text("own-playbook.writable", place=place), fix))
    return links


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


_MINUTE_S = 60


async def examine_store(settings: Settings) -> list[Link]:
    """The store is read as it is: nothing is made, upgraded or taken over from the bot that has it open."""
    oncall = settings.oncall
    try:
        async with open_beside(settings.store.url.get_secret_value()) as store:
            heard = await store.marks.all(HEARD)
            blind = await store.marks.all(BLIND)
    except (NoStoreError, OlderStoreError) as error:
        return [broken("store", error, state="degraded")]
    except StoreError as error:
        return [broken("store", error)]
    links = [Link("store", "ok", Text("doctor.store")), *(_blind(mark) for mark in blind)]
    return [*links, _alertmanager(oncall, max((mark.at for mark in heard), default=0.0))] if oncall else links


def _blind(mark: Mark) -> Link:
    """What the running bot found out about itself, with the credentials that it has."""
    seen = Text("doctor.blind", minutes=_minutes_since(mark.at), why=mark.text)
    return Link("self-test", "failed", seen, Text("doctor.blind-fix"), mark.name.removeprefix(BLIND))


def _minutes_since(at: float) -> int:
    return round((time.time() - at) / _MINUTE_S)


def _alertmanager(oncall: OncallSettings, heard: float) -> Link:
    """Whether alerts arrive, as its Watchdog shows."""
    if not heard:
        return Link("alertmanager", "degraded", Text("doctor.never-heard"), Text("doctor.heard-fix"))
    minutes = _minutes_since(heard)
    if oncall.watchdog_minutes and minutes > oncall.watchdog_minutes:
        return Link("alertmanager", "failed", Text("doctor.not-heard", minutes=minutes), Text("doctor.heard-fix"))
    return Link("alertmanager", "ok", Text("doctor.heard", minutes=minutes))
