"""A cluster without HAMi: what every question answers there, before any rule of HAMi's is asked."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from bot.hami.installation.install import KUBERNETES_SCHEDULER
from bot.kube.models import Pod
from bot.kube.times import format_time
from bot.report import SCHEMA, Evidence, Finding, NextAction, Report, Subject, one_line
from bot.texts import Texts
from playbooks import quotes
from playbooks.gather.scheduling import InstallSeen
from playbooks.quotes import kubectl
from playbooks.rules.common.findings import finding

_LONGEST_WORDS = 200


class Asked(Protocol):
    """The snapshot of a question."""

    @property
    def cluster(self) -> str: ...

    @property
    def taken_at(self) -> datetime: ...


def answer_without_hami(verb: str, asked: Asked, seen: InstallSeen, say: Texts) -> Report | None:
    """The whole answer to the verb where HAMi is not installed; None where it is, or where that is not known."""
    if seen.presence != "absent":
        return None
    claim = _not_installed(seen, say)
    return Report(
        schema=SCHEMA,
        playbook=verb,
        cluster=asked.cluster,
        taken_at=format_time(asked.taken_at),
        subject=Subject("Cluster", "", asked.cluster),
        verdict=one_line(claim),
        severity="warning",
        findings=(_finding(claim, (), say),),
        gaps=seen.gaps,
    )


def pod_without_hami(pod: Pod, words: Evidence | None, seen: InstallSeen, say: Texts) -> Finding | None:
    """The same about a pod that waits, with its scheduler's own words."""
    if seen.presence != "absent":
        return None
    return _finding(_with_words(_not_installed(seen, say), pod, words, say), _proofs(pod, words), say)


def perhaps_without_hami(pod: Pod, words: Evidence | None, seen: InstallSeen, say: Texts) -> Finding | None:
    """That it is not known whether HAMi is there, for a pod that does not name HAMi's scheduler."""
    if seen.presence != "unknown" or pod.spec.scheduler_name == seen.install.scheduler_name:
        return None
    claim = _with_words(say("hami-not-installed.unknown"), pod, words, say)
    steps = [NextAction(say("hami-not-installed.doctor"), "hami-bot doctor")]
    proofs = _proofs(pod, words)
    return finding("not-enough-evidence", claim, "suspected", (), proofs, severity="warning", actions=steps)


def _with_words(claim: str, pod: Pod, words: Evidence | None, say: Texts) -> str:
    if words is None:
        return claim
    said = one_line(words.quote.partition(". ")[0].rstrip("."), _LONGEST_WORDS)
    scheduler = pod.spec.scheduler_name or KUBERNETES_SCHEDULER
    return say.sentences(claim, say("hami-not-installed.says", scheduler=scheduler, words=said))


def _proofs(pod: Pod, words: Evidence | None) -> list[Evidence]:
    return [*([words] if words else []), quotes.of_pod(pod, pod.spec.scheduler_name, "{.spec.schedulerName}")]


def _not_installed(seen: InstallSeen, say: Texts) -> str:
    key = "context" if seen.context else "claim"
    return say(f"hami-not-installed.{key}", cluster=seen.cluster, context=seen.context)


def _finding(claim: str, proofs: Sequence[Evidence], say: Texts) -> Finding:
    steps = [
        NextAction(say("hami-not-installed.elsewhere"), kubectl("config", "get-contexts")),
        NextAction(say("hami-not-installed.install"), ""),
    ]
    return finding("hami-not-installed", claim, "confirmed", (), proofs, severity="warning", actions=steps)
