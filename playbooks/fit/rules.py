"""The rules of `fit`: where a pod fits, or what keeps it out and what would let it in. `FIT` is their order."""

import difflib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain

from msgspec import structs

from bot.finding_codes import Code
from bot.hami.fit import verdicts
from bot.hami.fit.advice import PlacementChange, smaller_requests
from bot.hami.fit.blockers import Search, pods_to_end
from bot.hami.nodes.registration import Unregistered
from bot.hami.pods.request_parsing import asked_resources, unknown_policies
from bot.hami.webhook import inits_of
from bot.kube.quantities import parse_quantity
from bot.report import VERDICT_LIMIT, Evidence, Finding, NextAction, step
from bot.texts import Prose, Text, fitting
from playbooks.fit import elsewhere
from playbooks.fit.elsewhere import as_step, end_others, of_card, of_ending, of_largest, proofs_of
from playbooks.fit.gpu_words import CardWords, device_of, words_of
from playbooks.fit.manifest import file_of, role_of
from playbooks.fit.reasons import why_never, why_nowhere, would_if_empty
from playbooks.fit.scene import (
    AskedScene,
    amounts,
    amounts_by_type,
    asked_memory,
    effects_on_cards,
    is_share,
    nearest_resource,
    unoffered_resource,
)
from playbooks.quotes import kubectl
from playbooks.rule import FindingsSoFar, Stage, rule
from playbooks.rules.admission.before_scheduling import policy_finding, remedied, unread, write_plainly
from playbooks.rules.admission.webhook import remedy
from playbooks.rules.capacity import request_amounts
from playbooks.rules.common import prose
from playbooks.rules.common.findings import finding, other_vendors
from playbooks.rules.common.holders import NO_ROOM, waited_for
from playbooks.rules.dra import claims_of
from playbooks.rules.quota.effects import Effect, proof, refusal

_CHANGES_SHOWN = 2
_OF_KUBERNETES = ("cpu", "memory", "ephemeral-storage")
_NEAR = 0.6
_MAX_TYPES = 6


@rule("admission-denied")
def denied(scene: AskedScene) -> Iterator[Finding]:
    """The finding that HAMi's webhook, or the API server after it, refuses to let the pod be created."""
    if (refused := scene.refused) is None:
        return
    key = "admission-denied.fit" if refused.by == "webhook" else "admission-denied.fit-api"
    claim = Text(key, pod=scene.name, why=refused.words)
    change = remedy(refused.words) or Text("admission-denied.as-told")
    whole = scene.card_words and structs.replace(scene.card_words, memory_mib=0, percentage=0, cores=None)
    question = words_of(whole, scene.written.namespace) if whole else ("-f", file_of(scene.written))
    steps = [elsewhere.ask_again(scene.written, change, prose.command("fit", *question))]
    yield finding("admission-denied", claim, scene.confidence, (), proofs_of(scene), severity="warning", actions=steps)


@rule("admission-denied")
def amounts_refused(scene: AskedScene) -> Iterator[Finding]:
    """The finding that the API server would refuse an amount that is no quantity, or one of no resource."""
    containers = (*inits_of(scene.written), *scene.written.spec.containers)
    parts = [container.resources for container in containers if container.resources]
    amounts = [some.items() for part in parts for some in (part.limits, part.requests) if some]
    for name, amount in chain(*amounts):
        is_name = "/" in name or name in _OF_KUBERNETES or name.startswith("hugepages-")
        if is_name and parse_quantity(amount) is not None:
            continue
        key = "admission-denied.no-quantity" if is_name else "admission-denied.no-resource"
        claim = Text(key, pod=scene.name, resource=name, amount=str(amount))
        change = Text("admission-denied.whole" if "/" in name else "admission-denied.quantity")
        if not is_name:
            change = Text("admission-denied.name", count=scene.config.gpus.count)
        proofs = [elsewhere.of_manifest(scene.written, name, str(amount) or name)]
        steps = [elsewhere.ask_again(scene.written, change, prose.command("fit", "-f", file_of(scene.written)))]
        yield finding("admission-denied", claim, scene.confidence, (), proofs, severity="warning", actions=steps)
        return


@rule("other-scheduler")
def of_another(scene: AskedScene) -> Iterator[Finding]:
    """The finding that another scheduler places the pod: HAMi's filter has no part in it."""
    if name := scene.placed_by:
        claim = Text("fits.of-another", pod=scene.once(pod_in_words), scheduler=name)
        proofs = [elsewhere.of_manifest(scene.pod, "schedulerName", name)]
        yield finding("other-scheduler", claim, scene.confidence, (), proofs, severity="info")


@rule("not-found")
def no_such_device(scene: AskedScene) -> Iterator[Finding]:
    """The finding that HAMi's device config has no device of that name: which devices it has, and the nearest name."""
    words, config = scene.card_words, scene.config
    if words is None or device_of(words, config) is not None:
        return
    known = {device.word.casefold(): device.word for device in config.devices}
    claim = Text("fits.no-device", device=words.device, devices=prose.names(list(known.values()), len(known)))
    near = difflib.get_close_matches(words.device.casefold(), known, n=1, cutoff=_NEAR)
    yield _not_found(scene, claim, {known[key]: structs.replace(words, device=known[key]) for key in near})


@rule("not-found", reads=("nodes",))
def no_such_type(scene: AskedScene) -> Iterator[Finding]:
    """The finding that no registered GPU has the type that was typed: which types there are, and the nearest one."""
    if scene.card_words is None or not scene.card_words.type:
        return
    types = Counter(card.card.type for name in scene.nodes for card in scene.view.cards(name))
    wanted = [type_.strip().casefold() for type_ in scene.card_words.type.split(",") if type_.strip()]
    if not types or not wanted or any(type_ in kind.casefold() for type_ in wanted for kind in types):
        return
    shown = prose.names([kind for kind, _ in types.most_common()], _MAX_TYPES)
    parts = {part.casefold(): part for kind in types for part in re.split(r"[\s-]+", kind) if part}
    near = difflib.get_close_matches(wanted[0], parts, n=1, cutoff=_NEAR)
    claim = Text("gpus.no-type", type=scene.card_words.type, types=shown)
    asks: dict[Prose, CardWords] = {parts[key]: structs.replace(scene.card_words, type=parts[key]) for key in near}
    asks[Text("fits.any-type")] = structs.replace(scene.card_words, type="")
    yield _not_found(scene, claim, asks)


def _not_found(scene: AskedScene, claim: Text, near: Mapping[Prose, CardWords]) -> Finding:
    asks = {name: prose.command("fit", *words_of(words, scene.pod.namespace)) for name, words in near.items()}
    steps = [step(Text("not-found.ask", name=name), ask) for name, ask in asks.items()] or [_see_gpus()]
    return finding("not-found", claim, scene.confidence, (), proofs_of(scene), severity="warning", actions=steps)


def _see_gpus() -> NextAction:
    return step(Text("fits.see-gpus"), prose.command("gpus"))


@rule("admission-denied")
def names_its_node(scene: AskedScene) -> Iterator[Finding]:
    """The finding that the pod names its node itself: whatever GPUs are free, it gets none."""
    if (node := scene.pod.spec.node_name) and scene.request.containers:
        claim = Text("fits.node-named", pod=scene.once(pod_in_words), node=node)
        proofs = [elsewhere.of_manifest(scene.pod, "nodeName", node)]
        look = kubectl("get", "nodes", "--show-labels")
        instead = elsewhere.ask_again(scene.pod, Text("admission-denied.node"), look)
        yield finding("admission-denied", claim, scene.confidence, (), proofs, severity="warning", actions=[instead])


@rule("kubernetes-filter", reads=("nodes",))
def offered_nowhere(scene: AskedScene) -> Iterator[Finding]:
    """The finding that the pod asks for a resource that no node offers: whatever GPUs are free, it gets none."""
    if resource := unoffered_resource(scene):
        claim = Text("fits.unoffered", pod=scene.once(pod_in_words), resource=resource)
        near = nearest_resource(scene, resource)
        label = Text("fits.resource-meant" if near else "fits.resource-gone", resource=resource, near=near)
        look = kubectl("get", "nodes", "-o", "jsonpath={.items[*].status.allocatable}")
        instead = elsewhere.ask_again(scene.pod, label, look)
        proofs = elsewhere.asked_amount(scene.pod, resource)
        yield finding("kubernetes-filter", claim, scene.confidence, (), proofs, severity="warning", actions=[instead])


@rule("not-enough-evidence")
def cannot_be_told(scene: AskedScene) -> Iterator[Finding]:
    """The finding that it is not known whether the pod fits anywhere."""
    vendors, why = other_vendors(scene), None
    if vendors:
        why = Text("gap.vendor", resource=vendors[0])
    elif not scene.takers:
        why = next((verdict.unknown for verdict in scene.verdicts.values() if verdict.fits is None), None)
    if why is not None:
        claim = Text("fits.unknown", pod=scene.once(pod_in_words), why=why)
        look = [step(Text("fits.see-nodes"), prose.command("nodes"))]
        yield finding("not-enough-evidence", claim, "suspected", (), proofs_of(scene), severity="warning", actions=look)


@rule("resource-claim", "no-device-request")
def nothing_asked(scene: AskedScene) -> Iterator[Finding]:
    """The finding that HAMi reads no request in the pod, so that its filter lets the pod pass without a GPU."""
    pod, confidence = scene.pod, scene.confidence
    if scene.request.containers:
        return
    if asked_resources(pod, scene.config):
        plainly = write_plainly(pod, scene.config, scene.version)
        steps = [elsewhere.ask_again(pod, plainly.text, plainly.command)]
        claim = unread(pod, scene.config, scene.version)
        yield finding("no-device-request", claim, confidence, (), proofs_of(scene), severity="warning", actions=steps)
    elif claims := claims_of(pod):
        text = Text("resource-claim.claim", claims=", ".join(claims))
        proofs = [elsewhere.of_manifest(pod, "name", claim) for claim in claims]
        look = [step(Text("resource-claim.look"), kubectl("-n", pod.namespace, "get", "resourceclaims"))]
        yield finding("resource-claim", text, confidence, (), proofs, severity="warning", actions=look)
    else:
        proofs = [of_card(scene, node) for node in sorted(scene.nodes)[:1]]
        claim = Text("fits.anywhere", pod=scene.name)
        yield finding("no-device-request", claim, confidence, (), proofs, severity="info")


@rule("resource-quota-not-fit")
def refused_at_creation(scene: AskedScene) -> Iterator[Finding]:
    """The finding that Kubernetes, or HAMi's webhook, would refuse the pod for a quota of its namespace."""
    if (effect := refusal(scene)) is not None:
        claim, proofs = scene.once(at_creation)[0], proof(effect.of, scene.quotas)
        yield _no_room(scene, "resource-quota-not-fit", claim, proofs, prose.see_quota(scene.pod.namespace))


def at_creation(scene: AskedScene) -> tuple[Text, Text]:
    """The claim and the verdict for a pod that a quota would refuse at its creation."""
    effect = refusal(scene)
    assert effect is not None
    return _over_quota("denied" if effect.by == "HAMi" else "creation", scene, effect)


@rule("fits", reads=("nodes",))
def fits(scene: AskedScene) -> Iterator[Finding]:
    """The finding that some nodes would take the pod now."""
    if free := free_nodes(scene):
        claim = Text("fits.claim", pod=scene.once(pod_in_words), count=len(free), nodes=prose.names(free))
        sure = "suspected" if elsewhere.not_looked_at(scene) else scene.confidence
        yield finding("fits", claim, sure, free, (of_card(scene, free[0]),), severity="info")


@rule("kubernetes-filter", reads=("nodes",))
def lost(scene: AskedScene) -> Iterator[Finding]:
    """The finding that Kubernetes refuses the nodes that HAMi would choose: what lets the pod onto these or others."""
    takers = scene.takers
    if not takers or any(taker not in scene.obstacles for taker in takers):
        return
    changes, search = scene.once(ways_in)
    proofs = (*elsewhere.proofs(scene, takers[0]), of_card(scene, takers[0]), *of_ending(scene, search.found))
    steps = [*elsewhere.past_kubernetes(scene, takers), *(as_step(scene, change) for change in changes)]
    steps = [*steps, *end_others(scene, search.found)] or prose.see_node(takers[0])
    claim = scene.once(lost_in_words)[0]
    yield finding("kubernetes-filter", claim, scene.confidence, takers, proofs, severity="warning", actions=steps)


def lost_in_words(scene: AskedScene) -> tuple[Text, Text]:
    """The claim and the verdict for a pod whose nodes, as HAMi would choose them, Kubernetes refuses."""
    takers = scene.takers
    count, nodes = len(takers), prose.names(takers)

    def in_short(pod: Prose, why: Prose) -> Text:
        return Text("fits.lost-short", pod=pod, why=why, count=count, nodes=nodes)

    whys = elsewhere.reasons(scene, takers)
    claim, _ = _forms(lambda pod, why: Text("fits.lost", pod=pod, why=why, count=count, nodes=nodes), scene, whys)
    short, _ = _forms(in_short, scene, whys)
    _, shorter = _forms(in_short, scene, elsewhere.reasons(scene, takers, figures=False))
    return claim, fitting((claim, short, shorter), VERDICT_LIMIT)


@rule("impossible-anywhere", "resource-quota-not-fit", "fits-nowhere", reads=("nodes",))
def fits_nowhere(scene: AskedScene) -> Iterator[Finding]:
    """The finding that no node would take the pod now: too large, over HAMi's quota, or its GPUs are held."""
    if not scene.request.containers or scene.takers:
        return
    (changes, search), effect = scene.once(ways_in), None if scene.too_large else scene.once(_only_quota)
    proofs = [*proofs_of(scene, changes[0].node if changes else ""), *of_ending(scene, search.found)]
    code: Code = "impossible-anywhere" if scene.too_large else "fits-nowhere"
    if effect is not None:
        code = "resource-quota-not-fit"
        proofs = [*proof(effect.of, scene.quotas), *of_largest(scene), *proofs]
    steps = [*(as_step(scene, change) for change in changes), *end_others(scene, search.found)]
    yield _no_room(scene, code, scene.once(nowhere_in_words)[0], proofs, steps or [_see_gpus()])


def nowhere_in_words(scene: AskedScene) -> tuple[Text, Text]:
    """The claim and the verdict for a pod that no node would take."""
    if scene.too_large:
        claim = Text("fits-nowhere.never", pod=scene.once(pod_in_words), why=why_never(scene))
        return claim, claim
    if (effect := scene.once(_only_quota)) is not None:
        return _over_quota("fit", scene, effect)
    names, count = _judged(scene), len(scene.nodes)
    empty = names and not any(would_if_empty(scene, name) for name in names)
    key = "fits-nowhere.empty" if empty else "fits-nowhere.claim"
    return _forms(lambda pod, why: Text(key, pod=pod, why=why, count=count), scene, why_nowhere(scene))


def _no_room(
    scene: AskedScene, code: Code, claim: Text, proofs: Sequence[Evidence], steps: Sequence[NextAction]
) -> Finding:
    """Asks first about pods that hold GPUs without need: their end may mend the finding."""
    idle = scene.once(waited_for) if code in NO_ROOM else None
    steps = [*(idle.next_actions if idle else ()), *steps]
    return finding(code, claim, scene.confidence, (), proofs, severity="warning", actions=steps)


@rule("idle-holder", reads=("nodes",))
def waits_for_idle(scene: AskedScene) -> Iterator[Finding]:
    """The finding that the pod would fit without holders that have not used their GPUs for hours."""
    if (idle := scene.once(waited_for)) is not None:
        yield idle


@rule("unknown-policy")
def policies_unread(scene: AskedScene) -> Iterator[Finding]:
    """The findings about policies in the pod that HAMi does not know: silently, it uses its default instead."""
    for strange in unknown_policies(scene.written, scene.version):
        proof = elsewhere.of_manifest(scene.written, strange.key, strange.value)
        yield policy_finding(strange, proof, elsewhere.ask_again(scene.written, remedied(strange), proof.command))


ANOTHERS = "not HAMi's to place"
AT_CREATION, LOST, NOWHERE = "no room in a quota", "Kubernetes keeps it off", "fits nowhere"

FIT: tuple[Stage[AskedScene], ...] = (
    Stage("would be refused", amounts_refused, denied, either=True, ends=True),
    Stage(ANOTHERS, of_another, ends=True),
    Stage("no such devices", no_such_device, no_such_type, either=True, ends=True),
    Stage("never scheduled", names_its_node, offered_nowhere, either=True, ends=True),
    Stage("not to be told", cannot_be_told, ends=True),
    Stage("asks for nothing", nothing_asked, ends=True),
    Stage(AT_CREATION, refused_at_creation, ends=True),
    Stage("fits", fits, ends=True),
    Stage(LOST, lost, ends=True),
    Stage(NOWHERE, fits_nowhere, ends=True),
    Stage(
        "room that nobody uses", waits_for_idle, beside=True, when=lambda _, told: not told.codes.isdisjoint(NO_ROOM)
    ),
    Stage(
        "policies that HAMi does not know", policies_unread, beside=True, when=lambda _, told: told.ended != ANOTHERS
    ),
)
"""The stages of `fit`. The first stage that speaks ends the search: one pod has one answer."""

_IN_WORDS = {AT_CREATION: at_creation, LOST: lost_in_words, NOWHERE: nowhere_in_words}


def verdict(scene: AskedScene, told: FindingsSoFar) -> Prose:
    """The answer's one line: the first claim, or its short form if the claim is longer than a verdict may be."""
    in_words = _IN_WORDS.get(told.ended)
    return scene.once(in_words)[1] if in_words else told.findings[0].text


def endings(scene: AskedScene, told: FindingsSoFar) -> Search:
    """The sets of pods whose end would let the pod in; none if others do not hold what it needs."""
    return scene.once(ways_in)[1] if told.ended in (LOST, NOWHERE) else Search()


def free_nodes(scene: AskedScene) -> list[str]:
    """The nodes that would take the pod now; Kubernetes' own filters count as far as objects alone tell."""
    if other_vendors(scene) or refusal(scene) is not None or scene.pod.spec.node_name:
        return []
    return [taker for taker in scene.takers if taker not in scene.obstacles]


def pod_in_words(scene: AskedScene) -> Prose:
    """The pod's name; for an object with a template, which of its pods; for GPU words, what was understood by them."""
    role = role_of(scene.written)
    if role.kind != "Pod":
        named = f"{role.kind} {role.of}".strip()
        owner = named if role.name == role.of else f"{named} {role.name}"
        several = role.replicas is not None and role.replicas > 1
        return Text("fit.one-of", count=role.replicas, owner=owner) if several else Text("fit.pod-of", owner=owner)
    if scene.card_words is None or not scene.request.containers:
        return scene.name
    request = scene.request.containers[0]
    read = request_amounts.asked(scene, request)
    if request.cores:
        read = Text("fit.with-cores", read=read, cores=request_amounts.cores(scene, request))
    if types := _longer_types(scene):
        read = Text("fit.with-types", read=read, types=prose.names(types, _MAX_TYPES))
    return Text("fit.called", words=scene.name, read=read)


def _longer_types(scene: AskedScene) -> list[str]:
    """The types that HAMi, which looks for a part of the name, takes for the one that was typed: A100 for `A10`."""
    typed = scene.card_words.type.split(",") if scene.card_words else []
    words = [re.escape(word.strip()) for word in typed if word.strip()]
    after = re.compile(rf"(?:{'|'.join(words)})([a-z0-9]?)", re.IGNORECASE)
    types = dict.fromkeys(card.card.type for name in scene.nodes for card in scene.view.cards(name) if words)
    return [kind for kind in types if (ends := after.findall(kind)) and all(ends)]


def ways_in(scene: AskedScene) -> tuple[Sequence[PlacementChange], Search]:
    """What would let the pod onto a node that Kubernetes' own filters allow: a changed request, other pods' end."""
    names = _judged(scene)
    search = Search() if scene.too_large else pods_to_end(scene.view, names, scene.request, kept=_own_pods(scene))
    return smaller_requests(scene.view, names, scene.request)[:_CHANGES_SHOWN], search


def _own_pods(scene: AskedScene) -> set[str]:
    """The pods of the object that is asked about: what ends of them is made anew and takes the place again."""
    written, own = scene.written, set[str]()
    name = role_of(written).of or written.name
    for pod in scene.view.facts.pods or ():
        if pod.namespace != written.namespace:
            continue
        # What a Deployment or CronJob of that name makes has a suffix.
        owners = [owner.name for owner in pod.metadata.owner_references or ()]
        names = {pod.name, *owners, *(owner.rpartition("-")[0] for owner in owners)}
        if name in names:
            own.add(f"{pod.namespace}/{pod.name}")
    return own


def _judged(scene: AskedScene) -> list[str]:
    """The registered candidates; none where HAMi's version, or what is given, is not known."""
    sure = len(scene.views) == 1 and scene.view.ledger is not None
    return [name for name in scene.candidates if sure and not isinstance(scene.view.state(name), Unregistered)]


def _forms(claim: Callable[[Prose, Prose], Text], scene: AskedScene, whys: Sequence[Prose]) -> tuple[Text, Text]:
    """The claim of a pod's name and why: with all reasons, and with as many as a verdict has room for."""
    names = dict.fromkeys((scene.once(pod_in_words), scene.name))
    forms = [claim(name, why) for why in whys or [Text("words.none")] for name in names]
    return forms[0], fitting(forms, VERDICT_LIMIT)


def _only_quota(scene: AskedScene) -> Effect | None:
    """The limit of HAMi's that alone keeps the pod off some candidate; None when something else does too."""
    ours = [effect for effect in effects_on_cards(scene) if effect.of.by == "HAMi"]
    refused = [effect for verdict in ("refused", "unknown") for effect in ours if effect.verdict == verdict]
    without = frozenset({verdicts.QUOTA_NOT_FIT})
    return refused[0] if refused and any(scene.judge(name, without).fits for name in scene.candidates) else None


_OVER_QUOTA = {
    "fit": "resource-quota-not-fit.fit",
    "denied": "resource-quota-not-fit.denied",
    "creation": "resource-quota-not-fit.creation",
}


def _over_quota(when: str, scene: AskedScene, effect: Effect) -> tuple[Text, Text]:
    values = {"used": _amount(effect.used), "limit": _amount(effect.limit), "resource": effect.key}
    values["namespace"] = scene.pod.namespace
    amount = in_short = _amount(effect.asked)
    if is_share(scene, effect):
        figures = asked_memory(scene)
        amount, in_short = amounts_by_type(figures), amounts(figures)
    claim, _ = _forms(lambda pod, why: Text(_OVER_QUOTA[when], pod=pod, why=why, asked=amount, **values), scene, ())
    _, verdict = _forms(lambda pod, why: Text(_OVER_QUOTA[when], pod=pod, why=why, asked=in_short, **values), scene, ())
    return claim, verdict


def _amount(number: int | str | None) -> str:
    return "?" if number is None else f"{number:,}" if isinstance(number, int) else number
