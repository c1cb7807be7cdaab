"""The values that are deployed, each with the quote that shows it."""

import re
from typing import Any, NamedTuple, cast

import msgspec

from bot.hami.installation.install import extender_of
from bot.hami.pods.request_parsing import DEVICE_CONFIG_FILE
from bot.kube.hami_pods import EXTENDER_CONTAINER
from bot.kube.models import ConfigMap, PodSpec, Workload
from bot.kube.times import format_time
from bot.report import Evidence, Gap
from bot.safe_yaml import parse_documents
from playbooks.quotes import clock, kubectl
from playbooks.tune.facts import Facts

_GPUS = "nvidia"
"""The section of the device config that is about the GPUs that the guide tunes."""


class Deployed(NamedTuple):
    """One setting as text; empty where it is not set. `proof` is empty where what would set it could not be read."""

    value: str = ""
    proof: tuple[Evidence, ...] = ()


def flag(facts: Facts, name: str) -> Deployed:
    """A flag of the extender. Where it is not set, the quote is the whole command line: it is not in there."""
    found = _extender(facts)
    if found is None:
        return Deployed()
    spec, about, command = found
    return Deployed(facts.flags.get(name, ""), (Evidence("flags", about, None, _quote(spec, name), command),))


def flag_of_replica_set(replica_set: Workload, name: str) -> Evidence:
    """The same of a ReplicaSet of HAMi's scheduler."""
    spec = replica_set.spec.template.spec
    look = kubectl("-n", replica_set.namespace, "get", "rs", replica_set.name, "-o", _path(".spec.template.spec", spec))
    at = clock(replica_set.metadata.creation_timestamp)
    return Evidence("flags", f"ReplicaSet {replica_set.namespace}/{replica_set.name}", at, _quote(spec, name), look)


def _quote(spec: PodSpec, name: str) -> str:
    container = extender_of(spec)
    words = [*(container.command or ()), *(container.args or ())] if container else []
    return _words_of(name, words) or _as_json(words)


def _words_of(name: str, words: list[str]) -> str:
    """The word that sets the flag, or the word and the next, which is its value; empty where none sets it."""
    own = re.compile(rf"--?{re.escape(name)}(=|$)")
    for position in reversed(range(len(words))):
        if found := own.match(words[position]):
            return words[position] if found[1] else _as_json(words[position : position + 2])[1:-1]
    return ""


def _as_json(words: list[str]) -> str:
    return msgspec.json.encode(words).decode()


def environment(facts: Facts, name: str) -> str:
    """A variable of the extender; empty where it is not set."""
    found = _extender(facts)
    container = extender_of(found[0]) if found else None
    return (
        next((variable.value for variable in (container.env or ()) if variable.name == name), "") if container else ""
    )


def _extender(facts: Facts) -> tuple[PodSpec, str, str] | None:
    """Of the pod that decides, or of the Deployment: its spec, its name, and the command that shows the flags."""
    install = facts.install.install
    if pod := facts.scheduler:
        look = kubectl("-n", pod.namespace, "get", "pod", pod.name, "-o", _path(".spec", pod.spec))
        return pod.spec, f"Pod {pod.namespace}/{pod.name} container {EXTENDER_CONTAINER}", look
    if install.deployment is not None:
        name = install.deployment.name
        spec = install.deployment.spec.template.spec
        look = kubectl("-n", install.namespace, "get", "deployment", name, "-o", _path(".spec.template.spec", spec))
        return spec, f"Deployment {install.namespace}/{name}", look
    return None


def _path(where: str, spec: PodSpec) -> str:
    container = extender_of(spec)
    lists = ("command", "args") if container and container.args else ("command",)
    return "jsonpath=" + "".join(
        f'{{{where}.containers[?(@.name=="{EXTENDER_CONTAINER}")].{list_}}}' for list_ in lists
    )


def gpu_setting(facts: Facts, key: str) -> Deployed:
    """A key of the NVIDIA section of HAMi's device config."""
    config_map = next((map_ for map_ in facts.install.config_maps if DEVICE_CONFIG_FILE in (map_.data or {})), None)
    if config_map is None:
        return Deployed()
    text = (config_map.data or {})[DEVICE_CONFIG_FILE]
    section = _section(text)
    if section is None:
        return Deployed()
    value = section.get(key)
    line = next((line.strip() for line in text.splitlines() if line.strip().startswith(f"{key}:")), "")
    if value is None or not line:
        return Deployed("", (_of_config(config_map, f"{_GPUS}:", f"grep -A 40 {_GPUS}:"),))
    return Deployed(str(value), (_of_config(config_map, line, f"grep {key}"),))


def _section(text: str) -> dict[str, Any] | None:
    try:
        document: Any = next(iter(parse_documents(text)), None)
        section = document.get(_GPUS)
    except (ValueError, AttributeError):
        return None
    return cast("dict[str, Any]", section) if isinstance(section, dict) else None


def _of_config(config_map: ConfigMap, quote: str, search: str) -> Evidence:
    escaped = DEVICE_CONFIG_FILE.replace(".", "\\.")
    look = ("get", "configmap", config_map.name, "-o", f"jsonpath={{.data.{escaped}}}")
    command = f"{kubectl('-n', config_map.namespace, *look)} | {search}"
    return Evidence("device-config", f"ConfigMap {config_map.namespace}/{config_map.name}", None, quote, command)


def node_count(facts: Facts) -> tuple[Evidence, ...]:
    """How many nodes the cluster has; nothing where they could not be read."""
    if isinstance(facts.nodes, Gap):
        return ()
    at = format_time(facts.taken_at)
    return (Evidence("nodes", "Nodes", at, str(len(facts.nodes)), "kubectl get nodes -o name | wc -l"),)
