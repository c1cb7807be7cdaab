"""The table of `quota`: a row for each namespace and resource, what HAMi counts beside what Kubernetes does."""

from bot.texts import Texts
from playbooks.quota.findings import Around, Space, enforced
from playbooks.rules import prose

QUOTA_TABLE = "quota"
COLUMNS = (
    "namespace",
    "resource",
    "HAMi limit",
    "HAMi counts",
    "HAMi %",
    "Kubernetes limit",
    "Kubernetes counts",
    "pods ask for",
    "most used by",
)


def rows_of(space: Space, around: Around, say: Texts) -> list[tuple[str, ...]]:
    """Memory and cores always, for HAMi counts them; other resources where a quota names them."""
    config = around.config
    named = {one.resource for one in space.limits}
    order = [config.memory, config.cores, *sorted(named - {config.memory, config.cores})]
    return [
        _row(space, resource, around, say)
        for resource in order
        if resource in named or not space.limits or resource == config.memory
    ]


def _row(space: Space, resource: str, around: Around, say: Texts) -> tuple[str, ...]:
    hami = [] if around.rules.quota == "none" else space.of(resource, "HAMi")
    kube = space.of(resource, "Kubernetes")
    used = None if space.used is None else space.used.get(resource)
    amount = hami[-1].amount if hami and enforced(hami[-1], around.rules) else None
    asked = space.asked(resource)
    return (
        space.namespace,
        resource,
        " or ".join(dict.fromkeys(_limit(one.amount, one.written) for one in hami)) or say("words.none"),
        _number(used),
        f"{used / amount:.0%}" if used is not None and amount else "",
        " or ".join(dict.fromkeys(_limit(one.amount, one.written) for one in kube)) or say("words.none"),
        _number(kube[0].used) if kube else "",
        "" if asked is None else str(asked),
        _top(space, cores=resource == around.config.cores, say=say) if used else "",
    )


def _limit(amount: int | None, written: str) -> str:
    return written if amount is None else str(amount)


def _number(amount: int | None) -> str:
    return "?" if amount is None else str(amount)


def _top(space: Space, *, cores: bool, say: Texts) -> str:
    largest = sorted(space.holders, key=lambda one: (-one.amounts[cores], one.name))
    return prose.names(say, [f"{one.name} {one.amounts[cores]}" for one in largest if one.amounts[cores]])
