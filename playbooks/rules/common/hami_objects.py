"""Evidence about HAMi's own objects, and what the rules about them share."""

from typing import NamedTuple

from bot.hami.installation.install import Install
from bot.hami.version import Version
from bot.kube.models import ObjectMeta, Resource
from bot.report import Confidence, Evidence
from playbooks.gather.components import Components
from playbooks.gather.node_side import LogSeen
from playbooks.gather.nodes_in_question import NodesInQuestion
from playbooks.gather.scheduling import InstallSeen
from playbooks.quotes import kubectl, shown


class Parts(NamedTuple):
    """HAMi's installation as far as it was seen."""

    seen: InstallSeen
    components: Components
    questioned: NodesInQuestion = NodesInQuestion({})
    """Nodes whose device plugin is down; the DaemonSets with their events where pods of theirs are missing."""
    runs: tuple[LogSeen, ...] = ()
    """The logs of the scheduler's containers that do not work; see `gather_runs`."""

    @property
    def install(self) -> Install:
        return self.seen.install

    @property
    def version(self) -> Version | None:
        """HAMi's version, None when it could not be told."""
        return self.install.version.version if self.install.version else None

    @property
    def confidence(self) -> Confidence:
        return self.seen.confidence


def of_object(kind: str, resource: Resource, quote: str, path: str) -> Evidence:
    """A value of an object of HAMi's; `path` is the JSONPath that shows it. An empty one is shown by the name."""
    if not quote.strip():
        quote, path = resource.name, "{.metadata.name}"
    return Evidence(
        source=kind.lower(),
        object=f"{kind} {_full_name(resource.metadata)}",
        at=None,
        quote=shown(quote),
        command=kubectl(*_where(resource.metadata), "get", kind.lower(), resource.name, "-o", f"jsonpath={path}"),
    )


def _full_name(metadata: ObjectMeta) -> str:
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name


def _where(metadata: ObjectMeta) -> tuple[str, ...]:
    return ("-n", metadata.namespace) if metadata.namespace else ()
