"""Why a ReplicaSet creates no pods, by its own status: that stays when the events about it are gone after an hour."""

from collections.abc import Iterable

from bot.kube.models import Event, ObjectMeta, ObjectReference, Workload
from playbooks.quotes import REPLICA_FAILURE


def replica_failures(owners: Iterable[Workload], kind: str) -> list[Event]:
    """The condition ReplicaFailure of each of these owners of one kind, as an event of that reason."""
    return [
        Event(
            metadata=ObjectMeta(namespace=owner.namespace),
            involved_object=ObjectReference(kind, owner.namespace, owner.name, owner.metadata.uid),
            reason=REPLICA_FAILURE,
            message=condition.message,
            last_timestamp=condition.last_transition_time,
        )
        for owner in owners
        for condition in owner.status.conditions or ()
        if condition.type == REPLICA_FAILURE and condition.status == "True" and condition.message
    ]
