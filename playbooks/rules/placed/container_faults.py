"""Rules about faults inside a GPU container: what it was given, and what its node or its log tells."""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from msgspec import structs

from bot.finding_codes import Code
from bot.hami.fit.allocated_totals import Share, read_holding
from bot.hami.fit.verdicts import type_allows, uuid_allows
from bot.hami.names import Names
from bot.hami.nodes.cards import Card, CardState
from bot.hami.nodes.node_state import memory_factor, read_plugin_settings
from bot.hami.pods.allocations import Allocation, counted_allocations, decode_allocations, is_finished
from bot.hami.pods.pod_request import Constraints, written
from bot.hami.pods.request_parsing import device_asked, pod_request, read_constraints
from bot.hami.vendors import FIRST
from bot.hami.version import NEWEST_READ, Version, rules_of
from bot.kube.models import ContainerStatus, Pod
from bot.report import Confidence, Evidence, Finding, Gap, NextAction, act, gap, step
from bot.texts import Prose, Text, sentences
from playbooks import quotes
from playbooks.quotes import kubectl, let_read_logs
from playbooks.rule import rule
from playbooks.rules.common import prose
from playbooks.rules.common.containers import GpuContainers, gpu_containers, in_trouble, statuses
from playbooks.rules.common.findings import Part, finding
from playbooks.rules.common.holders import are_siblings, edit_owner, recreate, stop, without_env
from playbooks.rules.nodes.gpu_faults import reported
from playbooks.rules.waiting import volcano
from playbooks.rules.waiting.unregistered_nodes import set_to
from playbooks.rules.waiting.volcano import limited_containers
from playbooks.scenes.placed_pod import PlacedScene

_KEEPS_SUFFIX = Version(2, 10, 0)
"""Annotations are read as by this version, which leaves the suffix `[template-slot]` on a MIG instance's uuid."""
_WITH_INITS = Version(2, 9, 0)
_MOST_HOLDERS = 3
_SIGNS = {"hami-core-crash", "limit-not-enforced"}
_VISIBLE, _NONE = "CUDA_VISIBLE_DEVICES", ("", "-1", "none")
_VARIABLES = (_VISIBLE, "NVIDIA_VISIBLE_DEVICES")
_TELLS_ITSELF = ("OOMKilled", "StartError", "ContainerCannotRun", "Completed")
"""The reasons of ends about which the container's log says no more."""


def fault(
    scene: PlacedScene,
    code: Code,
    claim: Prose,
    proofs: Sequence[Evidence],
    actions: Sequence[NextAction],
    *,
    sure: Confidence = "suspected",
) -> Finding:
    """A finding about the placed pod; it advises an upgrade where a known bug of HAMi or its device plugin fits."""
    nodes, of, plugin = [scene.pod.spec.node_name], scene.install, scene.plugin_version
    return finding(code, claim, sure, nodes, proofs, actions=actions, of=of, plugin=plugin)


def given(scene: PlacedScene) -> GpuContainers:
    return GpuContainers(gpu_containers(scene.pod, scene.config), shares(scene.pod))


def shares(pod: Pod) -> list[Allocation]:
    """The shares that HAMi gave the pod of GPUs whose limits HAMi-core keeps; none of MIG instances."""
    if pod.metadata.annotation(FIRST.names.mode) == "mig":
        return []
    counted = counted_allocations(pod.metadata, _KEEPS_SUFFIX)
    return [
        allocation
        for allocations in counted or ()
        for allocation in allocations
        if not allocation.uuid.startswith("MIG-") and "[" not in allocation.uuid
    ]


def is_limited(scene: PlacedScene, held: GpuContainers) -> bool:
    """Whether the pod holds less than whole GPUs, so that it needs a limit."""
    if held.limits_cores or not held.shares:
        return held.limits_cores
    gpus = scene.config.gpus
    size = {card.uuid: 0 if card.mode == "mig" else card.memory_mib for card in scene.cards}
    if all(share.uuid in size for share in held.shares):
        return any(share.memory_mib < size[share.uuid] for share in held.shares)
    asked = {name for container in held.containers if container.resources for name in container.resources.limits or ()}
    return not asked.isdisjoint({gpus.memory, gpus.percentage})


def sharers(scene: PlacedScene, held: GpuContainers) -> list[Pod] | None:
    """The other pods that have shares of this pod's GPUs; None where they could not be read."""
    mine, pods = {share.uuid for share in held.shares}, scene.side.pods if scene.side else ()
    if isinstance(pods, Gap):
        return None
    others = (other for other in pods if other.metadata.uid != scene.pod.metadata.uid and not is_finished(other))
    return [other for other in others if mine & {share.uuid for share in shares(other)}]


def contradictions(scene: PlacedScene) -> Iterator[Part]:
    """Where what the pod was given differs from its request, or what all pods were given exceeds the GPU."""
    yield from _unlike_asked(scene)
    for one in promised(scene):
        if (claim := one.beyond) is not None:
            others = [f"{pod.namespace}/{pod.name}" for pod in one.holders if volcano.shares(pod)]
            mixed = 0 < len(others) < len(one.holders)
            by_volcano = [Text("given.by-volcano", pods=prose.names(others))] if mixed else []
            look = prose.command("gpus", "--node", scene.pod.spec.node_name)
            newest = max(one.holders, key=lambda pod: pod.metadata.creation_timestamp or "")
            steps = [
                step(Text("given.look-twice", node=scene.pod.spec.node_name), look),
                recreate(newest, Text("given.recreate-newest", pod=f"{newest.namespace}/{newest.name}")),
            ]
            yield Part(sentences(claim, *by_volcano), one.proofs, steps)
            return


def _unlike_asked(scene: PlacedScene) -> Iterator[Part]:
    """Where HAMi gave the pod a GPU that its annotations exclude, or other amounts than a container asks for. HAMi
    reads both only when it places the pod: later changes of them change nothing.
    """
    pod, names = scene.pod, device_asked(scene.pod, scene.config).names
    cards = {card.uuid: card for card in scene.cards}
    containers = decode_allocations(pod.metadata.annotation(names.allocated[0]) or "", _KEEPS_SUFFIX) or ()
    mine = [own for shares in containers if (own := [share for share in shares if share.uuid])]
    every = [share.uuid for shares in mine for share in shares]
    again = recreate(pod, Text("given.recreate"))
    if not cards or any("[" in uuid or (uuid in cards and cards[uuid].mode == "mig") for uuid in every):
        return
    proof, wanted = quotes.of_holder(pod), read_constraints(pod, names)
    for uuid in every:
        if uuid not in cards and scene.node is not None:
            claim: Prose = Text("given.unregistered", uuid=uuid, node=scene.node.name)
            yield Part(claim, [proof, quotes.of_cards(scene.node)], prose.see_node(scene.node.name))
            return
        if key := _left_out(wanted, cards[uuid], names):
            claim = Text("given.left-out", uuid=uuid, type=cards[uuid].type, annotation=key)
            both = wanted.use_uuid is not None and key == names.no_use_uuid
            if both and scene.version is not None and scene.version < _KEEPS_SUFFIX:
                claim = sentences(claim, Text("given.ignored", use=names.use_uuid, version=scene.version))
            yield Part(claim, [quotes.of_pod_annotation(pod, key), proof], [again])
            return
    asked = pod_request(pod, scene.config, scene.version).containers if scene.version else ()
    by_name, gpus = {container.name: container for container in gpu_containers(pod, scene.config)}, scene.config.gpus
    for request, given in zip(asked, mine, strict=False) if len(asked) == len(mine) else ():
        container = by_name.get(request.container)
        explicit = {name for name in gpus.all if container and written(container, name) is not None}
        amounts = [(gpus.count, request.count, len(given))]
        for share in given:
            wanted_mib = request.memory_mib if request.memory_mib > 0 else share.memory_mib
            amounts += [(gpus.memory, wanted_mib, share.memory_mib), (gpus.cores, request.cores, share.cores)]
        for resource, wants, got in amounts if request.word == FIRST.names.word else ():
            if resource in explicit and abs(wants - got) > (1 if resource == gpus.memory else 0):
                values = {"container": request.container, "resource": resource}
                claim = Text("given.unlike", **values, asked=f"{wants:,}", given=f"{got:,}")
                yield Part(claim, [proof], [again])
                return


def _left_out(wanted: Constraints, card: Card, names: Names) -> str:
    """The annotation that excludes the card, as the newest HAMi reads it; empty where none does."""
    rules, state, wanted = rules_of(NEWEST_READ), CardState(card), structs.replace(wanted, mode=None)
    if not uuid_allows(wanted, card.uuid, rules):
        return (
            names.no_use_uuid
            if uuid_allows(structs.replace(wanted, no_use_uuid=None), card.uuid, rules)
            else names.use_uuid
        )
    if not type_allows(wanted, state, rules):
        return (
            names.no_use_type
            if type_allows(structs.replace(wanted, no_use_type=None), state, rules)
            else names.use_type
        )
    return ""


def _every_share(pod: Pod) -> list[Allocation]:
    return [*shares(pod), *volcano.shares(pod)]


def scaling_of(scene: PlacedScene) -> float | None:
    """Registered over real memory of the pod's GPUs: 1 without memory scaling, None if not known."""
    settings = read_plugin_settings(scene.seen.config_maps if scene.seen else ())
    own = {share.uuid for share in _every_share(scene.pod)}
    cards = [*scene.cards, *volcano.cards(scene.node)] if scene.node else []
    factors = [memory_factor(card, scene.node, settings) for card in cards if scene.node and card.uuid in own]
    return max((factor for factor in factors if factor), default=settings.memory_scaling_of(scene.pod.spec.node_name))


def less_promised(scene: PlacedScene) -> list[NextAction]:
    """The steps where memory scaling promises more than the GPUs have: end the largest pod beside it, scale less."""
    seen, node, steps = scene.seen, scene.pod.spec.node_name, list[NextAction]()
    mine = {share.uuid for share in _every_share(scene.pod)}
    others = [one for one in sharers(scene, scene.once(given)) or () if not are_siblings(one, scene.pod)]
    held = [(sum(one.memory_mib for one in shares(pod) if one.uuid in mine), pod) for pod in others]
    if held:
        memory, pod = max(held, key=lambda it: it[0])
        end = stop(pod, others)
        values = {"pod": f"{pod.namespace}/{pod.name}", "memory": prose.mib(memory)}
        steps.append(act(Text("in-container.end-sharer", **values, end=end.how), end.command))
    if seen is not None and not volcano.limited_containers(scene.pod):
        steps.append(set_to("deviceMemoryScaling", 1, scaling_of(scene) or 1, node, seen, plugins=scene.plugins))
    return steps or strangers(node)


def strangers(node: str) -> list[NextAction]:
    """The steps to find and end what uses the node's GPUs and is of no pod that HAMi knows."""
    look = step(Text("in-container.known-pods", node=node), prose.command("gpus", "--node", node))
    return [look, act(Text("in-container.fix-full", node=node))]


class Promised(NamedTuple):
    """What all pods on one GPU were given of it together, and how it is registered."""

    total: Share
    card: Card
    holders: Sequence[Pod]

    @property
    def values(self) -> dict[str, str | int]:
        return {
            "uuid": self.card.uuid,
            "total": f"{self.total.memory_mib:,}",
            "size": f"{self.card.memory_mib:,}",
            "count": len(self.holders),
        }

    @property
    def beyond(self) -> Text | None:
        """The sentence that more is given than registered, the memory first; None where it is not."""
        values, (slots, memory, cores) = self.values, self.total
        if memory > self.card.memory_mib > 0:
            return Text("given.twice", **values)
        if cores > self.card.cores > 0:
            return Text("given.twice-cores", **values | {"total": f"{cores:,}", "size": f"{self.card.cores:,}"})
        if slots > self.card.slots > 0:
            return Text("given.twice-slots", **values | {"total": slots, "size": self.card.slots})
        return None

    @property
    def proofs(self) -> list[Evidence]:
        return [
            quotes.of_pod_annotation(pod, volcano.GIVEN_KEY) if volcano.shares(pod) else quotes.of_holder(pod)
            for pod in self.holders[:_MOST_HOLDERS]
        ]


def promised(scene: PlacedScene) -> Iterator[Promised]:
    """For each of the pod's GPUs, what the node's pods were given of it together, by HAMi and by Volcano."""
    node, pods = scene.node, scene.side.pods if scene.side else ()
    if node is None or isinstance(pods, Gap):
        return
    both, own = [*scene.cards, *volcano.cards(node)], _every_share(scene.pod)
    holders = {pod.metadata.uid: pod for pod in [*pods, scene.pod] if not is_finished(pod)}
    for uuid in dict.fromkeys(share.uuid for share in own):
        found = [card for card in both if card.uuid == uuid and card.mode != "mig"]
        parts = [(pod, share) for pod in holders.values() for share in _shares_of(pod, uuid, scene.version)]
        if found and parts:
            most = {name: max(getattr(card, name) for card in found) for name in ("slots", "memory_mib", "cores")}
            card = structs.replace(found[0], **most)
            total = Share(*map(sum, zip(*(share for _, share in parts), strict=True)))
            yield Promised(total, card, list({pod.metadata.uid: pod for pod, _ in parts}.values()))


def _shares_of(pod: Pod, uuid: str, version: Version | None) -> Iterator[Share]:
    """What a pod holds of a GPU, by HAMi and by Volcano; init containers count as in HAMi 2.10."""
    holding = read_holding(pod, _KEEPS_SUFFIX if version is None or version >= _WITH_INITS else version)
    if holding and uuid in holding.shares:
        yield holding.shares[uuid]
    yield from (Share(1, one.memory_mib, one.cores) for one in volcano.shares(pod) if one.uuid == uuid)


def is_troubled(scene: PlacedScene) -> bool:
    return any(in_trouble(status, scene.now) for status in statuses(scene.pod))


@rule("card-fault", reads=("install", "node"))
def on_a_faulty_gpu(scene: PlacedScene) -> Iterator[Finding]:
    """The finding that a program reports a fault of a GPU whose container ends for no other known reason."""
    names = {container.name for container in scene.once(given).containers}
    ended = any(
        status.name in names and in_trouble(status, scene.now) and _ran(status) for status in statuses(scene.pod)
    )
    if ended and scene.node is not None and (cause := reported(scene.node, "suspected")):
        yield cause.told(of=scene.install)


@rule("gpu-start-failure", reads=("install",))
def hidden_from_cuda(scene: PlacedScene) -> Iterator[Finding]:
    """The finding that a GPU container that fails hides every GPU from CUDA by its own environment."""
    failing = {status.name for status in statuses(scene.pod) if in_trouble(status, scene.now) and _ran(status)}
    for container in scene.once(given).containers:
        hides = [one for one in container.env or () if one.name == _VISIBLE and one.value in _NONE]
        if container.name in failing and hides and hides[0].value_from is None:
            values = {"container": container.name, "variable": f'"{_VISIBLE}"', "value": f'"{hides[0].value}"'}
            claim = Text("gpu-start-failure.hidden", **values)
            proofs = [quotes.of_env(scene.pod, container.name, hides[0])]
            gone = without_env(container.name, _VISIBLE)
            fix = edit_owner(scene.pod, Text("gpu-start-failure.unset", **values), gone)
            yield finding("gpu-start-failure", claim, proofs=proofs, actions=[fix], of=scene.install)


def without_gpu(scene: PlacedScene, name: str) -> Part:
    """Why CUDA finds no GPU in a container: its own environment hides it, or another runtime than NVIDIA's started it.
    A device plugin without NVIDIA's runtime class that registers GPUs shows that NVIDIA's is the node's default.
    """
    pod, spec = scene.pod, scene.pod.spec
    parts = [one for one in (*(spec.init_containers or ()), *spec.containers) if one.name == name]
    for variable in (one for part in parts for one in part.env or () if one.name in _VARIABLES):
        if variable.value_from is None and not (variable.name != _VISIBLE and variable.value == "all"):
            values = {"container": name, "variable": variable.name, "value": f'"{variable.value}"'}
            fix = edit_owner(pod, Text("gpu-start-failure.unset", **values), without_env(name, variable.name))
            return Part(Text("no-gpu.env", **values), [quotes.of_env(pod, name, variable)], [fix])
    classes = {plugin.spec.runtime_class_name for plugin in scene.plugins}
    needed = next((of for of in classes if "nvidia" in of), "")
    own, node = pod.spec.runtime_class_name, pod.spec.node_name or "?"
    named = needed or "nvidia"
    classed = edit_owner(pod, Text("no-gpu.set-class", name=named, now=own or Text("render.unset")), of_class(named))
    if needed and "nvidia" not in own:
        plugin = next(one for one in scene.plugins if one.spec.runtime_class_name == needed)
        shown = quotes.of_pod(plugin, needed, "{.spec.runtimeClassName}")
        claim = Text("no-gpu.runtime", name=needed, node=node, own=own or Text("render.unset"))
        return Part(claim, [shown], [classed])
    images = [f"--image={part.image}" for part in parts]
    once = kubectl("-n", pod.namespace, "run", "image-env", "--rm", "-i", "--restart=Never", *images)
    look = act(Text("no-gpu.look", node=node), f"{once} --command -- printenv {_VISIBLE}")
    if "nvidia" in own:
        return Part(Text("no-gpu.classed", name=own, node=node), [], [look])
    if classes and scene.cards:
        return Part(Text("no-gpu.default", node=node), [], [look])
    return Part(Text("no-gpu.unseen", node=node), [], [classed, look])


def of_class(name: str) -> dict[str, object]:
    """The patch of a pod that sets its runtime class."""
    return {"spec": {"runtimeClassName": name}}


def unread_log(scene: PlacedScene, told: Collection[str]) -> Sequence[Gap]:
    """The gap of a GPU container's log that was not read and could tell more of findings with the codes `told`."""
    containers = (*scene.once(given).containers, *limited_containers(scene.pod))
    names = {container.name for container in containers}
    asking = [status for status in statuses(scene.pod) if status.name in names]
    ran = any(status.state.running or (in_trouble(status, scene.now) and _ran(status)) for status in asking)
    if scene.seen is None or (not ran and _SIGNS.isdisjoint(told)):
        return []
    if scene.own_logs is None:
        allow = Text("gap.own-log-hint", role=let_read_logs(scene.pod.namespace))
        return [gap("container log", Text("gap.own-log"), allow)]
    return scene.own_log_gaps


def _ran(status: ContainerStatus) -> bool:
    ended = status.state.terminated or status.last_state.terminated
    return ended is not None and ended.reason not in _TELLS_ITSELF
