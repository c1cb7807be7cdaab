"""One pod that `fit` tries, as HAMi's webhook would admit it, and what it asks for beside HAMi's devices."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from bot.hami.fit.verdicts import type_allows, uuid_allows
from bot.hami.installation.install import VOLCANO_SCHEDULERS, Install, is_anothers
from bot.hami.pods.request_parsing import DeviceConfig, extended_resources
from bot.hami.vendors import NAMES
from bot.hami.version import Version
from bot.hami.webhook import Rejection, WebhookSetting, admit, reason_left_alone
from bot.kube.models import Pod, ResourceRequirements
from bot.kube.quantities import parse_quantity
from bot.kube.selectors import Obstacle, effective_request
from bot.report import Confidence, Gap
from bot.texts import Prose, Text
from playbooks.fit.gpu_words import CardWords
from playbooks.rules.common import prose
from playbooks.rules.common.findings import confidence_in
from playbooks.rules.quota.effects import Effect, effects
from playbooks.scenes.waiting_pod import PodScene

_PASSED_OVER = {resource for names in NAMES for resource in names.passed_over}


class AskedScene(PodScene, frozen=True, dict=True, eq=False, kw_only=True):
    """One pod that `fit` tries, as HAMi's webhook would admit it; its obstacles include resources beside HAMi's.
    `name` is what the answer calls the pod, `written` the pod as the manifest has it, `card_words` the words that it
    was asked for in, if any, and `refused` says who would not let it be created. `unread` are gaps despite which the
    pod is judged, as if what could not be read did not exist.
    """

    name: str
    written: Pod
    card_words: CardWords | None = None
    refused: Rejection | None = None
    unread: Sequence[Gap] = ()
    undecodable: Sequence[str] = ()

    @property
    def confidence(self) -> Confidence:
        """`confirmed` only if everything that decides about the pod was read."""
        return "suspected" if self.unread else confidence_in(self.seen, self.cluster.capacity, self.undecodable)

    @property
    def placed_by(self) -> str:
        """The name of another scheduler that places the pod; empty if HAMi's does."""
        name = self.pod.spec.scheduler_name
        return name if name in VOLCANO_SCHEDULERS or is_anothers(name, self.install) else ""

    @cached_property
    def obstacles(self) -> dict[str, Obstacle]:
        """The nodes that kube-scheduler itself drops, as far as objects alone tell, and why."""
        found = dict(super().obstacles)
        for resource in other_resources(self.pod, self.config):
            asked = effective_request(self.pod, resource)
            for name, node in self.nodes.items():
                offered = parse_quantity((node.status.allocatable or {}).get(resource, 0))
                if name not in found and offered is not None and asked > offered:
                    found[name] = Obstacle(f"Insufficient {resource}", resource)
        return found


_NEWEST = Version(2, 10, 0)
_NO_NODE = "pod has node assigned"


def admission(pod: Pod, install: Install, config: DeviceConfig) -> tuple[Pod, Rejection | None]:
    """The pod to judge, as HAMi's webhook admits it, and None; or the pod as written and who would refuse it.
    A pod that was created already has been through the webhook, and one with its opt-out label never will. A node named
    in the manifest is no refusal here: `rules.names_its_node` tells of it.
    """
    version = (install.version.version if install.version else None) or _NEWEST
    created = pod.metadata.uid or pod.metadata.creation_timestamp
    if created or reason_left_alone(pod, config, version, None, None) is not None:
        return pod, None
    setting = WebhookSetting(version, install.scheduler_name, config.devices)
    admitted = admit(pod, setting)
    if isinstance(admitted, Rejection):
        return pod, None if admitted.words == _NO_NODE else admitted
    return admitted, None


def changes(written: Pod, admitted: Pod) -> Iterator[tuple[str, str, str, str]]:
    """The limits that the webhook adds or changes: container, resource, as written (or empty) and as admitted."""
    befores, afters = ([*(pod.spec.init_containers or ()), *pod.spec.containers] for pod in (written, admitted))
    for before, after in zip(befores, afters, strict=True):
        limits = (before.resources or ResourceRequirements()).limits or {}
        for resource, amount in ((after.resources or ResourceRequirements()).limits or {}).items():
            if amount != limits.get(resource):
                yield after.name, resource, str(limits.get(resource, "")), str(amount)


def other_resources(pod: Pod, config: DeviceConfig) -> dict[str, str]:
    """The extended resources that the pod asks for and HAMi does not hand out, with the first amount as written."""
    asked = ((name, amount) for name, amount in extended_resources(pod).items() if name not in _PASSED_OVER)
    return {name: amount for name, amount in asked if not config.manages(name) and parse_quantity(amount)}


def unoffered_resource(scene: AskedScene) -> str:
    """The first resource beside HAMi's that the pod asks for and no node offers; empty if all are offered."""
    offered = {name for node in scene.nodes.values() for name in node.status.allocatable or {}}
    return next((name for name in other_resources(scene.pod, scene.config) if offered and name not in offered), "")


def nearest_resource(scene: AskedScene, resource: str) -> str:
    """The resource of HAMi or of a node whose name is nearest to `resource`; empty if none is near."""
    known = {name for node in scene.nodes.values() for name in node.status.allocatable or {} if "/" in name}
    known |= {*scene.config.gpus.all, *scene.config.other_resources, *(names.count for names in NAMES)}
    return next(iter(difflib.get_close_matches(resource, sorted(known), n=1, cutoff=0.8)), "")


def asked_memory(scene: AskedScene) -> dict[int, list[str]]:
    """The MiB that the whole pod would get, ascending, each with the types of the GPUs on which it would."""
    found: dict[int, set[str]] = {}
    wanted, rules = scene.request.constraints, scene.view.rules
    for name in scene.candidates:
        for card in scene.view.cards(name):
            if type_allows(wanted, card, rules) and uuid_allows(wanted, card.card.uuid, rules):
                of_card = card.card.memory_mib
                amount = sum(part.count * part.memory_on(of_card) for part in scene.request.containers)
                found.setdefault(amount, set()).add(card.card.type)
    return {amount: sorted(found[amount]) for amount in sorted(found)}


def is_share(scene: AskedScene, effect: Effect) -> bool:
    """Whether the pod asks for a share of memory, so that what it takes of the quota limit depends on the GPU."""
    return effect.by == "HAMi" and effect.asked is None and effect.of.resource == scene.gpus.memory


def amounts(figures: Mapping[int, list[str]], form: str = ",") -> Prose:
    """The range of the amounts (the keys), `7,680 to 40,960`, in the format `form`; `?` if there are none."""
    ends = [f"{amount:{form}}" for amount in sorted({min(figures), max(figures)})] if figures else ["?"]
    return ends[0] if len(ends) == 1 else Text("fit.range", least=ends[0], most=ends[1])


def amounts_by_type(figures: Mapping[int, list[str]]) -> Prose:
    """Amounts with their GPU types: `7,680 (Tesla T4), 40,960 (A100)`; a single amount without types."""
    if len(figures) < 2:
        return amounts(figures)
    return prose.names([f"{amount:,} ({', '.join(types)})" for amount, types in figures.items()])


def effects_on_cards(scene: AskedScene) -> list[Effect]:
    """The pod's effect on every quota limit; a share of memory has a verdict if every GPU gives the same one."""
    found: list[Effect] = []
    for effect in effects(scene):
        limit, used = effect.of.amount, effect.used
        figures = asked_memory(scene) if is_share(scene, effect) and effect.verdict == "unknown" else {}
        if figures and limit is not None and (used or 0) + min(figures) > limit:
            found.append(effect._replace(verdict="refused"))
        elif figures and limit is not None and used is not None and used + max(figures) <= limit:
            found.append(effect._replace(verdict="fits"))
        else:
            found.append(effect)
    return found
