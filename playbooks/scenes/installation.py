"""HAMi's installation with every part of it."""

from collections.abc import Sequence
from datetime import datetime

from bot.kube.cluster import Clocks
from bot.kube.models import Holder, Node, Pod, ResourceSlice, Workload
from bot.report import Gap
from playbooks.gather.components import Components
from playbooks.gather.nodes_in_question import NodesInQuestion
from playbooks.gather.scheduler_process import SchedulerProcess
from playbooks.gather.webhook import WebhookSeen
from playbooks.scenes.cluster import OfInstall, what_was_read


class InstallScene(OfInstall, frozen=True, dict=True, eq=False):
    """HAMi's installation with every part of it.

    `held`: the pods that hold GPUs, where its scheduler's count was read. `questioned`: nodes whose device plugin is
    down, or hands out too little, and the DaemonSets with their events where pods of theirs are missing. `clocks` are
    there where a live cluster answered.
    """

    components: Components
    now: datetime
    process: SchedulerProcess = SchedulerProcess()
    held: Sequence[Holder] | Gap = ()
    questioned: NodesInQuestion = NodesInQuestion({})
    clocks: Clocks | None = None
    undecodable: tuple[str, ...] = ()

    @property
    def webhook(self) -> WebhookSeen:
        return self.components.webhook

    @property
    def nodes(self) -> Sequence[Node]:
        return what_was_read(self.components.nodes)

    @property
    def plugins(self) -> Sequence[Workload]:
        """The device plugin's DaemonSets."""
        return what_was_read(self.components.plugins)

    @property
    def plugin_pods(self) -> Sequence[Pod]:
        return what_was_read(self.components.plugin_pods)

    @property
    def slices(self) -> Sequence[ResourceSlice] | Gap:
        """What DRA drivers offer."""
        return self.components.slices

    @property
    def unread(self) -> list[Gap]:
        """What could not be read of its objects."""
        return [*self.seen.gaps, *self.components.gaps, *self.questioned.gaps]

    def was_read(self, source: str) -> bool:
        """Whether rules may conclude anything from it: a source is named as its gap would be."""
        return all(gap.source != source for gap in (*self.seen.gaps, *self.components.gaps))
