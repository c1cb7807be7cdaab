"""NVIDIA's GPUs [HAMi v2.4 to v2.10, pkg/device/nvidia/device.go]."""

from datetime import datetime
from itertools import combinations

import msgspec

from bot.hami.fit import verdicts as checks
from bot.hami.fit.verdicts import (
    ALLOCATED_INSUFFICIENT,
    CORDONED,
    MIG_INFEASIBLE,
    NOT_HEALTHY,
    NUMA_NOT_FIT,
    TYPE_MISMATCH,
    CardUse,
    Run,
    UnmodelledError,
    Verdict,
    type_allows,
)
from bot.hami.names import Names
from bot.hami.nodes.cards import CardState, MigChoice, choose_profile
from bot.hami.nodes.registration import JSON_SINCE, Registration, Unregistered, registered_cards
from bot.hami.pods.pod_request import (
    INT32_MAX,
    UNSET_PERCENTAGE,
    WHOLE_CARD,
    ContainerRequest,
    Resources,
    amount_of,
    to_int32,
)
from bot.hami.vendors.vendor import Amounts, AnnotatedContainer, Answer, Denied, Mutation, Vendor
from bot.hami.version import Version
from bot.kube.models import Container, Node
from bot.texts import Text

NAMES = Names(
    word="NVIDIA",
    count="nvidia.com/gpu",
    memory="nvidia.com/gpumem",
    cores="nvidia.com/gpucores",
    percentage="nvidia.com/gpumem-percentage",
    use_type="nvidia.com/use-gputype",
    no_use_type="nvidia.com/nouse-gputype",
    use_uuid="nvidia.com/use-gpuuuid",
    no_use_uuid="nvidia.com/nouse-gpuuuid",
    mode="nvidia.com/vgpu-mode",
    numa_bind="nvidia.com/numa-bind",
    register="hami.io/node-nvidia-register",
    handshake="hami.io/node-handshake",
    allocated=("hami.io/vgpu-devices-allocated",),
    passed_over=("nvidia.com/priority",),  # charts/hami/templates/scheduler/configmap.yaml
    shares_domain=True,
)


class _Section(msgspec.Struct, rename="camel"):
    resource_count_name: str = NAMES.count
    resource_memory_name: str = NAMES.memory
    resource_memory_percentage_name: str = NAMES.percentage
    resource_core_name: str = NAMES.cores
    default_memory: int = 0
    default_cores: int = 0
    default_gpu_num: int = msgspec.field(default=1, name="defaultGPUNum")
    memory_factor: int = 1


SCORE_KEY = "hami.io/node-nvidia-score"
_EXCLUSIVE_BY_DEFAULT = Version(2, 7, 0)
_CHECKED, _CORES_CHECKED = Version(2, 10, 0), Version(2, 11, 0)
_FOUND_BY = (
    *("nvidia.com/gpu.present", "nvidia.com/gpu.count"),  # GPU Feature Discovery
    # NFD, vendor id 10de
    *(f"feature.node.kubernetes.io/pci-{prefix}10de.present" for prefix in ("", "0302_", "0300_")),
)
_LABELS = (
    *_FOUND_BY[:2],
    "nvidia.com/gpu.product",
    *_FOUND_BY[2:],
    *("cloud.google.com/gke-accelerator", "k8s.amazonaws.com/accelerator"),
)


class _LinkScores(msgspec.Struct):
    uuid: str = ""
    score: dict[str, int] | None = None


_link_scores: msgspec.json.Decoder[list[_LinkScores] | None] = msgspec.json.Decoder(list[_LinkScores] | None)


class Nvidia(Vendor):
    """NVIDIA's GPUs, whole or shared, with or without MIG."""

    names = NAMES
    section = "nvidia"
    node_label = ("gpu", "on")
    gpu_labels = _FOUND_BY
    node_keys = (SCORE_KEY,)
    plugin_labels = "app.kubernetes.io/component=hami-device-plugin"
    obeys_quota = True
    by_kubelet_since = JSON_SINCE

    def read_resources(self, section: object) -> tuple[Resources, ...]:
        found = _Section() if section is None else msgspec.convert(section, _Section)
        resources = Resources(
            word=NAMES.word,
            count=found.resource_count_name,
            memory=found.resource_memory_name,
            percentage=found.resource_memory_percentage_name,
            cores=found.resource_core_name,
            default_memory_mib=found.default_memory,
            default_cores=found.default_cores,
            default_count=found.default_gpu_num,
            memory_factor=max(found.memory_factor, 1),
        )
        return (resources,)

    def request(self, container: Container, resources: Resources, version: Version) -> ContainerRequest | None:
        count = amount_of(container, resources.count)
        if not isinstance(count, int) or count <= 0 or count > INT32_MAX:
            return None
        memory, factor = amount_of(container, resources.memory), resources.memory_factor
        percentage = amount_of(container, resources.percentage)
        if version >= (2, 10):
            if memory == "unusable" or (isinstance(memory, int) and not 0 <= memory * factor <= INT32_MAX):
                return None
            percentage = min(percentage, WHOLE_CARD) if isinstance(percentage, int) and percentage > 0 else None
        memory_mib = memory * factor if isinstance(memory, int) else 0
        percent = percentage if isinstance(percentage, int) else UNSET_PERCENTAGE
        if percent == UNSET_PERCENTAGE and memory_mib == 0:
            memory_mib = resources.default_memory_mib
            percent = percent if memory_mib else WHOLE_CARD
        cores = amount_of(container, resources.cores)
        return ContainerRequest(
            word=NAMES.word,
            container=container.name,
            count=count,
            memory_mib=to_int32(memory_mib),
            percentage=percent,
            cores=min(cores if isinstance(cores, int) else resources.default_cores, WHOLE_CARD),
        )

    def admit(self, shown: AnnotatedContainer, resources: Resources) -> Answer:
        """Adds a count where only memory or cores are named, and all cores for a whole GPU; denies wrong numbers.
        Source: MutateAdmission and defaultExclusiveCoreIfNeeded, v2.7 to v2.10; of cores HAMi #2784, after it.
        """
        if not any(name in shown.limits for name in resources.all):
            return None
        percentage = shown.asked(resources.percentage)
        for name, since in ((resources.percentage, _CHECKED), (resources.cores, _CORES_CHECKED)):
            asked = shown.asked(name)
            if asked is not None and not 0 <= asked <= WHOLE_CARD and shown.version >= since:
                where = f"in container {shown.container}: must be an integer between 0 and {WHOLE_CARD}"
                return Denied(f"invalid {name} value {asked} {where}")
        named = resources.count in shown.limits
        if not named and resources.default_count <= 0:
            return None
        added: Amounts = {} if named else {resources.count: resources.default_count}
        whole = percentage == WHOLE_CARD if percentage is not None else shown.asked(resources.memory) is None
        if whole and shown.asked(resources.cores) is None and shown.version >= _EXCLUSIVE_BY_DEFAULT:
            added = {**added, resources.cores: WHOLE_CARD}
        return Mutation(added)

    def gpu_label(self, node: Node) -> str:
        """The key of the label by which the node has NVIDIA GPUs, with or without HAMi; empty without one."""
        for key in _LABELS:
            value = node.metadata.label(key) or ""
            if value.startswith("nvidia") if "accelerator" in key else value not in ("", "false", "0"):
                return key
        return ""

    def node_facts(self, node: Node) -> dict[tuple[str, str], int] | None:
        """The node's link scores by pair of uuids; None when it has none."""
        text = node.metadata.annotation(SCORE_KEY)
        return read_link_scores(text) if text else None

    def registration(
        self, node: Node, version: Version, now: datetime, resources: Resources
    ) -> Registration | Unregistered:
        key = self.names.register
        read = registered_cards(node, self.names, self.names.word)
        if isinstance(read, Unregistered):
            return read
        if (read.encoding == "json") != (version >= JSON_SINCE):
            return Unregistered("other-format", key, (node.metadata.annotation(key) or "")[:80], read)
        score = node.metadata.annotation(SCORE_KEY)
        if version >= JSON_SINCE and score is not None and read_link_scores(score) is None:
            return Unregistered("score-unreadable", SCORE_KEY, score[:200], read)
        found = super().registration(node, version, now, resources)
        if version >= JSON_SINCE and isinstance(found, Unregistered):  # asked only where kubelet offers nothing
            return found._replace(why="no-allocatable")
        return found

    def scan(self, run: Run, in_play: list[CardState], asked: ContainerRequest) -> Verdict | list[CardUse]:
        taken, counts = _look(run, in_play, asked)
        if run.topology and len(taken) >= asked.count:
            return taken if run.is_last else _choose_linked(run, taken, asked.count)
        if len(taken) == asked.count:
            return taken
        if taken:
            counts[ALLOCATED_INSUFFICIENT] = len(taken) if run.rules.modern else 1
        return Verdict(fits=False, parts=tuple(counts.items()), of=len(in_play))

    def may_split(self, run: Run, in_play: list[CardState]) -> bool:
        """Whether one GPU may serve a container more than once: a MIG GPU from 2.10 on."""
        may = run.rules.modern and (run.wanted.mode is None or "mig" in run.wanted.mode)
        return may and any(state.card.mode == "mig" for state in in_play)

    def slices(self, state: CardState) -> list[int]:
        """The MiB that a pod could get on the GPU: all that is free; of a MIG GPU each profile with a free place."""
        if state.card.mode != "mig":
            return [state.free_memory_mib]
        return [
            profile.memory_mib
            for profile in state.card.mig_profiles
            if profile.memory_mib <= state.free_memory_mib and choose_profile([profile], 0, state.placements)
        ]


def read_link_scores(text: str) -> dict[tuple[str, str], int] | None:
    """How well GPUs are linked, by pair of uuids, for the policy topology-aware; None for text that does not say."""
    try:
        listed = _link_scores.decode(text.encode()) or []
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return None
    return {(scores.uuid, other): score for scores in listed for other, score in (scores.score or {}).items()}


MAX_COMBINED_CARDS = 16

_BEFORE_NUMA: tuple[checks.Check, ...] = (
    (NOT_HEALTHY, lambda run, state, _: run.rules.health and not state.healthy),
    (CORDONED, lambda run, state, _: run.rules.modern and state.card.uuid in run.node.cordoned),
    (TYPE_MISMATCH, lambda run, state, _: not type_allows(run.wanted, state, run.rules)),
)
_AFTER_NUMA = (checks.UUID, checks.SLOTS, checks.MUTEX, checks.QUOTA, *checks.AMOUNTS)


def _look(run: Run, in_play: list[CardState], container: ContainerRequest) -> tuple[list[CardUse], dict[str, int]]:
    taken: list[CardUse] = []
    counts: dict[str, int] = {}
    previous_numa = -1
    position = len(in_play) - 1
    while position >= 0:
        state = in_play[position]
        code = checks.failing(run, state, container, _BEFORE_NUMA)
        if not run.rules.only_own_type and NAMES.word not in state.card.type:
            code = TYPE_MISMATCH
        if code is None and run.numa_bind and state.card.numa != previous_numa:
            if taken:
                grown = len(taken) if run.rules.modern else 1
                if not run.topology:
                    counts[NUMA_NOT_FIT] = counts.get(NUMA_NOT_FIT, 0) + grown
                taken = []
            previous_numa = state.card.numa
        choice: MigChoice | None = None
        if code is None:
            run.taking = taken
            code = checks.failing(run, state, container, _AFTER_NUMA)
        if code is None and state.card.mode == "mig" and MIG_INFEASIBLE not in run.relax:
            choice = _place_mig(run, state, container.memory_on(state.card.memory_mib), taken)
            code = None if choice else MIG_INFEASIBLE
        if code is not None:
            counts[code] = counts.get(code, 0) + 1
            position -= 1
            continue
        if choice is None:
            taken.append(CardUse(state, container.memory_on(state.card.memory_mib), container.cores))
        else:
            taken.append(CardUse(state, choice.profile.memory_mib, choice.profile.cores, choice.placement))
        if len(taken) == container.count and not run.topology:
            break
        if choice is None:  # a MIG card is looked at once more before moving on
            position -= 1
    return taken, counts


def _place_mig(run: Run, state: CardState, memory_mib: int, taken: list[CardUse]) -> MigChoice | None:
    if not run.rules.modern:
        raise UnmodelledError(Text("error-hami.old-mig-templates"))
    if run.topology:
        raise UnmodelledError(Text("error-hami.topology-aware-on-mig"))
    earlier = [use.placement for use in taken if use.state is state and use.placement]
    return choose_profile(state.card.mig_profiles, memory_mib, [*state.placements, *earlier])


def _choose_linked(run: Run, taken: list[CardUse], count: int) -> list[CardUse]:
    """Of the cards that passed, the ones that the policy topology-aware gives to the container."""
    if len(taken) == count:
        return taken
    scores: dict[tuple[str, str], int] = run.node.facts.get(NAMES.word) or {}

    def pair(one: CardUse, other: CardUse) -> int:
        return scores.get((one.state.card.uuid, other.state.card.uuid), 0)

    if count == 1:
        return [min(taken, key=lambda use: sum(pair(use, other) for other in taken if other is not use))]
    if len(taken) > MAX_COMBINED_CARDS:
        raise UnmodelledError(Text("error-hami.topology-aware-over-more", most=MAX_COMBINED_CARDS))
    best = max(combinations(taken, count), key=lambda some: sum(pair(a, b) for a, b in combinations(some, 2)))
    if not run.rules.modern and not any(pair(a, b) for a, b in combinations(best, 2)):
        return []
    return list(best)
