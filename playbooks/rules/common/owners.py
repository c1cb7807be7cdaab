"""Whose a pod is: its controller, and a team where a label or annotation names one."""

from typing import NamedTuple

from bot.kube.models import Holder, ObjectMeta, Pod

_TEAM_KEYS = ("team", "owner")
"""As the whole key of a label or annotation, or after its prefix: `example.com/team`."""
_HASH_LABEL = "pod-template-hash"


class Owner(NamedTuple):
    """A controller, the namespace of a pod that has none, or HAMi itself. `team` is empty where none is named."""

    kind: str
    namespace: str
    name: str
    team: str


def owner_of(pod: Pod | Holder) -> Owner:
    """Who created it: of a ReplicaSet its Deployment, whose name is the ReplicaSet's without the pods' hash."""
    metadata = pod.metadata
    refs = metadata.owner_references or ()
    ref = next((owner for owner in refs if owner.controller), next(iter(refs), None))
    if ref is None:
        return Owner("Namespace", "", metadata.namespace, _team(metadata))
    kind, name = ref.kind, ref.name
    ending = f"-{metadata.label(_HASH_LABEL)}"
    if kind == "ReplicaSet" and name.endswith(ending):
        kind, name = "Deployment", name.removesuffix(ending)
    return Owner(kind, metadata.namespace, name, _team(metadata))


def _team(metadata: ObjectMeta) -> str:
    for given in (metadata.labels or {}, metadata.annotations or {}):
        for wanted in _TEAM_KEYS:
            found = sorted(key for key in given if key.rpartition("/")[2].casefold() == wanted)
            if found:
                return given[found[0]]
    return ""
