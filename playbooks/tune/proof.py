"""How what HAMi gave a pod, and the most that it used, are quoted."""

from bot.hami.metrics.gpu_usage import MeasuredHolding
from bot.kube.times import format_time
from bot.report import Evidence
from playbooks import quotes
from playbooks.gather.usage import Peak
from playbooks.tune.facts import Facts


def of_peak(held: MeasuredHolding, peak: Peak, facts: Facts) -> Evidence:
    """The most that a container of the pod used within the window."""
    at = format_time(facts.taken_at)
    return Evidence("metrics", f"Pod {held.name}", at, peak.used.line, f"PromQL: {peak.query}")


def of_request(held: MeasuredHolding, facts: Facts) -> tuple[Evidence, ...]:
    """What HAMi gave the pod, of each GPU."""
    holder = facts.holder(held)
    return (quotes.of_holder(holder),) if holder else ()
