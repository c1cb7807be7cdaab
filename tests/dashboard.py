"""Makes the Grafana dashboard of the bot's metrics: `python -m tests.update_docs` writes it."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.chart import CHART

DASHBOARD = CHART / "files" / "grafana-dashboard.json"
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_COLUMNS, _HEIGHT = 24, 8


class Panel(NamedTuple):
    """A panel with its queries, each with the legend of its series; `unit` is Grafana's."""

    title: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 12
    stacked: bool = False


def _of_look(metric: str, *labels: str) -> str:
    """What every replica sees alike."""
    return f'max by ({", ".join(("cluster", *labels))}) ({metric}{{cluster=~"$cluster"}})'


def _quantile(part: float, metric: str, *labels: str, replicas: str = "sum", window: str = "$__rate_interval") -> str:
    where = '{cluster=~"$cluster"}' if "cluster" in labels else ""
    by = ", ".join((*labels, "le"))
    return f"histogram_quantile({part}, {replicas} by ({by}) (rate({metric}_bucket{where}[{window}])))"


_PENDING = _of_look("hami_bot_pending_pods", "namespace", "class", "code")
_STARTS = "hami_bot_pod_start_seconds"
_CALLS = "hami_bot_scheduler_call_seconds"
_REFUSALS = 'hami_bot_scheduler_refusals_total{cluster=~"$cluster"}'
_WITHIN = (
    f'min by (cluster) (increase({_STARTS}_bucket{{cluster=~"$cluster",le="300.0"}}[6h])'
    f' / ignoring (le) increase({_STARTS}_count{{cluster=~"$cluster"}}[6h]))'
)
_REQUESTS = 'hami_bot_kubernetes_requests_total{cluster=~"$cluster"}'
ROWS: dict[str, tuple[Panel, ...]] = {
    "What waits, and why": (
        Panel("Pending pods by who has to act", ((f"sum by (class) ({_PENDING})", "{{class}}"),), stacked=True),
        Panel("Pending pods by cause", ((f"topk(10, sum by (code) ({_PENDING}))", "{{code}}"),)),
        Panel("Oldest pending pod", ((_of_look("hami_bot_oldest_pending_seconds", "class"), "{{class}}"),), "s"),
        Panel("Pending pods by namespace", ((f"topk(10, sum by (namespace) ({_PENDING}))", "{{namespace}}"),)),
    ),
    "How soon pods start": (
        Panel(
            "From creation to running",
            tuple(
                (_quantile(part, _STARTS, "cluster", replicas="max", window="1h"), f"{{{{cluster}}}} {name}")
                for part, name in ((0.5, "half of the pods"), (0.95, "95 %"))
            ),
            "s",
        ),
        Panel("Part of the pods that ran within 5 minutes, over 6 hours", ((_WITHIN, "{{cluster}}"),), "percentunit"),
        Panel(
            "HAMi's filter and bind, 95 %",
            ((_quantile(0.95, _CALLS, "cluster", "call", replicas="max"), "{{cluster}} {{call}}"),),
            "s",
        ),
        Panel(
            "Filters that took no node, by reason",
            ((f"max by (cluster, reason) (rate({_REFUSALS}[$__rate_interval]))", "{{cluster}} {{reason}}"),),
            "reqps",
        ),
    ),
    "What has room": (
        Panel("GPUs by state", ((_of_look("hami_bot_gpus", "state"), "{{cluster}} {{state}}"),), stacked=True),
        Panel(
            "Largest free slice by GPU type",
            ((_of_look("hami_bot_largest_free_slice_bytes", "type"), "{{cluster}} {{type}}"),),
            "bytes",
        ),
    ),
    "The bot": (
        Panel("Blind clusters", (("sum(max by (cluster) (hami_bot_blind))", "blind"),), kind="stat", width=4),
        Panel("Replicas ready", (("sum(hami_bot_ready)", "ready"),), kind="stat", width=4),
        Panel("Reverts overdue", (("max(hami_bot_overdue_changes)", "overdue"),), kind="stat", width=4),
        Panel("Open changes", (("max(hami_bot_open_changes)", "open"),), kind="stat", width=4),
        Panel("Incidents", (("max by (state) (hami_bot_incidents)", "{{state}}"),), kind="stat", width=8),
        Panel(
            "Acks to Slack",
            tuple((_quantile(part, "hami_bot_slack_ack_seconds"), f"p{part * 100:g}") for part in (0.5, 0.99)),
            "s",
        ),
        Panel("Answers, 95 %", ((_quantile(0.95, "hami_bot_playbook_seconds", "verb"), "{{verb}}"),), "s"),
        Panel(
            "Answers by outcome",
            (("sum by (outcome) (rate(hami_bot_playbook_seconds_count[$__rate_interval]))", "{{outcome}}"),),
            "reqps",
        ),
        Panel(
            "Calls to API servers",
            ((f"sum by (cluster, status) (rate({_REQUESTS}[$__rate_interval]))", "{{cluster}} {{status}}"),),
            "reqps",
        ),
        Panel(
            "Queues",
            (("max(hami_bot_unsent_messages)", "unsent messages"), ("sum(hami_bot_open_questions)", "open questions")),
        ),
        Panel(
            "Oldest in the queues",
            (
                ("max(hami_bot_oldest_unsent_message_seconds)", "unsent message"),
                ("max(hami_bot_oldest_open_question_seconds)", "open question"),
            ),
            "s",
        ),
        Panel("What could not be read", ((_of_look("hami_bot_gaps", "source"), "{{cluster}} {{source}}"),)),
        Panel(
            "The last look",
            (
                (_of_look("hami_bot_look_seconds"), "{{cluster}}"),
                (_of_look("hami_bot_cache_age_seconds"), "{{cluster}}, age of what it had from memory"),
                ("time() - " + _of_look("hami_bot_look_timestamp_seconds"), "{{cluster}}, since its end"),
            ),
            "s",
        ),
    ),
}


def dashboard() -> str:
    """The dashboard as Grafana imports it."""
    cluster = {
        "name": "cluster",
        "type": "query",
        "datasource": _SOURCE,
        "query": "label_values(hami_bot_blind, cluster)",
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }
    source = {"name": "datasource", "type": "datasource", "query": "prometheus"}
    made = {
        "uid": "hami-bot",
        "title": "hami-bot",
        "tags": ["hami", "gpu"],
        "schemaVersion": 39,
        "editable": True,
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "1m",
        "templating": {"list": [source, cluster]},
        "panels": [one | {"id": number} for number, one in enumerate(_panels(), 1)],
    }
    return json.dumps(made, indent=1) + "\n"


def _panels() -> Iterator[dict[str, Any]]:
    top = 0
    for title, panels in ROWS.items():
        yield {"type": "row", "title": title, "collapsed": False, "panels": [], "gridPos": _at(0, top, _COLUMNS, 1)}
        top, left = top + 1, 0
        for panel in panels:
            if left + panel.width > _COLUMNS:
                top, left = top + _HEIGHT, 0
            yield _panel(panel, _at(left, top, panel.width, _HEIGHT))
            left += panel.width
        top += _HEIGHT


def _panel(panel: Panel, at: dict[str, int]) -> dict[str, Any]:
    custom = {"stacking": {"mode": "normal"}, "fillOpacity": 30} if panel.stacked else {}
    return {
        "type": panel.kind,
        "title": panel.title,
        "datasource": _SOURCE,
        "gridPos": at,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0, "custom": custom}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + number), "datasource": _SOURCE, "expr": expression, "legendFormat": legend}
            for number, (expression, legend) in enumerate(panel.queries)
        ],
    }


def _at(left: int, top: int, width: int, height: int) -> dict[str, int]:
    return {"x": left, "y": top, "w": width, "h": height}
