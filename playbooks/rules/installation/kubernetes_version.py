"""A Kubernetes that is too old for HAMi."""

from collections.abc import Sequence
from functools import lru_cache

from bot.hami.version import Version, parse_version
from bot.kube.models import Node
from bot.report import Evidence, Finding, Gap, Severity, step
from bot.texts import Text
from playbooks import quotes
from playbooks.quotes import kubectl
from playbooks.rules.common import prose
from playbooks.rules.common.findings import finding
from playbooks.rules.common.hami_objects import Parts

OLDEST = Version(1, 23)
"""HAMi's README. An older kubelet does not ask the device plugin which devices it prefers: the GPU in the container can
be another one than HAMi recorded on the pod (HAMi#2232, HAMi-core#170)."""


def of_installation(parts: Parts) -> list[Finding]:
    """The same, of what `status` read."""
    version, nodes = parts.components.server_version, parts.components.nodes
    return unsupported("" if isinstance(version, Gap) else version, [] if isinstance(nodes, Gap) else nodes)


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
