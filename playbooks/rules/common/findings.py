"""How every rule makes a finding, and a gap of what could not be seen."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from bot.finding_codes import Code
from bot.hami.installation.install import Install
from bot.hami.installation.known_bugs import bug_behind
from bot.hami.pods.request_parsing import asked_resources
from bot.hami.version import Version
from bot.kube.recording.redact import masked
from bot.report import Confidence, Evidence, Finding, Gap, NextAction, Severity, gap, new_finding, one_line, step
from bot.texts import LITERAL, Prose, Text, in_english, kept
from playbooks.gather.scheduling import Capacity, InstallSeen
from playbooks.quotes import kubectl
from playbooks.scenes.cluster import ClusterScene
from playbooks.scenes.waiting_pod import PodScene

_LONGEST = 401
"""Characters of a value that are looked at: a claim has 400."""


class Part(NamedTuple):
    """What a rule's finding says beside its cause: a sentence behind the claim, proofs, and steps before its own."""

    text: Prose = ""
    proofs: Sequence[Evidence] = ()
    steps: Sequence[NextAction] = ()


def finding(
    code: Code,
    claim: Prose,
    confidence: Confidence = "confirmed",
    nodes: Sequence[str] = (),
    proofs: Sequence[Evidence] = (),
    *,
    severity: Severity = "warning",
    actions: Sequence[NextAction] = (),
    of: Install | None = None,
    plugin: Version | None = None,
) -> Finding:
    """The claim without credentials, for it may name what other programs wrote; each proof once, and no empty node.

    Where a bug of this install, `of`, can be behind it, or of a device plugin of version `plugin`, the last step is to
    upgrade to a release without that bug.
    """
    told = one_line(masked(claim, _LONGEST)) if isinstance(claim, str) else _masked(claim)
    last = _upgrade(code, told, proofs, of, plugin) if of else ()
    steps = [*(action for action in actions if action not in last), *last]
    return new_finding(code, severity, told, proofs, steps, confidence=confidence, nodes=filter(None, nodes))


def _upgrade(
    code: Code, claim: Prose, proofs: Sequence[Evidence], install: Install, plugin: Version | None
) -> tuple[NextAction, ...]:
    if install.version is None or install.deployment is None:
        return ()
    said = [*_facts(claim), *(proof.quote for proof in proofs)]
    if (bug := bug_behind(code, said, install.version.version, plugin)) is None:
        return ()
    version = plugin if bug.plugin and plugin else install.version.version
    threads = ", ".join(bug.threads)
    label = Text("known-bug.upgrade", fixed=bug.fixed, version=version, why=bug.why, threads=threads)
    path = "jsonpath={.spec.template.spec.containers[*].image}"
    return (step(label, kubectl("-n", install.namespace, "get", "deployment", install.deployment.name, "-o", path)),)


def _facts(value: object) -> Iterator[str]:
    """The keys and the words in a claim and its values; no text that is in a language already."""
    match value:
        case str():
            yield value
        case Text():
            yield value.key
            yield from _facts(() if value.key == LITERAL else tuple(value.values.values()))
        case list() | tuple():
            for part in cast("Sequence[object]", value):
                yield from _facts(part)
        case _:
            return


def _masked(text: Text) -> Text:
    return kept(text.key, {name: _value(value) for name, value in text.values.items()})


def _value(value: object) -> object:
    match value:
        case str():
            return masked(value, _LONGEST)
        case Text():
            return _masked(value)
        case {"key": str(key), "values": dict()}:
            return _masked(kept(key, cast("Mapping[str, Any]", value)["values"]))
        case tuple() | list() if type(cast("object", value)) in (tuple, list):
            return tuple(map(_value, cast("Sequence[object]", value)))
        case _:
            return value


def capacity_gaps(install: InstallSeen, capacity: Capacity, undecodable: Sequence[str]) -> list[Gap]:
    """The install's and the cards' gaps; HAMi's version is one of its own."""
    gaps = [*install.gaps, *capacity.gaps]
    if install.install.version is None and install.presence != "absent":
        gaps.append(gap("HAMi version", Text("gap.version"), Text("gap.version-hint")))
    return gaps + [gap("objects", name, Text("gap.undecodable")) for name in undecodable]


def scene_gaps(scene: ClusterScene, undecodable: Sequence[str]) -> list[Gap]:
    """What could not be read of what decides about pods that wait."""
    gaps = [*capacity_gaps(scene.seen, scene.capacity, undecodable), *scene.messages.gaps]
    gaps += [*scene.process.gaps, *scene.questioned.gaps, *(scene.webhook.gaps if scene.webhook else ())]
    return gaps + [gap for gap in scene.lock_owners.values() if isinstance(gap, Gap)]


def confidence_in(install: InstallSeen, capacity: Capacity, undecodable: Sequence[str]) -> Confidence:
    """Sure only when everything that decides was read: a holder that could not be may fill a card."""
    unread = capacity.gaps or undecodable or install.install.version is None
    return "suspected" if unread else "confirmed"


def fit_gaps(scene: PodScene) -> list[Gap]:
    """Where our own fit knows no verdict, it says so."""
    verdicts = scene.verdicts.values()
    unknown = {verdict.unknown for verdict in verdicts if verdict.fits is None and verdict.unknown}
    chances = sorted({verdict.said for verdict in verdicts if verdict.instead})[:1]
    whys = [*sorted(unknown, key=in_english), *(Text("gap.chance", reasons=reasons) for reasons in chances)]
    whys += [Text("gap.vendor", resource=name) for name in other_vendors(scene)]
    return [gap("fit", why, Text("gap.fit-hint")) for why in whys]


def other_vendors(scene: PodScene) -> list[str]:
    """The resources of vendors whose fit is not modelled that the pod asks for."""
    devices = scene.config.devices
    domains = tuple(
        f"{domain}/" for device in devices for domain in (device.names.domain, device.resources.count.split("/")[0])
    )
    asked = asked_resources(scene.pod, scene.config)
    return [name for name in asked if name not in scene.config.by_resource and not name.startswith(domains)]
