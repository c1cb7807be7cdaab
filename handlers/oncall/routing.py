"""Which threads alerts belong to, by the routes of the settings: the channel, and what they are grouped by there."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from bot.report import SEVERITIES
from bot.triage.routes import Route, route_of, threaded
from bot.triage.webhook import Alert
from handlers.oncall.causes import Sorted, together


def without_ignored(some: Iterable[Alert], routes: Sequence[Route]) -> tuple[list[Alert], list[Alert]]:
    """The alerts that people are to be told of, and those that a route ignores."""
    wanted, unwanted = list[Alert](), list[Alert]()
    for alert in some:
        route = route_of(alert.labels, routes)
        (unwanted if route and route.ignores else wanted).append(alert)
    return wanted, unwanted


def routed(found: Sorted, routes: Sequence[Route], usual: str, *, into: str = "") -> dict[str, Sorted]:
    """By channel, the alerts of each thread with what it tells. Those that no route matches are told in the
    `usual` one.

    Where a route groups by labels, its thread tells the cause of the worst of the alerts that it opens with; alerts of
    other causes that come later are counted there, and tell no cause. `into`: all are told in that channel, wherever
    their routes lead by now.
    """
    by_channel: defaultdict[str, Sorted] = defaultdict(list)
    for cause, members in sorted(found, key=lambda item: SEVERITIES.index(item[0].severity), reverse=True):
        for member in members:
            route = route_of(member.labels, routes)
            channel = into or (route.channel if route else usual)
            here = route and route._replace(channel=channel)
            by_channel[channel].append((threaded(cause, member.labels, here, usual), [member]))
    return {channel: together(pairs) for channel, pairs in by_channel.items()}
