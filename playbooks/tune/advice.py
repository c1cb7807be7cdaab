"""What advice is made of: a row of the table, a finding if something is to be changed, and the quotes behind it.

How processes of pods that hold GPUs ended is quoted too. A container that used too much of the node's memory was
OOMKilled. That is never GPU memory: a program that gets none sees CUDA's out-of-memory error and ends by itself. But
what an OOMKilled container would have used of its GPU is not known, since its run was cut short.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from functools import update_wrapper
from typing import Any, Literal, NamedTuple

import msgspec

from bot.hami.installation.install import extender_of
from bot.hami.metrics.gpu_usage import MeasuredHolding
from bot.hami.pods.request_parsing import DEVICE_CONFIG_FILE
from bot.kube.hami_pods import EXTENDER_CONTAINER
from bot.kube.models import ConfigMap, Holder, PodSpec, Workload
from bot.kube.models.pods import ListedContainer
from bot.kube.times import format_time, parse_time
from bot.report import Confidence, Evidence, Finding, Gap, NextAction, Severity, Sheet
from bot.safe_yaml import parse_documents
from bot.texts import Prose
from playbooks import quotes
from playbooks.gather.usage import WINDOW_DAYS, Peak
from playbooks.quotes import clock, kubectl
from playbooks.rule import Rule
from playbooks.rules.common.findings import finding
from playbooks.tune.scene import TuneScene

Topic = Literal[
    "kube-qps",
    "kube-burst",
    "kube-timeout",
    "node-lock-timeout",
    "scheduler-resources",
    "memory-scaling",
    "core-scaling",
    "split-count",
    "core-policy",
    "library-log",
    "scheduling-policy",
    "memory-limit-low-use",
    "memory-limit-high-use",
    "idle-holder",
    "monitor-gap",
]
Direction = Literal["raise", "lower", "keep", "cannot-tell", "refuse", "repair"]


class AdviceRow(NamedTuple):
    """A row of advice; the fields are the table's columns. `object` is empty if it is about the whole cluster."""

    topic: Topic
    direction: Direction
    object: str
    current: Prose
    recommended: Prose
    why: Prose


ADVICE = Sheet(
    "advice",
    AdviceRow,
    brief="topic current=now recommended=then object=of direction=do why",
    together=3,
    tells_findings=True,
)


class Advice(NamedTuple):
    """A row of the table of advice, with a finding if something is to be changed or repaired, or must not be changed.
    `of_symptom` is false if the advice does not rest on the symptom that the tuning guide names for its topic.
    """

    row: AdviceRow
    finding: Finding | None = None
    of_symptom: bool = True


class AdviceRule(Rule[TuneScene]):
    """A rule that gives advice: findings, and rows of the table also for values to keep, or that cannot be judged."""

    def __init__(self, advise: Callable[[TuneScene], Iterable[Advice]]) -> None:
        super().__init__(self._findings, ("tuning-advice",), ())
        self._advise = advise
        update_wrapper(self, advise)

    def advice(self, scene: TuneScene) -> list[Advice]:
        """All advice of the rule, worked out once."""
        return scene.once(self._all)

    def _all(self, scene: TuneScene) -> list[Advice]:
        return list(self._advise(scene))

    def _findings(self, scene: TuneScene) -> list[Finding]:
        return [each.finding for each in self.advice(scene) if each.finding]


def changed(
    row: AdviceRow,
    claim: Prose,
    proofs: Sequence[Evidence],
    actions: Sequence[NextAction] = (),
    *,
    severity: Severity = "info",
    confidence: Confidence = "confirmed",
    of_symptom: bool = True,
) -> Advice:
    """Advice to change a value. `claim` is the sentence with the arithmetic: every number of it is in `proofs`.
    `actions` say where in the chart's values it is set, what it risks and how to check it afterwards.
    """
    found = finding("tuning-advice", claim, confidence, (), proofs, severity=severity, actions=actions)
    return Advice(row, found, of_symptom)


def kept(topic: Topic, current: Prose, why: Prose, about: str = "") -> Advice:
    """Advice to leave a value as it is."""
    return Advice(AdviceRow(topic, "keep", about, current, current, why))


def unknown(topic: Topic, why: Prose, about: str = "", *, current: Prose = "") -> Advice:
    """Advice that cannot be given, and why."""
    return Advice(AdviceRow(topic, "cannot-tell", about, current, "", why))


_GPUS = "nvidia"
"""The section of the device config about the GPUs that the guide tunes."""


class Deployed(NamedTuple):
    """The value of a setting as text; empty if not set. `proof` is empty if its source could not be read."""

    value: str = ""
    proof: tuple[Evidence, ...] = ()


def flag(scene: TuneScene, name: str) -> Deployed:
    """The value of a flag of HAMi's extender. If it is not set, the evidence is the whole command line."""
    found = _extender(scene)
    if found is None:
        return Deployed()
    spec, about, command = found
    return Deployed(scene.flags.get(name, ""), (Evidence("flags", about, None, _quote(spec, name), command),))


def flag_of_replica_set(replica_set: Workload, name: str) -> Evidence:
    """Quotes a flag of the extender, or its whole command line, in a ReplicaSet of HAMi's scheduler."""
    spec = replica_set.spec.template.spec
    look = kubectl("-n", replica_set.namespace, "get", "rs", replica_set.name, "-o", _path(".spec.template.spec", spec))
    at = clock(replica_set.metadata.creation_timestamp)
    return Evidence("flags", f"ReplicaSet {replica_set.namespace}/{replica_set.name}", at, _quote(spec, name), look)


def _quote(spec: PodSpec, name: str) -> str:
    """The word that sets the flag, or the word and the next, which is its value; all words where none sets it."""
    container = extender_of(spec)
    words = [*(container.command or ()), *(container.args or ())] if container else []
    own = re.compile(rf"--?{re.escape(name)}(=|$)")
    for position in reversed(range(len(words))):
        if found := own.match(words[position]):
            return words[position] if found[1] else _as_json(words[position : position + 2])[1:-1]
    return _as_json(words)


def _as_json(words: list[str]) -> str:
    return msgspec.json.encode(words).decode()


def environment(scene: TuneScene, name: str) -> str:
    """The value of an environment variable of HAMi's extender; empty if it is not set."""
    found = _extender(scene)
    container = extender_of(found[0]) if found else None
    variables = (container.env or ()) if container else ()
    return next((variable.value for variable in variables if variable.name == name), "")


def _extender(scene: TuneScene) -> tuple[PodSpec, str, str] | None:
    """Of the pod that decides, or of the Deployment: its spec, its name, and the command that shows the flags."""
    if pod := scene.scheduler:
        look = kubectl("-n", pod.namespace, "get", "pod", pod.name, "-o", _path(".spec", pod.spec))
        return pod.spec, f"Pod {pod.namespace}/{pod.name} container {EXTENDER_CONTAINER}", look
    install = scene.install
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


def gpu_setting(scene: TuneScene, key: str) -> Deployed:
    """The value of a key of the NVIDIA section of HAMi's device config."""
    config_map = next((map_ for map_ in scene.seen.config_maps if DEVICE_CONFIG_FILE in (map_.data or {})), None)
    if config_map is None:
        return Deployed()
    text = (config_map.data or {})[DEVICE_CONFIG_FILE]
    try:
        document: Any = next(iter(parse_documents(text)), None)
        value = document[_GPUS].get(key)
    except (ValueError, AttributeError, TypeError, KeyError):
        return Deployed()
    line = next((line.strip() for line in text.splitlines() if line.strip().startswith(f"{key}:")), "")
    if value is None or not line:
        return Deployed("", (_of_config(config_map, f"{_GPUS}:", f"grep -A 40 {_GPUS}:"),))
    return Deployed(str(value), (_of_config(config_map, line, f"grep {key}"),))


def _of_config(config_map: ConfigMap, quote: str, search: str) -> Evidence:
    path = f"{{.data.{quotes.escape(DEVICE_CONFIG_FILE)}}}"
    look = ("get", "configmap", config_map.name, "-o", f"jsonpath={path}")
    command = f"{kubectl('-n', config_map.namespace, *look)} | {search}"
    return Evidence("device-config", f"ConfigMap {config_map.namespace}/{config_map.name}", None, quote, command)


def node_count(scene: TuneScene) -> tuple[Evidence, ...]:
    """Quotes how many nodes the cluster has; empty if they could not be read."""
    if isinstance(scene.nodes, Gap):
        return ()
    at = format_time(scene.taken_at)
    return (Evidence("nodes", "Nodes", at, str(len(scene.nodes)), "kubectl get nodes -o name | wc -l"),)


def of_peak(held: MeasuredHolding, peak: Peak, scene: TuneScene) -> Evidence:
    """Quotes the most GPU memory that a container of the pod used within the window."""
    at = format_time(scene.taken_at)
    return Evidence("metrics", f"Pod {held.name}", at, peak.used.line, f"PromQL: {peak.query}")


def of_request(held: MeasuredHolding, scene: TuneScene) -> tuple[Evidence, ...]:
    """Quotes what HAMi gave the pod of each GPU."""
    holder = scene.holder(held)
    return (quotes.of_holder(holder),) if holder else ()


_OOM_KILLED = "OOMKilled"


def oomkilled(held: MeasuredHolding, scene: TuneScene) -> list[ListedContainer]:
    """The pod's containers that were OOMKilled at their last end, within the window or without a time."""
    since = scene.taken_at - timedelta(days=WINDOW_DAYS)
    ends = [(container, container.end) for container in _statuses(scene.holder(held)) if container.end]
    killed = [(container, parse_time(end.finished_at)) for container, end in ends if end.reason == _OOM_KILLED]
    return [container for container, ended in killed if ended is None or ended >= since]


def restarted(held: MeasuredHolding, container: str, scene: TuneScene) -> ListedContainer | None:
    """The named container of the pod, if its process ended and was started again."""
    own = (status for status in _statuses(scene.holder(held)) if status.name == container)
    return next((status for status in own if status.restart_count), None)


def _statuses(holder: Holder | None) -> list[ListedContainer]:
    return (holder.status.container_statuses or []) if holder else []


def of_end(held: MeasuredHolding, container: ListedContainer) -> Evidence:
    """Quotes the container's last end: its reason, else its number of restarts."""
    place = "state" if container.state.terminated else "lastState"
    reason = container.end.reason if container.end else ""
    shown = f"{place}.terminated.reason" if reason else "restartCount"
    at = clock(container.end.finished_at) if container.end else None
    return _of_container(held, container, at, reason or str(container.restart_count), shown)


def of_restarts(held: MeasuredHolding, container: ListedContainer) -> Evidence:
    """Quotes how often the container was restarted."""
    return _of_container(held, container, None, str(container.restart_count), "restartCount")


def _of_container(
    held: MeasuredHolding, container: ListedContainer, at: str | None, quote: str, field: str
) -> Evidence:
    path = f'jsonpath={{.status.containerStatuses[?(@.name=="{container.name}")].{field}}}'
    show = kubectl("-n", held.holding.namespace, "get", "pod", held.holding.name, "-o", path)
    return Evidence("pod", f"Pod {held.name}", at, quote, show)
