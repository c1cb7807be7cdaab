"""Steps, with evidence, that let a pod onto a node: past Kubernetes' filters, a smaller request, other pods' end."""

from collections import Counter
from collections.abc import Sequence
from itertools import islice

from msgspec import structs

from bot.hami.fit.advice import PlacementChange
from bot.hami.fit.blockers import Ending
from bot.hami.pods.request_parsing import asked_resources
from bot.kube.models import Pod, Toleration
from bot.kube.selectors import OF_KUBERNETES, SELECTOR_TEXT, TAINT_TEXT, NodeFilter, Obstacle, effective_request
from bot.report import Evidence, Gap, NextAction, gap, step
from bot.texts import Prose, Text, clauses, spaced, together
from playbooks import quotes
from playbooks.fit.gpu_words import DEFAULT_NAMESPACE, CardWords, device_of, words_of
from playbooks.fit.manifest import STANDARD_INPUT, file_of, role_of, rules_on_others
from playbooks.fit.scene import AskedScene, other_resources
from playbooks.quotes import kubectl
from playbooks.rules.capacity import request_amounts
from playbooks.rules.capacity.large_request import BY_AFFINITY, loosen
from playbooks.rules.capacity.request_amounts import SHORT, Shortage, shortage
from playbooks.rules.common import prose
from playbooks.rules.common.holders import end_pod, owner_of
from playbooks.scenes.waiting_pod import PodScene

_MAX_TRIED = 20
_MAX_NAMED = 3
_SHARED = ("cpu", "memory", "ephemeral-storage")
"""Resources of a node that other pods take too: HAMi's holders, the only pods that are read, do not say how much."""


def reasons(scene: PodScene, names: Sequence[str], *, figures: bool = True) -> list[Prose]:
    """Why kube-scheduler drops these nodes, most frequent first, counted if several; then ever shorter forms of that
    list. `figures`: a resource that is too small comes with the requested and the largest amount.
    """
    counts = Counter(_text(scene.obstacles[name]) for name in names).most_common()
    short = {text: found for text, _ in counts if figures and (found := _shortage(scene, text, names))}
    texts: list[Prose] = [short[text].noted(text) if text in short else text for text, _ in counts]
    several = len(texts) > 1
    parts = [spaced(str(count), text) if several else text for text, (_, count) in zip(texts, counts, strict=True)]
    return [clauses(parts[:most]) for most in range(len(parts), 0, -1)]


def _shortage(scene: PodScene, text: str, names: Sequence[str]) -> Shortage | None:
    if text.removeprefix(SHORT) not in _SHARED:
        return None
    return shortage(scene, text, [name for name in names if scene.obstacles[name].text == text])


def _text(obstacle: Obstacle) -> str:
    named = obstacle.text in (SELECTOR_TEXT, TAINT_TEXT) and obstacle.detail != BY_AFFINITY
    return f"{obstacle.text} ({obstacle.detail})" if named else obstacle.text


def proofs(scene: PodScene, name: str) -> list[Evidence]:
    """Quotes what keeps the pod off the node in Kubernetes: its taint, the pod's selector, or the amounts."""
    node, (text, detail) = scene.nodes[name], scene.obstacles[name]
    if text == TAINT_TEXT:
        return [quotes.of_node(node, detail, "{.spec.taints[*].key}")]
    if text == SELECTOR_TEXT:
        value = (scene.pod.spec.node_selector or {}).get(detail)
        return [of_manifest(scene.pod, detail, value)] if value else []
    offered = [quotes.of_allocatable(node, detail)] if detail in (node.status.allocatable or {}) else []
    return offered + asked_amount(scene.pod, detail)


def asked_amount(pod: Pod, resource: str) -> list[Evidence]:
    """Quotes from the manifest the first amount of the resource that a container asks for, if any."""
    containers = (*pod.spec.containers, *(pod.spec.init_containers or ()))
    parts = [container.resources for container in containers if container.resources]
    amounts = [some[resource] for part in parts for some in (part.requests, part.limits) if some and resource in some]
    return [of_manifest(pod, resource, str(amount)) for amount in amounts[:1]]


def of_manifest(pod: Pod, key: str, value: str) -> Evidence:
    """Quotes the manifest's value at `key`, with the `grep` that shows it."""
    show = prose.command("grep", "-F", "--", key, file_of(pod))
    return Evidence("manifest", f"Pod {pod.namespace}/{pod.name}", None, value, show)


def ask_again(pod: Pod, change: Prose, look: str) -> NextAction:
    """The step that changes the manifest, and the command that tries it again; for a pasted manifest, `look`."""
    if (file := file_of(pod)) == STANDARD_INPUT:
        return step(change, look)
    within = ("-n", pod.namespace) if pod.namespace != DEFAULT_NAMESPACE else ()
    return step(Text("change.in-file", change=change, file=file), prose.command("fit", "-f", file, *within))


def replicas_unjudged(scenes: Sequence[AskedScene]) -> list[Gap]:
    """The gap that one pod of each role is judged: whether all replicas have room at the same time is not known."""
    roles = [role for scene in scenes if (role := role_of(scene.written)).replicas != 1 or len(scenes) > 1]
    several = [role for role in roles if role.kind != "Pod"]
    if not several:
        return []
    names = prose.names([f"{role.name} ({'?' if role.replicas is None else role.replicas})" for role in several])
    return [gap("room for all replicas at once", Text("gap.replicas", roles=names), Text("gap.replicas-hint"))]


def not_looked_at(scene: PodScene) -> list[Gap]:
    """The gaps about what a pod asks for beside GPUs: amounts are compared with whole nodes, other rules not at all."""
    shared = [resource for resource in _SHARED if effective_request(scene.pod, resource) > 0]
    asked = ", ".join([*shared, *other_resources(scene.pod, scene.config)])
    gaps = [gap(f"free {asked}", Text("gap.taken", what=asked), Text("gap.taken-hint"))] if asked else []
    rules = rules_on_others(scene.pod)
    return gaps + [gap(rule, Text("gap.unjudged-rule"), Text("gap.unjudged-rule-hint")) for rule in rules]


def past_kubernetes(scene: PodScene, names: Sequence[str]) -> list[NextAction]:
    """Steps that let the pod onto nodes that HAMi would choose: a looser selection, a smaller request, a toleration."""
    found: list[NextAction] = []
    if (loosened := loosen(scene, names)) is not None:
        look = kubectl("get", "node", loosened.nodes[0], "--show-labels")
        found.append(step(loosened.label(), look))
    for text in dict.fromkeys(scene.obstacles[name].text for name in names):
        if (short := _shortage(scene, text, names)) is not None:
            look = kubectl("get", "node", short.node.name, "-o", "jsonpath={.status.allocatable}")
            found += [ask_again(scene.pod, change, look) for change in short.ask_less]
    tainted = [name for name in names if scene.obstacles[name].text == TAINT_TEXT]
    for taint in dict.fromkeys(scene.obstacles[name].detail for name in tainted):
        of_taint = [name for name in tainted if scene.obstacles[name].detail == taint]
        more = [*(scene.pod.spec.tolerations or ()), Toleration(key=taint, operator="Exists")]
        drops = NodeFilter(scene.pod, more).obstacle
        tried = () if taint.startswith(OF_KUBERNETES) else of_taint[:_MAX_TRIED]
        let_in = list(islice((name for name in tried if drops(scene.nodes[name]) is None), _MAX_NAMED))
        if let_in:
            label = Text("change.tolerate", taint=taint, nodes=", ".join(let_in))
            found.append(step(label, kubectl("get", "node", let_in[0], "-o", "jsonpath={.spec.taints}")))
            break
    return found


def end_others(scene: AskedScene, found: Sequence[Ending]) -> list[NextAction]:
    """The step that ends the pods of the first way in `found`, and how to look at them: by node, or by quota."""
    if not found:
        return []
    first = found[0]
    names = [f"{pod.namespace}/{pod.name}" for pod in first.pods]
    pods = scene.view.facts.pods or ()
    if len(names) == 1:
        return [end_pod(names[0], first.node, pods)]
    label = Text("change.end-pods", pods=prose.names(names), node=first.node)
    owned = [pod for pod in pods if f"{pod.namespace}/{pod.name}" in names and owner_of(pod).kind != "Namespace"]
    if owners := [*dict.fromkeys(owner_of(pod).asked for pod in owned)]:
        label = together(label, Text("change.started-again", owners=prose.names(owners)), by="; ")
    there = all(pod.node == first.node for pod in first.pods)
    look = ("gpus", "--node", first.node) if there else ("quota", scene.pod.namespace)
    return [step(label, prose.command(*look))]


def as_step(scene: AskedScene, change: PlacementChange) -> NextAction:
    """A smaller request as a step; for GPUs asked for in words, the command asks again with the new words."""
    in_words = scene.card_words is not None and change.what == "drop-type"
    label = request_amounts.change(scene, change, what="drop-option" if in_words else "")
    device = device_of(scene.card_words, scene.config) if scene.card_words else None
    factor = device.resources.memory_factor if device else 1
    if scene.card_words and (again := _changed(scene.card_words, change, factor)) is not None:
        return step(label, prose.command("fit", *words_of(again, scene.pod.namespace)))
    look = quotes.of_cards(scene.nodes[change.node]).command
    return ask_again(scene.pod, label, look)


def _changed(words: CardWords, change: PlacementChange, factor: int) -> CardWords | None:
    """The words for the smaller request; a memory is a multiple of the factor that the device config sets."""
    memory = change.amount - change.amount % factor
    match change.what:
        case "memory" if memory:
            return structs.replace(words, memory_mib=memory, percentage=0)
        case "share" if memory:  # of which the cores are no part
            return structs.replace(words, memory_mib=memory, percentage=0, cores=None)
        case "cores":
            return structs.replace(words, cores=change.amount)
        case "count":
            return structs.replace(words, cards=change.amount)
        case "drop-type":
            return structs.replace(words, type="")
        case _:
            return None


def proofs_of(scene: AskedScene, node: str = "") -> tuple[Evidence, ...]:
    """Quotes what the manifest asks for; for GPUs in words, which are in no manifest, a GPU of `node`."""
    if scene.card_words is None:
        asks = asked_resources(scene.written, scene.config)
        return tuple(of_manifest(scene.pod, name, value) for name, value in asks.items())
    with_cards = [candidate for candidate in scene.candidates if not node and scene.view.cards(candidate)]
    names = [node] if node else with_cards or sorted(scene.nodes)
    return (of_card(scene, names[0]),) if names else ()


def of_ending(scene: AskedScene, found: Sequence[Ending]) -> list[Evidence]:
    """Quotes what HAMi gave the first pod that would have to end; empty if none would."""
    ends = [(pod.namespace, pod.name) for ending in found[:1] for pod in ending.pods[:1]]
    return [quotes.of_holder(pod) for pod in scene.view.facts.pods or () if (pod.namespace, pod.name) in ends][:1]


def of_largest(scene: AskedScene) -> list[Evidence]:
    """Quotes the largest holding that HAMi counts against the quota of the pod's namespace."""
    held = scene.view.ledger.all() if scene.view.ledger else ()
    own = [holding for holding in held if holding.namespace == scene.pod.namespace]
    largest = [holding.uid for holding in sorted(own, key=lambda holding: (holding.amounts, holding.name))[-1:]]
    return [quotes.of_holder(pod) for pod in scene.view.facts.pods or () if pod.metadata.uid in largest][:1]


def of_card(scene: AskedScene, name: str) -> Evidence:
    """Quotes a GPU of the node, or the node's name if it has none."""
    cards, node = scene.view.cards(name), scene.nodes[name]
    return quotes.of_card(node, cards[0].card.uuid) if cards else quotes.of_node(node, name, "{.metadata.name}")
