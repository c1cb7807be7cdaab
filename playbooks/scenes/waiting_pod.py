"""The scene of one pending pod in its cluster, with HAMi's verdicts on the nodes."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Self, TypeVar

from msgspec import structs

from bot.hami.fit import verdicts as fit
from bot.hami.fit.cluster_view import View
from bot.hami.fit.verdicts import Verdict
from bot.hami.nodes.cards import Card
from bot.hami.nodes.node_state import is_for, wants_own_plugin
from bot.hami.nodes.registration import Unregistered
from bot.hami.pods.pod_request import PodRequest, Resources
from bot.hami.pods.request_parsing import asked_resources, common_noun, pod_request
from bot.hami.vendors import FIRST
from bot.hami.vendors.vendor import Device
from bot.hami.version import Version
from bot.kube.models import Event, Node, Pod, ResourceQuota
from bot.kube.selectors import NodeFilter, Obstacle
from bot.kube.times import parse_time
from bot.report import Evidence, Gap
from bot.texts import Text
from playbooks.attempt import Attempt, last_attempt
from playbooks.gather.dra import ClaimsSeen, Queued
from playbooks.gather.node_side import ContainerLogs
from playbooks.gather.scheduler_process import SchedulerProcess
from playbooks.gather.scheduling import InstallSeen
from playbooks.gather.usage import MeasuredNodes
from playbooks.gather.webhook import WebhookSeen
from playbooks.scenes.cluster import InstallScene, OfCluster

T = TypeVar("T")

ALL_BUT_SIZE = frozenset(
    {
        fit.NOT_HEALTHY,
        fit.CORDONED,
        fit.TYPE_MISMATCH,
        fit.UUID_MISMATCH,
        fit.NUMA_NOT_FIT,
        fit.QUOTA_NOT_FIT,
        fit.MIG_INFEASIBLE,
        fit.MODE_NOT_FIT,
    }
)
"""HAMi's reasons that have nothing to do with the size of the request."""


class PodScene(OfCluster, frozen=True, dict=True, eq=False):
    """One pending pod in its cluster.

    `claims` are read if it asks for devices through ResourceClaims, `group_events` if Volcano names a PodGroup,
    `volcano_plugins` if it asks for Volcano's vGPUs, `queued` if Kueue holds it, and `usage` on the nodes where pods
    may hold GPUs without using them. `advises`: whether findings say what would make the pod fit.
    """

    pod: Pod
    claims: ClaimsSeen | None = None
    group_events: Sequence[Event] | Gap = ()
    volcano_plugins: ContainerLogs = ContainerLogs()
    queued: Queued | Gap | None = None
    usage: MeasuredNodes | None = None
    advises: bool = True

    def twin(self, pod: Pod, attempt: Attempt) -> Self:
        """The scene of a pod that is alike (`alike.request_key`), with the verdicts that this scene worked out."""
        requests = [structs.replace(request, name=pod.name, uid=pod.metadata.uid) for request in self.requests]
        return self._with({"attempt": attempt, "requests": requests}, pod=pod)

    def with_usage(self, usage: MeasuredNodes) -> Self:
        """Adds the measured use of GPUs, which is read last: only then is it known on which nodes."""
        return self._with({}, usage=usage)

    def _with(self, known: Mapping[str, Any], **fields: Any) -> Self:
        """The scene with other fields, and what was worked out of this one but for the rules' facts."""
        other = structs.replace(self, **fields)
        vars(other).update({name: value for name, value in vars(self).items() if name != "_facts"}, **known)
        return other

    @cached_property
    def attempt(self) -> Attempt:
        """The schedulers' newest statement about this pod; log lines older than the pod do not count."""
        name, messages = (self.pod.namespace, self.pod.name), self.cluster.messages
        created, lines = parse_time(self.pod.metadata.creation_timestamp), messages.lines.get(name, ())
        own = [line for line in lines if created is None or line[1].at is None or line[1].at >= created]
        return last_attempt(self.pod, messages.events.get(name, ()), own)

    @property
    def seen(self) -> InstallSeen:
        return self.cluster.seen

    @property
    def process(self) -> SchedulerProcess:
        return self.cluster.process

    @property
    def webhook(self) -> WebhookSeen | None:
        return self.cluster.webhook

    @property
    def nodes(self) -> Mapping[str, Node]:
        return self.cluster.facts.nodes

    @property
    def nodes_seen(self) -> bool:
        return self.cluster.nodes_seen

    @property
    def asked(self) -> dict[str, str]:
        """The amounts of HAMi's resources that the pod asks for, as written."""
        return asked_resources(self.pod, self.config)

    @property
    def plugins(self) -> Mapping[str, Sequence[Pod] | Gap]:
        """The pods, on the nodes in question, of the device plugin for what the pod asks for; by node."""
        return self.cluster.questioned.plugins_of(self.device.vendor)

    @property
    def words(self) -> list[Evidence]:
        """The schedulers' newest statement about the pod as evidence."""
        return self.attempt.words

    @cached_property
    def views(self) -> list[View]:
        """The cluster as each version sees it, without the pod's own reservation, as in the pod's own filter run."""
        return [view.forgetting(self.pod.metadata.uid) for view in self.cluster.views]

    @cached_property
    def requests(self) -> list[PodRequest]:
        """The pod's resource request, as each version reads it."""
        return [pod_request(self.pod, self.config, version) for version in self.cluster.versions]

    @property
    def version(self) -> Version | None:
        """HAMi's version; None if it is not known."""
        return self.cluster.version

    @property
    def view(self) -> View:
        """The view to quote figures from: the only one if the version is known, else the newest."""
        return self.views[-1]

    @property
    def request(self) -> PodRequest:
        return self.requests[-1]

    @property
    def device(self) -> Device:
        """The first device that the pod asks for; the first vendor's if it asks for none."""
        asked, config = self.request.containers, self.config
        return config.by_word[asked[0].word] if asked else config.devices[0]

    @property
    def noun(self) -> str:
        """The common noun of the devices that the pod asks for; GPU if it asks for none."""
        return common_noun(self.config.by_word[asked.word].names.noun for asked in self.request.containers)

    @property
    def gpus(self) -> Resources:
        """The resource names of the first device that the pod asks for."""
        return self.device.resources

    @property
    def quotas(self) -> Iterable[ResourceQuota]:
        """The quotas that were read, of the pod's and maybe of other namespaces; empty if they were not."""
        return self.view.facts.quotas or ()

    @cached_property
    def obstacles(self) -> dict[str, Obstacle]:
        """The nodes that kube-scheduler itself drops, as far as objects alone tell, and why."""
        obstacle, found = NodeFilter(self.pod).obstacle, dict[str, Obstacle]()
        for name in sorted(self.nodes):
            if (blocking := obstacle(self.nodes[name])) is not None:
                found[name] = blocking
        return found

    @cached_property
    def candidates(self) -> list[str]:
        """The nodes that kube-scheduler does not drop, so that HAMi is asked about them; sorted."""
        obstacles = self.obstacles
        return [name for name in sorted(self.nodes) if name not in obstacles]

    @cached_property
    def verdicts(self) -> dict[str, Verdict]:
        """HAMi's verdict on every candidate."""
        return self.judge_each(self.candidates)

    @cached_property
    def by_verdict(self) -> list[tuple[Verdict, list[str]]]:
        """The verdicts with the candidates of each. Nodes that are alike share one; equal ones may recur."""
        found: dict[int, tuple[Verdict, list[str]]] = {}
        for name, verdict in self.verdicts.items():
            known = found.get(id(verdict))
            if known is None:
                found[id(verdict)] = verdict, [name]
            else:
                known[1].append(name)
        return list(found.values())

    @cached_property
    def takers(self) -> list[str]:
        """The nodes that HAMi alone would give the pod, whatever kube-scheduler says of them."""
        return [name for name, verdict in self.judge_each(sorted(self.nodes)).items() if verdict.fits]

    @cached_property
    def fitting(self) -> list[str]:
        """The candidates that would take the pod now."""
        return [name for name, verdict in self.verdicts.items() if verdict.fits]

    def judge(self, name: str, relax: frozenset[str] = frozenset()) -> Verdict:
        """HAMi's verdict on a node; unknown if its possible versions do not agree. Reasons in `relax` do not count."""
        return self.judge_each([name], relax)[name]

    def judge_each(self, names: Sequence[str], relax: frozenset[str] = frozenset()) -> dict[str, Verdict]:
        """HAMi's verdicts on several nodes; reasons in `relax` do not count."""
        by_version = [
            view.judge_each(names, request, relax) for view, request in zip(self.views, self.requests, strict=True)
        ]
        return by_version[0] if len(by_version) == 1 else {name: _agreed(by_version, name) for name in names}

    def why_unregistered(self, name: str) -> Unregistered | None:
        """Why HAMi does not know the node's devices; None for a node that is registered."""
        state = self.view.state(name)
        return state if isinstance(state, Unregistered) else None

    def if_registered(self, name: str) -> Verdict:
        """The verdict on an unregistered node if its GPUs were registered; unknown if they cannot be read."""
        state = self.why_unregistered(name)
        if state is None or state.registration is None:
            return Verdict(fits=None)
        return self.view.run(self.view.cards_of(name, state.registration), self.request)

    def expects_gpus(self, name: str) -> bool:
        node, device = self.nodes[name], self.device
        return wants_own_plugin(node, self.config) if device.vendor is FIRST else is_for(node, device)

    def is_asked_for(self, card: Card) -> bool:
        """Whether the device is one that the pod asks for: its type holds the word of an asked device."""
        return any(card.is_of(asked.word) for asked in self.request.containers)

    @cached_property
    def devices_are_there(self) -> bool:
        """Whether some candidate has, or should have, the devices that the pod asks for."""
        return any(map(self.expects_gpus, self.candidates))

    @cached_property
    def _are_unread(self) -> bool:
        """Whether half the nodes that should have the other vendor's devices that the pod asks for register none."""
        if self.device.vendor is FIRST:
            return False
        meant = [name for name in self.nodes if self.expects_gpus(name)]
        unread = [name for name in meant if not any(self.is_asked_for(card.card) for card in self.view.cards(name))]
        return bool(meant) and 2 * len(unread) >= len(meant)

    @property
    def too_large(self) -> bool:
        """Whether no registered node of the cluster could take the pod even empty, whatever GPUs it names. False if the
        GPUs of half the nodes that should have some could not be read.
        """
        return bool(self.refusals_when_empty)

    @cached_property
    def refusals_when_empty(self) -> Mapping[str, Verdict]:
        """HAMi's verdicts on an empty node of each kind, by its name, if all refuse the pod; else empty."""
        if self._are_unread:
            return {}
        by_version = {view.version: (view, request) for view, request in zip(self.views, self.requests, strict=True)}
        found: dict[str, Verdict] = {}
        for version, name, cards in self.cluster.shapes:
            view, request = by_version[version]
            verdict = view.run(view.cards_of(name, cards, empty=True), request, ALL_BUT_SIZE)
            if verdict.fits is not False:
                return {}
            found[name] = verdict
        return found


HamiScene = InstallScene | PodScene
"""A scene of HAMi itself, for a question about HAMi or about a pod that waits for it."""


def _agreed(by_version: Sequence[Mapping[str, Verdict]], name: str) -> Verdict:
    verdicts = [by_node[name] for by_node in by_version]
    if len({(verdict.fits, frozenset(verdict.codes)) for verdict in verdicts}) > 1:
        return Verdict(fits=None, unknown=Text("error-hami.versions-differ"))
    return verdicts[-1]
