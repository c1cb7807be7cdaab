"""What HAMi counts of each namespace against its quotas, what Kubernetes shows, where they differ and why."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import click
from msgspec import structs

from bot.hami.fit.allocated_totals import Holding, Ledger, build_ledger, given_by
from bot.hami.fit.quotas import Limit, limits_of
from bot.hami.fit.version_differences import NEWEST_READ, rules_of
from bot.hami.pods.request_parsing import DeviceConfig
from bot.hami.vendors import called_together
from bot.hami.version import Version
from bot.kube.cluster import Cluster, seen
from bot.kube.models import PODS, RESOURCE_QUOTAS, Event, Holder, Pod, ResourceQuota
from bot.kube.times import format_time
from bot.report import SEVERITIES, Evidence, Finding, Gap, Report, Subject, gap, new_report
from bot.texts import Text
from playbooks import quotes
from playbooks.gather.namespaces import EmptyNamespace, gather_deserted
from playbooks.gather.scheduling import UNFINISHED, InstallSeen, gather_holders, gather_install, nothing_read
from playbooks.playbook import ALL, Playbook, Sources
from playbooks.quota.findings import QuotaContext, Space, findings, misspelt
from playbooks.quota.refused import REFUSED, gather_refusals, tell_refusals
from playbooks.quota.rules import proof
from playbooks.quota.table import QUOTAS, rows_of
from playbooks.quota.waiting import KEPT_OUT, KeptOut, QuotaSources, gather_kept_out, tell_kept_out
from playbooks.rules.admission.not_found import no_such_namespace
from playbooks.rules.common import prose
from playbooks.rules.common.findings import finding
from playbooks.rules.installation.surroundings import answer_without_hami

_MAX_READ, _MOST_HOLDERS = 20, 5_000
"""Namespaces, and pods in them that hold cards: of more, what the pods ask for is not read, only what HAMi counts."""


class Request(NamedTuple):
    """One namespace, or all. `all`: everything instead of an overview."""

    namespace: str
    all: bool


class Snapshot(NamedTuple):
    """Quotas, holders and what they sum up to, and the unfinished pods of the namespaces that have a quota.

    `deserted`: nothing was seen in the namespace that was asked about.
    """

    request: Request
    cluster: str
    taken_at: datetime
    install: InstallSeen
    quotas: list[ResourceQuota] | Gap
    holders: list[Holder] | Gap
    ledger: Ledger | None
    pods: dict[str, list[Pod] | Gap]
    kept_out: KeptOut
    refusals: list[Event] | Gap
    deserted: EmptyNamespace | Gap | None
    undecodable: tuple[str, ...]


def request(namespace: str = "", all: bool = False) -> Request:  # noqa: A002, FBT001, FBT002  # the options' names
    """The namespace as typed, `ns/ml` and `ml/` too."""
    return Request(namespace.strip().removeprefix("ns/").removeprefix("namespace/").rstrip("/"), all)


async def gather(wanted: Request, sources: Sources) -> Snapshot:
    """Read the install, the quotas and who holds cards; pods only where a quota counts them. Raises Unusable."""
    cluster = sources.cluster
    install = await gather_install(sources)
    quotas, holders = await asyncio.gather(
        seen("resource quotas", cluster.list(RESOURCE_QUOTAS, wanted.namespace)),
        seen("pods", gather_holders(cluster, install.install.scheduler_name)),
    )
    if isinstance(quotas, Gap) and isinstance(holders, Gap):
        raise nothing_read(quotas)
    limits = list(limits_of([] if isinstance(quotas, Gap) else quotas, install.config))
    named = sorted({limit.namespace for limit in limits if wanted.namespace in ("", limit.namespace)})
    ledger = None if isinstance(holders, Gap) else build_ledger(holders, _version(install) or NEWEST_READ)
    read = QuotaSources(quotas, holders, ledger)
    pods, kept_out, refusals = await asyncio.gather(
        _pods(cluster, named if _are_few(named, read) else ()),
        gather_kept_out(sources, install, limits, read, wanted.namespace),
        gather_refusals(cluster, limits, wanted.namespace),
    )
    known = {object_.namespace for some in (quotas, holders) if not isinstance(some, Gap) for object_ in some}
    unknown = wanted.namespace and wanted.namespace not in known
    deserted = await gather_deserted(cluster, wanted.namespace) if unknown else None
    undecodable = tuple(cluster.undecodable)
    return Snapshot(
        wanted,
        cluster.name,
        cluster.now(),
        install,
        quotas,
        holders,
        ledger,
        pods,
        kept_out,
        refusals,
        deserted,
        undecodable,
    )


def _are_few(namespaces: Sequence[str], read: QuotaSources) -> bool:
    """Whether their pods may be read whole; of one namespace they always are."""
    if not 1 < len(namespaces) <= _MAX_READ:
        return len(namespaces) <= 1
    holders = () if isinstance(read.holders, Gap) else read.holders
    return sum(1 for holder in holders if holder.namespace in namespaces) <= _MOST_HOLDERS


def _version(install: InstallSeen) -> Version | None:
    return install.install.version.version if install.install.version else None


async def _pods(cluster: Cluster, namespaces: Sequence[str]) -> dict[str, list[Pod] | Gap]:
    found = await asyncio.gather(
        *(seen(f"pods of {namespace}", cluster.list(PODS, namespace, fields=UNFINISHED)) for namespace in namespaces)
    )
    return dict(zip(namespaces, found, strict=True))


def diagnose(snapshot: Snapshot) -> Report:
    """Who is kept out first, then other problems, then how the two ways of counting differ; a row per resource."""
    if (without := answer_without_hami("quota", snapshot, snapshot.install)) is not None:
        return without
    spaces, around = _spaces(snapshot)
    brief = not snapshot.request.all
    kept = tell_kept_out(snapshot.kept_out, snapshot.install, snapshot.undecodable, snapshot.taken_at, brief=brief)
    results = [*kept.findings, *_refused(snapshot, around)]
    results += [finding for space in spaces for finding in findings(space, around)]
    results += misspelt([] if isinstance(snapshot.quotas, Gap) else snapshot.quotas, around)
    order = (
        KEPT_OUT,
        REFUSED,
        "quota-exceeded",
        "quota-near-limit",
        "quota-ambiguous",
        "quota-not-enforced",
        "quota-differs",
    )
    results.sort(key=lambda finding: (-SEVERITIES.index(finding.severity), order.index(finding.code)))
    if not results or results[0].severity == "info":
        results.insert(0, _summary(snapshot, spaces, around))
    rows = [row for space in spaces for row in rows_of(space, around)]
    return new_report(
        playbook="quota",
        cluster=snapshot.cluster,
        taken_at=format_time(snapshot.taken_at),
        subject=Subject("Namespace", "", snapshot.request.namespace)
        if snapshot.request.namespace
        else Subject("Namespaces", "", ""),
        findings=prose.few_actions(results),
        tables=(*((QUOTAS.table(rows, brief=rows if brief else None),) if rows else ()), *kept.tables),
        gaps=_gaps(snapshot, spaces, kept.gaps),
        noun=_noun(spaces, around.config),
    )


def _refused(snapshot: Snapshot, around: QuotaContext) -> Sequence[Finding]:
    events = () if isinstance(snapshot.refusals, Gap) else snapshot.refusals
    limits = list(limits_of(around.quotas, around.config))
    return list(tell_refusals(events, limits, around.quotas, snapshot.taken_at))


def _spaces(snapshot: Snapshot) -> tuple[list[Space], QuotaContext]:
    """The namespaces that have a quota on HAMi's resources, then those whose pods hold cards without one."""
    config, version, ledger = snapshot.install.config, _version(snapshot.install), snapshot.ledger
    quotas = [] if isinstance(snapshot.quotas, Gap) else snapshot.quotas
    unread = isinstance(snapshot.quotas, Gap) or isinstance(snapshot.holders, Gap) or snapshot.undecodable
    around = QuotaContext(
        config,
        rules_of(version or NEWEST_READ),
        str(version or ""),
        quotas,
        "suspected" if unread or version is None or snapshot.install.gaps else "confirmed",
    )
    limits = list(limits_of(quotas, config))
    by_namespace = _by_namespace(ledger)
    wanted = snapshot.request.namespace
    spaces: list[Space] = []
    limited: dict[str, list[Limit]] = {}
    for limit in limits:
        limited.setdefault(limit.namespace, []).append(limit)
    for name in sorted(
        (namespace for namespace in {*limited, *by_namespace} if wanted in ("", namespace)),
        key=lambda namespace: (namespace not in limited, namespace),
    ):
        used = None if ledger is None else _used(ledger, name, config)
        pods = snapshot.pods.get(name)
        own = tuple(limited.get(name, ()))
        holders = tuple(by_namespace.get(name, ()))
        spaces.append(Space(name, own, holders, used, None if isinstance(pods, Gap) else pods))
    return spaces, around


def _used(ledger: Ledger, namespace: str, config: DeviceConfig) -> dict[str, int]:
    """What HAMi counts of the namespace, by resource: nothing of another vendor's is left out."""
    of = {device.word: ledger.used_in(namespace, given_by(device)) for device in config.devices}
    counted = {name: of[device.word][of_cores] for name, (device, of_cores) in config.amounts.items()}
    first = (config.gpus.memory, config.gpus.cores)
    return {name: amount for name, amount in counted.items() if amount or name in first}


def _by_namespace(ledger: Ledger | None) -> dict[str, list[Holding]]:
    found: dict[str, list[Holding]] = {}
    for holding in (holding for some in ledger.by_node.values() for holding in some) if ledger else ():
        found.setdefault(holding.namespace, []).append(holding)
    return found


def _summary(snapshot: Snapshot, spaces: Sequence[Space], around: QuotaContext) -> Finding:
    """What there is to say when nothing is wrong."""
    wanted = snapshot.request.namespace
    limited = [space for space in spaces if space.limits]
    if isinstance(snapshot.quotas, Gap):
        return finding("not-enough-evidence", Text("quota.unseen"), "suspected", (), (), severity="warning")
    if isinstance(snapshot.holders, Gap) and not limited:
        return finding("quota", Text("quota.none-seen"), "suspected", (), (), severity="info")
    if wanted and not spaces:
        return _nothing_there(snapshot, wanted, around)
    memory = _memory_of(spaces, around.config)
    if not limited:
        if memory or not _some_hold(spaces):
            key = "quota.none-there" if wanted else "quota.none"
        else:
            key = "quota.none-there-whole" if wanted else "quota.none-whole"
        claim = Text(key, namespace=wanted, count=len(spaces), memory=prose.mib(memory))
        return finding("quota", claim, around.confidence, (), _largest_holder(snapshot, spaces), severity="info")
    fullest = max(limited, key=lambda space: _part(space, around))
    part = _part(fullest, around)
    claim = Text(
        "quota.claim" if part >= 0 else "quota.unmeasured",
        count=len(limited),
        namespace=fullest.namespace,
        part=f"{part:.0%}",
        free=len(spaces) - len(limited),
    )
    proofs = [quote for limit in fullest.limits for quote in proof(limit, around.quotas)]
    result = finding("quota", claim, around.confidence, (), proofs, severity="info")
    return result if wanted else structs.replace(result, next_actions=prose.see_quota(fullest.namespace))


def _memory_of(spaces: Sequence[Space], config: DeviceConfig) -> int:
    """The MiB that are given, over all vendors that hand out memory."""
    parts = (space.used or {} for space in spaces)
    return sum(
        amount
        for used in parts
        for name, amount in used.items()
        if name in config.amounts and not config.amounts[name][1]
    )


def _noun(spaces: Sequence[Space], config: DeviceConfig) -> str:
    """What the devices are called together that some pod was given."""
    called = {given_by(device): device.names.noun for device in config.devices}
    holders = [holder for space in spaces for holder in space.holders]
    given = {holder.others.get(uuid, "") for holder in holders for uuid in holder.shares}
    return called_together(called[key] for key in given if key in called)


def _some_hold(spaces: Sequence[Space]) -> bool:
    return any(space.holders for space in spaces)


def _largest_holder(snapshot: Snapshot, spaces: Sequence[Space]) -> list[Evidence]:
    holders = [] if isinstance(snapshot.holders, Gap) else snapshot.holders
    found = [holder for space in spaces for holder in space.holders]
    first = max(found, key=lambda holding: (holding.memory_mib, holding.amounts), default=None)
    named = (first.namespace, first.name) if first else None
    return [quotes.of_holder(holder) for holder in holders if (holder.namespace, holder.name) == named][:1]


def _part(space: Space, around: QuotaContext) -> float:
    """How full the fullest of its limits is; -1 where none can be told."""
    parts = [-1.0]
    for limit in space.limits:
        hami = space.used.get(limit.resource, 0) if space.used and around.enforces(limit) else None
        used = limit.used if limit.by == "Kubernetes" else hami
        if used is not None and limit.amount:
            parts.append(used / limit.amount)
    return max(parts)


def _nothing_there(snapshot: Snapshot, wanted: str, around: QuotaContext) -> Finding:
    if isinstance(snapshot.deserted, EmptyNamespace):
        return no_such_namespace(snapshot.deserted, ("quota",))
    return finding("not-found", Text("quota.nothing", namespace=wanted), around.confidence, (), (), severity="info")


def _gaps(snapshot: Snapshot, spaces: Sequence[Space], of_waiting: Sequence[Gap]) -> list[Gap]:
    read = (snapshot.quotas, snapshot.holders, *snapshot.pods.values(), snapshot.refusals, snapshot.deserted)
    gaps = [*snapshot.install.gaps, *(gap for gap in read if isinstance(gap, Gap))]
    if snapshot.install.install.version is None:
        gaps.append(gap("HAMi version", Text("gap.version"), Text("quota.version-hint")))
    if not snapshot.pods and (limited := sum(1 for space in spaces if space.limits)):
        gaps.append(gap("pods", Text("quota.many", count=limited), Text("quota.many-hint")))
    gaps += [gap("objects", name, Text("gap.undecodable")) for name in snapshot.undecodable]
    known = {(gap.source, gap.text) for gap in gaps}
    return gaps + [gap for gap in of_waiting if (gap.source, gap.text) not in known]


PLAYBOOK = Playbook(
    verb="quota",
    summary="How much of each namespace's quota do HAMi and Kubernetes count as used, and which pods wait for it?",
    example="quota ml",
    parameters=(click.Argument(["namespace"], required=False, default="", metavar="[NAMESPACE]"), ALL),
    request=request,
    gather=gather,
    diagnose=diagnose,
)
