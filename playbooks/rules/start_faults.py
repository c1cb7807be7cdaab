"""GPU reasons for which a container of a placed pod was not started."""

from bot.hami.version import Version
from bot.kube.models import Pod
from bot.report import Finding
from bot.texts import Texts
from playbooks.rules.signed import in_messages, signed


def start_faults(pod: Pod, version: Version | None, say: Texts) -> list[Finding]:
    """What the container runtime said, where a signature knows the words."""
    statuses = [*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ())]
    found = in_messages(pod, statuses, version)
    if not found:
        return []
    hit, _, container = found[0]
    proofs = [proof for other, proof, _ in found if other.signature.code == hit.signature.code]
    means = hit.signature.words(say.language).means
    claim = say("start-fault.claim", container=container, node=pod.spec.node_name or "?", means=means)
    return [signed(hit, proofs, claim, (pod.spec.node_name,) if pod.spec.node_name else (), say)]
