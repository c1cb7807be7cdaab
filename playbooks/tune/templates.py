"""The guide's templates of values for one kind of environment, beside what is deployed."""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import yaml

from bot.hami.installation.install import ARGUMENTS, chart_value, extender_of
from bot.hami.version import parse_version
from bot.kube.times import format_time
from bot.report import Evidence, Report, Sheet, Subject, new_report, step
from bot.texts import Prose, Text
from playbooks.quotes import kubectl
from playbooks.rules.common import prose
from playbooks.rules.common.findings import finding
from playbooks.rules.common.prose import command
from playbooks.tune.deployed import Deployed, flag, gpu_setting
from playbooks.tune.facts import Facts
from playbooks.tune.guide import Setting, template
from playbooks.tune.pools import Pool
from playbooks.tune.rows import Advice


class TemplateRow(NamedTuple):
    """The fields are the table's columns. `use`: yes, same, or why the value is not in the YAML."""

    setting: str
    deployed: Prose
    template: str
    use: Prose


class LineRow(NamedTuple):
    """A line of the YAML."""

    line: str


_ROWS = Sheet(
    "template",
    TemplateRow,
    brief={"setting": "setting", "deployed": "now", "template": "then", "use": "use"},
    together=3,
    tells_findings=True,
)
_LINES = Sheet("values.yaml", LineRow, brief={"line": "line"})
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
"""What the extender's arguments begin with that the chart writes by other values (charts/hami/templates/scheduler)."""
_AT_TIMES = ("enable-ascend", "enable-iluvatar", "node-label-selector", "legacy-metrics", "node-lock-retry-timeout")
"""The chart writes these where its values say so, before those of extraArgs."""
_AGAINST = ("keep", "cannot-tell", "refuse", "lower")
"""Advice on memory scaling that a template's over-commit does not outweigh."""


def compare(name: str, facts: Facts, advice: Sequence[Advice]) -> Report:
    """What the template would change here, and the chart's values that do so."""
    brief = not facts.request.all
    settings = template(name)
    deployed = [_deployed(setting, facts) for setting in settings]
    rows = [_row(setting, now, facts, advice) for setting, now in zip(settings, deployed, strict=True)]
    differing = [setting for setting, row in zip(settings, rows, strict=True) if row.use == "yes"]
    text = yaml.safe_dump(_values(differing, facts), sort_keys=False).splitlines() if differing else []
    lines = [LineRow(line) for line in text]
    claim = Text("tune.template", name=name, count=len(differing), all=len(settings))
    proofs = [proof for now, row in zip(deployed, rows, strict=True) if row.use == "yes" for proof in now.proof]
    actions = (
        step(Text("tune.template-save"), ""),
        step(Text("tune.check-again"), command("tune", "--template", name)),
    )
    found = finding("tuning-advice", claim, "confirmed", (), proofs, severity="info", actions=actions)
    return new_report(
        playbook="tune",
        cluster=facts.cluster,
        taken_at=format_time(facts.taken_at),
        subject=Subject("Cluster", "", ""),
        verdict=claim,
        findings=(found,),
        tables=(
            _ROWS.table(rows, brief=rows if brief else None),
            _LINES.table(lines, brief=lines if brief else None),
        ),
        gaps=facts.gaps,
    )


def _deployed(setting: Setting, facts: Facts) -> Deployed:
    where, _, key = setting.read.partition(" ")
    if where == "flag":
        return flag(facts, key)
    if where == "config":
        return gpu_setting(facts, key)
    deployment = facts.install.install.deployment
    if deployment is None:
        return Deployed()
    replicas = str(deployment.spec.replicas)
    look = ("get", "deployment", deployment.name, "-o", "jsonpath={.spec.replicas}")
    about = f"Deployment {deployment.namespace}/{deployment.name}"
    shown = kubectl("-n", deployment.namespace, *look)
    return Deployed(replicas, (Evidence("deployment", about, None, replicas, shown),))


def _row(setting: Setting, now: Deployed, facts: Facts, advice: Sequence[Advice]) -> TemplateRow:
    wanted = _text(setting.value)
    shown = now.value or Text("tune.default", value=setting.default)
    return TemplateRow(
        chart_value(setting.path, facts.install.install),
        shown if now.proof else "?",
        wanted,
        _use(setting, now, facts, advice),
    )


def _use(setting: Setting, now: Deployed, facts: Facts, advice: Sequence[Advice]) -> Prose:
    version, since = facts.install.install.version, parse_version(setting.since) if setting.since else None
    if not now.proof:
        return Text("tune.template-unread")
    if version is not None and since is not None and version.version < since:
        return Text("tune.template-since", since=setting.since)
    if _same(now.value or setting.default, _text(setting.value)):
        other = _over_committed(facts, float(setting.value)) if setting.topic == "memory-scaling" else None
        if other is None:
            return "same"
        names = prose.names([node.name for node in other.nodes])
        return Text("tune.template-nodes", nodes=names, value=f"{other.scaling:g}")
    ours = {item.row.direction for item in advice if item.row.topic == setting.topic}
    if setting.topic == "memory-scaling" and float(setting.value) > 1 and ours & {*_AGAINST}:
        return Text("tune.template-unsafe", directions=", ".join(sorted(ours)))
    return "yes"


def _over_committed(facts: Facts, most: float) -> Pool | None:
    """A pool that promises more, whatever is set for all nodes."""
    return next((pool for pool in facts.pools if pool.scaling and pool.scaling > most), None)


def _text(value: str | int | bool) -> str:  # noqa: FBT001  # a value of YAML
    return str(value).lower() if isinstance(value, bool) else str(value)


def _same(one: str, other: str) -> bool:
    try:
        return float(one) == float(other)
    except ValueError:
        return one == other


def _values(settings: Sequence[Setting], facts: Facts) -> dict[str, Any]:
    """The chart's values. A list replaces the one that is deployed, so what that has is in it as well; a flag that has
    a value of its own leaves the list, where it would win.
    """
    values: dict[str, Any] = {}
    flags = {setting.path.partition(" ")[2].lstrip("-") for setting in settings if " " in setting.path}
    for setting in settings:
        path, _, word = chart_value(setting.path, facts.install.install).partition(" ")
        if word:
            _at(values, path).setdefault(_last(path), _kept(facts, flags)).append(f"{word}={_text(setting.value)}")
        else:
            _at(values, path)[_last(path)] = setting.value
            if setting.path.startswith(ARGUMENTS) and facts.flags.get(setting.read.partition(" ")[2]):
                _at(values, ARGUMENTS)[_last(ARGUMENTS)] = _kept(facts, flags)
    return values


def _at(values: dict[str, Any], path: str) -> dict[str, Any]:
    """What holds the last part of the path."""
    for parent in path.split(".")[:-1]:
        values = values.setdefault(parent, {})
    return values


def _last(path: str) -> str:
    return path.rpartition(".")[2]


def _kept(facts: Facts, replaced: Collection[str]) -> list[str]:
    """The extender's arguments that the chart does not write itself: those that scheduler.extender.extraArgs has."""
    container = extender_of(facts.scheduler.spec) if facts.scheduler else None
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
