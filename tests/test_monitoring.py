"""The alerts and the dashboard ask for metrics that the bot has, in words that Prometheus takes."""

import asyncio
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from bot.hami.pods.request_parsing import DeviceConfig
from sandbox.demo import TOKEN, demo
from tests.dashboard import DASHBOARD
from tests.metric_names import names_told
from tests.prometheus.server import asked, program, prometheus_that_scrapes_at
from tests.update_docs import RULES

pytestmark = pytest.mark.process

GROUPS = yaml.safe_load(RULES.read_text())["spec"]
ALERTS = {rule["alert"]: rule for group in GROUPS["groups"] for rule in group["rules"]}
PANELS = {panel["title"]: panel for panel in json.loads(DASHBOARD.read_text())["panels"] if panel["type"] != "row"}
QUERIES = [target["expr"] for panel in PANELS.values() for target in panel["targets"]]


def test_every_metric_of_the_alerts_and_the_dashboard_is_one_of_the_bots() -> None:
    ours = names_told()
    for words in (*QUERIES, *(rule["expr"] for rule in ALERTS.values())):
        named = set(re.findall(r"hami_bot_\w+", words))
        assert named, words
        assert named <= ours, words


def test_every_metric_has_a_panel() -> None:
    shown = {name for words in QUERIES for name in re.findall(r"hami_bot_\w+", words)}
    bare = {re.sub(r"_(bucket|count|sum)$", "", name) for name in shown}
    assert bare == {re.sub(r"_(bucket|count|sum)$", "", name) for name in names_told()}


def test_every_alert_says_what_is_wrong_and_stands_in_the_docs() -> None:
    docs = (RULES.parents[1] / "docs" / "metrics.md").read_text()
    assert re.findall(r"^\| `(HAMi\w+)`", docs, re.MULTILINE) == list(ALERTS)
    assert all(rule["annotations"]["summary"] and rule["labels"]["severity"] for rule in ALERTS.values())


def test_the_alert_of_pending_pods_knows_every_vendor_s_resources() -> None:
    rules = (RULES.parents[1] / "deploy" / "prometheus-rules.yaml").read_text(encoding="utf-8")
    (domains,) = re.findall(r'resource=~"\((.+)\)_\.\+"', rules)
    resources = {name for device in DeviceConfig().devices for name in device.resources.all}
    known = {re.sub(r"[.-]", "_", name.partition("/")[0]) for name in resources}
    assert known <= set(domains.split("|"))


def test_panels_do_not_cover_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells


def promtool(folder: Path, verb: str, content: dict[str, Any]) -> None:
    (folder / "rules.yaml").write_text(yaml.safe_dump(GROUPS))
    file = folder / f"{verb}.yaml"
    file.write_text(yaml.safe_dump(content))
    command = [program("promtool"), verb, "rules", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_takes_the_alerts(tmp_path: Path) -> None:
    promtool(tmp_path, "check", GROUPS)


@pytest.mark.parametrize(("within", "fires"), [(20, False), (17, True)])
def test_slow_starts_fire_once_for_a_cluster_whatever_the_replicas(tmp_path: Path, within: int, fires: bool) -> None:
    """20 pods an hour, `within` of them in 5 minutes; a replica that has just been started has counted nothing."""
    name = "hami_bot_pod_start_seconds"
    series = [
        {"series": f'{name}_bucket{{cluster="lab",instance="a",le="300.0"}}', "values": f"0+{within}x12"},
        {"series": f'{name}_count{{cluster="lab",instance="a"}}', "values": "0+20x12"},
        {"series": f'{name}_bucket{{cluster="lab",instance="b",le="300.0"}}', "values": "0x12"},
        {"series": f'{name}_count{{cluster="lab",instance="b"}}', "values": "0x12"},
    ]
    alert = ALERTS["HAMiPodsStartSlowly"]
    summary = alert["annotations"]["summary"].replace("{{ $labels.cluster }}", "lab")
    fired = {"exp_labels": {"cluster": "lab", **alert["labels"]}, "exp_annotations": {"summary": summary}}
    expected = {"eval_time": "8h", "alertname": alert["alert"], "exp_alerts": [fired] if fires else []}
    case = {"interval": "1h", "input_series": series, "alert_rule_test": [expected]}
    promtool(tmp_path, "test", {"rule_files": ["rules.yaml"], "evaluation_interval": "10m", "tests": [case]})


READY, LOOKED = 'hami_bot_ready{instance="a"}', 'hami_bot_look_timestamp_seconds{cluster="lab"}'
OF_THE_BOT = [
    ("HAMiBotDown", {READY: "1x60"}, False),
    ("HAMiBotDown", {READY: "0x60"}, True),
    ("HAMiBotDown", {READY: "0x60", READY.replace('"a"', '"b"'): "1x60"}, False),
    ("HAMiBotDown", {READY: "1x20 stale"}, True),
    ("HAMiBotDown", {}, True),
    ("HAMiBotBlind", {LOOKED: "0+60x60"}, False),
    ("HAMiBotBlind", {LOOKED: "0+60x20 1200x40"}, True),
    ("HAMiBotBlind", {'hami_bot_blind{cluster="lab"}': "1x60"}, True),
    ("HAMiBotBlind", {'hami_bot_blind{cluster="lab"}': "0x60"}, False),
]


def test_the_bot_is_told_as_down_or_blind_also_where_it_says_nothing_new(tmp_path: Path) -> None:
    cases: list[dict[str, Any]] = []
    for name, series, fires in OF_THE_BOT:
        labels = ({"cluster": "lab"} if name == "HAMiBotBlind" else {}) | ALERTS[name]["labels"]
        summary = ALERTS[name]["annotations"]["summary"].replace("{{ $labels.cluster }}", "lab")
        fired = [{"exp_labels": labels, "exp_annotations": {"summary": summary}}] if fires else []
        given = [{"series": one, "values": values} for one, values in series.items()]
        expected = [{"eval_time": "1h", "alertname": name, "exp_alerts": fired}]
        cases.append({"interval": "1m", "input_series": given, "alert_rule_test": expected})
    promtool(tmp_path, "test", {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": cases})


def test_a_real_prometheus_scrapes_the_demo_and_answers_every_panel_and_alert(tmp_path: Path) -> None:
    async def main() -> dict[str, list[Any]]:
        async with demo() as running:
            return await asyncio.to_thread(answers, running.address)

    def answers(address: str) -> dict[str, list[Any]]:
        with prometheus_that_scrapes_at(address, TOKEN, tmp_path, "hami_bot_pending_pods") as url:
            words = (*QUERIES, *(rule["expr"] for rule in ALERTS.values()), "sum(hami_bot_pending_pods)")
            return {word: asked(url, plain(word)) for word in words}

    found = asyncio.run(main())
    assert int(found["sum(hami_bot_pending_pods)"][0]["value"][1]) > 10
    firing = [name for name, rule in ALERTS.items() if name.startswith("HAMiBot") and found[rule["expr"]]]
    assert firing == []


def plain(words: str) -> str:
    """The query with Grafana's variables replaced as Grafana does."""
    return words.replace("$__rate_interval", "5m").replace("$cluster", ".*")
