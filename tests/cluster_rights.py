"""A cluster that notes what it was asked for, and who owns what is made there."""

from sandbox.apiserver import Rule
from sandbox.apiserver.access import Access
from sandbox.apiserver.statuses import Target

OWNERS = ("deploy/none", "rs/none", "sts/none", "ds/none", "job/none")
"""Asked about by name, so that lists of their kind are read."""


class Noting(Access):
    """Grants exactly these rules, and keeps what was asked for."""

    def __init__(self, rules: list[Rule]) -> None:
        super().__init__(rules)
        self.rules = rules
        self.asked: set[tuple[Target, str]] = set()

    def allows(self, target: Target, verb: str) -> bool:
        self.asked.add((target, verb))
        return super().allows(target, verb)

    @property
    def refusals(self) -> list[str]:
        return sorted(f"{verb} {target}" for target, verb in self.asked if not super(Noting, self).allows(target, verb))

    @property
    def unneeded(self) -> list[Rule]:
        """The rules without which every request so far would have been granted as well."""
        covering = [[rule for rule in self.rules if rule.covers(*request)] for request in self.asked]
        needed = [rules[0] for rules in covering if len(rules) == 1]
        return [rule for rule in self.rules if rule not in needed]
