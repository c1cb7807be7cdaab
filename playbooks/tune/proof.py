"""How figures of use are quoted."""

from bot.hami.held import Held
from bot.hami.usage import PORT, ContainerUse, Reading
from bot.kube.times import format_time
from bot.report import Evidence
from playbooks import quotes
from playbooks.quotes import kubectl
from playbooks.tune.facts import Facts


def of_use(use: ContainerUse, reading: Reading, node: str, facts: Facts) -> Evidence:
    """One figure of a container."""
    return of_sample(f"Pod {use.namespace}/{use.pod}", reading, node, facts, grep=f'"{use.pod}"')


def of_request(held: Held, facts: Facts) -> tuple[Evidence, ...]:
    """What HAMi gave the pod, of each GPU."""
    holder = facts.holder(held)
    return (quotes.of_holder(holder),) if holder else ()


def of_sample(about: str, reading: Reading, node: str, facts: Facts, *, grep: str) -> Evidence:
    """One sample, as the monitor of the node or Prometheus gave it."""
    return Evidence("metrics", about, format_time(facts.taken_at), reading.line, _command(node, facts, grep))


def _command(node: str, facts: Facts, grep: str) -> str:
    seen = facts.usage
    if seen.proof:
        return seen.proof
    monitor = next((pod for pod in seen.monitors if pod.spec.node_name == node), None)
    if monitor is None:
        return ""
    path = f"/api/v1/namespaces/{monitor.namespace}/pods/{monitor.name}:{PORT}/proxy/metrics"
    return f"{kubectl('get', '--raw', path)} | grep '{grep}'"
