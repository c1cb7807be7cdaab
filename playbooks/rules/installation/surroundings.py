"""What surrounds HAMi: a Kubernetes that is too old, clocks that differ, and what the bot itself may not read."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import lru_cache

from bot.changes.deadline import skewed
from bot.hami.version import Version, parse_version
from bot.kube.models import Node
from bot.kube.times import format_time
from bot.report import Evidence, Finding, Gap, Severity, step
from bot.texts import Text
from playbooks import quotes
from playbooks.gather.scheduling import DEPLOYMENTS_SOURCE, PODS_SOURCE
from playbooks.quotes import kubectl
from playbooks.rule import rule
from playbooks.rules.common import prose
from playbooks.rules.common.findings import finding
from playbooks.scenes.installation import InstallScene

OLDEST = Version(1, 23)
"""HAMi's README. An older kubelet does not ask the device plugin which devices it prefers: the GPU in the container can
be another one than HAMi recorded on the pod (HAMi#2232, HAMi-core#170)."""
SHOWS_HAMI = (DEPLOYMENTS_SOURCE, PODS_SOURCE)
"""Without one of them nothing tells whether HAMi is there."""
_NEEDED = (*SHOWS_HAMI, "nodes")


@rule("kubernetes-unsupported")
def too_old(scene: InstallScene) -> list[Finding]:
    """Kubernetes is older than HAMi needs: the API server, or a kubelet."""
    version = scene.components.server_version
    return unsupported("" if isinstance(version, Gap) else version, scene.nodes)


def background(nodes: Sequence[Node]) -> list[Finding]:
    """The same, of the nodes that a pod may come to: it may explain another GPU in the container, never a refusal."""
    return unsupported("", nodes, severity="info")


def unsupported(server: str, nodes: Sequence[Node], *, severity: Severity = "warning") -> list[Finding]:
    """The API server's version where it is too old, and every kubelet's; none of a version that is not known."""
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
    look = step(Text("kubernetes-unsupported.look"), kubectl("get", "nodes", "-o", "wide"))
    names = [node.name for _, node in old]
    return [finding("kubernetes-unsupported", claim, "confirmed", names, proofs, severity=severity, actions=[look])]


@lru_cache(maxsize=64)  # thousands of nodes have a few versions
def _too_old(text: str) -> Version | None:
    version = parse_version(text)
    return version if version is not None and version < OLDEST else None


@rule("clock-skew")
def wrong_clock(scene: InstallScene) -> Iterator[Finding]:
    """The clock here and the API server's are too far apart to raise a temporary change; a recording has no clock."""
    clocks = scene.clocks
    why = skewed(clocks.skew_s) if clocks else None
    if clocks is None or why is None:
        return
    served, here = (format_time(datetime.fromtimestamp(moment, UTC)) for moment in (clocks.served, clocks.here))
    quote = f"Date: {clocks.date}; this machine's clock: {here}"
    command = "kubectl get --raw /version -v=8 2>&1 | grep -i date; date -u"
    proof = Evidence("API server", "the API server's answer", served, quote, command)
    set_it = step(Text("status.set-clock"), "timedatectl timesync-status")
    claim = Text("status.clock", why=why)
    yield finding("clock-skew", claim, "confirmed", (), (proof,), severity="warning", actions=(set_it,))


@rule("bot-blind")
def blind(scene: InstallScene) -> Iterator[Finding]:
    """The bot could not read what it needs: nobody shall take its silence for health. The gaps say why."""
    unread = list(dict.fromkeys(gap.source for gap in scene.unread if gap.source in _NEEDED))
    if unread:
        actions = [step(Text("blind.doctor"), "hami-bot doctor")]
        claim = Text("blind.claim", sources=", ".join(unread))
        yield finding("bot-blind", claim, "suspected", (), (), severity="warning", actions=actions)
