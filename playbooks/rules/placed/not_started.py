"""Rules about a placed pod whose containers do not start, keep ending or are not ready."""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from bot.hami.pods.allocations import BIND_PHASE_KEY
from bot.hami.vendors import FIRST
from bot.kube.models import ContainerStatus, Event, Pod
from bot.kube.recording.redact import NEVER_STARTED
from bot.kube.times import parse_time
from bot.report import Evidence, Finding, NextAction, Severity, act, step
from bot.texts import Prose, Text, sentences, spaced, unstopped
from playbooks import quotes
from playbooks.quotes import kubectl_logs, kubectl_pod
from playbooks.rule import rule
from playbooks.rules.common import prose
from playbooks.rules.common.containers import between_restarts, in_trouble, of_end, path_in, statuses, stuck
from playbooks.rules.common.findings import finding, in_events, in_messages, log_line, signed
from playbooks.rules.common.holders import edit_owner, recreate
from playbooks.rules.placed.container_faults import shares
from playbooks.scenes.placed_pod import PlacedScene

_START_EVENTS = (
    "FailedMount",
    "FailedAttachVolume",
    "FailedPrepareDynamicResources",
    "FailedCreatePodSandBox",
    "Failed",
    "BackOff",
    "InspectFailed",
)
_CALM = timedelta(minutes=2)
"""How long a start without complaint is taken as normal."""
_LOADING = timedelta(minutes=10)
"""How long a container that runs may take until it is ready: models are large."""
_TOPOLOGY = "TopologyAffinityError"
_OUT_OF_MEMORY = "OOMKilled"
_PROBE_KILLS = re.compile(r"Container (\S+) failed (\w+) probe, will be restarted")


@rule("image-or-start-failure")
def failed(scene: PlacedScene) -> Iterator[Finding]:
    pod = scene.pod
    if pod.status.phase != "Failed":
        return
    ends = ((status, status.state.terminated) for status in pod.status.container_statuses or ())
    if ended := next(((status, end) for status, end in ends if end and end.exit_code), None):
        status, end = ended
        why = Text("image-or-start-failure.exit", container=status.name, code=end.exit_code)
        if end.reason in NEVER_STARTED and end.message.strip():
            why = spaced(why, end.reason, _noted(quotes.shown(end.message)))
        proof = of_end(pod, status, end)
    else:
        why = quotes.shown(pod.status.message) or pod.status.reason or Text("image-or-start-failure.no-reason")
        field = "message" if pod.status.message else "reason" if pod.status.reason else "phase"
        proof = quotes.of_pod(pod, pod.status.message or pod.status.reason or "Failed", f"{{.status.{field}}}")
    steps: list[NextAction] = []
    if pod.status.reason == _TOPOLOGY:
        why = Text("image-or-start-failure.topology", why=why)
        fix = Text("image-or-start-failure.topology-fix", node=pod.spec.node_name or "?")
        steps = [act(fix)]
    claim, proofs = Text("image-or-start-failure.failed", why=unstopped(why)), [proof]
    if ended and ended[1].reason == _OUT_OF_MEMORY:
        means, shown, steps = _out_of_memory(pod, ended[0].name)
        claim, proofs = sentences(claim, means), [*proofs, *shown]
    yield _start_failure(pod, claim, proofs, steps=steps)


def runs(scene: PlacedScene) -> bool:
    pod = scene.pod
    halted = any(stuck(status) or between_restarts(status, scene.now) for status in statuses(pod))
    return bool(pod.spec.node_name) and pod.status.phase == "Running" and not halted


@rule("image-or-start-failure")
def unready(scene: PlacedScene) -> Iterator[Finding]:
    """The finding that a running pod is not ready, by a failed probe or its condition."""
    pod, now = scene.pod, scene.now
    if not runs(scene):
        return
    ready = pod.condition("Ready")
    told = ready if ready and ready.status == "False" and ready.message.strip() else None
    waits = next((status for status in statuses(pod) if status.state.running and not status.ready), None)
    started = waits.state.running.started_at if waits and waits.state.running else None
    since = parse_time(started or (told.last_transition_time if told else None))
    probe = _probe(waits, scene.events, since) if waits else None
    if waits and probe:
        why = Text("image-or-start-failure.probe", container=waits.name, why=quotes.shown(probe.message))
    elif told:
        why = quotes.shown(told.message)
    else:
        return
    proofs = [quotes.of_event(probe)] if probe else []
    proofs += [quotes.of_condition(pod, told, quotes.clock(told.last_transition_time))] if told else []
    calm = not (waits and waits.restart_count) and since is not None and now - since <= _LOADING
    claim = Text("image-or-start-failure.unready", node=pod.spec.node_name or "?", why=why)
    yield _start_failure(pod, claim, proofs, severity="info" if calm else "warning")


def _probe(status: ContainerStatus, events: Sequence[Event], since: datetime | None) -> Event | None:
    found = [
        event
        for event in events
        if event.reason == "Unhealthy"
        and (not event.involved_object.field_path or f"{{{status.name}}}" in event.involved_object.field_path)
        and (since is None or _time(event.seen_at) >= since)
    ]
    return max(found, key=lambda event: _time(event.seen_at), default=None)


@rule("image-or-start-failure")
def not_started(scene: PlacedScene) -> Iterator[Finding]:
    pod, events, now = scene.pod, scene.events, scene.now
    if not pod.spec.node_name or runs(scene):
        return
    halted = next((status for status in statuses(pod) if stuck(status) or between_restarts(status, now)), None)
    # All other containers wait for an init container, but none for a sidecar, which restarts always.
    sidecars = {each.name for each in pod.spec.init_containers or () if each.restart_policy == "Always"}
    inits = [status for status in pod.status.init_container_statuses or () if status.name not in sidecars]
    init = next((status for status in inits if status.state.running), None)
    started = [event for event in events if event.reason in _START_EVENTS]
    last = max(started, key=lambda event: _time(event.seen_at), default=None)
    proofs: list[Evidence] = []
    crashed = False
    if halted is not None:
        why, proofs, crashed = _why_stuck(pod, halted, events)
    elif init is not None:
        why, proofs = _why_init(pod, init, now)
        last = None
    elif last is not None:
        why = quotes.shown(last.message)
    elif pod.metadata.annotation(BIND_PHASE_KEY) == "allocating":
        why = Text("image-or-start-failure.allocating")
        proofs.append(quotes.of_pod_annotation(pod, BIND_PHASE_KEY))
    else:
        why = Text("image-or-start-failure.starting")
    if last is not None:
        proofs.append(quotes.of_event(last))
    key = "image-or-start-failure.claim"
    if crashed and halted is not None:
        in_init = pod.status.phase == "Pending" and halted in (pod.status.init_container_statuses or ())
        key = "image-or-start-failure.crashing-init" if in_init else "image-or-start-failure.crashing"
    claim: Prose = Text(key, node=pod.spec.node_name or "?", why=unstopped(why))
    logs = [log for log in scene.own_logs or () if crashed and halted and log.container == halted.name]
    logs.sort(key=lambda log: log.previous)
    lines = ((log, words) for log in logs for line in reversed(log.lines) if (words := _PANIC.match(line)))
    if panic := next((log_line(log, words[0].rstrip(" :")) for log, words in lines), None):
        claim, proofs = sentences(claim, Text("image-or-start-failure.panic", words=panic.quote)), [*proofs, panic]
    steps: list[NextAction] = []
    if crashed and halted is not None:
        steps = [step(Text("image-or-start-failure.log"), kubectl_logs(pod, halted.name, "--previous", "--tail=50"))]
        if halted.last_state.terminated and halted.last_state.terminated.reason == _OUT_OF_MEMORY:
            means, shown, steps = _out_of_memory(pod, halted.name)
            claim, proofs = sentences(claim, means), [*proofs[:1], *shown, *proofs[1:]]
    bound = pod.condition("PodScheduled")
    since = parse_time(bound.last_transition_time if bound else None) or parse_time(pod.metadata.creation_timestamp)
    calm = halted is None and last is None and since is not None and now - since <= _CALM
    proofs = proofs or [quotes.of_pod(pod, pod.spec.node_name, "{.spec.nodeName}")]
    yield _start_failure(pod, claim, proofs, severity="info" if calm else "warning", steps=steps)


def _out_of_memory(pod: Pod, name: str) -> tuple[Text, list[Evidence], list[NextAction]]:
    """What OOMKilled means, the container's limit, and the step to mend it: readers take it for the GPU's memory."""
    init = any(one.name == name for one in pod.spec.init_containers or ())
    every = (pod.spec.init_containers or ()) if init else pod.spec.containers
    resources = next((one.resources for one in every if one.name == name), None)
    limit = (resources.limits or {}).get("memory") if resources else None
    if limit is None:
        more = edit_owner(pod, Text("image-or-start-failure.request-memory", container=name))
        return Text("image-or-start-failure.node-memory"), [], [more]
    more = edit_owner(pod, Text("image-or-start-failure.raise-memory", container=name, limit=limit))
    shown = quotes.of_resource(pod, "memory", str(limit), kind="initContainers" if init else "containers")
    return Text("image-or-start-failure.memory", limit=limit), [shown], [more]


_PANIC = re.compile(r"^(?:panic: (?:runtime error: [\w :\[\]-]{1,100})?|fatal error: [\w :-]{1,100})")
"""Matches how Go's report of a panic begins. Only Go's own words are quoted, never the program's."""


def _why_init(pod: Pod, init: ContainerStatus, now: datetime) -> tuple[Prose, list[Evidence]]:
    started = init.state.running.started_at if init.state.running else None
    since = parse_time(started)
    minutes = max(0, int((now - since).total_seconds() // 60)) if since else "?"
    why = Text("image-or-start-failure.init", container=init.name, minutes=minutes)
    told = pod.condition("Initialized")
    proofs = [quotes.of_pod(pod, started or init.name, path_in(pod, init.name, "state.running.startedAt"))]
    if told is not None and told.status == "False" and told.message.strip():
        proofs.insert(0, quotes.of_condition(pod, told, quotes.clock(told.last_transition_time)))
    return why, proofs


def _why_stuck(pod: Pod, halted: ContainerStatus, events: Sequence[Event]) -> tuple[Prose, list[Evidence], bool]:
    """Why a container does not start, and evidence; true if it did start, so that its last exit code is told."""
    waiting, ended = halted.state.waiting, halted.last_state.terminated
    proofs: list[Evidence] = []
    if waiting is not None:
        field, told = ("message", waiting.message) if waiting.message.strip() else ("reason", waiting.reason)
        proofs = [quotes.of_pod(pod, told, path_in(pod, halted.name, f"state.waiting.{field}"))]
    if ended is None:
        return f"{waiting.reason} {quotes.shown(waiting.message)}".strip() if waiting else "", proofs, False
    exited = Text("image-or-start-failure.exit", container=halted.name, code=ended.exit_code)
    proofs.insert(0, of_end(pod, halted, ended))
    if ended.reason in NEVER_STARTED and ended.message.strip():
        return spaced(exited, ended.reason, _noted(quotes.shown(ended.message))), proofs, True
    if (killed := _killed_by_probe(halted, events)) is not None:
        return killed[0], [*killed[1], *proofs], True
    why = waiting.reason if waiting else Text("image-or-start-failure.restarted", count=halted.restart_count)
    return spaced(exited, ended.reason, _noted(why)), proofs, True


def _noted(text: Prose) -> Text:
    return Text("words.in-parentheses", text=text)


def _killed_by_probe(halted: ContainerStatus, events: Sequence[Event]) -> tuple[Prose, list[Evidence]] | None:
    ended = halted.last_state.terminated
    began = parse_time(ended.started_at) if ended else None
    kills = [
        (event, words[2])
        for event in events
        if event.reason == "Killing"
        and (words := _PROBE_KILLS.search(event.message)) is not None
        and words[1] == halted.name
        and (began is None or _time(event.seen_at) >= began)
    ]
    if not kills or ended is None:
        return None
    event, probe = kills[-1]
    said = _probe(halted, events, began)
    facts = {"container": halted.name, "probe": probe, "code": ended.exit_code, "count": halted.restart_count}
    if said is None:
        return Text("image-or-start-failure.killed-unsaid", **facts), [quotes.of_event(event)]
    claim = Text("image-or-start-failure.killed", **facts, why=quotes.shown(said.message))
    return claim, [quotes.of_event(event), quotes.of_event(said)]


def _start_failure(
    pod: Pod,
    claim: Prose,
    proofs: Sequence[Evidence],
    *,
    severity: Severity = "warning",
    steps: Sequence[NextAction] = (),
) -> Finding:
    nodes, actions = [pod.spec.node_name], steps
    if not any(action.changes_cluster for action in steps):
        actions = [*steps, step(Text("image-or-start-failure.describe"), kubectl_pod(pod, "describe"))]
    return finding("image-or-start-failure", claim, nodes=nodes, proofs=proofs, severity=severity, actions=actions)


_CONTAINER, _SANDBOX = "Failed", "FailedCreatePodSandBox"
"""kubelet's events of a container or a sandbox that the runtime did not make; `BackOff` never says why (HAMi#1106)."""
_AFTER_SANDBOX = ("Pulling", "Pulled", "Created", "Started")
_NEVER = datetime.min.replace(tzinfo=UTC)
_UNKNOWN, _GPU = "start-unknown-device", re.compile(r"(?:GPU|MIG)-[\w-]+")


@rule("gpu-start-failure", "gpu-runtime-missing", "driver-not-loaded", "device-plugin-crash", "card-fault")
def start_fault(scene: PlacedScene) -> Iterator[Finding]:
    """The findings that a signature knows the container runtime's words about a failed start, one per container. A
    container that runs again has nothing wrong now, however its last start ended.
    """
    pod = scene.pod
    halted = [status for status in statuses(pod) if in_trouble(status, scene.now)]
    # From events that nothing has overtaken: a container was started since, or the sandbox was made.
    started = [_time(status.state.running.started_at) for status in statuses(pod) if status.state.running]
    ready = pod.condition("PodReadyToStartContainers")
    made = [_time(ready.last_transition_time)] if ready and ready.status == "True" else []
    made += [_time(event.seen_at) for event in scene.events if event.reason in _AFTER_SANDBOX]
    since = {_SANDBOX: max(started + made, default=_NEVER)}
    since |= {_CONTAINER: max(started, default=_NEVER)} if halted else {}
    said = (one for one in scene.events if one.reason in since and _time(one.seen_at) >= since[one.reason])
    found = in_messages(pod, halted, scene.plugin_version)
    found += [(hit, proof, "") for hit, proof in in_events(said, scene.plugin_version)]
    node, told = pod.spec.node_name, set[str]()
    for hit, _, container in found:
        if hit.signature.code in told or (told and not container) or container in told:
            continue
        proofs = [proof for other, proof, _ in found if other.signature.id == hit.signature.id]
        key = "start-fault.claim" if container else "start-fault.pod"
        claim = Text(key, container=container, node=node or "?", means=hit.means)
        steps = _of_unknown_device(scene, hit.quote) if hit.signature.id == _UNKNOWN else ()
        yield signed(hit, proofs, claim, [node], scene.install, pod=pod, steps=steps)
        told |= {hit.signature.code, container}


def _of_unknown_device(scene: PlacedScene, words: str) -> list[NextAction]:
    """The steps where a node's driver does not know the pod's GPU: what names it, then what mends that; none where the
    pod has no GPU of its own.
    """
    pod, name = scene.pod, scene.pod.spec.node_name
    given = sorted({share.uuid for share in shares(pod)})
    if not given or not name:
        return []
    asked, known = _GPU.findall(words) or given, [card.uuid for card in scene.cards]
    values = {"node": name, "given": prose.names(given), "asked": prose.names(asked), "known": prose.names(known)}
    steps = [step(Text("start-fault.given", **values), quotes.of_pod_annotation(pod, FIRST.names.allocated[0]).command)]
    if scene.node is not None and known:
        look = quotes.of_node_annotation(scene.node, FIRST.names.register, ",").command
        steps.append(step(Text("start-fault.registered", **values), look))
        if not {*asked} & {*known}:
            return [*steps, recreate(pod, Text("start-fault.elsewhere", **values))]
    again = [kubectl_pod(plugin, "delete") for plugin in scene.plugins][:1]
    return [*steps, act(Text("start-fault.restart", **values), *again), recreate(pod, Text("start-fault.then"))]


def _time(text: str | None) -> datetime:
    return parse_time(text) or _NEVER
