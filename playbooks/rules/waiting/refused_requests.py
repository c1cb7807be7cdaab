"""A request about a pod that HAMi's extender could not read, by the extender's log: it takes 1 MiB (HAMi 2.9 on)."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from bot.hami.scheduler_logs.log_lines import may_be_refused_request, parse_line
from bot.hami.signatures import Signature, find
from bot.hami.version import Version
from bot.kube.hami_pods import EXTENDER_CONTAINER
from bot.kube.models import Pod
from bot.kube.times import format_time
from bot.report import Evidence, Finding, step
from bot.texts import Text
from playbooks.attempt import Attempt
from playbooks.quotes import kubectl, shown
from playbooks.rule import rule
from playbooks.rules.common.findings import finding
from playbooks.scenes.waiting_pod import PodScene

_NEAR = timedelta(seconds=10)
"""Within this kube-scheduler writes down how a call ended."""


class _Refused(NamedTuple):
    scheduler: Pod
    line: str
    at: datetime | None
    signature: Signature


@rule("scheduler-degraded", "admission-denied")
def request_refused(scene: PodScene) -> Iterator[Finding]:
    """The call about the pod broke when the extender logged that it could not read a request."""
    if scene.attempt.evidence is None or not may_be_refused_request(scene.attempt.evidence.quote):
        return
    lines = scene.cluster.process.refused
    near = [refused for refused in _refused(lines, scene.version, scene.now) if _is_near(refused, scene.attempt)]
    if near:
        last, words = near[-1], near[-1].signature
        claim, proofs = Text("scheduler-degraded.unread", means=words.means), [scene.attempt.evidence, _line(last)]
        fix = step(words.fixed_by, "")
        yield finding(words.code, claim, "confirmed", (), proofs, severity="critical", actions=[fix])


def _refused(lines: Iterable[tuple[Pod, str]], version: Version | None, now: datetime) -> list[_Refused]:
    found: list[_Refused] = []
    for scheduler, raw in lines:
        parsed = parse_line(raw, now)
        at = parsed.at if parsed else None
        found += [_Refused(scheduler, raw, at, hit.signature) for hit in find("extender-log", [raw], version)]
    return sorted(found, key=lambda refused: str(refused.at or ""))


def _is_near(refused: _Refused, attempt: Attempt) -> bool:
    """Whether the extender wrote it when the call ended: many pods may wait, and one request is too large."""
    return refused.at is not None and attempt.at is not None and abs(attempt.at - refused.at) <= _NEAR


def _line(refused: _Refused) -> Evidence:
    scheduler = refused.scheduler
    return Evidence(
        source="scheduler log",
        object=f"Pod {scheduler.namespace}/{scheduler.name} container {EXTENDER_CONTAINER}",
        at=format_time(refused.at) if refused.at else None,
        quote=shown(refused.line),
        command=kubectl("-n", scheduler.namespace, "logs", scheduler.name, "-c", EXTENDER_CONTAINER),
    )
