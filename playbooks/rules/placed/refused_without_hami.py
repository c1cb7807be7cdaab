"""A pod that its node refused, and to which HAMi had given nothing: who placed it, and why not HAMi."""

from datetime import datetime

from bot.hami.installation.install import is_anothers, kube_scheduler_of
from bot.hami.installation.kube_scheduler import SchedulerConfig, find_scheduler_config
from bot.hami.pods.allocations import reserved_node
from bot.hami.pods.request_parsing import asked_resources
from bot.kube.models import Pod
from bot.report import Finding, Gap, step
from bot.texts import Text
from playbooks import quotes
from playbooks.gather.placed_pod import PlacedPod
from playbooks.gather.scheduling import Capacity, InstallSeen
from playbooks.quotes import kubectl
from playbooks.rules.admission.webhook_bypassed import missed
from playbooks.rules.common import prose
from playbooks.rules.common.findings import finding
from playbooks.rules.installation.extender import managed_proof, never_asked
from playbooks.rules.waiting.volcano import scheduled_by_volcano
from playbooks.scene import ClusterScene, PodScene


def without_hami(pod: Pod, refusal: Finding, placed: PlacedPod, now: datetime) -> list[Finding]:
    """Why the pod came to its node without a GPU from HAMi; nothing where HAMi placed it, or nothing tells.

    Somebody else's scheduler means to place its pods without HAMi.
    """
    install, config = placed.install.install, placed.install.config
    if refusal.code != "allocate-failed" or reserved_node(pod.metadata):
        return []
    if placed.install.presence == "absent" or is_anothers(pod.spec.scheduler_name, install):
        return []
    if (of_volcano := scheduled_by_volcano(pod, install, config, refusal.evidence)) is not None:
        return [of_volcano]
    asked = asked_resources(pod, config)
    owner = None if isinstance(placed.owner, Gap) else placed.owner
    scene = PodScene(pod, ClusterScene(placed.install, Capacity([], [], []), now, webhook=placed.webhook))
    return missed(scene, asked, refusal.evidence, owner) or _not_asked_about(pod, asked, placed.install, refusal)


def _not_asked_about(pod: Pod, asked: dict[str, str], seen: InstallSeen, refusal: Finding) -> list[Finding]:
    """HAMi's kube-scheduler asks the extender only about pods with a resource that the extender manages."""
    if asked and (unnamed := never_asked(seen, ("kind",), refusal.evidence)):
        return unnamed
    config = find_scheduler_config(seen.config_maps, kube_scheduler_of(seen.install))
    extender = config.extender(seen.config.gpus.count) if isinstance(config, SchedulerConfig) else None
    managed = {resource.name for resource in extender.managed_resources or ()} if extender else set[str]()
    if not isinstance(config, SchedulerConfig) or not managed or not asked or managed & asked.keys():
        return []
    names = prose.names(sorted(asked))
    claim = Text("extender-misconfigured.unasked", resources=names, file=config.key)
    edit = kubectl("-n", config.config_map.namespace, "edit", "configmap", config.config_map.name)
    steps = [step(Text("extender-misconfigured.add", resource=names), edit, changes_cluster=True)]
    path = "{.spec.containers[*].resources.limits}"
    proofs = [managed_proof(config), *(quotes.of_pod(pod, name, path) for name in asked), *refusal.evidence]
    return [finding("extender-misconfigured", claim, "confirmed", (), proofs, severity="warning", actions=steps)]
