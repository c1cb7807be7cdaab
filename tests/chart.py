"""The Helm chart as Helm itself renders it, and the rights that it gives."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import helm_python as helm
import yaml

from sandbox.apiserver import Rule

CHART = Path(__file__).parents[1] / "deploy" / "chart"
NAMESPACE = "default"
BOT, DEAD_MAN = "hami-bot", "hami-bot-dead-man"
CHANGING = {"changes": {"enabled": True}}
PROXYING = {"changes": {"enabled": True}, "podsProxy": {"enabled": True}}

Manifest = dict[str, Any]
_HELMS_OWN = re.compile(r"^ *(app\.kubernetes\.io/managed-by|helm\.sh/chart): .*\n", re.MULTILINE)


def rendered(values: dict[str, Any] | None = None, name: str = BOT, namespace: str = NAMESPACE) -> dict[str, str]:
    """The text of each template, as released under that name in the namespace."""
    with helm.Chart.load(CHART) as chart:
        texts = chart.render(values or {}, name=name, namespace=namespace)
    return {name.removeprefix("hami-bot/templates/"): text for name, text in texts.items()}


def manifests(values: dict[str, Any] | None = None, name: str = BOT, namespace: str = NAMESPACE) -> list[Manifest]:
    """The objects of a release."""
    texts = (text for file, text in rendered(values, name, namespace).items() if file.endswith(".yaml"))
    return [item for text in texts for item in yaml.load_all(text, yaml.CSafeLoader) if item]


def of_kind(kind: str, objects: Iterable[Manifest]) -> list[Manifest]:
    return [object_ for object_ in objects if object_["kind"] == kind]


def granted(objects: Iterable[Manifest], account: str) -> list[Rule]:
    """What the roles bound to the service account grant, one verb on one resource at a time."""
    objects = list(objects)
    roles = {
        (object_["kind"], object_["metadata"].get("namespace", ""), object_["metadata"]["name"]): object_
        for object_ in objects
    }
    found: list[Rule] = []
    for binding in objects:
        subject = {"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}
        if not binding["kind"].endswith("RoleBinding") or subject not in binding["subjects"]:
            continue
        namespace = binding["metadata"].get("namespace", "")
        role = roles[binding["roleRef"]["kind"], namespace, binding["roleRef"]["name"]]
        found += [
            Rule([verb], [resource], [group], namespace, rule.get("resourceNames", []))
            for rule in role["rules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        ]
    return found


def rules_manifest() -> str:
    """`deploy/prometheus-rules-bot.yaml`: the alerts on the bot's metrics, for those who install without Helm."""
    values = {"metrics": {"prometheusRule": {"enabled": True}}}
    with helm.Chart.load(CHART) as chart:
        texts = chart.render(values, name="hami-bot", namespace="hami-bot")
    (text,) = (text for name, text in texts.items() if name.endswith("/prometheusrule.yaml"))
    return f"# Made from deploy/chart by `python -m tests.update_docs`.\n{_HELMS_OWN.sub('', text.strip())}\n"


def install_manifest() -> str:
    """`deploy/install.yaml`: the chart as it is, with its namespace, for those who install without Helm."""
    with helm.Chart.load(CHART) as chart:
        texts = chart.render({}, name="hami-bot", namespace="hami-bot")
    namespace = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: hami-bot\n"
    objects = [namespace, *(text.strip() + "\n" for name, text in sorted(texts.items()) if name.endswith(".yaml"))]
    comment = (
        "# Made from deploy/chart by `python -m tests.update_docs`. docs/install.md tells which Secret it needs.\n"
    )
    objects = [_HELMS_OWN.sub("", object_) for object_ in objects]
    return comment + "---\n".join(object_ for object_ in objects if object_.strip())


def environment(objects: list[Manifest]) -> dict[str, Any]:
    (bot,) = of_kind("Deployment", objects)
    return {container["name"]: container for container in bot["spec"]["template"]["spec"]["containers"][0]["env"]}
