"""One of two recordings that are compared: its settings, and what was measured since its scheduler started."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple, cast

from bot.errors import Unusable
from bot.hami.installation.install import verbosity_of
from bot.hami.pods.request_parsing import DEVICE_CONFIG_FILE
from bot.hami.scheduler_logs.scheduling_latency import Stage, measure, settled
from bot.kube.hami_pods import EXTENDER_CONTAINER, KUBE_SCHEDULER_CONTAINER, read_flags
from bot.kube.models import ConfigMap, Container, Pod
from bot.kube.times import parse_time
from bot.report import Evidence, Gap
from bot.safe_yaml import parse_documents
from bot.texts import Prose, Text
from playbooks.gather.latency import LatencySeen, gather_latency
from playbooks.playbook import Sources
from playbooks.tune.deployed import flag
from playbooks.tune.facts import Facts, Request, gather_facts

_LONGEST = timedelta(hours=24)
DEFAULTS = {"--kube-qps": "5", "--kube-burst": "10"}
"""client-go's."""
_CONFIG_FILES = (DEVICE_CONFIG_FILE, "config.yaml", "config.json")
_LONGEST_VALUE = 60
_COUNTED = ("nodes", "GPUs", "split count", "memory scaling")


class ComparedSide(NamedTuple):
    """What one recording shows. `settings` by group and name; a group that could not be read is not there."""

    facts: Facts
    latency: LatencySeen
    settings: Mapping[str, Mapping[str, str]]

    @property
    def stages(self) -> list[Stage]:
        return measure(settled(self.latency.lives))

    @property
    def busiest_minute(self) -> int:
        """The most pods that were created within a minute: how much the scheduler had to do."""
        times = sorted(life.noted["created"] for life in self.latency.lives)
        minute = timedelta(minutes=1)
        return max((bisect_left(times, at + minute) - place for place, at in enumerate(times)), default=0)

    @property
    def verbosity(self) -> int | None:
        """How much the extender logs: requests that were held back for less than 1 s are logged from 3 on."""
        container = _container(self.facts.install.install.pods, EXTENDER_CONTAINER)
        return verbosity_of(container)[0] if container else None

    @property
    def gaps(self) -> tuple[Gap, ...]:
        return tuple(dict.fromkeys([*self.facts.install.gaps, *self.latency.gaps]))

    def proof(self, setting: Prose) -> list[Evidence]:
        """The argument of HAMi's extender that sets it, or all of them where none does; nothing for other settings."""
        return list(flag(self.facts, setting[2:]).proof) if isinstance(setting, str) and setting[:2] == "--" else []


async def gather_side(sources: Sources) -> ComparedSide:
    """Only pods that were created since the scheduler runs as it does count: its values were others before."""
    facts = await gather_facts(Request(all=True), sources)
    now = sources.cluster.now()
    started = [at for pod in facts.install.install.ready_pods if (at := _started(pod))]
    since = max([now - _LONGEST, *started])
    latency = await gather_latency(sources.cluster, facts.install, since)
    if latency.unread:
        raise Unusable(Text("error-tune.pods-could-not-be-read", name=sources.cluster.name, why=latency.gaps[0].text))
    return ComparedSide(facts, latency, {group: dict(found) for group, found in _settings(facts)})


def _started(pod: Pod) -> datetime | None:
    status = next((it for it in pod.status.container_statuses or () if it.name == EXTENDER_CONTAINER), None)
    return parse_time(status.state.running.started_at) if status and status.state.running else None


def _container(pods: tuple[Pod, ...], name: str) -> Container | None:
    return next((container for pod in pods for container in pod.spec.containers if container.name == name), None)


def _settings(facts: Facts) -> Iterator[tuple[str, Iterable[tuple[str, str]]]]:
    install = facts.install.install
    if install.version:
        yield "version", [("HAMi", str(install.version.version))]
    if install.pods:
        yield "replicas", [("replicas of the scheduler", str(len(install.pods)))]
        yield from settings_of(container for pod in install.pods for container in pod.spec.containers)
    if facts.install.config_maps:
        yield "configuration", _configured(facts.install.config_maps)
    if not isinstance(facts.nodes, Gap):
        yield "cluster", _counted(facts)


def settings_of(containers: Iterable[Container]) -> Iterator[tuple[str, Iterable[tuple[str, str]]]]:
    """The flags and images of HAMi's extender and of kube-scheduler, of the first container of each name."""
    by_name: dict[str, Container] = {}
    for container in containers:
        by_name.setdefault(container.name, container)
    for name, prefix in ((EXTENDER_CONTAINER, ""), (KUBE_SCHEDULER_CONTAINER, "kube-scheduler ")):
        if container := by_name.get(name):
            flags = read_flags([*(container.command or ()), *(container.args or ())])
            yield name, [(f"{prefix}--{flag}", value) for flag, value in flags.items()]
            yield f"image of {name}", [(f"image of {name}", container.image)]


def _configured(config_maps: Iterable[ConfigMap]) -> Iterator[tuple[str, str]]:
    """HAMi's own: its namespace may have others."""
    for config_map in config_maps:
        for key, text in (config_map.data or {}).items():
            if key not in _CONFIG_FILES:
                continue
            for path, value in _values(text):
                yield " ".join(filter(None, (config_map.name, key, path))), value


def _counted(facts: Facts) -> Iterator[tuple[str, str]]:
    pools = facts.pools
    splits: Counter[str] = Counter()
    scalings: Counter[str] = Counter()
    for pool in pools:
        splits[str(pool.splits)] += len(pool.gpus)
        scalings["?" if pool.scaling is None else f"{pool.scaling:g}"] += len(pool.gpus)
    nodes = [] if isinstance(facts.nodes, Gap) else facts.nodes
    values = (str(len(nodes)), str(splits.total()), _spread(splits), _spread(scalings))
    yield from zip(_COUNTED, values, strict=True)


def _spread(counted: Counter[str]) -> str:
    """`10` where all GPUs have the same, else `10 (8 GPUs), 20 (4 GPUs)`."""
    if len(counted) < 2:
        return next(iter(counted), "")
    return ", ".join(f"{value} ({number} GPUs)" for value, number in sorted(counted.items()))


def _values(text: str) -> Iterator[tuple[str, str]]:
    """Each value of a YAML or JSON text with its path; of any other text the whole."""
    try:
        documents = parse_documents(text)
    except (ValueError, RecursionError):
        documents = [text]
    for document in documents:
        yield from _leaves("", document)


def _leaves(path: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, inner in cast("dict[Any, Any]", value).items():
            yield from _leaves(f"{path}.{key}".removeprefix("."), inner)
    elif isinstance(value, list):
        for place, inner in enumerate(cast("list[Any]", value)):
            yield from _leaves(f"{path}[{place}]", inner)
    else:
        yield path, " ".join(str(value).split())[:_LONGEST_VALUE]
