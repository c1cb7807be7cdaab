"""What HAMi's scheduler pod may use: raised where a container of it was ended for using too much memory.

The guide's table is by the number of nodes, and the answer shows its row. Size alone is no reason to raise what never
ran out: nothing measured is behind the table, and an extender of 204 nodes and 56 pods used 82 MiB.
"""

from bot.hami.installation.install import container_of
from bot.kube.hami_pods import EXTENDER_CONTAINER
from bot.kube.models import ContainerStatus, Pod
from bot.kube.quantities import whole
from bot.report import Evidence, Gap, step
from bot.texts import Text
from playbooks import quotes
from playbooks.tune.deployed import node_count
from playbooks.tune.facts import Facts
from playbooks.tune.guide import resources_for
from playbooks.tune.rows import Advice, AdviceRow

_OOM = "OOMKilled"
_MIB = 2**20


def advise_scheduler(facts: Facts) -> list[Advice]:
    """A row for each container that ran out of memory, else one that says none did."""
    pods = facts.install.install.pods
    if not pods:
        why = Text("tune.scheduler-unknown")
        return [Advice(AdviceRow("scheduler-resources", "cannot-tell", "", "", "", why), why)]
    killed = [(pod, status) for pod in pods for status in pod.status.container_statuses or () if _ended(status)]
    if not killed:
        return [_kept(pods[0], facts)]
    found: dict[str, Advice] = {}
    for pod, status in killed:
        found.setdefault(status.name, _raise(pod, status, facts))
    return list(found.values())


def _kept(pod: Pod, facts: Facts) -> Advice:
    """By size: the guide's row beside what is deployed."""
    limit = _limit(pod, EXTENDER_CONTAINER)
    current = limit or Text("tune.scheduler-no-limit")
    why = Text("tune.scheduler-kept")
    if not isinstance(facts.nodes, Gap):
        nodes = len(facts.nodes)
        row = resources_for(nodes)
        cpu, memory = f"{row.cpu_request}m/{row.cpu_limit}m", f"{_shown(row.memory_request_mib)}/"
        less = bool(limit) and _mib(limit) < row.memory_limit_mib
        key = "tune.scheduler-less" if less else "tune.scheduler-size"
        why = Text(key, nodes=nodes, cpu=cpu, memory=memory + _shown(row.memory_limit_mib))
    return Advice(AdviceRow("scheduler-resources", "keep", "", current, current, why), why)


def _ended(status: ContainerStatus) -> bool:
    ends = (status.state.terminated, status.last_state.terminated)
    return any(end is not None and end.reason == _OOM for end in ends)


def _limit(pod: Pod, name: str) -> str:
    container = container_of(pod.spec, name)
    limits = container.resources.limits if container and container.resources else None
    return str((limits or {}).get("memory", ""))


def _request(pod: Pod, name: str) -> str:
    container = container_of(pod.spec, name)
    requests = container.resources.requests if container and container.resources else None
    return str((requests or {}).get("memory", ""))


def _mib(text: str) -> int:
    return (whole(text) or 0) // _MIB


def _shown(mib: int) -> str:
    return f"{mib // 1024}Gi" if mib % 1024 == 0 else f"{mib}Mi"


def _raise(pod: Pod, status: ContainerStatus, facts: Facts) -> Advice:
    nodes = 0 if isinstance(facts.nodes, Gap) else len(facts.nodes)
    limit = _limit(pod, status.name)
    if not limit:
        why = Text("tune.scheduler-unlimited", name=status.name)
        return Advice(AdviceRow("scheduler-resources", "cannot-tell", _object(status), "", "", why), why)
    current, by_size = _mib(limit), resources_for(nodes)
    shown = _shown(2 * current if current >= by_size.memory_limit_mib else by_size.memory_limit_mib)
    why = Text("tune.scheduler-killed", restarts=status.restart_count)
    if nodes:
        why = Text("tune.scheduler-sized", why=why, nodes=nodes)
    claim = Text("tune.scheduler-claim", name=status.name, current=limit, wanted=shown, why=why)
    part = "extender" if status.name == EXTENDER_CONTAINER else "kubeScheduler"
    path = f"scheduler.{part}.resources"
    value = f"{path}.limits.memory={shown}"
    if _mib(_request(pod, status.name)) < by_size.memory_request_mib:
        value += f", {path}.requests.memory={_shown(by_size.memory_request_mib)}"
    row = AdviceRow("scheduler-resources", "raise", _object(status), limit, shown, why)
    ended = status.state.terminated
    where = "state" if ended is not None and ended.reason == _OOM else "lastState"
    reason = f'{{.status.containerStatuses[?(@.name=="{status.name}")].{where}.terminated.reason}}'
    proofs: tuple[Evidence, ...] = (quotes.of_pod(pod, _OOM, reason),)
    restarts = f'jsonpath={{.status.containerStatuses[?(@.name=="{status.name}")].restartCount}}'
    actions = (
        step(Text("tune.set", value=value, risk=Text("tune.scheduler-risk")), ""),
        step(Text("tune.scheduler-check", name=status.name), quotes.kubectl_pod(pod, "get", "-o", restarts)),
    )
    proofs = (
        *proofs,
        quotes.of_amount(pod, str(status.restart_count), restarts.removeprefix("jsonpath=")),
        *_limit_proof(pod, status.name, limit),
        *node_count(facts),
    )
    return Advice(row, claim, severity="warning", evidence=proofs, actions=actions)


def _object(status: ContainerStatus) -> str:
    return f"memory limit of {status.name}"


def _limit_proof(pod: Pod, name: str, limit: str) -> tuple[Evidence, ...]:
    path = f'{{.spec.containers[?(@.name=="{name}")].resources.limits.memory}}'
    return (quotes.of_amount(pod, limit, path),)
