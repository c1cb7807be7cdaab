"""The tuning guide's tables (`guide.toml`): symptoms beside what is seen here, templates beside what is deployed."""

import tomllib
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import yaml

from bot.hami.installation.install import ARGUMENTS, chart_value, extender_of
from bot.hami.version import parse_version
from bot.report import Evidence, Report, Sheet, Subject, Table, act, step
from bot.texts import Prose, Text, listed, named, together
from playbooks.playbook import Snapshot
from playbooks.quotes import kubectl
from playbooks.rules.common import prose
from playbooks.rules.common.findings import finding
from playbooks.rules.common.prose import command
from playbooks.tune.advice import Advice, Deployed, flag, gpu_setting
from playbooks.tune.scene import TuneScene


class Client(NamedTuple):
    """The guide's row for `nodes` nodes or more: what the API client of HAMi's scheduler may do. It may make `qps`
    requests a second and `burst` at once; `timeout_s` bounds one request.
    """

    nodes: int
    qps: int
    burst: int
    timeout_s: int


class SchedulerResources(NamedTuple):
    """The guide's row for `nodes` nodes or more: HAMi's scheduler's requests and limits; CPU in thousandths."""

    nodes: int
    cpu_request: int
    cpu_limit: int
    memory_request_mib: int
    memory_limit_mib: int


class Scenario(NamedTuple):
    """A symptom of the guide's table. It is seen here if advice on `topic` has one of these `directions`."""

    symptom: str
    parameter: str
    value: str
    topic: str
    directions: tuple[str, ...]


class TemplateSetting(NamedTuple):
    """A value of a template. `path` is the chart's; after a blank, a word of the list at that path. `read` tells where
    the deployed value stands: `flag NAME`, `config KEY` or `replicas`.
    """

    path: str
    value: str | int | bool
    read: str
    default: str
    topic: str = ""
    since: str = ""


TEMPLATES = ("development", "production")


def scenarios() -> list[Scenario]:
    """The guide's table of symptoms, in its order."""
    rows: list[dict[str, Any]] = _tables()["scenario"]
    return [Scenario(**row)._replace(directions=tuple(row["directions"])) for row in rows]


def template(name: str) -> list[TemplateSetting]:
    """The values of the guide's template `name`, one of `TEMPLATES`."""
    return [TemplateSetting(**row) for row in _tables()["template"][name]]


def client_for(nodes: int) -> Client:
    """The guide's row of API client limits for a cluster of this size."""
    return Client(**_row_of("client", "nodes", nodes))


def splits_for(smallest_mib: int) -> int:
    """The guide's split count for GPUs whose smallest request is of so much memory."""
    return _row_of("split", "smallest_mib", smallest_mib)["splits"]


def resources_for(nodes: int) -> SchedulerResources:
    """The guide's row of scheduler resources for a cluster of this size."""
    return SchedulerResources(**_row_of("scheduler", "nodes", nodes))


def _row_of(table: str, key: str, size: int) -> dict[str, int]:
    rows: list[dict[str, int]] = _tables()[table]
    return max((row for row in rows if row[key] <= size), key=lambda row: row[key])


def lock_minutes() -> tuple[int, int]:
    """The shortest and the longest --node-lock-timeout that the guide allows, in minutes."""
    return _tables()["lock"]["least_min"], _tables()["lock"]["most_min"]


@cache
def _tables() -> dict[str, Any]:
    return tomllib.loads(files("playbooks.tune").joinpath("guide.toml").read_text(encoding="utf-8"))


class ScenarioRow(NamedTuple):
    """A row for a symptom; the fields are the table's columns. `seen`: yes, no, or cannot-tell."""

    symptom: Prose
    seen: str
    parameter: str
    guide: str
    topic: str
    ours: Prose


SYMPTOMS: Mapping[str, Text] = {
    "slow-scheduling": Text("scenario.slow-scheduling"),
    "node-locked": Text("scenario.node-locked"),
    "low-utilisation": Text("scenario.low-utilisation"),
    "gpu-oom": Text("scenario.gpu-oom"),
    "scheduler-oom": Text("scenario.scheduler-oom"),
    "no-monitor-data": Text("scenario.no-monitor-data"),
    "slow-cuda": Text("scenario.slow-cuda"),
    "loose-cores": Text("scenario.loose-cores"),
}
_SHEET = Sheet("scenarios", ScenarioRow)


def scenario_table(advice: Sequence[Advice]) -> Table:
    """The table with a row for each symptom of the guide."""
    rows: list[ScenarioRow] = []
    for symptom, parameter, value, topic, directions in scenarios():
        ours = [each for each in advice if each.row.topic == topic]
        telling = [each.row.direction for each in ours if each.of_symptom]
        seen = "yes" if any(direction in directions for direction in telling) else "no"
        if all(direction == "cannot-tell" for direction in telling) and (telling or topic != "monitor-gap"):
            seen = "cannot-tell"
        said = ((named(each.row.direction, "states"), each.row.recommended) for each in ours)
        advised = sorted({together(*words, by=" ") for words in said}, key=repr)
        rows.append(ScenarioRow(SYMPTOMS[symptom], seen, parameter, value, topic, listed(advised)))
    return _SHEET.table(rows)


class TemplateRow(NamedTuple):
    """A row for a value of a template; the fields are the columns. `use`: yes, same, or why it is not in the YAML."""

    setting: str
    deployed: Prose
    template: str
    use: Prose


class ValuesLine(NamedTuple):
    """A row for a line of the YAML of chart values."""

    line: str


_TEMPLATE = Sheet(
    "template",
    TemplateRow,
    brief="setting deployed=now template=then use",
    together=3,
    tells_findings=True,
)
_LINES = Sheet("values.yaml", ValuesLine, brief="line")
_OF_THE_CHART = (
    "http_bind",
    "cert_file",
    "key_file",
    "scheduler-name",
    "metrics-bind-address",
    "node-scheduler-policy",
    "gpu-scheduler-policy",
    "force-overwrite-default-scheduler",
    "device-config-file",
    "leader-elect",
    "device-plugin-",
)
"""Beginnings of the extender's arguments that the chart writes by other values (charts/hami/templates/scheduler)."""
_AT_TIMES = ("enable-ascend", "enable-iluvatar", "node-label-selector", "legacy-metrics", "node-lock-retry-timeout")
"""The arguments that the chart writes only where its values say so, before those of extraArgs."""
_AGAINST = ("keep", "cannot-tell", "refuse", "lower")
"""Directions of advice on memory scaling that count more than a template's over-commit."""


def compare_template(name: str, snapshot: Snapshot[Any, Any], scene: TuneScene, advice: Sequence[Advice]) -> Report:
    """The report on what a template would change here, and the chart's values that do so."""
    settings = template(name)
    deployed = [_deployed_now(setting, scene) for setting in settings]
    rows = [
        TemplateRow(
            chart_value(setting.path, scene.install),
            (now.value or Text("tune.default", value=setting.default)) if now.proof else "?",
            _yaml_word(setting.value),
            _use(setting, now, scene, advice),
        )
        for setting, now in zip(settings, deployed, strict=True)
    ]
    differing = [setting for setting, row in zip(settings, rows, strict=True) if row.use == "yes"]
    text = yaml.safe_dump(_chart_values(differing, scene), sort_keys=False).splitlines() if differing else []
    lines = [ValuesLine(line) for line in text]
    claim = Text("tune.template", name=name, count=len(differing), all=len(settings))
    proofs = [proof for now, row in zip(deployed, rows, strict=True) if row.use == "yes" for proof in now.proof]
    actions = (
        act(Text("tune.template-save")),
        step(Text("tune.check-again"), command("tune", "--template", name)),
    )
    found = finding("tuning-advice", claim, "confirmed", (), proofs, severity="info", actions=actions)
    tables = _TEMPLATE.table(rows, brief=rows), _LINES.table(lines, brief=lines)
    return snapshot.report("tune", Subject("Cluster", "", ""), [found], tables=tables, gaps=scene.gaps)


def _deployed_now(setting: TemplateSetting, scene: TuneScene) -> Deployed:
    where, _, key = setting.read.partition(" ")
    if where == "flag":
        return flag(scene, key)
    if where == "config":
        return gpu_setting(scene, key)
    if (deployment := scene.install.deployment) is None:
        return Deployed()
    replicas, namespace, name = str(deployment.spec.replicas), deployment.namespace, deployment.name
    shown = kubectl("-n", namespace, "get", "deployment", name, "-o", "jsonpath={.spec.replicas}")
    return Deployed(replicas, (Evidence("deployment", f"Deployment {namespace}/{name}", None, replicas, shown),))


def _use(setting: TemplateSetting, now: Deployed, scene: TuneScene, advice: Sequence[Advice]) -> Prose:
    version, since = scene.install.version, parse_version(setting.since) if setting.since else None
    if not now.proof:
        return Text("tune.template-unread")
    if version is not None and since is not None and version.version < since:
        return Text("tune.template-since", since=setting.since)
    values = [now.value or setting.default, _yaml_word(setting.value)]
    with suppress(ValueError):
        values = [f"{float(value)}" for value in values]
    if values[0] == values[1]:
        if setting.topic != "memory-scaling":
            return "same"
        most = float(setting.value)  # a pool may promise more, whatever is set for all nodes
        other = next((pool for pool in scene.pools if pool.scaling and pool.scaling > most), None)
        if other is None:
            return "same"
        names = prose.names([node.name for node in other.nodes])
        return Text("tune.template-nodes", nodes=names, value=f"{other.scaling:g}")
    ours = {item.row.direction for item in advice if item.row.topic == setting.topic}
    if setting.topic == "memory-scaling" and float(setting.value) > 1 and ours & {*_AGAINST}:
        return Text("tune.template-unsafe", directions=", ".join(sorted(ours)))
    return "yes"


def _yaml_word(value: str | int | bool) -> str:  # noqa: FBT001  # a value of YAML
    return str(value).lower() if isinstance(value, bool) else str(value)


def _chart_values(settings: Sequence[TemplateSetting], scene: TuneScene) -> dict[str, Any]:
    """The chart's values. A list replaces the one that is deployed, so what that has is in it as well; a flag that has
    a value of its own leaves the list, where it would win.
    """
    values: dict[str, Any] = {}
    flags = {setting.path.partition(" ")[2].lstrip("-") for setting in settings if " " in setting.path}
    for setting in settings:
        path, _, word = chart_value(setting.path, scene.install).partition(" ")
        inner, last = _at(values, path)
        if word:
            inner.setdefault(last, _kept(scene, flags)).append(f"{word}={_yaml_word(setting.value)}")
        else:
            inner[last] = setting.value
            if setting.path.startswith(ARGUMENTS) and scene.flags.get(setting.read.partition(" ")[2]):
                inner, last = _at(values, ARGUMENTS)
                inner[last] = _kept(scene, flags)
    return values


def _at(values: dict[str, Any], path: str) -> tuple[dict[str, Any], str]:
    *parents, last = path.split(".")
    for parent in parents:
        values = values.setdefault(parent, {})
    return values, last


def _kept(scene: TuneScene, replaced: Collection[str]) -> list[str]:
    """The extender's arguments that the chart does not write itself: those that scheduler.extender.extraArgs has."""
    container = extender_of(scene.scheduler.spec) if scene.scheduler else None
    kept: list[str] = []
    keeps = False
    words = [*(container.command or ()), *(container.args or ())][1:] if container else ["--debug", "-v=4"]
    for word in words:
        if word.startswith("-"):
            name = word.lstrip("-").partition("=")[0]
            keeps = name not in replaced and not name.startswith(
                _OF_THE_CHART if kept else (*_OF_THE_CHART, *_AT_TIMES)
            )
        if keeps:
            kept.append(word)
    return kept
