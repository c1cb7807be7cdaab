"""What keeps HAMi's device plugin of a node from its work, by its own words and the runtime's."""

from bot.hami.signatures import Hit
from bot.hami.version import Version
from bot.kube.models import Pod
from bot.report import Evidence, Finding
from bot.texts import Texts
from playbooks.gather.node_side import NodeSide
from playbooks.rules.signed import in_log, in_messages, signed


def plugin_faults(side: NodeSide, version: Version | None, say: Texts) -> list[Finding]:
    """What is wrong with the device plugin of this node; nothing where it works or could not be read."""
    sick = [one for one in side.plugin_pods if not _works(one)]
    found: list[tuple[Hit, Evidence]] = []
    for pod in sick:
        found += [(hit, proof) for hit, proof, _ in in_messages(pod, pod.status.container_statuses or (), version)]
        for log in side.logs:
            if log.pod.metadata.uid == pod.metadata.uid:
                where = "plugin-log" if log.container == "device-plugin" else "monitor-log"
                found += in_log(where, log, version)
    if not found:
        return []
    hit = found[0][0]
    proofs = [proof for other, proof in found if other.signature.code == hit.signature.code]
    claim = say("plugin-fault.claim", node=side.name, means=hit.signature.words(say.language).means)
    return [signed(hit, proofs, claim, (side.name,), say)]


def _works(pod: Pod) -> bool:
    statuses = pod.status.container_statuses or ()
    return bool(statuses) and all(one.ready for one in statuses)
