"""How what HAMi gave a pod is quoted."""

from bot.hami.held import Held
from bot.report import Evidence
from playbooks import quotes
from playbooks.tune.facts import Facts


def of_request(held: Held, facts: Facts) -> tuple[Evidence, ...]:
    """What HAMi gave the pod, of each GPU."""
    holder = facts.holder(held)
    return (quotes.of_holder(holder),) if holder else ()
