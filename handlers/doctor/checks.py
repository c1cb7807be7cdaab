"""All that the bot needs, as one list of checks: `CHECKS` says what each check reads, and which run makes it.

`doctor` makes nearly all of them once, with the settings alone. The running bot's health monitor makes a few every
minute, its self-test some every hour. A check finds a link; it posts nothing that anybody sees.
"""

import asyncio
import shlex
import time
from collections.abc import Awaitable, Callable, Collection, Iterable
from contextlib import AbstractAsyncContextManager
from itertools import chain, groupby
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

import httpx

from bot.endpoint import ALERTS_PATH
from bot.errors import BotError, SourceError, UsageError, bugs_as_errors
from bot.kube.hami_pods import is_plugin, is_scheduler
from bot.kube.models import PODS
from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.kube.times import read_duration
from bot.pager import PAGERDUTY, WEBHOOK
from bot.report import Report, in_words, one_line
from bot.settings import load_settings
from bot.settings.oncall import OncallSettings
from bot.settings.schema import Settings, channels_of
from bot.slack.calls import open_client, proxy_for
from bot.slack.gateway import Gateway
from bot.slack.render.report import render_report
from bot.slack.render.text import total_text
from bot.store import StoreError, open_beside
from bot.store.base import NoStoreError, OlderStoreError
from bot.store.facts import Mark, MarkRows
from bot.texts import LANGUAGES, Language, Prose, Text, Texts
from handlers.cluster_choice import ClusterChoice, open_sources, usual_language
from handlers.doctor import clusters, links
from handlers.doctor.clusters import ClusterSeen, Installed
from handlers.doctor.links import Link, State, Workspace, as_json, as_text, broken, has_failed
from handlers.doctor.links import in_words as links_in_words
from handlers.oncall.calling import on_call_now
from handlers.parsing.grammar import ParsedQuestion
from handlers.parsing.slack_grammar import understand
from playbooks.gather.scheduling import gather_install
from playbooks.own import discovery
from playbooks.playbook import Sources
from playbooks.quotes import let_read_logs

Run = Literal["doctor", "monitor", "self-test"]


class Check(NamedTuple):
    """A check of one thing that the bot needs. `look` finds links at a place: the settings, Slack, the store or a
    cluster.

    `reads` is the type of that place, `runs` are who makes the check. If the check itself raises an error, the link has
    the state `unasked`; with `ends`, no further check looks there then.
    """

    name: str
    reads: type
    look: Callable[[Any], Awaitable[Iterable[Link]]]
    runs: Collection[Run] = ("doctor",)
    unasked: State = "degraded"
    ends: bool = False


async def find_links(run: Run, place: object, *names: str) -> list[Link]:
    """The links that a run's checks (with `names`, only these) find at a place, such as a cluster, in the order of
    `CHECKS`. Never raises: if something cannot be asked, the link is broken.
    """
    of_run = (check for check in CHECKS if run in check.runs and check.reads is type(place))
    asked = [check for check in of_run if not names or check.name in names]
    links: list[Link] = []
    for ends, some in groupby(asked, lambda check: check.ends):
        links += chain.from_iterable(await asyncio.gather(*(_told(check, place) for check in some)))
        if ends and has_failed(links):
            break
    return links


async def _told(check: Check, place: object) -> Iterable[Link]:
    try:
        return await check.look(place)
    except BotError as error:
        about = place.about if isinstance(place, ClusterSeen) else ""
        return [broken(check.name, error, about, check.unasked)]


class Kept(NamedTuple):
    """The store and the settings that the checks of the store need."""

    marks: MarkRows
    oncall: OncallSettings | None = None


# -------------------------------------------------------------------------------------------------------- doctor


async def examine(where: ClusterChoice) -> list[Link]:
    """Checks settings, Slack, the store, on-call, the bot's own reasoning and the clusters. Never raises. The clusters
    are those of the settings, or the one that `where` names.
    """
    try:
        settings = load_settings(where.config)
    except UsageError as error:
        return [broken("settings", error)]
    typed = where.cluster or where.recording or where.kubeconfig or where.context
    named = [where._replace(cluster=name) for name in settings.clusters] if settings and not typed else []
    parts = await asyncio.gather(
        _examine_bot(settings),
        find_links("doctor", None),
        *(at_cluster("doctor", open_sources(one), one.cluster, settings) for one in named or [where]),
    )
    return [link for part in parts for link in part]


FAILED = 3
"""The exit code if a link failed, the same as if a source cannot be read."""
_PAUSE_S = 5.0


async def run_doctor(wait: str, output: str, where: ClusterChoice, language: Language | None) -> tuple[str, int]:
    """Runs `doctor`; returns what to print and the exit code. Without a `language` it takes that of the settings.
    Repeats the checks for the time `wait` (such as `2m`) until no link fails. `output` is text or json.
    """
    wait_s = read_duration(wait) if wait else 0.0
    if wait_s is None:
        raise UsageError(Text("error-doctor.wait-is-no-time", wait=wait), example="doctor --wait 2m")
    say = Texts(language or usual_language(where))
    until = time.monotonic() + wait_s
    links = await examine(where)
    while has_failed(links) and time.monotonic() < until:
        await asyncio.sleep(_PAUSE_S)
        links = await examine(where)
    text = as_json(links_in_words(links, say)) if output == "json" else as_text(links, say)
    return text, FAILED if has_failed(links) else 0


async def _examine_bot(settings: Settings | None) -> list[Link]:
    if settings is None:
        return [Link("settings", "degraded", Text("doctor.no-settings"), Text("doctor.no-settings-fix"))]
    links = await find_links("doctor", settings)
    if given := settings.slack:
        app_token = "" if given.mode == "http" else given.app_token.get_secret_value()
        try:  # nothing is posted, and no channel is joined
            async with open_client(given.api_url, given.bot_token.get_secret_value()) as (client, session):
                gateway = Gateway(client, session)
                place = Workspace(gateway, app_token, channels_of(settings), guests=settings.access.guests)
                links += await find_links("doctor", place)
        except BotError as error:
            links.append(broken("slack-token", error))
        try:  # as it is: nothing is made, upgraded or taken over from the bot that has it open
            async with open_beside(settings.store.url.get_secret_value()) as store:
                links += await find_links("doctor", Kept(store.marks, settings.oncall))
        except StoreError as error:
            is_missing = isinstance(error, NoStoreError | OlderStoreError)
            links.append(broken("store", error, state="degraded" if is_missing else "failed"))
    return links


async def at_cluster(
    run: Run,
    opened: AbstractAsyncContextManager[Sources],
    about: str,
    settings: Settings | None = None,
    within_s: float | None = None,
) -> list[Link]:
    """The links that a run's checks find at a cluster, or one that says that they took too long. Never raises."""
    try:
        async with asyncio.timeout(within_s), opened as sources:
            with bugs_as_errors():
                return await of_cluster(run, sources, settings)
    except TimeoutError:
        return [Link("cluster", "failed", Text("doctor.no-answer", seconds=f"{within_s:.0f}"), about=about)]
    except BotError as error:
        return [broken("cluster", error, about)]


async def of_cluster(run: Run, sources: Sources, settings: Settings | None = None) -> list[Link]:
    """The links that a run's checks find at a cluster that is open. Never raises."""
    if run == "doctor" and isinstance(sources.cluster, RecordedCluster):
        pods, files = await sources.cluster.list(PODS), sources.cluster.files("logs/")
        own = {(pod.namespace, pod.name) for pod in pods if is_scheduler(pod) or is_plugin(pod)}
        of_users = {(namespace, pod) for _, namespace, pod, *_ in (name.split("/") for name in files)} - own
        logged = Text("doctor.recording", count=len(of_users))
        return [Link("cluster", "ok", logged, about=sources.cluster.name)]
    links = await find_links(run, ClusterSeen(sources, settings))
    if run == "monitor" or has_failed(links):
        return links
    return [*links, *await find_links(run, Installed(sources, settings, seen=await gather_install(sources)))]


# --------------------------------------------------------------------------------------------- settings, playbooks


async def _settings(settings: Settings) -> list[Link]:
    clusters: Prose = ", ".join(settings.clusters) or Text("doctor.one-cluster")
    links = [Link("settings", "ok", Text("doctor.settings", clusters=clusters))]
    allow = Text("doctor.no-workload-logs-fix", role=let_read_logs("NAMESPACE"))
    off = Link("workload-logs", "ok", Text("doctor.no-workload-logs"), allow)  # a choice, and no fault
    links.append(Link("workload-logs", "ok", Text("doctor.workload-logs")) if settings.workload_logs else off)
    if settings.slack is None:
        links.append(Link("slack-token", "degraded", Text("doctor.no-slack"), Text("doctor.no-slack-fix")))
    return links


async def own_playbooks(_: None) -> list[Link]:
    """A link for each of the team's own playbooks, which tells whether it can be imported."""
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


# ---------------------------------------------------------------------------------------------------------- store

HEARD, BLIND, _PROBE = "watchdog", "blind:", "probe"
"""Marks in the store: when Alertmanager's Watchdog was heard, and by cluster why the running bot cannot read it."""


async def _opens(place: Kept) -> list[Link]:
    await place.marks.all(HEARD)
    return [Link("store", "ok", Text("doctor.store"))]


async def _takes_writes(place: Kept) -> list[Link]:
    await place.marks.set(_PROBE)
    return []


async def _blind(place: Kept) -> list[Link]:
    """Tells what the running bot found out about itself, with the credentials that it has."""
    marks = await blind_marks(place.marks)
    seen = {name: Text("doctor.blind", minutes=_minutes_since(mark.at), why=mark.text) for name, mark in marks.items()}
    return [Link("self-test", "failed", text, Text("doctor.blind-fix"), name) for name, text in seen.items()]


async def blind_marks(marks: MarkRows) -> dict[str, Mark]:
    """The store's marks of clusters that two self-tests in a row could not read, by cluster."""
    return {mark.name.removeprefix(BLIND): mark for mark in await marks.all(BLIND)}


def _minutes_since(at: float) -> int:
    return round((time.time() - at) / 60)


async def _alertmanager(place: Kept) -> list[Link]:
    if place.oncall is None or not place.oncall.takes_alerts:
        return []
    heard = max((mark.at for mark in await place.marks.all(HEARD)), default=0.0)
    if not heard:
        return [Link("alertmanager", "degraded", Text("doctor.never-heard"), Text("doctor.heard-fix"))]
    minutes = _minutes_since(heard)
    if place.oncall.watchdog_minutes and minutes > place.oncall.watchdog_minutes:
        return [Link("alertmanager", "failed", Text("doctor.not-heard", minutes=minutes), Text("doctor.heard-fix"))]
    return [Link("alertmanager", "ok", Text("doctor.heard", minutes=minutes))]


# -------------------------------------------------------------------------------------------------------- on-call

_WITHIN_S = 10.0
_ANY_HOST = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]", "::": "[::1]"}  # noqa: S104  # read, not bound
_UNAUTHORIZED = 401


async def _alerts(settings: Settings) -> list[Link]:
    """Asks without credentials: the running bot then asks for them, and keeps nothing."""
    if settings.oncall is None or not settings.oncall.takes_alerts:
        return []
    host, _, port = settings.http.bind.rpartition(":")
    url = f"http://{_ANY_HOST.get(host, host)}:{port}{ALERTS_PATH}"
    try:
        if (status := await _status("POST", url)) == _UNAUTHORIZED:
            return [Link("alert-endpoint", "ok", Text("doctor.alerts", url=url))]
        seen = Text("doctor.alerts-other", url=url, status=status)
    except SourceError:
        seen = Text("doctor.alerts-nobody", url=url)
    return [Link("alert-endpoint", "degraded", seen, Text("doctor.alerts-fix"))]


async def _on_call(settings: Settings) -> list[Link]:
    if settings.oncall is None or (pagerduty := settings.oncall.pagerduty) is None:
        return []
    schedules = ", ".join(pagerduty.schedules)
    try:
        if people := await on_call_now(pagerduty):
            return [Link("on-call", "ok", Text("doctor.on-call", count=len(people), schedules=schedules))]
        seen: Prose = Text("doctor.nobody-on-call", schedules=schedules)
    except SourceError as error:
        seen = error.message
    return [Link("on-call", "degraded", seen, Text("doctor.on-call-fix"))]


async def _pagers(settings: Settings) -> list[Link]:
    if settings.oncall is None:
        return []
    paging = settings.oncall.paging
    pagers = {PAGERDUTY: paging.pagerduty, WEBHOOK: paging.webhook}
    return await asyncio.gather(*(_pager(name, pager.url) for name, pager in pagers.items() if pager))


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


# --------------------------------------------------------------------------------------------- the known answer

RECORDING = Path(__file__).parent / "known"
WORDS = ("why", "ml/known-answer")
CODE, QUOTE = "impossible-anywhere", "1 4/4 CardInsufficientMemory"
"""The known answer: the recording has one node with GPUs of 15,360 MiB, and a pod that asks for 20,000 MiB."""


async def known_answer(_: None) -> list[Link]:
    """A link that tells whether the bot answers a question with a known answer correctly, in every language."""
    asked = understand(WORDS)
    assert isinstance(asked, ParsedQuestion)
    try:
        with bugs_as_errors():
            snapshot = await asked.playbook.gather(asked.request, Sources(RecordedCluster.open(RECORDING)))
            wrong = await asyncio.to_thread(lambda: _wrong_with(asked.playbook.diagnose(snapshot)))
    except BotError as error:
        wrong = error.message
    if wrong:
        return [Link("self-test", "failed", Text("doctor.known-wrong", why=wrong), Text("doctor.known-fix"))]
    return [Link("self-test", "ok", Text("doctor.known"))]


def _wrong_with(report: Report) -> Prose:
    first = report.findings[0]
    if first.code != CODE or not any(QUOTE in proof.quote for proof in first.evidence):
        return Text("doctor.other-answer", code=first.code, known=CODE)
    for language in LANGUAGES:
        said = in_words(report, say := Texts(language))
        shown = render_report(said, say, channel_buttons=True, words=" ".join(WORDS))
        if said.verdict.rstrip("…") not in shown.text or not total_text(list(shown.blocks)):
            return Text("doctor.not-shown")
    return ""


_NOTHING = type(None)
"""The type of place for checks of the program alone."""
CHECKS: tuple[Check, ...] = (
    Check("settings", Settings, _settings),
    Check("slack-token", Workspace, links.token, ("doctor", "monitor"), "failed", ends=True),
    Check("slack-scopes", Workspace, links.scopes, unasked="failed"),
    Check("socket-mode", Workspace, links.connection, unasked="failed"),
    Check("slack-channel", Workspace, links.channels, ("doctor", "monitor")),
    Check("store", Kept, _opens, unasked="failed", ends=True),
    Check("store", Kept, _takes_writes, ("monitor",), "failed"),
    Check("self-test", Kept, _blind),
    Check("alertmanager", Kept, _alertmanager),
    Check("alert-endpoint", Settings, _alerts),
    Check("on-call", Settings, _on_call),
    Check("pager", Settings, _pagers),
    Check("self-test", _NOTHING, known_answer, ("doctor", "self-test")),
    Check("playbook", _NOTHING, own_playbooks),
    Check("cluster", ClusterSeen, clusters.answers, ("doctor", "self-test"), "failed", ends=True),
    Check("cluster", ClusterSeen, clusters.lists, ("monitor", "self-test"), "failed", ends=True),
    Check("clock", ClusterSeen, clusters.clock),
    Check("rights", Installed, clusters.rights),
    Check("hami", Installed, clusters.hami, ("doctor", "self-test"), "failed"),
    Check("scheduler-metrics", Installed, clusters.metrics),
    Check("profiles", Installed, clusters.profiles),
    Check("prometheus", Installed, clusters.prometheus),
)
"""All checks in the order in which they are told; each place is checked as soon as it is open."""
