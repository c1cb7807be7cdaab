"""A made-up cluster of any size that runs HAMi 2.10: the same arguments give the same objects."""

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import cycle, islice

from sandbox.synthetic.install import hami_install
from sandbox.synthetic.nodes import A100, H100, T4, V100, GpuNode, Model, gpu_node
from sandbox.synthetic.objects import Mint, Object
from sandbox.synthetic.pods import SCHEDULER_NAME, gpu_pod, pending_pod, plain_pod

__all__ = ["synthetic_cluster"]

_GPU_SHARE = 0.18
_SUCCEEDED_SHARE = 0.11
_TRAINING_MIB = 60_000
_PENDING_MIB = 80_000  # an empty A100 or H100 has it; none is empty
_PENDING_AMOUNTS = 10
_SLICES = ((2000, 0), (4000, 30), (6000, 20), (10_000, 25))  # memory in MiB, cores in percent
_NAMESPACES = ("ml", "research", "batch", "web")


def synthetic_cluster(
    nodes: int,
    pods: int,
    *,
    pending: int = 1,
    limited: int = 0,
    gpus_per_node: int = 8,
    seed: int = 1,
    now: datetime | None = None,
) -> dict[str, list[Object]]:
    """The objects of a healthy cluster, keyed as recordings name files.

    Every node has cards. `pods` counts all: HAMi's own (one scheduler, one device plugin per node), `ml/pending-0` and
    at least one with GPUs are there even when that makes more than were asked for. About 18 % hold GPUs, as far as
    there is room; no card is over-booked. `ml/pending-0` asks for more memory than any card has free, but not for more
    than the largest card has; more `pending` pods do so with other amounts, in all namespaces. Times are relative to
    `now` (the clock's unless given), everything else to the seed. Objects of a kind share their managedFields; all else
    may be changed freely.
    """
    mint = Mint(seed, now or datetime.now(UTC))  # noqa: TID251  # leases are judged against the clock
    wanted_gpu_pods = max(1, round(pods * _GPU_SHARE))
    large = min(max(1, nodes // 2), wanted_gpu_pods)  # each gets a pod that holds some of all its cards
    gpu_nodes = [gpu_node(mint, index, model, gpus_per_node) for index, model in enumerate(_models(nodes, large))]
    objects = hami_install(mint, gpu_nodes)
    gpu_pods = _gpu_pods(mint, gpu_nodes, large, wanted_gpu_pods)
    condition = _condition_message(nodes, gpus_per_node)
    waiting = [pending_pod(mint, "pending-0", "ml", _PENDING_MIB, condition)]
    teams = tuple(f"team-{number:03d}" for number in range(limited))
    waiting += [_waiting_pod(mint, index, teams or _NAMESPACES, condition) for index in range(1, pending)]
    objects["nodes"] = [node.item for node in gpu_nodes]
    objects["pods"] += [*waiting, *gpu_pods]
    objects["pods"] += _plain_pods(mint, gpu_nodes, pods - len(objects["pods"]))
    objects["resourcequotas"] = [_quota(mint, team, number) for number, team in enumerate(teams)]
    messages = (*_filter_messages(objects["nodes"]), condition)
    objects["events"] = [event for pod in waiting for event in _pending_events(mint, pod, *messages)]
    return objects


def _waiting_pod(mint: Mint, index: int, namespaces: Sequence[str], condition: str) -> Object:
    """One of a crowd that asks for ten different amounts, each more than any card has free."""
    memory_mib = _PENDING_MIB - index % _PENDING_AMOUNTS * 1000
    return pending_pod(mint, f"pending-{index}", namespaces[index % len(namespaces)], memory_mib, condition)


def _quota(mint: Mint, namespace: str, number: int) -> Object:
    hard = {"limits.nvidia.com/gpumem": str((_PENDING_MIB * 4 if number % 2 else _PENDING_MIB // 2) + number)}
    metadata = mint.metadata("gpus", mint.ago(hours=24), namespace=namespace)
    return {"kind": "ResourceQuota", "apiVersion": "v1", "metadata": metadata, "spec": {"hard": hard}, "status": {}}


def _models(nodes: int, large: int) -> list[Model]:
    """The nodes' models in order: the large ones first."""
    return [*islice(cycle((A100, H100)), large), *islice(cycle((T4, V100)), nodes - large)]


def _gpu_pods(mint: Mint, nodes: list[GpuNode], large: int, wanted: int) -> list[Object]:
    """First a training pod on each large node, then slices of cards wherever there is room."""
    pods: list[Object] = []
    for index, node in enumerate(nodes[:large]):
        for card in node.cards:
            card.take(_TRAINING_MIB, 0)
        name, namespace = f"train-{index:05d}", _NAMESPACES[index % 2]
        pods.append(gpu_pod(mint, name, namespace, node, node.cards, memory_mib=_TRAINING_MIB, cores=0))
    room = [(node, card) for node in nodes for card in node.cards]
    while room and len(pods) < wanted:
        position = mint.random.randrange(len(room))
        node, card = room[position]
        memory_mib, cores = mint.random.choice(_SLICES)
        if not card.take(memory_mib, cores):
            room[position] = room[-1]
            room.pop()
            continue
        name, namespace = f"infer-{len(pods):05d}", mint.random.choice(_NAMESPACES)
        pods.append(gpu_pod(mint, name, namespace, node, [card], memory_mib=memory_mib, cores=cores))
    return pods


def _plain_pods(mint: Mint, nodes: list[GpuNode], count: int) -> list[Object]:
    pods: list[Object] = []
    for index in range(count):
        succeeded = mint.random.random() < _SUCCEEDED_SHARE
        name = f"{'job' if succeeded else 'service'}-{index:05d}"
        node, namespace = mint.random.choice(nodes), mint.random.choice(_NAMESPACES)
        pods.append(plain_pod(mint, name, namespace, node, succeeded=succeeded))
    return pods


def _condition_message(nodes: int, gpus: int) -> str:
    """kube-scheduler's text: every card of every node has a slot left, and too little memory."""
    return (
        f"0/{nodes} nodes are available: {nodes} {gpus}/{gpus} CardInsufficientMemory. "
        f"no new claims to deallocate, preemption: 0/{nodes} nodes are available: "
        f"{nodes} No preemption victims found for incoming pod."
    )


def _filter_messages(nodes: list[Object]) -> tuple[str, str]:
    """What HAMi's filter says about a pod that no node could take."""
    names = ",".join(sorted(node["metadata"]["name"] for node in nodes))
    return f"{len(nodes)} nodes CardInsufficientMemory({names})", f"no available node, {len(nodes)} nodes do not meet"


def _pending_events(mint: Mint, pod: Object, reasons: str, verdict: str, condition: str) -> list[Object]:
    """What HAMi and kube-scheduler say about a pending pod."""
    filtered = {
        "reason": "FilteringFailed",
        "count": 8,
        "firstTimestamp": mint.ago(minutes=6),
        "lastTimestamp": mint.ago(seconds=40),
        "eventTime": None,
        "reportingInstance": "",
        "source": {"component": SCHEDULER_NAME},
    }
    scheduled = {
        "reason": "FailedScheduling",
        "action": "Scheduling",
        "eventTime": mint.ago(minutes=6).replace("Z", ".990883Z"),
        "firstTimestamp": None,
        "lastTimestamp": None,
        "series": {"count": 8, "lastObservedTime": mint.ago(seconds=40).replace("Z", ".751485Z")},
        "reportingInstance": f"{SCHEDULER_NAME}-0",
        "source": {},
    }
    return [
        _event(mint, pod, reasons, filtered),
        _event(mint, pod, verdict, filtered),
        _event(mint, pod, condition, scheduled),
    ]


def _event(mint: Mint, pod: Object, message: str, more: Object) -> Object:
    metadata = pod["metadata"]
    identity = {key: metadata[key] for key in ("namespace", "name", "uid", "resourceVersion")}
    name = f"{metadata['name']}.{mint.random.getrandbits(60):015x}"
    return {
        "kind": "Event",
        "apiVersion": "v1",
        "metadata": mint.metadata(name, mint.ago(minutes=6), namespace=metadata["namespace"]),
        "involvedObject": {"kind": "Pod", "apiVersion": "v1"} | identity,
        "type": "Warning",
        "message": message,
        "reportingComponent": SCHEDULER_NAME,
        **more,
    }
