"""What a share of a card comes to: a figure for each type of card that the pod may have."""

from collections.abc import Mapping

from bot.hami.fit.verdicts import type_allows, uuid_allows
from bot.hami.pods.pod_request import PodRequest
from bot.texts import Prose, Text
from playbooks.rules.common import prose
from playbooks.rules.quota.effects import Effect, effects
from playbooks.scenes.waiting_pod import PodScene


def asked_on(scene: PodScene) -> dict[int, list[str]]:
    """The MiB that the whole pod means on cards of one size, ascending, with the types of those cards."""
    found: dict[int, set[str]] = {}
    wanted, rules = scene.request.constraints, scene.view.rules
    for name in scene.candidates:
        for card in scene.view.cards(name):
            if type_allows(wanted, card, rules) and uuid_allows(wanted, card.card.uuid, rules):
                found.setdefault(_memory(scene.request, card.card.memory_mib), set()).add(card.card.type)
    return {amount: sorted(found[amount]) for amount in sorted(found)}


def _memory(request: PodRequest, of_card: int) -> int:
    return sum(container.count * container.memory_on(of_card) for container in request.containers)


def is_share(scene: PodScene, effect: Effect) -> bool:
    """Whether what is asked of the limit depends on the card."""
    return effect.by == "HAMi" and effect.asked is None and effect.of.resource == scene.gpus.memory


def amounts(figures: Mapping[int, list[str]], form: str = ",") -> Prose:
    """`7,680 to 40,960`, each in that form; `?` where no card that the pod may have was seen."""
    ends = [f"{amount:{form}}" for amount in sorted({min(figures), max(figures)})] if figures else ["?"]
    return ends[0] if len(ends) == 1 else Text("fit.range", least=ends[0], most=ends[1])


def amounts_by_type(figures: Mapping[int, list[str]]) -> Prose:
    """`7,680 (Tesla T4), 40,960 (A100)`; of one amount that alone."""
    if len(figures) < 2:
        return amounts(figures)
    return prose.names([f"{amount:,} ({', '.join(types)})" for amount, types in figures.items()])


def effects_on_cards(scene: PodScene) -> list[Effect]:
    """The effect on every limit; on one of a share, where every card that the pod may have gives the same."""
    return [_on_cards(scene, effect) if is_share(scene, effect) else effect for effect in effects(scene)]


def _on_cards(scene: PodScene, effect: Effect) -> Effect:
    limit, used, figures = effect.of.amount, effect.used, asked_on(scene)
    if effect.verdict != "unknown" or limit is None or not figures:
        return effect
    if (used or 0) + min(figures) > limit:
        return effect._replace(verdict="refused")
    fits = used is not None and used + max(figures) <= limit
    return effect._replace(verdict="fits") if fits else effect
