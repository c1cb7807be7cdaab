"""The temporary change that is open on the scheduler's Deployment, as its record says."""

from collections.abc import Iterator
from datetime import datetime

from bot.changes.kinds import Kind
from bot.changes.record import KEY, Record, Unreadable, read_record
from bot.finding_codes import Code
from bot.kube.models import Workload
from bot.kube.recording.redact import masked_record
from bot.kube.times import roughly
from bot.report import Evidence, Finding, NextAction, Severity, step
from bot.texts import Prose, Text
from playbooks.quotes import kubectl
from playbooks.rule import rule
from playbooks.rules.common.findings import finding
from playbooks.scenes.installation import InstallScene

LATE_S = 60.0
"""A change that stands so long after its deadline was to have been undone: nobody does."""
_CLAIM, _QUOTE = 600, 4000


@rule("change-open", "change-unreadable")
def opened(scene: InstallScene) -> Iterator[Finding]:
    """A temporary change is open on the scheduler's Deployment: at most one, for it carries one record."""
    deployment = scene.install.deployment
    text = deployment.metadata.annotation(KEY) if deployment else None
    if deployment and text is not None:
        yield open_change(deployment, text, scene.now)


def open_for(deployment: Workload | None, kind: Kind, now: datetime) -> Record | None:
    """The open change of that kind, None when there is none or its time is over."""
    text = deployment.metadata.annotation(KEY) if deployment else None
    record = read_record(text) if text is not None else None
    if not isinstance(record, Record) or record.kind is not kind:
        return None
    return record if now.timestamp() - record.deadline <= LATE_S else None


def open_change(deployment: Workload, text: str, now: datetime) -> Finding:
    """`text` is what stands under our key on the Deployment."""
    record = read_record(text)
    proof = of_record(deployment.namespace, deployment.name, text)
    if isinstance(record, Unreadable):
        claim = Text("changing.unreadable", target=f"{deployment.namespace}/{deployment.name}", why=record.why)
        look = kubectl("-n", deployment.namespace, "get", "deployment", deployment.name, "-o", "yaml")
        return _finding("change-unreadable", "warning", claim, proof, step(Text("changing.compare"), look))
    values = described(record, now) | {
        "because": Text("changing.because", text=record.because) if record.because else ""
    }
    late = now.timestamp() - record.deadline
    if late > LATE_S:
        claim = Text("changing.open-late", **values, late=roughly(late))
        return _finding("change-open", "warning", claim, proof, *undo(record)[:1])
    return _finding("change-open", "info", Text("changing.open", **values), proof, *undo(record))


def described(record: Record, now: datetime) -> dict[str, str]:
    """The values that texts about an open change are given."""
    return {
        "change": record.shown,
        "container": record.container,
        "until": record.at,
        "left": roughly(record.deadline - now.timestamp()),
        "by": record.by,
    }


def undo(record: Record) -> tuple[NextAction, ...]:
    """To put it back, and to let it last longer."""
    kind = record.kind
    what = {"change": record.shown, "container": record.container}
    return (
        step(Text("changing.undo", **what), kind.reverting, changes_cluster=True),
        step(Text("changing.longer"), f"{kind.verb} extend 10m", changes_cluster=True),
    )


def of_record(namespace: str, name: str, quote: str) -> Evidence:
    """The record on the Deployment, or a part of it; of the command line that stands in it no secret is quoted."""
    path = f"{{.metadata.annotations.{KEY.replace('.', chr(92) + '.')}}}"
    command = kubectl("-n", namespace, "get", "deployment", name, "-o", f"jsonpath={path}")
    return Evidence("deployment", f"Deployment {namespace}/{name}", None, masked_record(quote)[:_QUOTE], command)


def _finding(code: Code, severity: Severity, claim: Prose, proof: Evidence, *actions: NextAction) -> Finding:
    return finding(code, claim, "confirmed", (), (proof,), severity=severity, actions=actions)
