"""The scenes of a pod that has its node or has ended, and of one that cannot be looked at."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import TypeVar

from bot.hami.installation.install import Install
from bot.hami.nodes.cards import Card
from bot.hami.nodes.node_state import read_registrations
from bot.hami.nodes.registration import Registration
from bot.hami.pods.request_parsing import DeviceConfig
from bot.hami.version import Version, parse_version
from bot.kube.models import Event, Node, Pod, Workload
from bot.report import Gap, Subject
from playbooks.gather.dra import Queued
from playbooks.gather.node_side import ContainerLogs, LogSeen, NodeSide, PluginSets
from playbooks.gather.scheduling import InstallSeen
from playbooks.gather.subject import AbsentPod
from playbooks.gather.usage import MeasuredNodes
from playbooks.gather.webhook import WebhookSeen
from playbooks.scenes.cluster import Remembering

T = TypeVar("T")


class PlacedScene(Remembering, frozen=True, dict=True, eq=False):
    """One pod that has its node, or has ended.

    `seen` and what follows are read if it asks for devices and has not ended well: HAMi's install, the GPU side of its
    node, and the newest lines of its own GPU containers (`own_logs`; None if the settings do not allow to read them).
    `plugin_sets` are read if the node has no device plugin, `webhook` and `owner`, what made the pod, if it went past
    HAMi. `measured`, what vGPUmonitor of its node measures, is read if it runs; no answer needs it.
    """

    pod: Pod
    events_read: Sequence[Event] | Gap
    now: datetime
    seen: InstallSeen | None = None
    side: NodeSide | None = None
    own_logs: Sequence[LogSeen] | None = None
    own_log_gaps: Sequence[Gap] = ()
    """The gaps of `own_logs`, told only if the logs would have shown something."""
    plugin_sets: PluginSets | None = None
    webhook: WebhookSeen | None = None
    owner: Workload | Gap | None = None
    measured: MeasuredNodes | None = None
    volcano_plugins: ContainerLogs = ContainerLogs()

    @property
    def gaps(self) -> list[Gap]:
        parts = (self.seen, self.side, self.plugin_sets, self.webhook)
        read = (gap for part in parts if part for gap in part.gaps)
        others = (self.events_read, *read, self.owner, *self.volcano_plugins.gaps)
        return [gap for gap in others if isinstance(gap, Gap)]

    def was_read(self, source: str) -> bool:
        """Whether HAMi's `install`, or the pod's `node`, was read: rules conclude nothing from an unread one."""
        return self.node is not None if source == "node" else self.seen is not None

    @cached_property
    def events(self) -> list[Event]:
        """The events about this pod, without those of an earlier pod of its name."""
        read = () if isinstance(self.events_read, Gap) else self.events_read
        return [event for event in read if event.is_about(self.pod.metadata.uid) and event.message.strip()]

    @property
    def install(self) -> Install:
        """HAMi's install; empty if it was not read."""
        return self.seen.install if self.seen else Install()

    @property
    def version(self) -> Version | None:
        """HAMi's version; None if it is not known."""
        return self.install.version.version if self.install.version else None

    @cached_property
    def plugin_version(self) -> Version | None:
        """HAMi's version by the image of the node's device plugin, which brings HAMi-core; else its scheduler's."""
        images = (parse_version(part.image) for plugin in self.plugins for part in plugin.spec.containers)
        return next(filter(None, images), self.version)

    @property
    def config(self) -> DeviceConfig:
        return self.seen.config if self.seen else DeviceConfig()

    @property
    def log_unread(self) -> bool:
        """Whether nothing could be read of the output of the pod's GPU containers."""
        return self.own_logs is None or (not self.own_logs and bool(self.own_log_gaps))

    @property
    def node(self) -> Node | None:
        """The pod's node; None if it was not read."""
        return None if self.side is None or isinstance(self.side.node, Gap) else self.side.node

    @property
    def nodes(self) -> Mapping[str, Node]:
        return {self.node.name: self.node} if self.node else {}

    @property
    def plugins(self) -> Sequence[Pod]:
        """The pods of HAMi's own device plugin on the node; empty also if pods were not read."""
        return self.side.plugin_pods if self.side else ()

    @cached_property
    def cards(self) -> list[Card]:
        """The GPUs of the pod's node; empty also if the node was not read."""
        read = read_registrations(self.node) if self.node else ()
        return [card for registered in read if isinstance(registered, Registration) for card in registered.cards]


class AbsentScene(Remembering, frozen=True, dict=True, eq=False):
    """A pod that was asked about and cannot be looked at: it does not exist, or (a gap) it could not be read.

    `events_read` are those of its name. `seen` and `webhook` are read if the pod could not be created because HAMi's
    webhook did not answer, `queued` if Kueue may hold the Job that was asked about.
    """

    wanted: Subject
    absent: AbsentPod | Gap
    events_read: Sequence[Event] | Gap
    now: datetime
    seen: InstallSeen | None = None
    webhook: WebhookSeen | None = None
    queued: Queued | Gap | None = None

    @property
    def gaps(self) -> list[Gap]:
        parts = (None if isinstance(self.absent, Gap) else self.absent, self.seen, self.webhook)
        read = (gap for part in parts if part for gap in part.gaps)
        return [gap for gap in (self.absent, self.events_read, self.queued, *read) if isinstance(gap, Gap)]

    def was_read(self, source: str) -> bool:
        """Whether it is known that the pod is `absent`: rules conclude nothing from an unread source."""
        return source != "absent" or not isinstance(self.absent, Gap)

    @property
    def refusals(self) -> Sequence[Event]:
        """The events that say why the pod's owner could not create the pod."""
        return () if isinstance(self.absent, Gap) else self.absent.refusals

    @property
    def events(self) -> Sequence[Event]:
        return () if isinstance(self.events_read, Gap) else self.events_read

    @property
    def install(self) -> Install:
        """HAMi's install; empty if it was not read."""
        return self.seen.install if self.seen else Install()

    @property
    def nodes(self) -> Mapping[str, Node]:
        """The nodes, always empty: a pod that does not exist has none."""
        return {}
