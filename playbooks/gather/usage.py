"""Reads what containers use of their GPUs: from Prometheus if the settings name one, else from each node's vGPUmonitor.
Only Prometheus knows a week. A figure that nobody serves is absent, not zero.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, TypeVar

import msgspec

from bot.errors import SourceError
from bot.hami.metrics.exposition import Sample, read_samples
from bot.hami.metrics.gpu_usage import CONTAINER_FIGURES, NAMES, PORT, ContainerUse, Usage, UsageReader, read_usage
from bot.kube.cluster import PodGet, PodPorts, as_one, seen, served_by_each
from bot.kube.hami_pods import COMPONENT_LABEL, PLUGIN_COMPONENT
from bot.kube.models import PODS, Pod
from bot.prometheus import SOURCE, Labels, Prometheus
from bot.report import Gap, gap
from bot.texts import Prose, Text
from playbooks.playbook import Sources

T = TypeVar("T")

MONITOR_SOURCE = "vGPUmonitor metrics"
_PLUGINS = f"{COMPONENT_LABEL}={PLUGIN_COMPONENT}"
WINDOW_DAYS = 7
WINDOW_HOURS = 24 * WINDOW_DAYS
COVERED = 0.9
"""The least part of a time window's hours for which a Prometheus series has to have samples."""
PROMETHEUS_WITHIN_S = 60.0
"""Seconds for all queries to Prometheus together."""
LOW_USE, HIGH_USE = 0.3, 0.9
"""The debugging guide's bounds of a container's use as a part of its limit: use outside of them gets advice."""
_MOST_MONITORS = 200
_MOST_BYTES = 8 * 1024 * 1024
_WITHIN_S, _ALL_WITHIN_S = 10.0, 20.0


class Peak(NamedTuple):
    """The most that a container used of a GPU within the window, in bytes; `query` shows it again. `of` names the
    container and GPU, without figures; `hours` counts the window's hours with a sample.
    """

    of: ContainerUse
    used: Sample
    hours: int
    query: str


class UsageSeen(msgspec.Struct, frozen=True):
    """The newest figures, and the peaks if a week could be asked for. `of_prometheus`: all are from Prometheus.

    `monitors` are the vGPUmonitor pods that gave figures, `unread` those whose answer could not be read; empty with
    Prometheus. `all_known`: the list of vGPUmonitors was read, so a node without one of them has none.
    """

    usage: Usage
    peaks: tuple[Peak, ...] = ()
    of_prometheus: bool = False
    monitors: tuple[Pod, ...] = ()
    unread: tuple[Pod, ...] = ()
    all_known: bool = False
    gaps: tuple[Gap, ...] = ()


class MeasuredNodes(NamedTuple):
    """The use of GPUs on the nodes in question, and when it was measured."""

    usage: UsageSeen
    taken_at: datetime


async def gather_usage(sources: Sources, first: Collection[str] = ()) -> UsageSeen:
    """Reads the use of all GPUs. Never raises: what could not be read is a gap. If Prometheus has no figure, the
    vGPUmonitors are asked, those of the nodes `first` before the others.
    """
    return await or_measured(await ask_prometheus(sources), sources, first)


async def ask_prometheus(sources: Sources) -> UsageSeen | Gap | None:
    """The use of GPUs by Prometheus, or the gap; None if the settings name no Prometheus. Never raises."""
    if sources.prometheus is None:
        return None
    reader = UsageReader()
    late = Text("error-usage.no-answer-all-questions", seconds=f"{PROMETHEUS_WITHIN_S:g}")
    reading = _read(sources.prometheus, sources.cluster.now(), reader)
    peaks = await in_time(reading, PROMETHEUS_WITHIN_S, late, Text("error-usage.ask-prometheus-load"))
    if isinstance(peaks, Gap):
        return peaks
    usage = reader.usage()
    if not usage.containers and not usage.gpus and not peaks:
        return gap(SOURCE, Text("error-usage.it-has-no-figure"), Text("error-usage.let-scrape-port", port=PORT))
    # One for each container's share of a GPU: the highest of its series, under whatever name.
    found: dict[ContainerUse, Peak] = {}
    for peak in peaks:
        known = found.get(peak.of)
        if known is None or peak.used.value > known.used.value:
            found[peak.of] = peak
    return UsageSeen(usage, tuple(found.values()), of_prometheus=True)


async def or_measured(asked: UsageSeen | Gap | None, sources: Sources, first: Collection[str]) -> UsageSeen:
    """The figures of Prometheus if `asked` has them, else those of the vGPUmonitors. Never raises."""
    if isinstance(asked, UsageSeen):
        return asked
    told = (asked,) if asked else ()
    if sources.ports is None:
        return UsageSeen(Usage(), gaps=(*told, gap(MONITOR_SOURCE, Text("error-usage.no-way-to-ports"))))
    pods = await seen("device plugin pods", sources.cluster.list(PODS, labels=_PLUGINS))
    if isinstance(pods, Gap):
        return UsageSeen(Usage(), gaps=(*told, pods))
    measured = await scraped(sources.ports, sorted(pods, key=lambda pod: pod.spec.node_name not in first))
    return msgspec.structs.replace(measured, all_known=True, gaps=(*told, *measured.gaps))


async def in_time(reading: Awaitable[T], within_s: float, late: Text, hint: Prose = "") -> T | Gap:
    """The result of `reading`, which asks Prometheus; a gap if that fails or takes longer than `within_s` seconds."""
    try:
        async with asyncio.timeout(within_s):
            return await reading
    except TimeoutError:
        return gap(SOURCE, late, hint)
    except SourceError as error:
        return gap(SOURCE, error.message, error.hint)


async def _read(prometheus: Prometheus, at: datetime, reader: UsageReader) -> list[Peak]:
    labels: Labels = {}
    for name in NAMES:  # one after another: what a large cluster answers takes much memory while it is read
        query = name
        if name in CONTAINER_FIGURES["limit"]:  # only where its use is outside the bounds: nobody asks for the others
            used = CONTAINER_FIGURES["used"][CONTAINER_FIGURES["limit"].index(name)]
            query = f"{name} and ({used} / {name} < {LOW_USE} or {used} / {name} > {HIGH_USE})"
        reader.add(await prometheus.query(query, at, labels))
    peaks: list[Peak] = []
    for name in CONTAINER_FIGURES["used"]:
        query = f"max_over_time({name}[{WINDOW_DAYS}d])"
        hours = await prometheus.query(f"count_over_time(({by_share(name)})[{WINDOW_DAYS}d:1h])", at, labels)
        counted = {reader.whose(hour): int(hour.value) for hour in hours}
        shares = [(reader.whose(peak), peak) for peak in await prometheus.query(query, at, labels)]
        peaks += [Peak(of, peak, counted.get(of, 0), query) for of, peak in shares if of.pod and of.uuid]
    return peaks


def by_share(name: str) -> str:
    """The PromQL query for a series by container and share of a GPU, whichever vGPUmonitor pod reported it and when.

    Where the container's pod is `exported_pod`, `pod` is the monitor's and changes when that restarts: it is left out.
    The monitor's `namespace` and `container` do not change.
    """
    if not name.startswith("hami_"):
        return f"max by (podnamespace, podname, ctrname, deviceuuid, vdeviceid) ({name})"
    labels = "exported_namespace, namespace, exported_container, container, device_uuid, vdevice_index"
    kept = f'max by (exported_pod, {labels}) ({name}{{exported_pod!=""}})'
    return f'{kept} or max by (pod, {labels}) ({name}{{exported_pod=""}})'


async def scraped(ports: PodPorts, plugin_pods: Sequence[Pod], *, within_s: float = _ALL_WITHIN_S) -> UsageSeen:
    """Reads the figures of the vGPUmonitors in these pods within `within_s` seconds. Never raises."""
    asked, left = plugin_pods[:_MOST_MONITORS], plugin_pods[_MOST_MONITORS:]
    wanted = [
        (
            f"{MONITOR_SOURCE} of {pod.namespace}/{pod.name}",
            PodGet(pod.namespace, pod.name, "http", PORT, "metrics", within_s=_WITHIN_S, limit_bytes=_MOST_BYTES),
        )
        for pod in asked
    ]
    answers = await served_by_each(ports, wanted, lambda text: read_samples(text, NAMES), within_s=within_s)
    read = [(pod, answer) for pod, answer in zip(asked, answers, strict=True) if not isinstance(answer, Gap)]
    silent = [
        answer if isinstance(answer, Gap) else gap(source, Text("error-usage.no-figure-of-monitor", wanted=get))
        for (source, get), answer in zip(wanted, answers, strict=True)
        if not answer or isinstance(answer, Gap)
    ]
    gaps = as_one(silent, MONITOR_SOURCE, len(asked))
    if left:
        why = Text("error-usage.not-asked-of", unasked=f"{len(left):,}", count=f"{len(plugin_pods):,}")
        gaps.append(gap(MONITOR_SOURCE, why))
    failed = (pod for pod, answer in zip(asked, answers, strict=True) if isinstance(answer, Gap))
    return UsageSeen(
        read_usage(sample for _, samples in read for sample in samples),
        monitors=tuple(pod for pod, samples in read if samples),
        unread=(*failed, *left),
        gaps=tuple(gaps),
    )


MOST_MEASURED = 3
"""The most nodes whose vGPUmonitor one question asks for a few GPUs."""
FEW_WITHIN_S = 3.0
"""Seconds for the figures of a few nodes, which an answer can do without."""
_KEPT = ("used", "last_kernel")
_UUID = re.compile(r"[\w-]+")
"""The characters of a UUID in a query: anybody who may annotate a pod names its GPUs, so no others may get in."""


async def gather_usage_of(sources: Sources, find: Callable[[], Mapping[str, Collection[str]]]) -> UsageSeen:
    """Reads the use of the GPUs that `find` names, UUIDs by node, on the first MOST_MEASURED nodes. Never raises.

    `find` may take its time, and is not called if nothing could be asked. If Prometheus has no figure, the nodes'
    vGPUmonitors are asked. If none answers there may be none: that is no gap, since no answer needs these figures.
    """
    if sources.prometheus is None and sources.ports is None:
        return UsageSeen(Usage())
    gpus = await asyncio.to_thread(find)
    names = list(gpus)[:MOST_MEASURED]
    if not names:
        return UsageSeen(Usage())
    asked = UsageSeen(Usage())
    if sources.prometheus is not None:
        asked = await _asked_about(sources.prometheus, sources, [uuid for name in names for uuid in gpus[name]])
    if asked.usage.containers or sources.ports is None:
        return asked
    found = await asyncio.gather(
        *(
            seen(MONITOR_SOURCE, sources.cluster.list(PODS, labels=_PLUGINS, fields=f"spec.nodeName={name}"))
            for name in names
        )
    )
    pods = [pod for some in found if not isinstance(some, Gap) for pod in some]
    measured = await scraped(sources.ports, pods, within_s=FEW_WITHIN_S)
    return msgspec.structs.replace(measured, gaps=(*asked.gaps, *measured.gaps)) if measured.monitors else asked


async def _asked_about(prometheus: Prometheus, sources: Sources, uuids: Collection[str]) -> UsageSeen:
    """Two labels for a UUID: which, the name of the series says. A MIG device's UUID goes on behind the GPU's."""
    pattern = "|".join(uuid for uuid in uuids if _UUID.fullmatch(uuid))
    if not pattern:
        return UsageSeen(Usage())

    async def asked() -> list[Sample]:
        samples: list[Sample] = []
        for number, label in enumerate(("device_uuid", "deviceuuid")):
            names = "|".join(CONTAINER_FIGURES[figure][number] for figure in _KEPT)
            query = f'{{__name__=~"{names}",{label}=~"({pattern}).*"}}'
            samples += await prometheus.query(query, sources.cluster.now())
        return samples

    late = Text("error-usage.no-answer-within", seconds=f"{FEW_WITHIN_S:g}")
    samples = await in_time(asked(), FEW_WITHIN_S, late)
    if isinstance(samples, Gap):
        return UsageSeen(Usage(), gaps=(samples,))
    return UsageSeen(read_usage(samples), of_prometheus=True)
