"""Which namespaces ask for whole GPUs where others share them? It reads requests as HAMi's scheduler does."""

import asyncio
from collections import defaultdict
from typing import NamedTuple

import click

from playbooks.api import (
    PODS,
    Answer,
    Cluster,
    DeviceRequest,
    Gap,
    Hami,
    Playbook,
    Pod,
    Sheet,
    Texts,
    finding,
    quote_of_request,
    seen,
)

MOST_QUOTES = 5
FINISHED = ("Succeeded", "Failed")


class NamespaceRow(NamedTuple):
    """A row of the table. The fields are its columns."""

    namespace: str
    pods: int
    whole_GPUs: int  # noqa: N815  # a column's heading


WHOLE = Sheet("whole GPUs by namespace", NamespaceRow)


class Snapshot(NamedTuple):
    """What was read: the pods, and how HAMi reads them."""

    pods: list[Pod] | Gap
    hami: Hami | Gap


class Asks(NamedTuple):
    """A pod and one of its requests for whole GPUs."""

    pod: Pod
    request: DeviceRequest


async def gather(cluster: Cluster, *, namespace: str) -> Snapshot:
    """Read HAMi's configuration and the pods, at the same time."""
    pods, hami = await asyncio.gather(seen("pods", cluster.list(PODS, namespace)), seen("HAMi", cluster.hami()))
    return Snapshot(pods, hami)


def diagnose(snapshot: Snapshot, say: Texts) -> Answer:
    """Sum up the whole GPUs by namespace."""
    pods, hami = snapshot
    if isinstance(pods, Gap) or isinstance(hami, Gap):
        gaps = [one for one in snapshot if isinstance(one, Gap)]
        return Answer(say("unread"), [finding(say("unread"), severity="info", confidence="suspected")], gaps=gaps)
    asks = [
        Asks(pod, request)
        for pod in pods
        if pod.status.phase not in FINISHED
        for request in hami.requests(pod)
        if request.is_whole
    ]
    if not asks:
        return Answer(say("none"), [finding(say("none"), severity="info")], gaps=hami.gaps)
    of = defaultdict[str, list[Asks]](list)
    for one in asks:
        of[one.pod.namespace].append(one)
    rows = [NamespaceRow(name, len({one.pod.name for one in some}), _gpus(some)) for name, some in of.items()]
    rows.sort(key=lambda row: (-row.whole_GPUs, row.namespace))
    claim = say("claim", count=len(rows), gpus=_gpus(asks), most=rows[0].namespace)
    quotes = [quote_of_request(one.pod, one.request) for one in of[rows[0].namespace][:MOST_QUOTES]]
    found = finding(claim, quotes, severity="info", confidence="suspected" if hami.gaps else "confirmed")
    return Answer(claim, [found], tables=[WHOLE.table(rows)], gaps=hami.gaps)


def _gpus(asks: list[Asks]) -> int:
    return sum(one.request.devices for one in asks)


PLAYBOOK = Playbook(
    summary="Which namespaces ask for whole GPUs?",
    gather=gather,
    diagnose=diagnose,
    parameters=[click.Argument(["namespace"], required=False, default="", metavar="[NAMESPACE]")],
    example="ml",
    texts={
        "en": {
            "claim": "{count} namespace{count(|s)} {count(asks|ask)} for {gpus} whole GPU{gpus(|s)}; {most} for most.",
            "none": "No pod asks for a whole GPU.",
            "unread": "The pods or HAMi's configuration could not be read, so this is unknown.",
        },
        "zh": {
            "claim": "{count} 个命名空间申请了 {gpus} 个整卡 GPU，最多的是 {most}。",
            "none": "没有 Pod 申请整卡 GPU。",
            "unread": "无法读取 Pod 或 HAMi 的配置，因此无法判断。",
        },
    },
)
