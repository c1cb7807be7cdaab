"""Rules about a pod that runs, and facts of how HAMi works that its user may take for a fault of its GPU limits.

Sources: the monitor switches the core limit on only while another container works on the GPU, and blocks one of
priority 1 while one of priority 0 works there [HAMi cmd/vGPUmonitor/feedback.go; HAMi#737, HAMi#786, HAMi-core#37];
ACTIVE_OOM_KILLER is read and never used [HAMi-core src/multiprocess; HAMi#372]; a session that sshd starts lacks the
container's environment with the limits [HAMi#1112, volcano-vgpu-device-plugin#8]; HAMi v2.10's filter looks for the
device's word in the card's type, so Ascend910B4 takes Ascend910B4-1 too (seen by running).
"""

import re
from collections.abc import Iterator, Sequence
from datetime import timedelta

from bot.hami.pods.allocations import BIND_TIME_KEY, bound_at, is_finished, was_allocated
from bot.hami.pods.allocations import given as given_by_hami
from bot.hami.pods.request_parsing import POLICY_KEY, device_asked, extended_resources
from bot.hami.vendors import FIRST
from bot.hami.version import Version
from bot.kube.models import Container, Node, Pod
from bot.kube.node_conditions import NOT_READY_TAINTS, not_ready
from bot.kube.times import format_time, parse_time
from bot.report import Evidence, Finding, Gap, Severity, act, step
from bot.texts import Text, sentences
from playbooks import quotes
from playbooks.gather.node_side import is_monitor
from playbooks.quotes import kubectl, kubectl_exec, kubectl_logs, kubectl_pod
from playbooks.rule import rule
from playbooks.rules.common.containers import GpuContainers, path_in
from playbooks.rules.common.findings import Part, finding
from playbooks.rules.common.holders import edit_owner, recreate, without_env
from playbooks.rules.placed.container_faults import (
    contradictions,
    given,
    is_limited,
    less_promised,
    promised,
    scaling_of,
    sharers,
    shares,
)
from playbooks.rules.placed.hami_core import library_of, newer_driver, unmeasured
from playbooks.rules.placed.not_started import runs
from playbooks.rules.waiting import volcano
from playbooks.scenes.placed_pod import PlacedScene

_SSH = re.compile(r"(?:^|[\s/:_-])(?:sshd|openssh|ssh-?server)", re.IGNORECASE)
_SSH_PORT = 22
_WITH_INITS = Version(2, 9, 0)
(_PRIORITY,) = FIRST.names.passed_over
_KILLER = "ACTIVE_OOM_KILLER"
_TO_GIVE = "hami.io/vgpu-devices-to-allocate"
_EACH_GPU, _TELLS_APART, _NUMA_IS_LAST = Version(2, 8, 2), Version(2, 5, 0), Version(2, 10, 0)
_TOGETHER_S = 30
_POLICY = "GPU_CORE_UTILIZATION_POLICY"


@rule("running")
def running(scene: PlacedScene) -> Iterator[Finding]:
    """The finding that the pod runs, with the first fact that its user may take for a fault; other facts are steps. If
    the pod was given other amounts than it asks for, or more than its GPU has, that is the fact, and a warning.
    """
    pod, node = scene.pod, scene.pod.spec.node_name
    if not runs(scene):
        return
    wrong = list(contradictions(scene)) if scene.seen else []
    remarks = [*wrong, *(_remarks(scene) if scene.seen else [])]
    remarks += _of_log(scene, [remark for remark in remarks if remark.text])
    first = next((remark for remark in remarks if remark.text), None)
    claim = Text("running.claim", pod=f"{pod.namespace}/{pod.name}", node=node)
    proofs = [quotes.of_pod(pod, "Running", "{.status.phase}")]
    if first is not None:
        claim, proofs = sentences(claim, first.text), [*proofs, *first.proofs]
    elif scene.seen or not pod.spec.resource_claims:  # HAMi-DRA makes a request for a GPU a claim
        claim = sentences(claim, Text("running.fine" if scene.seen else "running.asks-none"))
        for status in (pod.status.container_statuses or ())[:1]:
            path = path_in(pod, status.name, "restartCount")
            proofs.append(quotes.of_pod(pod, str(status.restart_count), path))
    ordered = sorted(remarks, key=lambda remark: remark is not first)
    steps = [step for remark in ordered for step in remark.steps]
    severity: Severity = "warning" if wrong else "info"
    yield finding("running", claim, nodes=(node,), proofs=proofs, severity=severity, actions=steps)


def _remarks(scene: PlacedScene) -> list[Part]:
    if chips := list(_other_chip(scene)):
        return chips
    if not {*extended_resources(scene.pod)} & {*scene.config.gpus.all} and not volcano.limited_containers(scene.pod):
        return []  # the limits that HAMi-core keeps are NVIDIA's
    pod, mig = scene.pod, {card.uuid for card in scene.cards if card.mode == "mig"}
    if vgpus := volcano.limited_containers(pod):
        return [*_of_scaling(scene), *_of_limits(scene, GpuContainers(vgpus, ()), None)]
    held = scene.once(given)
    if found := [*_unemptied(scene), *_of_driver(scene)]:
        return found
    held = held._replace(shares=[share for share in held.shares if share.uuid not in mig])
    if not held.shares or not is_limited(scene, held):
        return []
    own = [*unmeasured(scene.plugins), *_of_scaling(scene), *_of_twins(scene, held)]
    own += _of_limits(scene, held, sharers(scene, held))
    return [*own, *_of_first_gpu(scene, held), *_of_entries(scene), *_not_spread(scene, held)]


def _of_log(scene: PlacedScene, told: Sequence[Part]) -> Iterator[Part]:
    """That nothing is known of what it prints, where no other fact of it was `told`."""
    held, mig = scene.once(given), {card.uuid for card in scene.cards if card.mode == "mig"}
    names = [container.name for container in held.containers]
    if scene.log_unread and names:
        look = kubectl_logs(scene.pod, names[0], "--tail=200")
        plain = all(share.uuid in mig for share in held.shares)  # HAMi-core is not loaded for MIG instances
        fact = "" if told else Text("running.log-unread" if plain else "running.core-log-unread")
        yield Part(fact, steps=[step(Text("running.read-log" if plain else "running.read-core-log"), look)])


def _unemptied(scene: PlacedScene) -> Iterator[Part]:
    """The pod's annotation still holds what the device plugin had to give it, though it has given (HAMi#987). The
    plugin strikes out each container's devices as it gives them, which other pods of the node must show.
    """
    left, pods = scene.pod.metadata.annotation(_TO_GIVE) or "", scene.side.pods if scene.side else ()
    if "," not in left or not was_allocated(scene.pod) or isinstance(pods, Gap):
        return
    beside = [pod for pod in pods if pod.metadata.uid != scene.pod.metadata.uid and was_allocated(pod)]
    if all("," in (pod.metadata.annotation(_TO_GIVE) or "") for pod in beside) and beside:
        return
    kept, (container, *_) = given_by_hami(scene.pod.metadata), scene.once(given).containers or scene.pod.spec.containers
    has = kept[0] if kept else "devices-allocated"
    look = step(Text("limit-remark.which-gpus", key=has), kubectl_exec(scene.pod, container.name, "printenv"))
    proofs = [quotes.of_pod_annotation(scene.pod, key) for key in (_TO_GIVE, *(kept or ())[:1])]
    fix = recreate(scene.pod, Text("limit-remark.fix-unemptied"))
    yield Part(Text("limit-remark.unemptied", key=_TO_GIVE), proofs, [look, fix])


def _of_scaling(scene: PlacedScene) -> Iterator[Part]:
    """More of the pod's GPU was given than it has, as memory scaling allows: HAMi-core swaps nothing (HAMi#705)."""
    factor = scaling_of(scene)
    for one in promised(scene) if factor and factor > 1 else ():
        has = one.card.memory_mib / (factor or 1)
        if has < one.total.memory_mib <= one.card.memory_mib:
            fact = Text("limit-remark.scaled", **one.values, has=f"{has:,.0f}", scaling=f"{factor:g}")
            yield Part(fact, one.proofs, less_promised(scene))
            return


def _of_first_gpu(scene: PlacedScene, held: GpuContainers) -> Iterator[Part]:
    """HAMi-core up to HAMi 2.8.1 holds several GPUs to the core limit of the first alone (HAMi-core#104)."""
    library = library_of(scene.plugins)
    if len(held.shares) > 1 and held.limits_cores and library and library.version < _EACH_GPU:
        fix = act(Text("limit-remark.fix-first-gpu", fixed=_EACH_GPU), library.proof.command)
        yield Part(Text("limit-remark.first-gpu", version=library.version), [library.proof], [fix])


def _of_twins(scene: PlacedScene, held: GpuContainers) -> Iterator[Part]:
    """Another pod was bound at the same time, and this device plugin may mix the two up (HAMi#404)."""
    pod, pods, library = scene.pod, scene.side.pods if scene.side else (), library_of(scene.plugins)
    version = library.version if library else scene.version
    figures = scene.measured.usage.usage.containers if scene.measured else ()
    known = any((use.namespace, use.pod, bool(use.limit)) == (pod.namespace, pod.name, True) for use in figures)
    own = bound_at(pod)
    if version is None or version >= _TELLS_APART or known or own is None or isinstance(pods, Gap):
        return
    others = (one for one in pods if one.metadata.uid != pod.metadata.uid and shares(one) and bound_at(one) is not None)
    twin = min(others, key=lambda one: abs((bound_at(one) or 0) - own), default=None)
    if twin is not None and abs((bound_at(twin) or 0) - own) <= _TOGETHER_S and shares(twin) != held.shares:
        name = held.containers[0].name if held.containers else pod.spec.containers[0].name
        look = kubectl_exec(pod, name, "printenv")
        fact = Text("limit-remark.twins", version=version, pod=f"{twin.namespace}/{twin.name}")
        proofs = [quotes.of_pod_annotation(one, BIND_TIME_KEY) for one in (pod, twin)]
        yield Part(fact, proofs, [act(Text("limit-remark.fix-twins"), look)])


def _not_spread(scene: PlacedScene, held: GpuContainers) -> Iterator[Part]:
    """The pod should be spread but is beside an older one while a like GPU is idle: NUMA nodes go first (HAMi#1006)."""
    pod, version, pods = scene.pod, scene.version, scene.side.pods if scene.side else ()
    policy = pod.metadata.annotation(POLICY_KEY) or scene.install.flags.get("gpu-scheduler-policy", "")
    if policy != "spread" or version is None or version >= _NUMA_IS_LAST or isinstance(pods, Gap) or scene.node is None:
        return
    made = pod.metadata.creation_timestamp or ""
    older = [one for one in sharers(scene, held) or () if (one.metadata.creation_timestamp or "") <= made]
    used = {share.uuid for one in pods if not is_finished(one) for share in shares(one)}
    own = [card for card in scene.cards if card.uuid in {share.uuid for share in held.shares}]
    idle = [card for card in scene.cards if card.uuid not in used and card.health and card.mode != "mig"]
    for mine in own if older else ():
        if other := next((card for card in idle if card.type == mine.type and card.numa != mine.numa), None):
            name = f"{older[0].namespace}/{older[0].name}"
            fact = Text("limit-remark.numa", pod=name, idle=other.uuid, version=version)
            proofs = [quotes.of_card(scene.node, card.uuid) for card in (mine, other)]
            named = {"metadata": {"annotations": {FIRST.names.use_uuid: other.uuid}}}
            yield Part(fact, proofs, [edit_owner(pod, Text("limit-remark.fix-numa", uuid=other.uuid), named)])
            return


def _of_driver(scene: PlacedScene) -> Iterator[Part]:
    """The node's driver is newer than its HAMi-core knows: where its log was read, `silent_start` tells it."""
    if scene.log_unread and scene.node is not None and (fact := newer_driver(scene)):
        yield fact._replace(steps=[act(Text("in-container.fix-driver"), fact.proofs[0].command)])


def _other_chip(scene: PlacedScene) -> Iterator[Part]:
    """HAMi gave the pod another chip than the one that it asks for, where the device config names both."""
    device, held = device_asked(scene.pod, scene.config), given_by_hami(scene.pod.metadata)
    own = [card for card in scene.cards if held and card.uuid and f"{card.uuid}," in held[1]]
    other = next((card for card in own if card.type != device.word and card.type in scene.config.by_word), None)
    if other is not None and scene.node is not None:
        count = device.resources.count
        fact = Text("limit-remark.other-chip", type=other.type, resource=count, word=device.word)
        advice = edit_owner(scene.pod, Text("limit-remark.fix-other-chip", word=device.word))
        yield Part(fact, [quotes.of_card(scene.node, other.uuid)], [advice])


def _of_limits(scene: PlacedScene, held: GpuContainers, sharers: Sequence[Pod] | None) -> list[Part]:
    """Facts about the pod's limits, the rarest first. `sharers`: other pods on its GPUs, None where unknown."""
    pod = scene.pod
    look = kubectl_pod(pod, "get", "-o", "yaml")
    fix = act(Text("limit-remark.fix-ssh"), look)
    served = ((one, proof) for one in held.containers if (proof := _serves_ssh(pod, one)))
    found = [Part(Text("limit-remark.ssh", container=one.name), [proof], [fix]) for one, proof in served]
    killers = (one.name for one in held.containers if any(each.name == _KILLER for each in one.env or ()))
    if killer := next(killers, ""):
        proof = quotes.of_pod(pod, _KILLER, f'{{.spec.containers[?(@.name=="{killer}")].env[*].name}}')
        unset = without_env(killer, _KILLER)
        fix = edit_owner(pod, Text("limit-remark.fix-oom-killer", container=killer), unset)
        found.append(Part(Text("limit-remark.oom-killer"), [proof], [fix]))
    # The pod sets these variables, or HAMi's webhook from its configuration.
    env = {variable.name: variable.value for part in held.containers for variable in part.env or ()}
    if held.limits_cores and env.get(_POLICY, "default").lower() == "default":
        found.append(_of_cores(scene, held, sharers))
    first = next((sharer for sharer in sharers or () if _priority(sharer.spec.containers) == "0"), None)
    if first is not None and _priority(held.containers) != "0":
        found.append(_advice(Text("limit-remark.priority", pod=f"{first.namespace}/{first.name}"), look))
    found += [
        _advice(Text("limit-remark.privileged", container=container.name), look)
        for container in held.containers
        if container.security_context and container.security_context.privileged
    ]
    return found


def _of_entries(scene: PlacedScene) -> Iterator[Part]:
    """The annotation has an empty entry first, for init containers (HAMi#1932, HAMi#1650, HAMi-WebUI#98)."""
    pod, version, held = scene.pod, scene.version, given_by_hami(scene.pod.metadata)
    entries = held[1].rstrip(";").split(";") if held else []
    if not pod.spec.init_containers or held is None or version is None or version < _WITH_INITS or entries[0]:
        return
    fact = Text("limit-remark.entries", version=version)
    look = kubectl_pod(pod, "get", "-o", "jsonpath={.metadata.annotations}")
    yield Part(fact, [quotes.of_pod_annotation(pod, held[0])], [act(Text("limit-remark.fix-entries"), look)])


def _serves_ssh(pod: Pod, container: Container) -> Evidence | None:
    at = f'{{.spec.containers[?(@.name=="{container.name}")]'
    if _SSH.search(container.image):
        return quotes.of_pod(pod, container.image, f"{at}.image}}")
    for field, words in (("command", container.command), ("args", container.args)):
        if word := next((text for text in words or () if _SSH.search(text)), ""):
            return quotes.of_pod(pod, word, f"{at}.{field}}}")
    if any(port.container_port == _SSH_PORT for port in container.ports or ()):
        return quotes.of_pod(pod, str(_SSH_PORT), f"{at}.ports[*].containerPort}}")
    return None


def _of_cores(scene: PlacedScene, held: GpuContainers, sharers: Sequence[Pod] | None) -> Part:
    """The monitor lifts the limit of a pod that is alone; where none runs, the limit always holds."""
    pod, alone = scene.pod, sharers is not None and not sharers
    cores = ", ".join(str(amount) for amount in sorted({share.cores for share in held.shares if share.cores}))
    key = "limit-remark.cores-shared" if sharers else "limit-remark.cores"
    said = Text("limit-remark.cores-alone" if alone else key, cores=cores, sharers=len(sharers or ()))
    look = kubectl_pod(pod, "get", "-o", "yaml")
    all_of = ((plugin, one) for plugin in scene.plugins for one in plugin.status.container_statuses or ())
    monitors = [(plugin, one.name) for plugin, one in all_of if is_monitor(one.name) and one.state.running]
    if not alone or not monitors:
        return _advice(said, look)
    kept = given_by_hami(pod.metadata)
    proofs = [quotes.of_pod_annotation(pod, kept[0])] if kept else []
    proofs.append(quotes.of_pod(*monitors[0], "{.status.containerStatuses[*].name}"))
    fix = edit_owner(pod, Text("limit-remark.fix-cores"))
    return Part(Text("limit-remark.alone", cores=cores), proofs, [fix])


def _advice(said: Text, command: str) -> Part:
    return Part(steps=[step(said, command)])


def _priority(containers: Sequence[Container]) -> str:
    """The requested priority: 0 goes before 1, which is what a container has that asks for none."""
    asked = (container.resources.limits or {} for container in containers if container.resources)
    return next((str(limits[_PRIORITY]) for limits in asked if _PRIORITY in limits), "1")


_STUCK = timedelta(minutes=2)
"""How long a deletion past its deadline is taken as normal."""
_SAID = "NodeNotReady"
"""The node controller's event about each pod of a node that it marks as not ready."""


@rule("succeeded")
def succeeded(scene: PlacedScene) -> Iterator[Finding]:
    pod, nodes = scene.pod, [scene.pod.spec.node_name]
    if pod.status.phase == "Succeeded":
        claim = Text("succeeded.claim", pod=f"{pod.namespace}/{pod.name}")
        proofs = [quotes.of_pod(pod, "Succeeded", "{.status.phase}")]
        yield finding("succeeded", claim, nodes=nodes, proofs=proofs, severity="info")


@rule("terminating")
def terminating(scene: PlacedScene) -> Iterator[Finding]:
    """The finding that the pod is being deleted. The API's deletionTimestamp is when it should be gone."""
    pod, text = scene.pod, scene.pod.metadata.deletion_timestamp
    if not text:
        return
    deadline = parse_time(text)
    late = deadline is not None and scene.now - deadline > _STUCK
    key = "terminating.claim" if pod.spec.node_name else "terminating.unscheduled"
    claim = Text(
        "terminating.late" if late else key,
        pod=f"{pod.namespace}/{pod.name}",
        node=pod.spec.node_name or "?",
        deadline=format_time(deadline) if deadline else text,
    )
    look = kubectl_pod(pod, "get", "-o", "jsonpath={.metadata.finalizers}")
    severity, steps = ("warning", [step(Text("terminating.finalizers"), look)]) if late else ("info", [])
    nodes, proofs = [pod.spec.node_name], [quotes.of_pod(pod, text, "{.metadata.deletionTimestamp}")]
    yield finding("terminating", claim, nodes=nodes, proofs=proofs, severity=severity, actions=steps)


@rule("node-not-ready", reads=("node",))
def node_down(scene: PlacedScene) -> Iterator[Finding]:
    """The finding that the node of a pod that has not ended is not ready, so that the pod's status may be old."""
    node = scene.node
    if node is None or scene.pod.status.phase in ("Succeeded", "Failed") or not not_ready(node):
        return
    said = [quotes.of_event(event) for event in scene.events if event.reason == _SAID][-1:]
    why, silent, proof = _why(node)
    key = "node-not-ready.unreachable" if silent else "node-not-ready.down"
    claim = Text(key, node=node.name, why=quotes.shown(why).rstrip("."))
    look = step(Text("nodes.describe", node=node.name), kubectl("describe", "node", node.name))
    proofs = [proof, *said]
    yield finding("node-not-ready", claim, nodes=(node.name,), proofs=proofs, actions=[look])


def _why(node: Node) -> tuple[str, bool, Evidence]:
    """What the node's condition or taint says, whether kubelet is silent, and the evidence."""
    ready = next((one for one in node.status.conditions or () if one.type == "Ready"), None)
    if ready is not None and ready.status != "True":
        field = "message" if ready.message.strip() else "reason" if ready.reason.strip() else "status"
        text = str(getattr(ready, field))
        path = f'{{.status.conditions[?(@.type=="Ready")].{field}}}'
        return text, ready.status == "Unknown", quotes.of_node(node, text, path)
    key = next(taint.key for taint in node.spec.taints or () if taint.key in NOT_READY_TAINTS)
    return key, key.endswith("/unreachable"), quotes.of_node(node, key, "{.spec.taints[*].key}")
