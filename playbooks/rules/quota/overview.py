"""The rule that tells about quotas when nothing is wrong: which is the fullest, and who uses devices without one."""

from collections.abc import Iterator, Sequence

from bot.report import Finding, step
from bot.texts import Text
from playbooks import quotes
from playbooks.gather.subject import EmptyNamespace
from playbooks.quotes import kubectl
from playbooks.rule import rule
from playbooks.rules.admission.not_found import no_such_namespace
from playbooks.rules.common import prose
from playbooks.rules.common.findings import finding
from playbooks.rules.quota.effects import proof
from playbooks.rules.quota.limits import with_why
from playbooks.scenes.cluster import what_was_read
from playbooks.scenes.quota import QuotaScene, Space


@rule("quota", "not-found", "not-enough-evidence")
def overview(scene: QuotaScene) -> Iterator[Finding]:
    """The finding of the fullest quota, or of what pods hold where no namespace has a quota."""
    limited = [space for space in scene.spaces if space.limits]
    if not scene.was_read("quotas"):
        look = step(Text("quota.try-again"), kubectl("auth", "can-i", "list", "resourcequotas", "--all-namespaces"))
        yield finding("not-enough-evidence", Text("quota.unseen"), "suspected", actions=[look])
    elif not scene.was_read("holders") and not limited:
        yield finding("quota", Text("quota.none-seen"), "suspected", severity="info")
    elif scene.namespace and not scene.spaces:
        if isinstance(scene.deserted, EmptyNamespace):
            yield no_such_namespace(scene.deserted, ("quota",))
        else:
            claim = Text("quota.nothing", namespace=scene.namespace)
            yield finding("not-found", claim, scene.confidence, severity="info")
    elif limited:
        yield _fullest(scene, limited)
    else:
        yield _without_limits(scene)


def _fullest(scene: QuotaScene, limited: Sequence[Space]) -> Finding:
    fullest = max(limited, key=lambda space: _part(scene, space))
    part, [resource, *_] = _part(scene, fullest), [*scene.measured(fullest), ""]
    claim = Text(
        "quota.claim" if part >= 0 else "quota.unmeasured",
        count=len(limited),
        namespace=fullest.namespace,
        part=f"{part:.0%}",
        free=len(scene.spaces) - len(limited),
    )
    claim = with_why(scene, fullest, resource, claim)
    proofs = [evidence for limit in fullest.limits for evidence in proof(limit, scene.quotas)]
    steps = () if scene.namespace else prose.see_quota(fullest.namespace)
    return finding("quota", claim, scene.confidence, proofs=proofs, severity="info", actions=steps)


def _part(scene: QuotaScene, space: Space) -> float:
    """How full the fullest of its limits is; -1 where none can be told."""
    counted = ((limit, scene.used(space, limit)) for limit in space.limits)
    return max(
        (used / limit.amount for limit, used in counted if used is not None and limit.amount),
        default=-1.0,
    )


def _without_limits(scene: QuotaScene) -> Finding:
    """What pods hold where no quota limits it."""
    # The MiB that are given, over all vendors that hand out memory.
    of_memory = {name for name, (_, of_cores) in scene.config.amounts.items() if not of_cores}
    used = (item for space in scene.spaces for item in (space.used or {}).items())
    memory = sum(amount for name, amount in used if name in of_memory)
    if memory or not any(space.holders for space in scene.spaces):
        key = "quota.none-there" if scene.namespace else "quota.none"
    else:
        key = "quota.none-there-whole" if scene.namespace else "quota.none-whole"
    claim = Text(key, namespace=scene.namespace, count=len(scene.spaces), memory=prose.mib(memory))
    holding = [holder for space in scene.spaces for holder in space.holders]
    first = max(holding, key=lambda held: (held.memory_mib, held.amounts), default=None)
    named = (first.namespace, first.name) if first else None
    holders = what_was_read(scene.holders)
    proofs = [quotes.of_holder(holder) for holder in holders if (holder.namespace, holder.name) == named][:1]
    return finding("quota", claim, scene.confidence, proofs=proofs, severity="info")
