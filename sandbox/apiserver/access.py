"""Role-based access control of the sandbox's API server: who may do what, and what a refusal says."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sandbox.apiserver.entries import Object
from sandbox.apiserver.statuses import Target

REVIEWS = "apis/authorization.k8s.io/v1"
_ANY = "*"


class Rule(NamedTuple):
    """What a role grants, or, as a refusal, what is taken away; fields as in `rbac.authorization.k8s.io/v1`.

    `resources` are plurals, with a subresource `pods/log`; no `names` and no `namespace` mean every one. A cluster-wide
    request is not covered by a rule with a namespace.
    """

    verbs: Sequence[str]
    resources: Sequence[str]
    groups: Sequence[str] = (_ANY,)
    namespace: str = ""
    names: Sequence[str] = ()

    def covers(self, target: Target, verb: str) -> bool:
        resource = f"{target.plural}/{target.subresource}" if target.subresource else target.plural
        return (
            _has(self.verbs, verb)
            and _has(self.resources, resource)
            and _has(self.groups, target.group)
            and self.namespace in {"", target.namespace}
            and (not self.names or target.name in self.names)
        )


class Access:
    """What clients may do: everything, unless `granted` is a list, and less what `refused` names. Both may change."""

    def __init__(self, granted: Sequence[Rule] | None = None, refused: Sequence[Rule] = ()) -> None:
        self.granted = None if granted is None else list(granted)
        self.refused = list(refused)

    def allows(self, target: Target, verb: str) -> bool:
        if any(rule.covers(target, verb) for rule in self.refused):
            return False
        return self.granted is None or any(rule.covers(target, verb) for rule in self.granted)

    def review(self, plural: str, asked: Object) -> Object | None:
        """The answer to a SelfSubjectAccessReview or SelfSubjectRulesReview; None for another plural."""
        spec: Mapping[str, Any] = asked.get("spec") or {}
        if plural == "selfsubjectaccessreviews":
            return asked | {"metadata": {}, "status": {"allowed": self._allows_review(spec)}}
        if plural == "selfsubjectrulesreviews":
            granted = [Rule([_ANY], [_ANY])] if self.granted is None else self.granted
            here = [rule for rule in granted if rule.namespace in {"", spec.get("namespace", "")}]
            status = {"resourceRules": [_shown(rule) for rule in here], "nonResourceRules": [], "incomplete": False}
            return asked | {"metadata": {}, "spec": {}, "status": status}
        return None

    def _allows_review(self, spec: Mapping[str, Any]) -> bool:
        wanted = spec.get("resourceAttributes")
        if not wanted:  # paths such as /version are open to everyone
            return True
        group = wanted.get("group", "")
        target = Target(
            api=f"apis/{group}/v1" if group else "api/v1",
            plural=wanted.get("resource", ""),
            namespace=wanted.get("namespace", ""),
            name=wanted.get("name", ""),
            subresource=wanted.get("subresource", ""),
        )
        return self.allows(target, wanted.get("verb", ""))


def _has(values: Sequence[str], wanted: str) -> bool:
    return _ANY in values or wanted in values


def _shown(rule: Rule) -> dict[str, list[str]]:
    shown = {"verbs": list(rule.verbs), "apiGroups": list(rule.groups), "resources": list(rule.resources)}
    return shown | ({"resourceNames": list(rule.names)} if rule.names else {})
