"""What containers use of the GPUs of a few nodes, for questions that must answer at once."""

import asyncio
import re
from collections.abc import Callable, Collection, Mapping

from bot.errors import SourceError
from bot.hami.metrics.exposition import Sample
from bot.hami.metrics.gpu_usage import CONTAINER_FIGURES, Usage, read_usage
from bot.kube.cluster import seen
from bot.kube.hami_pods import COMPONENT_LABEL, PLUGIN_COMPONENT
from bot.kube.models import PODS, Pod
from bot.prometheus import SOURCE, Prometheus
from bot.report import Gap, gap
from bot.texts import Text
from playbooks.gather.usage import MONITOR_SOURCE, UsageSeen, scraped
from playbooks.playbook import Sources

MOST_MEASURED = 3
"""Nodes whose vGPUmonitor one question asks."""
_WITHIN_S = 3.0
_KEPT = ("used", "last_kernel")
_UUID = re.compile(r"[\w-]+")
"""Whoever may write a pod's annotations names its GPUs: no other characters get into a query."""


async def gather_usage_of(sources: Sources, find: Callable[[], Mapping[str, Collection[str]]]) -> UsageSeen:
    """The figures of the GPUs that `find` names, UUIDs by node, of the first few nodes. Never raises.

    `find` may take its time, and is not called where nothing could be asked. Where Prometheus has no figure, the nodes'
    vGPUmonitors are asked. Where none answers there may be none: that is no gap, since no answer needs these figures.
    """
    if sources.prometheus is None and sources.ports is None:
        return UsageSeen(Usage())
    gpus = await asyncio.to_thread(find)
    names = list(gpus)[:MOST_MEASURED]
    if not names:
        return UsageSeen(Usage())
    asked = UsageSeen(Usage())
    if sources.prometheus is not None:
        asked = await _asked(sources.prometheus, sources, [uuid for name in names for uuid in gpus[name]])
    if asked.usage.containers or sources.ports is None:
        return asked
    found = await asyncio.gather(*(_plugins(sources, name) for name in names))
    pods = [pod for some in found if not isinstance(some, Gap) for pod in some]
    measured = await scraped(sources.ports, pods, within_s=_WITHIN_S)
    return measured._replace(gaps=(*asked.gaps, *measured.gaps)) if measured.monitors else asked


async def _plugins(sources: Sources, name: str) -> list[Pod] | Gap:
    labels = f"{COMPONENT_LABEL}={PLUGIN_COMPONENT}"
    return await seen(MONITOR_SOURCE, sources.cluster.list(PODS, labels=labels, fields=f"spec.nodeName={name}"))


async def _asked(prometheus: Prometheus, sources: Sources, uuids: Collection[str]) -> UsageSeen:
    """Two labels for a UUID: which, the name of the series says. A MIG device's UUID goes on behind the GPU's."""
    pattern = "|".join(uuid for uuid in uuids if _UUID.fullmatch(uuid))
    if not pattern:
        return UsageSeen(Usage())
    samples: list[Sample] = []
    try:
        async with asyncio.timeout(_WITHIN_S):
            for number, label in enumerate(("device_uuid", "deviceuuid")):
                names = "|".join(CONTAINER_FIGURES[figure][number] for figure in _KEPT)
                query = f'{{__name__=~"{names}",{label}=~"({pattern}).*"}}'
                samples += await prometheus.query(query, sources.cluster.now())
    except TimeoutError:
        return UsageSeen(Usage(), gaps=(gap(SOURCE, Text("error-usage.no-answer-within", seconds=f"{_WITHIN_S:g}")),))
    except SourceError as error:
        return UsageSeen(Usage(), gaps=(gap(SOURCE, error.message, error.hint),))
    return UsageSeen(read_usage(samples), of_prometheus=True)
