"""Alerts that the bot raises by itself: pods that wait for long, HAMi or nodes in trouble. A look that could not read
something resolves no alert: it must have read at least what was read when the alert began.
"""

import asyncio
import hashlib
import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from bot.errors import BotError, bugs_as_errors
from bot.finding_codes import watched_in
from bot.kube.times import parse_time
from bot.periodic_jobs import Clock
from bot.report import NEWER_HAMI, Finding, Gap, finding_in_words
from bot.triage.webhook import Alert
from handlers.deps import Deps, TaskLease
from handlers.oncall.causes import FINDING, answer
from handlers.oncall.keeper import Keeper
from playbooks.gather.pods import gather_waiting
from playbooks.playbook import Sources

WATCHED = {verb: watched_in(verb) for verb in ("status", "nodes")}
"""The codes of the findings that somebody has to look at, by the verb of the question that finds them."""
SOURCE = "watch"
LEASE = "watch"
_READING_S = 120.0
_UNSEEN = "unseen"
_LOG = "log of "

log = logging.getLogger(__name__)


class Patience(NamedTuple):
    """How many `minutes` a pod may be pending before an alert (0: no limit); `of_namespace` has other limits by
    namespace. Clusters are looked at every `look_s` seconds; other trouble is an alert when two looks in a row saw it.
    """

    minutes: int = 10
    of_namespace: Mapping[str, int] = {}
    look_s: float = 60.0


class Watcher:
    """Looks at the clusters every `look_s` seconds and raises alerts."""

    def __init__(self, deps: Deps, keeper: Keeper, clusters: Sequence[str], patience: Patience, owner: str) -> None:
        self._deps = deps
        self._rows = deps.store.alerts
        self._keeper = keeper
        self._clusters = clusters
        self._patience = patience
        self._lease = TaskLease(deps, LEASE, owner, patience.look_s * 2.5)
        self._seen_before: dict[str, set[str]] = {}

    async def run(self, clock: Clock) -> None:
        """Looks until it is cancelled; in one replica at a time. The first look comes after `look_s` seconds."""
        await clock.repeat(self._patience.look_s, "a look at the clusters ended early", self._watch, at_once=False)

    async def _watch(self) -> None:
        if await self._lease.is_mine():
            await self.look()

    async def look(self) -> None:
        """Makes one look at every cluster. Alerts about clusters that left the settings end."""
        await self._rows.unwatch(SOURCE, self._clusters)
        for cluster in self._clusters:
            try:
                async with asyncio.timeout(_READING_S), self._deps.open_sources(cluster) as sources:
                    with bugs_as_errors():
                        given = [*await self._pods(sources, cluster), *await self._trouble(sources, cluster)]
            except (BotError, TimeoutError) as error:  # the other clusters are looked at
                log.warning("the cluster %s is not watched: %s", cluster or "(default)", error)
                continue
            await self._keeper.take(given)

    async def _pods(self, sources: Sources, cluster: str) -> list[Alert]:
        _, waiting = await gather_waiting(sources, "")
        now = sources.cluster.now()
        firing: dict[str, Alert] = {}
        for pod in waiting.pods:
            created = parse_time(pod.metadata.creation_timestamp)
            minutes = self._patience.of_namespace.get(pod.namespace, self._patience.minutes)
            if created is None or not minutes or (now - created).total_seconds() < minutes * 60:
                continue
            labels = {"alertname": "HAMiPodWaiting", "namespace": pod.namespace, "pod": pod.name}
            summary = f"{pod.namespace}/{pod.name} has waited for more than {minutes} minutes"
            alert = _alert(cluster, labels, summary, pod.metadata.uid, created, waiting.gaps)
            firing[alert.fingerprint] = alert
        known = [alert for alert in await self._rows.firing(source=SOURCE, cluster=cluster) if alert.pod]
        return self._news(known, firing, waiting.gaps)

    async def _trouble(self, sources: Sources, cluster: str) -> list[Alert]:
        """What two looks in a row found wrong with HAMi or a node, and what this one does not find any more."""
        given: list[Alert] = []
        known = [alert for alert in await self._rows.firing(source=SOURCE, cluster=cluster) if not alert.pod]
        for verb, codes in WATCHED.items():
            report = await answer(sources, verb)
            now = sources.cluster.now()
            bad = (finding_in_words(finding, self._deps.say) for finding in report.findings if finding.code in codes)
            found = [alert for finding in bad for alert in _of_finding(cluster, finding, now, report.gaps)]
            names = {alert.fingerprint for alert in found}
            before = self._seen_before.get(f"{cluster}/{verb}", set())
            self._seen_before[f"{cluster}/{verb}"] = names
            firing = {alert.fingerprint: alert for alert in found if alert.fingerprint in before}
            ours = [alert for alert in known if alert.labels.get(FINDING) in codes and alert.fingerprint not in names]
            still = {alert.fingerprint for alert in known}
            given += [alert for alert in firing.values() if alert.fingerprint not in still]
            given += self._news(ours, {}, report.gaps)
        return given

    def _news(self, known: Sequence[Alert], firing: Mapping[str, Alert], gaps: Sequence[Gap]) -> list[Alert]:
        unseen = _sources(gaps)
        gone = [alert for alert in known if alert.fingerprint not in firing]
        over = [alert for alert in gone if unseen <= {*alert.annotations.get(_UNSEEN, "").split("\n")}]
        return [*firing.values(), *(msgspec.structs.replace(alert, status="resolved") for alert in over)]


def _sources(gaps: Sequence[Gap]) -> set[str]:
    """What was not seen; that HAMi is newer than the rules hides nothing. Pods of another name have the same logs."""
    return {_LOG if gap.source.startswith(_LOG) else gap.source for gap in gaps} - {NEWER_HAMI}


def _of_finding(cluster: str, found: Finding, now: datetime, gaps: Sequence[Gap]) -> list[Alert]:
    labels = {"alertname": f"HAMi {found.code}", FINDING: found.code}
    each = [labels | {"node": node} for node in found.scope.nodes] or [labels]
    return [_alert(cluster, of_alert, found.claim, "", now, gaps) for of_alert in each]


def _alert(  # noqa: PLR0917  # private
    cluster: str, labels: Mapping[str, str], summary: str, uid: str, since: datetime, gaps: Sequence[Gap]
) -> Alert:
    facts = "\0".join((cluster, uid, *(f"{name}={value}" for name, value in sorted(labels.items()))))
    return Alert(
        hashlib.sha256(facts.encode()).hexdigest()[:32],
        since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "firing",
        labels["alertname"],
        level="warning",
        cluster=cluster,
        namespace=labels.get("namespace", ""),
        pod=labels.get("pod", ""),
        node=labels.get("node", ""),
        labels=labels,
        annotations={"summary": summary[:500], _UNSEEN: "\n".join(sorted(_sources(gaps)))},
        source=SOURCE,
    )
