"""Rules about what surrounds HAMi: HAMi missing, Kubernetes too old, clocks apart, or no rights to read."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Protocol

from bot.changes.deadline import skewed
from bot.hami.installation.install import KUBERNETES_SCHEDULER
from bot.hami.nodes.node_state import is_offered
from bot.hami.pods.request_parsing import extended_resources
from bot.hami.version import Version, parse_version
from bot.kube.models import Node, Pod
from bot.kube.times import format_time
from bot.report import Evidence, Finding, Gap, Report, Severity, Subject, act, new_report, one_line, step
from bot.texts import Text, sentences
from playbooks import quotes
from playbooks.gather.scheduling import DEPLOYMENTS_SOURCE, PODS_SOURCE, InstallSeen
from playbooks.quotes import kubectl
from playbooks.rule import rule
from playbooks.rules.common import prose
from playbooks.rules.common.findings import finding
from playbooks.rules.common.holders import edit_owner
from playbooks.scenes.cluster import InstallScene
from playbooks.scenes.waiting_pod import PodScene

OLDEST = Version(1, 23)
"""The oldest Kubernetes by HAMi's README. Older kubelets do not ask the device plugin which devices it prefers, so the
container may get another GPU than HAMi recorded (HAMi#2232, HAMi-core#170)."""
SHOWS_HAMI = (DEPLOYMENTS_SOURCE, PODS_SOURCE)
"""The sources that must both be read to know whether HAMi is there."""
_NEEDED = (*SHOWS_HAMI, "nodes")


@rule("kubernetes-unsupported")
def too_old(scene: InstallScene) -> list[Finding]:
    """The findings that Kubernetes is older than HAMi needs: the API server, or a kubelet."""
    version = scene.components.server_version
    return unsupported("" if isinstance(version, Gap) else version, scene.nodes)


def background(nodes: Sequence[Node]) -> list[Finding]:
    """The findings about nodes whose kubelet is too old, as information: they explain a wrong GPU, but no refusal."""
    return unsupported("", nodes, severity="info")


def unsupported(server: str, nodes: Sequence[Node], *, severity: Severity = "warning") -> list[Finding]:
    """The findings that the API server, or a kubelet, is too old for HAMi; none for a version that is not known."""
    old = [(found, node) for node in nodes if (found := _too_old(node.status.node_info.kubelet_version))]
    proofs: list[Evidence] = []
    if (version := _too_old(server)) is not None:
        what = Text("kubernetes-unsupported.server")
        proofs.append(Evidence("version", "API server", None, server, kubectl("version")))
    elif old:
        version = min(found for found, _ in old)
        what = Text("kubernetes-unsupported.kubelet", nodes=prose.names(sorted(node.name for _, node in old)))
    else:
        return []
    for _, node in old[:3]:
        proofs.append(quotes.of_node(node, node.status.node_info.kubelet_version, "{.status.nodeInfo.kubeletVersion}"))
    claim = Text("kubernetes-unsupported.claim", what=what, version=version, least=f"{OLDEST.major}.{OLDEST.minor}")
    look = act(Text("kubernetes-unsupported.look"), kubectl("get", "nodes", "-o", "wide"))
    names = [node.name for _, node in old]
    return [finding("kubernetes-unsupported", claim, nodes=names, proofs=proofs, severity=severity, actions=[look])]


@lru_cache(maxsize=64)  # thousands of nodes have a few versions
def _too_old(text: str) -> Version | None:
    version = parse_version(text)
    return version if version is not None and version < OLDEST else None


@rule("clock-skew")
def wrong_clock(scene: InstallScene) -> Iterator[Finding]:
    """The finding that the clocks here and of the API server differ too much to raise a temporary change."""
    clocks = scene.clocks
    if clocks is None or (why := skewed(clocks.skew_s)) is None:
        return
    served, here = (format_time(datetime.fromtimestamp(moment, UTC)) for moment in (clocks.served, clocks.here))
    quote = f"Date: {clocks.date}; this machine's clock: {here}"
    command = "kubectl get --raw /version -v=8 2>&1 | grep -i date; date -u"
    proof = Evidence("API server", "the API server's answer", served, quote, command)
    set_it = act(Text("status.set-clock"))
    claim = Text("status.clock", why=why)
    yield finding("clock-skew", claim, proofs=(proof,), actions=(set_it,))


@rule("bot-blind")
def blind(scene: InstallScene) -> Iterator[Finding]:
    """The finding that the bot could not read what it needs, so that its silence does not mean health."""
    unread = list(dict.fromkeys(gap.source for gap in scene.unread if gap.source in _NEEDED))
    if unread:
        actions = [step(Text("blind.doctor"), prose.command("doctor"))]
        claim = Text("blind.claim", sources=", ".join(unread))
        yield finding("bot-blind", claim, "suspected", actions=actions)


_LONGEST_WORDS = 200


class QuestionSnapshot(Protocol):
    """The snapshot of any question: its cluster, and when it was taken."""

    @property
    def cluster(self) -> str: ...

    @property
    def taken_at(self) -> datetime: ...


def answer_without_hami(verb: str, asked: QuestionSnapshot, seen: InstallSeen) -> Report | None:
    """The whole report of the verb where HAMi is not installed; None where it is, or where that is not known."""
    if (claim := seen.not_installed) is None:
        return None
    return new_report(
        playbook=verb,
        cluster=asked.cluster,
        taken_at=format_time(asked.taken_at),
        subject=Subject("Cluster", "", asked.cluster),
        findings=(_finding(claim, ()),),
        gaps=seen.gaps,
    )


@rule("hami-not-installed")
def without_hami(scene: PodScene) -> Iterator[Finding]:
    """The finding, for a pending pod, that HAMi is not installed, in its scheduler's words; not for claims alone."""
    pod, seen, words = scene.pod, scene.seen, scene.attempt.evidence
    if (claim := seen.not_installed) and (scene.asked or not pod.spec.resource_claims):
        yield _finding(_with_words(claim, pod, words), _proofs(pod, words))


@rule("not-enough-evidence")
def perhaps_without_hami(scene: PodScene) -> Iterator[Finding]:
    """The finding that nobody knows whether HAMi is there, for a pod that does not name HAMi's scheduler."""
    pod, seen, words = scene.pod, scene.seen, scene.attempt.evidence
    if seen.presence != "unknown" or pod.spec.scheduler_name == seen.install.scheduler_name or not scene.asked:
        return
    claim = _with_words(Text("hami-not-installed.unknown"), pod, words)
    steps = [step(Text("hami-not-installed.doctor"), prose.command("doctor"))]
    proofs = _proofs(pod, words)
    yield finding("not-enough-evidence", claim, "suspected", proofs=proofs, actions=steps)


_OWN_NAMES = Version(2, 3, 0)
"""The version from which on HAMi writes annotations under its own names."""
_PREDECESSOR = "4pd.io/"
"""The prefix of the annotations of HAMi's predecessor, 4paradigm's k8s-vgpu-scheduler."""


@rule("not-enough-evidence", "resource-unknown", reads=("nodes",))
def predecessors(scene: PodScene) -> Iterator[Finding]:
    """The finding that nodes, or the pod's resources, are those of HAMi's predecessor, whose names and rules differ."""
    asks = next((name for name in extended_resources(scene.pod) if name.startswith(_PREDECESSOR)), "")
    if asks and scene.version is not None and not is_offered(asks, scene.nodes.values()):
        named, hami = scene.pod.spec.scheduler_name or KUBERNETES_SCHEDULER, scene.install.scheduler_name
        claim = Text("resource-unknown.predecessor", resource=asks, scheduler=named, hami=hami)
        fix = Text("resource-unknown.ask-ours", count=scene.config.gpus.count, memory=scene.config.gpus.memory)
        proofs = [quotes.of_resource(scene.pod, asks, extended_resources(scene.pod)[asks]), *scene.words]
        yield finding("resource-unknown", claim, proofs=proofs, actions=[edit_owner(scene.pod, fix)])
        return
    keys = [(node, key) for node in scene.nodes.values() for key in sorted(node.metadata.annotations or {})]
    is_hami = scene.version is not None and scene.version >= _OWN_NAMES
    if not scene.asked or is_hami or any(key.startswith("hami.io/node-") for _, key in keys):
        return
    found = next(((node, key) for node, key in keys if key.startswith(_PREDECESSOR)), None)
    if found is None:
        return
    node, key = found
    scheduler = scene.pod.spec.scheduler_name or KUBERNETES_SCHEDULER
    claim = Text("hami-not-installed.predecessor", scheduler=scheduler, key=key)
    words = scene.words[0].quote.partition(" preemption: ")[0] if scene.words else ""
    if said := one_line(words, _LONGEST_WORDS).rstrip("."):
        claim = sentences(claim, Text("hami-not-installed.says", scheduler=scheduler, words=said))
    text = node.metadata.annotation(key) or ""
    proofs = [*scene.words, quotes.of_node_annotation(node, key, one_line(text, _LONGEST_WORDS))]
    columns = "NAMESPACE:.metadata.namespace,POD:.metadata.name,LIMITS:.spec.containers[*].resources.limits"
    of_node = ("--field-selector", f"spec.nodeName={node.name}", "-o", f"custom-columns={columns}")
    holders = kubectl("get", "pods", "-A", *of_node)
    look, replace = Text("hami-not-installed.holders", node=node.name), Text("hami-not-installed.replace")
    plugins = kubectl("get", "pods", "-A", "-o", "wide")
    steps = [step(Text("hami-not-installed.plugins"), plugins), step(look, holders), act(replace)]
    yield finding("not-enough-evidence", claim, "suspected", proofs=proofs, actions=steps)


def _with_words(claim: Text, pod: Pod, words: Evidence | None) -> Text:
    if words is None:
        return claim
    said = one_line(words.quote.partition(". ")[0].rstrip("."), _LONGEST_WORDS)
    scheduler = pod.spec.scheduler_name or KUBERNETES_SCHEDULER
    return sentences(claim, Text("hami-not-installed.says", scheduler=scheduler, words=said))


def _proofs(pod: Pod, words: Evidence | None) -> list[Evidence]:
    return [*([words] if words else []), quotes.of_pod(pod, pod.spec.scheduler_name, "{.spec.schedulerName}")]


def _finding(claim: Text, proofs: Sequence[Evidence]) -> Finding:
    steps = [
        step(Text("hami-not-installed.elsewhere"), kubectl("config", "get-contexts")),
        step(Text("hami-not-installed.named"), ""),
        act(Text("hami-not-installed.install")),
    ]
    return finding("hami-not-installed", claim, proofs=proofs, actions=steps)
