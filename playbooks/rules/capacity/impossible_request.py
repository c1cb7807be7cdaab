"""A request that no registered node of the cluster can hold, even empty."""

from collections.abc import Sequence
from typing import NamedTuple

from bot.hami.fit import verdicts
from bot.hami.pods.pod_request import UNSET_PERCENTAGE, ContainerRequest
from bot.report import Evidence, Finding, step
from bot.texts import Text
from playbooks.rules.capacity import request_amounts
from playbooks.rules.capacity.vendor_words import in_words, numbers_given
from playbooks.rules.common import prose
from playbooks.rules.common.findings import finding
from playbooks.scenes.waiting_pod import PodScene


def impossible(scene: PodScene, words: Sequence[Evidence]) -> Finding | None:
    """Larger than any registered node of the cluster, even empty; None where none has such a device.

    `words`: the schedulers' own.
    """
    if not scene.request.containers or not scene.nodes or not scene.too_large or not _has_some(scene):
        return None
    refused = scene.attempt.stage == "filter" and scene.attempt.evidence is not None
    resources, container = scene.gpus, request_amounts.largest_request(scene)
    amounts = (resources.cores,) if _lacks_cores(scene) else (resources.memory, resources.percentage)
    if _lacks_cores(scene):
        container = max(scene.request.containers, key=lambda container: container.cores)
    proofs = [
        *request_amounts.proof(scene, container, amounts),
        *request_amounts.proof(scene, container, (resources.count, resources.cores)),
    ]
    return finding(
        "impossible-anywhere",
        _claim(scene),
        "confirmed" if refused else "suspected",
        (),
        [*words, *dict.fromkeys(proofs)],
        severity="warning",
        actions=[step(Text("impossible-anywhere.look"), prose.command("gpus"))],
    )


def _claim(scene: PodScene) -> Text:
    if over := over_a_card(scene):
        return Text("impossible-anywhere.percent", percent=over, version=str(scene.version or "?"))
    for container in sorted(scene.request.containers, key=request_amounts.size, reverse=True):
        largest, most = at_most(scene, container.word)
        asked = request_amounts.asked(scene, container)
        if container.memory_mib > largest and scene.config.of(container.word).memory:
            return Text("impossible-anywhere.claim", asked=asked, largest=prose.mib(largest), most=most)
        if container.count > most:
            return Text("impossible-anywhere.number", asked=asked, most=most)
    if never := never_given(scene):
        asked = request_amounts.asked(scene, never.container)
        return Text("impossible-anywhere.never", asked=asked, word=never.container.word, numbers=never.numbers)
    name, verdict = nearest_refusal(scene)
    if scene.device.vendor.one_card_per_pod and len({request.container for request in scene.request.containers}) > 1:
        return Text("impossible-anywhere.same", node=name, reason=verdict.text(), word=scene.device.word)
    return Text("impossible-anywhere.reason", node=name, reason=verdict.text())


class ImpossibleCount(NamedTuple):
    """A container that asks for another number of devices than HAMi gives at once. `numbers`: `1, 2, 4, 8`."""

    container: ContainerRequest
    numbers: str


def never_given(scene: PodScene) -> ImpossibleCount | None:
    """The container whose number of devices is given nowhere, of those that some node has enough for."""
    for container in scene.request.containers:
        device = scene.config.by_word[container.word]
        able = [name for name in scene.refusals_when_empty if _count(scene, name, container.word) >= container.count]
        numbers = numbers_given(scene, able, device)
        if able and numbers is not None and container.count not in numbers:
            return ImpossibleCount(container, in_words(numbers))
    return None


def nearest_refusal(scene: PodScene) -> tuple[str, verdicts.Verdict]:
    """An empty node that comes nearest to taking the pod, and what HAMi would say of it."""
    return max(scene.refusals_when_empty.items(), key=lambda item: _nearness(item[1]))


def _count(scene: PodScene, name: str, word: str) -> int:
    return sum(1 for card in scene.view.cards(name) if card.card.is_of(word))


def _lacks_cores(scene: PodScene) -> bool:
    """Whether it is the cores that an empty node lacks."""
    return any(verdicts.INSUFFICIENT_CORE in verdict.codes for verdict in scene.refusals_when_empty.values())


def _has_some(scene: PodScene) -> bool:
    """Whether some registered device counts for the pod."""
    words = {container.word for container in scene.request.containers}
    return any(
        card.card.is_of(word) for name in scene.refusals_when_empty for card in scene.view.cards(name) for word in words
    )


def _nearness(verdict: verdicts.Verdict) -> tuple[bool, int]:
    """How near HAMi comes to taking the pod."""
    return bool(verdict.parts), dict(verdict.parts).get(verdicts.ALLOCATED_INSUFFICIENT, 0)


def at_most(scene: PodScene, word: str) -> tuple[int, int]:
    """The memory of the largest device that counts, and the most of them on one node."""
    names = scene.refusals_when_empty
    nodes = [[card.card.memory_mib for card in scene.view.cards(name) if card.card.is_of(word)] for name in names]
    return max((size for memory in nodes for size in memory), default=0), max(map(len, nodes), default=0)


def over_a_card(scene: PodScene) -> int:
    """The percentage of a card where more than 100 is asked for and stands: only HAMi before 2.10 leaves it so."""
    container = request_amounts.largest_request(scene)
    if container is None or container.memory_mib or container.percentage == UNSET_PERCENTAGE:
        return 0
    return container.percentage if container.percentage > 100 else 0
