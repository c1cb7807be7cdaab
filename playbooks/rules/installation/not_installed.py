"""A cluster without HAMi: what every question answers there, before any rule of HAMi's is asked."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Protocol

from bot.hami.installation.install import KUBERNETES_SCHEDULER
from bot.hami.version import Version
from bot.kube.models import Pod
from bot.kube.times import format_time
from bot.report import Evidence, Finding, Report, Subject, new_report, one_line, step
from bot.texts import Text, sentences
from playbooks import quotes
from playbooks.gather.scheduling import InstallSeen
from playbooks.quotes import kubectl
from playbooks.rule import rule
from playbooks.rules.common.findings import finding
from playbooks.scenes.waiting_pod import PodScene

_LONGEST_WORDS = 200


class Asked(Protocol):
    """The snapshot of a question."""

    @property
    def cluster(self) -> str: ...

    @property
    def taken_at(self) -> datetime: ...


def answer_without_hami(verb: str, asked: Asked, seen: InstallSeen) -> Report | None:
    """The whole answer to the verb where HAMi is not installed; None where it is, or where that is not known."""
    if seen.presence != "absent":
        return None
    claim = _not_installed(seen)
    return new_report(
        playbook=verb,
        cluster=asked.cluster,
        taken_at=format_time(asked.taken_at),
        subject=Subject("Cluster", "", asked.cluster),
        findings=(_finding(claim, ()),),
        gaps=seen.gaps,
    )


@rule("hami-not-installed")
def without_hami(scene: PodScene) -> Iterator[Finding]:
    """The same about a pod that waits, with its scheduler's own words; not one that asks through claims alone."""
    pod, seen, words = scene.pod, scene.seen, scene.attempt.evidence
    if seen.presence == "absent" and (scene.asked or not pod.spec.resource_claims):
        yield _finding(_with_words(_not_installed(seen), pod, words), _proofs(pod, words))


@rule("not-enough-evidence")
def perhaps_without_hami(scene: PodScene) -> Iterator[Finding]:
    """That it is not known whether HAMi is there, for a pod that does not name HAMi's scheduler."""
    pod, seen, words = scene.pod, scene.seen, scene.attempt.evidence
    if seen.presence != "unknown" or pod.spec.scheduler_name == seen.install.scheduler_name or not scene.asked:
        return
    claim = _with_words(Text("hami-not-installed.unknown"), pod, words)
    steps = [step(Text("hami-not-installed.doctor"), "hami-bot doctor")]
    proofs = _proofs(pod, words)
    yield finding("not-enough-evidence", claim, "suspected", (), proofs, severity="warning", actions=steps)


_OWN_NAMES = Version(2, 3, 0)
"""From here on HAMi writes names of its own."""
_PREDECESSOR = "4pd.io/"
"""What 4paradigm's k8s-vgpu-scheduler, HAMi's predecessor, begins its annotations with."""


@rule("not-enough-evidence", reads=("nodes",))
def predecessors(scene: PodScene) -> Iterator[Finding]:
    """The nodes carry the annotations of HAMi's predecessor alone: its rules are not HAMi's."""
    keys = [(node, key) for node in scene.nodes.values() for key in sorted(node.metadata.annotations or {})]
    is_hami = scene.version is not None and scene.version >= _OWN_NAMES
    if not scene.asked or is_hami or any(key.startswith("hami.io/node-") for _, key in keys):
        return
    found = next(((node, key) for node, key in keys if key.startswith(_PREDECESSOR)), None)
    if found is None:
        return
    node, key = found
    scheduler = scene.pod.spec.scheduler_name or KUBERNETES_SCHEDULER
    said = one_line(scene.words[0].quote, _LONGEST_WORDS).rstrip(".") if scene.words else ""
    claim = Text("hami-not-installed.predecessor", scheduler=scheduler, key=key)
    if said:
        claim = sentences(claim, Text("hami-not-installed.says", scheduler=scheduler, words=said))
    text = node.metadata.annotation(key) or ""
    proofs = [*scene.words, quotes.of_node_annotation(node, key, one_line(text, _LONGEST_WORDS))]
    holders = kubectl("get", "pods", "-A", "--field-selector", f"spec.nodeName={node.name}")
    steps = [
        step(Text("hami-not-installed.holders", node=node.name), holders),
        step(Text("hami-not-installed.replace"), ""),
    ]
    yield finding("not-enough-evidence", claim, "suspected", (), proofs, severity="warning", actions=steps)


def _with_words(claim: Text, pod: Pod, words: Evidence | None) -> Text:
    if words is None:
        return claim
    said = one_line(words.quote.partition(". ")[0].rstrip("."), _LONGEST_WORDS)
    scheduler = pod.spec.scheduler_name or KUBERNETES_SCHEDULER
    return sentences(claim, Text("hami-not-installed.says", scheduler=scheduler, words=said))


def _proofs(pod: Pod, words: Evidence | None) -> list[Evidence]:
    return [*([words] if words else []), quotes.of_pod(pod, pod.spec.scheduler_name, "{.spec.schedulerName}")]


def _not_installed(seen: InstallSeen) -> Text:
    key = "hami-not-installed.context" if seen.context else "hami-not-installed.claim"
    return Text(key, cluster=seen.cluster, context=seen.context)


def _finding(claim: Text, proofs: Sequence[Evidence]) -> Finding:
    steps = [
        step(Text("hami-not-installed.elsewhere"), kubectl("config", "get-contexts")),
        step(Text("hami-not-installed.install"), ""),
    ]
    return finding("hami-not-installed", claim, "confirmed", (), proofs, severity="warning", actions=steps)
