"""How rules make findings, also from signatures (words that prove a fault), and gaps of what could not be read."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, cast

from msgspec import structs

from bot.finding_codes import Code
from bot.hami.installation.install import Install
from bot.hami.pods.request_parsing import asked_resources
from bot.hami.scheduler_logs.log_lines import parse_line
from bot.hami.signatures import Hit, Where, find
from bot.hami.version import Version, bug_behind
from bot.kube.hami_pods import is_plugin
from bot.kube.models import ContainerStatus, Event, Pod
from bot.kube.recording.redact import NEVER_STARTED, masked
from bot.kube.times import parse_time
from bot.report import Confidence, Evidence, Finding, Gap, NextAction, Severity, act, gap, new_finding, one_line, step
from bot.texts import LITERAL, Prose, Text, in_english, stored_text
from playbooks.gather.node_side import LogSeen
from playbooks.gather.scheduling import Capacity, InstallSeen
from playbooks.quotes import kubectl, of_event, of_logged, of_status, shown
from playbooks.rules.common.containers import path_in
from playbooks.scenes.cluster import ClusterScene
from playbooks.scenes.waiting_pod import PodScene

_LONGEST = 401
"""The most characters of a value that are read: a claim has 400."""


class Part(NamedTuple):
    """What a rule adds to a finding: a sentence after the claim, evidence, and steps before the finding's own."""

    text: Prose = ""
    proofs: Sequence[Evidence] = ()
    steps: Sequence[NextAction] = ()


def finding(
    code: Code,
    claim: Prose,
    confidence: Confidence = "confirmed",
    nodes: Sequence[str] = (),
    proofs: Sequence[Evidence] = (),
    *,
    severity: Severity = "warning",
    actions: Sequence[NextAction] = (),
    of: Install | None = None,
    plugin: Version | None = None,
) -> Finding:
    """A finding without credentials in its claim, which may quote other programs; each proof and node once.

    Where a known bug of this install (`of`), or of device plugin version `plugin`, can be the cause, the last step is
    to upgrade; it is the first one of a confirmed finding whose other steps only look.
    """
    told = one_line(masked(claim, _LONGEST)) if isinstance(claim, str) else _masked(claim)
    last = _upgrade(code, told, proofs, of, plugin) if of else ()
    others = [action for action in actions if action not in last]
    first = confidence == "confirmed" and not any(action.changes_cluster for action in others)
    steps = [*last, *others] if first else [*others, *last]
    return new_finding(code, severity, told, proofs, steps, confidence=confidence, nodes=filter(None, nodes))


def _upgrade(
    code: Code, claim: Prose, proofs: Sequence[Evidence], install: Install, plugin: Version | None
) -> tuple[NextAction, ...]:
    if install.version is None or install.deployment is None:
        return ()
    said = [*_facts(claim), *(proof.quote for proof in proofs)]
    if (bug := bug_behind(code, said, install.version.version, plugin)) is None:
        return ()
    version = plugin if bug.plugin and plugin else install.version.version
    threads = ", ".join(bug.threads)
    label = Text("known-bug.upgrade", fixed=bug.fixed, version=version, why=bug.why, threads=threads)
    return (upgrade(install, label),)


def upgrade(install: Install, label: Text) -> NextAction:
    """The step to upgrade HAMi, with the command that shows which images its scheduler runs."""
    name = install.deployment.name if install.deployment else "hami-scheduler"
    path = "jsonpath={.spec.template.spec.containers[*].image}"
    return act(label, kubectl("-n", install.namespace, "get", "deployment", name, "-o", path))


def _facts(value: object) -> Iterator[str]:
    """The keys and words in a claim and its values, except texts that are in a language already."""
    match value:
        case str():
            yield value
        case Text():
            yield value.key
            yield from _facts(() if value.key == LITERAL else tuple(value.values.values()))
        case list() | tuple():
            for part in cast("Sequence[object]", value):
                yield from _facts(part)
        case _:
            return


def _masked(text: Text) -> Text:
    return stored_text(text.key, {name: _value(value) for name, value in text.values.items()})


def _value(value: object) -> object:
    match value:
        case str():
            return masked(value, _LONGEST)
        case Text():
            return _masked(value)
        case {"key": str(key), "values": dict()}:
            return _masked(stored_text(key, cast("Mapping[str, Any]", value)["values"]))
        case tuple() | list() if type(cast("object", value)) in (tuple, list):
            return tuple(map(_value, cast("Sequence[object]", value)))
        case _:
            return value


def capacity_gaps(install: InstallSeen, capacity: Capacity, undecodable: Sequence[str]) -> list[Gap]:
    """The gaps in the install, the nodes and their holders; an unknown version of HAMi is a gap too."""
    gaps = [*install.gaps, *capacity.gaps]
    if install.install.version is None and install.presence != "absent":
        gaps.append(gap("HAMi version", Text("gap.version"), Text("gap.version-hint")))
    return gaps + [gap("objects", name, Text("gap.undecodable")) for name in undecodable]


def scene_gaps(scene: ClusterScene, undecodable: Sequence[str]) -> list[Gap]:
    """The gaps in what decides about pending pods."""
    gaps = [*capacity_gaps(scene.seen, scene.capacity, undecodable), *scene.messages.gaps]
    gaps += [*scene.process.gaps, *scene.questioned.gaps, *(scene.webhook.gaps if scene.webhook else ())]
    return gaps + [gap for gap in scene.lock_owners.values() if isinstance(gap, Gap)]


def confidence_in(install: InstallSeen, capacity: Capacity, undecodable: Sequence[str]) -> Confidence:
    """`confirmed` only if everything that decides was read, since an unread holder may fill a GPU; else `suspected`."""
    unread = capacity.gaps or undecodable or install.install.version is None
    return "suspected" if unread else "confirmed"


def fit_gaps(scene: PodScene) -> list[Gap]:
    """The gaps where the bot's own fit knows no verdict for the pod."""
    verdicts = scene.verdicts.values()
    unknown = {verdict.unknown for verdict in verdicts if verdict.fits is None and verdict.unknown}
    chances = sorted({verdict.said for verdict in verdicts if verdict.instead})[:1]
    whys = [*sorted(unknown, key=in_english), *(Text("gap.chance", reasons=reasons) for reasons in chances)]
    whys += [Text("gap.vendor", resource=name) for name in other_vendors(scene)]
    return [gap("fit", why, Text("gap.fit-hint")) for why in whys]


def other_vendors(scene: PodScene) -> list[str]:
    """The pod's resources of vendors whose fit is not modelled."""
    devices = scene.config.devices
    domains = tuple(
        f"{domain}/" for device in devices for domain in (device.names.domain, device.resources.count.split("/")[0])
    )
    asked = asked_resources(scene.pod, scene.config)
    return [name for name in asked if name not in scene.config.by_resource and not name.startswith(domains)]


_NEVER = datetime.min.replace(tzinfo=UTC)


def in_log(where: Where, log: LogSeen, version: Version | None) -> list[tuple[Hit, Evidence]]:
    """The signatures found in one log, each with its line as evidence."""
    return [(hit, log_line(log, hit.quote)) for hit in find(where, log.lines, version)]


def in_messages(
    pod: Pod, statuses: Iterable[ContainerStatus], version: Version | None, where: Where = "container-message"
) -> list[tuple[Hit, Evidence, str]]:
    """The signatures in the runtime's messages about these containers, with evidence and the container's name.

    First what a container waits for, then this run's end, then the last one's. What a started container said last is no
    proof, except a device plugin's.
    """
    found: list[tuple[Hit, Evidence, str]] = []
    for status in statuses:
        for field, message, at in _messages(status, started=is_plugin(pod)):
            hits = find(where, [message], version)
            path = path_in(pod, status.name, field)
            found += [(hit, of_status(pod, hit.quote, path, at), status.name) for hit in hits]
    return found


def in_events(events: Iterable[Event], version: Version | None) -> list[tuple[Hit, Evidence]]:
    """The signatures found in these events, the newest event first."""
    newest = sorted(events, key=lambda event: parse_time(event.seen_at) or _NEVER, reverse=True)
    hits = ((event, hit) for event in newest for hit in find("event-message", [event.message], version))
    return [(hit, structs.replace(of_event(event), quote=shown(hit.quote))) for event, hit in hits]


def signed(
    hit: Hit,
    proofs: Sequence[Evidence],
    claim: Prose,
    nodes: Sequence[str],
    install: Install,
    *,
    pod: Pod | None = None,
    steps: Sequence[NextAction] = (),
) -> Finding:
    """The finding that a signature proves; its steps, or its fix in words. `pod` is the one that printed the words."""
    code, actions = hit.signature.code, steps or [fix_of(hit, pod)]
    return finding(code, claim, nodes=nodes, proofs=proofs, actions=actions, of=install, plugin=hit.version)


def fix_of(hit: Hit, pod: Pod | None = None, look: str = "") -> NextAction:
    """The signature's fix as a step in words; `look` shows what to change. NVIDIA's runtime class is set only once."""
    hit = hit._replace(classed=pod is not None and "nvidia" in pod.spec.runtime_class_name)
    return step(hit.fix, look, changes_cluster=not hit.fix_looks)


def log_line(log: LogSeen, line: str) -> Evidence:
    parsed = parse_line(line, log.read_at) if log.read_at else None
    options = ["--previous"] if log.previous else []
    return of_logged(log.pod, log.container, line, parsed and parsed.at, *options, source="log")


def _messages(status: ContainerStatus, *, started: bool) -> Iterable[tuple[str, str, str | None]]:
    """Each text with its place in the status and its time; `started`: also what a container that was started left."""
    if status.state.waiting and status.state.waiting.message:
        yield "state.waiting.message", status.state.waiting.message, None
    for name, state in (("state", status.state), ("lastState", status.last_state)):
        end = state.terminated
        if end and end.message and (started or end.reason in NEVER_STARTED):
            yield f"{name}.terminated.message", end.message, end.finished_at
