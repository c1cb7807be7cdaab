"""What a namespace's quotas would make of one more pod, as HAMi counts, and as Kubernetes counts."""

import json
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

import msgspec

from bot.hami.fit.allocated_totals import Ledger, ledger_key
from bot.hami.fit.quotas import QuotaLimit, holds_in_filter, is_enforced, limits_of
from bot.hami.pods.pod_request import PodRequest
from bot.hami.pods.request_parsing import DeviceConfig
from bot.hami.version import Rules
from bot.kube.models import ResourceQuota
from bot.kube.selectors import effective_request
from bot.report import Evidence, NextAction, act
from bot.texts import Text
from playbooks.quotes import escape, kubectl
from playbooks.scenes.waiting_pod import PodScene

QuotaVerdict = Literal["fits", "refused", "not enforced", "unknown"]


class Effect(NamedTuple):
    """A limit (`of`) with the pod counted. `used` and `asked` are in the limit's unit, None where not known."""

    of: QuotaLimit
    used: int | None
    asked: int | None
    verdict: QuotaVerdict

    @property
    def by(self) -> str:
        return self.of.by

    @property
    def key(self) -> str:
        return self.of.key

    @property
    def limit(self) -> int | str:
        return self.of.written if self.of.amount is None else self.of.amount


def effects(scene: PodScene) -> list[Effect]:
    """The pod's effect on every limit of its namespace on a resource that HAMi hands out."""
    own = [quota for quota in scene.quotas if quota.namespace == scene.pod.namespace]
    return [_effect(scene, limit) for limit in limits_of(own, scene.config)]


def refusal(scene: PodScene) -> Effect | None:
    """The effect on the first limit by which Kubernetes or HAMi's webhook would refuse to create the pod; else None."""
    refused = (effect for effect in effects(scene) if effect.verdict == "refused")
    return next((one for one in refused if one.by != "HAMi" or not holds_in_filter(one.of, scene.config)), None)


def _effect(scene: PodScene, limit: QuotaLimit) -> Effect:
    if limit.by == "HAMi":
        return effect_by_hami(limit, scene.request, scene.view.ledger, scene.config, scene.view.rules)
    asked = int(effective_request(scene.pod, limit.resource))
    if limit.by == "nobody":
        return Effect(limit, None, asked, "not enforced")
    if not asked:
        return Effect(limit, limit.used, 0, "fits")
    return Effect(limit, limit.used, asked, _verdict(limit.amount, limit.used, asked))


def effect_by_hami(
    limit: QuotaLimit, request: PodRequest, ledger: Ledger | None, config: DeviceConfig, rules: Rules
) -> Effect:
    """The pod's effect on a limit that HAMi counts. `ledger`: who holds what, None where that was not read."""
    device, of_cores = config.amounts[limit.resource]
    taken = ledger.used_in(request.namespace, ledger_key(device))[of_cores] if ledger else None
    containers = [container for container in request.containers if container.word == device.word]
    amounts = [(one, one.count * (one.cores if of_cores else one.memory_mib)) for one in containers]
    if not device.vendor.obeys_quota:
        # HAMi's webhook counts no memory for a request without an amount [HAMi v2.10 pkg/scheduler/webhook.go].
        inits = max((amount for one, amount in amounts if one.init), default=0)
        asked = max(sum(amount for one, amount in amounts if not one.init), inits)
    elif of_cores or all(one.memory_mib for one in containers):
        asked = sum(amount for _, amount in amounts)
    else:
        asked = None  # a share of cards, whose memory depends on the card
    if not is_enforced(limit if limit.amount is not None else msgspec.structs.replace(limit, amount=1), config, rules):
        return Effect(limit, taken, asked, "not enforced")
    return Effect(limit, taken, asked, _verdict(limit.amount, taken, asked))


def _verdict(limit: int | None, used: int | None, asked: int | None) -> QuotaVerdict:
    """A pod that is larger than the limit is refused whatever is used, even if less than nothing is."""
    if limit is None or asked is None:
        return "unknown"
    if (used or 0) + asked > limit:
        return "refused"
    return "unknown" if used is None else "fits"


def proof(limit: QuotaLimit, quotas: Iterable[ResourceQuota]) -> list[Evidence]:
    """The evidence of the limit in its quota; empty where the quota was not read."""
    there = any((quota.namespace, quota.name) == (limit.namespace, limit.quota) for quota in quotas)
    return quoted(limit.namespace, limit.quota, limit.written, limit.key) if there else []


def quoted(namespace: str, quota: str, words: str, key: str = "") -> list[Evidence]:
    """The evidence of a quota's limits: of what `key` is limited to, or of a key among them."""
    path = "{.spec.hard" + (f".{escape(key)}" if key else "") + "}"
    show = kubectl("-n", namespace, "get", "resourcequota", quota, "-o", f"jsonpath={path}")
    return [Evidence("quota", f"ResourceQuota {namespace}/{quota}", None, words, show)]


def raise_limits(scene: PodScene) -> Iterator[NextAction]:
    """The steps to raise the limits that refuse the pod by what it lacks; none for one set twice."""
    own = [effect for effect in effects(scene) if effect.by == "HAMi"]
    for effect in own:
        if effect.verdict != "refused" or effect.used is None or effect.asked is None:
            continue
        if sum(other.key == effect.key for other in own) > 1:
            continue
        factor = scene.gpus.memory_factor if effect.of.resource == scene.gpus.memory else 1
        amount = -(-(effect.used + effect.asked) // factor)
        values = {"resource": effect.key, "quota": f"{effect.of.namespace}/{effect.of.quota}", "pod": scene.pod.name}
        label = Text("quota.raise", **values, amount=f"{amount:,}")
        patch = json.dumps({"spec": {"hard": {effect.key: str(amount)}}}, separators=(",", ":"))
        words = ("-n", effect.of.namespace, "patch", "resourcequota", effect.of.quota, "--type", "merge", "-p", patch)
        yield act(label, kubectl(*words))
