"""`latency`: where the time goes between a pod's creation and its start."""

from datetime import timedelta
from typing import NamedTuple

from msgspec import structs

from bot.hami.pods.allocations import NODE_KEY
from bot.hami.scheduler_logs.scheduling_latency import Growth, LatencyStage
from bot.kube.cluster import seen
from bot.kube.models import EVENTS
from bot.report import Gap, Report, Sheet, Subject
from bot.rows import StageRow
from playbooks.gather.latency import gather_latency
from playbooks.gather.scheduling import gather_install, nothing_read
from playbooks.latency.rules import BY_KUBELET, LATENCY_RULES, LatencyScene, head, unseen_moments
from playbooks.playbook import ALL, SINCE, Playbook, Snapshot, Sources, read_since
from playbooks.rule import run
from playbooks.rules.installation.surroundings import answer_without_hami

_SHOWN_PODS = 5


class Request(NamedTuple):
    """How far back the question looks, also as typed (`words`). `all`: every pod instead of an overview."""

    since: timedelta
    words: str
    all: bool


def request(since: str = "1h", all: bool = False) -> Request:  # noqa: A002, FBT001, FBT002  # the options' names
    """Reads the typed question. Raises UsageError for a time that cannot be read, such as `1x`."""
    return Request(read_since(since), since.strip(), all)


async def gather(wanted: Request, sources: Sources) -> Snapshot[Request, LatencyScene]:
    """Reads the new pods, the schedulers' logs, and the events of the pod slowest to start. Raises Unusable."""
    cluster = sources.cluster
    install = await gather_install(sources)
    found = await gather_latency(cluster, install, cluster.now() - wanted.since)
    if found.unread:
        raise nothing_read(found.gaps[0])
    scene = LatencyScene(install, found, wanted.words)
    if scene.top and scene.top.start in BY_KUBELET:
        pod = scene.top.lives[0].pod
        about = f"involvedObject.name={pod.name}"
        scene = structs.replace(scene, events=await seen("events", cluster.list(EVENTS, pod.namespace, fields=about)))
    return Snapshot(wanted, cluster.name, cluster.now(), scene)


def diagnose(snapshot: Snapshot[Request, LatencyScene]) -> Report:
    """The report: the stage that takes the most time and why; a row for each stage, then the slowest pods."""
    scene = snapshot.scene
    if (without := answer_without_hami("latency", snapshot, scene.seen)) is not None:
        return without
    stages, latency = scene.stages, scene.latency
    findings = run(LATENCY_RULES, scene).findings
    pods = None if isinstance(latency.pods, Gap) else latency.pods
    holders = None if pods is None else sum(1 for pod in pods if pod.metadata.annotation(NODE_KEY))
    rows = [
        StageRow(
            stage.name,
            stage.n,
            stage.median_s,
            stage.p95_s,
            stage.max_s,
            ("log" if stage.exact else "object") if stage.n else "",
        )
        for stage in stages
    ]
    slowest = _pod_rows(stages)
    counts = [
        CountRow("nodes", None if isinstance(latency.nodes, Gap) else len(latency.nodes)),
        CountRow("pods", None if pods is None else len(pods)),
        CountRow("pods that were given GPUs", holders),
        CountRow("new GPU pods of HAMi's scheduler", len(latency.lives)),
        CountRow("of the new ones pending", len(latency.pending)),
    ]
    tables = [LATENCY.table(rows, brief=rows)] if latency.lives else []
    tables += [PODS.table(slowest, brief=slowest[:_SHOWN_PODS])] if slowest else []
    grown = scene.growths
    known = [row for row in grown if row.each_ms is not None]
    tables += [GROWTH.table(grown, brief=known or None)] if grown else []
    return snapshot.report(
        "latency",
        Subject("Cluster", "", ""),
        findings,
        verdict=head(scene, scene.top) if scene.top and findings[0].code == "scheduling-latency" else findings[0].text,
        tables=(*tables, COUNTS.table(counts, brief=None if known else counts)),
        gaps=[*scene.gaps, *([scene.events] if isinstance(scene.events, Gap) else []), *unseen_moments(latency)],
    )


class PodRow(NamedTuple):
    """A row for a pod from creation to start. `filters`: how often HAMi's filter ran for it; None without a log."""

    pod: str
    node: str
    total_s: float
    slowest_stage: str
    slowest_s: float
    filters: int | None


class CountRow(NamedTuple):
    """A row for how many objects of a kind the cluster has, to compare the latencies with."""

    objects: str
    number: int | None


LATENCY = Sheet(
    "latency",
    StageRow,
    brief="stage n=pods median_s p95_s max_s",
)
PODS = Sheet(
    "slowest pods",
    PodRow,
    brief="pod total_s slowest_stage slowest_s=of_it_s filters=tries",
)
GROWTH = Sheet(
    "growth",
    Growth,
    brief="call grows_with=one_more_of each_ms=adds_ms low_ms=from_ms high_ms=to_ms twice_ms=ms_at_twice",
    together=3,
)
COUNTS = Sheet("objects", CountRow, brief="objects number")


def _pod_rows(stages: list[LatencyStage]) -> list[PodRow]:
    *parts, whole = stages
    slowest: dict[tuple[str, str], tuple[float, str]] = {}
    for stage in parts:
        for seconds, life in zip(stage.seconds, stage.lives, strict=True):
            key = (life.pod.namespace, life.pod.name)
            slowest[key] = max(slowest.get(key, (0.0, "")), (seconds, stage.name))
    rows: list[PodRow] = []
    for total, (pod, *_, filters) in zip(whole.seconds, whole.lives, strict=True):
        seconds, stage = slowest.get((pod.namespace, pod.name), (0.0, ""))
        name, node = f"{pod.namespace}/{pod.name}", pod.spec.node_name
        rows.append(PodRow(name, node, total, stage, round(seconds, 2), filters or None))
    return rows


PLAYBOOK = Playbook(
    verb="latency",
    summary="Where does the time go between a GPU pod's creation and its start?",
    example="latency --since 1h",
    parameters=(SINCE, ALL),
    request=request,
    gather=gather,
    diagnose=diagnose,
)
