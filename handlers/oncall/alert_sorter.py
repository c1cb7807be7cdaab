"""Sorts alerts by cause into incidents, each with a thread. The settings' routes choose channel and grouping."""

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

from bot.errors import BotError, bugs_as_errors
from bot.report import SEVERITIES
from bot.slack.render.triage_head import digest_of
from bot.store.incidents import IncidentRow, ThreadLimit
from bot.texts import Text, in_english
from bot.triage.cause import Cause, gathering, severest
from bot.triage.routes import Route, route_of, threaded
from bot.triage.webhook import Alert
from handlers.deps import Deps
from handlers.oncall.calling import PATIENCE_S, OncallPlan
from handlers.oncall.causes import AlertCauses, CauseGroups, cause_alone, find_causes, group_by_cause

SORTED_AT_ONCE = 2000
"""How many alerts of one cluster are sorted at once."""

log = logging.getLogger(__name__)


class AlertSorter:
    """Sorts the alerts of one cluster at a time; calls `wake` when threads have something new to tell."""

    def __init__(self, deps: Deps, plan: OncallPlan, wake: Callable[[], None]) -> None:
        self._deps = deps
        self._plan = plan
        self._wake = wake
        self._unread_since: dict[str, float] = {}

    async def sort(self, cluster: str) -> bool:
        """Sorts the cluster's new alerts into incidents; False if no causes were found, so that the alerts wait."""
        ours = self._plan.clusters if cluster == self._plan.usual else None
        some = await self._without_ignored(await self._deps.store.alerts.unsorted(SORTED_AT_ONCE, cluster, ours))
        found, needs = await self._causes(cluster, some) if some else AlertCauses([])
        if found:
            log.info("%d alerts in %s have %d causes", len(some), cluster or "the cluster", len(found))
        most = self._plan.threads_per_minute
        claim = self._deps.say("triage.storm", most=most)
        for channel, here in by_channel(found, self._plan.routes, self._plan.channel).items():
            limit = ThreadLimit(most, gathering(channel, claim)) if most else None
            for cause, members in await self._in_turn(cluster, here, limit) if limit else here:
                await self._deps.store.incidents.sort(cluster, cause, members, channel, limit=limit, needs=needs)
        if found:
            self._wake()
        return bool(found)

    async def _without_ignored(self, some: list[Alert]) -> list[Alert]:
        """Drops what a route ignores, and severity `none` (Watchdog, InfoInhibitor): nothing is wrong then."""
        wanted, unwanted = list[Alert](), list[Alert]()
        for alert in some:
            route = route_of(alert.labels, self._plan.routes)
            (unwanted if (route and not route.channel) or alert.severity.casefold() == "none" else wanted).append(alert)
        if unwanted:
            await self._deps.store.alerts.ignore(unwanted)
            most = Counter(alert.name for alert in unwanted).most_common(5)
            names = ", ".join(f"{name!r}: {count}" for name, count in most)
            log.info("%d alerts are ignored by oncall.routes: %s", len(unwanted), names)
        return wanted

    async def _in_turn(self, cluster: str, found: CauseGroups, limit: ThreadLimit) -> CauseGroups:
        """Puts the worst first, so that they get their own threads; groups the rest, which are more than may open."""
        known = await self._deps.store.incidents.open_signatures(cluster, [cause for cause, _ in found])
        seen, turns, rest = Counter[int](), CauseGroups(), list[Alert]()
        for cause, members in sorted(found, key=_severity, reverse=True):
            seen[severity := _severity((cause, members))] += cause.signature not in known
            if cause.signature in known or seen[severity] <= limit.most:
                turns.append((cause, members))
            else:
                rest += members
        return [*turns, (limit.gathered, rest)] if rest else turns

    async def open_cause(self, row: IncidentRow, named: str) -> bool:
        """Opens a thread for those alerts of one name that another thread gathers; False if it has none. `named` is the
        `digest_of` the name. Raises BotError.
        """
        counts = (await self._deps.store.alerts.counts([row.id]))[row.id]
        name = next((name for name, _, _ in counts.by_name if digest_of(name) == named), "")
        some = await self._deps.store.alerts.firing(incident=row.id, name=name)
        found, needs = await self._causes(row.cluster, some)
        found = found or [(cause_alone(alert), [alert]) for alert in some]
        for here in by_channel(found, self._plan.routes, self._plan.channel, into=row.channel).values():
            for cause, members in here:
                await self._deps.store.incidents.sort(
                    row.cluster, cause, members, row.channel, out_of=row.id, needs=needs
                )
        self._wake()
        return bool(some)

    async def _causes(self, cluster: str, some: Sequence[Alert]) -> AlertCauses:
        """None yet while the cluster cannot be read; after a while, what the alerts say themselves. So do those at once
        that name a cluster which is none of the settings'.
        """
        ours = self._plan.clusters
        foreign = [alert for alert in some if ours and alert.cluster not in ("", *ours)]
        say, names = self._deps.say, ", ".join(ours)
        whys = (say("triage.foreign-cluster", cluster=alert.cluster, clusters=names) for alert in foreign)
        alone = [(cause_alone(alert, why), [alert]) for alert, why in zip(foreign, whys, strict=True)]
        rest = [alert for alert in some if alert not in foreign]
        found = await self._causes_here(cluster, rest) if rest else AlertCauses([])
        return found._replace(causes=[*found.causes, *alone])

    async def _causes_here(self, cluster: str, some: Sequence[Alert]) -> AlertCauses:
        since = self._unread_since.setdefault(cluster, self._plan.clock())
        try:
            async with asyncio.timeout(PATIENCE_S), self._deps.open_sources(cluster) as sources:
                with bugs_as_errors():
                    found = await find_causes(sources, some)
        except (BotError, TimeoutError) as error:
            late = Text("error-usage.no-answer-within", seconds=f"{PATIENCE_S:g}")
            text = error.message if isinstance(error, BotError) else late
            log.warning("no causes of %d alerts in %s: %s", len(some), cluster or "the cluster", in_english(text))
            if self._plan.clock() - since < PATIENCE_S:
                return AlertCauses([])
            return AlertCauses([(cause_alone(alert, self._deps.say.words(text)), [alert]) for alert in some])
        self._unread_since.pop(cluster, None)
        return found


def _severity(found: tuple[Cause, list[Alert]]) -> int:
    cause, members = found
    return SEVERITIES.index(severest(cause.severity, [member.severity for member in members]))


def by_channel(found: CauseGroups, routes: Sequence[Route], usual: str, *, into: str = "") -> dict[str, CauseGroups]:
    """Groups alerts into threads by channel, each with the cause that its thread tells.

    Alerts that no route matches go to the `usual` channel; with `into`, all go there. Where a route groups by labels,
    the thread tells the cause of the worst of its first alerts; later alerts of other causes are counted there.
    """
    by_channel: defaultdict[str, CauseGroups] = defaultdict(list)
    for cause, members in sorted(found, key=lambda item: SEVERITIES.index(item[0].severity), reverse=True):
        for member in members:
            route = route_of(member.labels, routes)
            channel = into or (route.channel if route else usual)
            here = route and route._replace(channel=channel)
            by_channel[channel].append((threaded(cause, member.labels, here, usual), [member]))
    return {channel: group_by_cause(pairs) for channel, pairs in by_channel.items()}
