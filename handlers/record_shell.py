"""`hami-bot record`: writes what it reads of a cluster; and what a restart would destroy, before a change."""

from pathlib import Path
from typing import TYPE_CHECKING

from bot.errors import SourceError, UsageError
from bot.texts import Text, in_english
from playbooks.playbook import Sources

if TYPE_CHECKING:
    from handlers.changes.request import ChangeSnapshot


_NEVER = (
    "left out on purpose: Secrets, the logs and last words of workloads, their commands, and the values of environment"
    " variables that HAMi and NVIDIA do not read"
)


def read_pod(text: str) -> tuple[str, str] | None:
    """The namespace and the name in `ml/trainer-0`, None for no text. Raises UsageError."""
    namespace, _, name = text.partition("/")
    if text and not (namespace and name):
        why = Text("error-recording.pod-is-not-namespace-name", pod=repr(text))
        raise UsageError(why, example="--pod ml/trainer-0")
    return (namespace, name) if text else None


async def write_recording(sources: Sources, out: Path, pod: tuple[str, str] | None) -> str:
    """Record the cluster; what was written and what could not be, for a person."""
    from bot.hami.vendors import ANNOTATIONS  # noqa: PLC0415  # see `handlers.cluster_choice`
    from bot.kube.client.live import LiveCluster  # noqa: PLC0415
    from bot.kube.recording.record import record  # noqa: PLC0415

    cluster = sources.cluster
    if not isinstance(cluster, LiveCluster):
        raise UsageError(
            Text("error-recording.cluster-is-itself-recording"),
            hint=Text("error-recording.name-live-cluster-with-kubeconfig"),
        )
    server = await cluster.server_version()
    summary = await record(cluster, out, pod=pod, server_version=server, annotations=ANNOTATIONS, ports=sources.ports)
    lines = [f"wrote {summary.path}: {sum(summary.objects.values())} objects, {len(summary.logs)} logs"]
    lines += [f"left out {gap.source}: {in_english(gap.text)}" for gap in summary.gaps]
    lines += [f"left out {what}" for what in cluster.undecodable]
    lines.append(_NEVER)
    if not summary.objects:
        raise SourceError(Text("error-recording.nothing-of-cluster-read"), hint="\n".join(lines[1:]))
    return "\n".join(lines)


async def write_capture(sources: Sources, found: "ChangeSnapshot", out: Path) -> str:
    """Record what ends with the scheduler's pods; what was written and what could not be, for a person."""
    from bot.hami.vendors import ANNOTATIONS  # noqa: PLC0415
    from bot.kube.client.live import LiveCluster  # noqa: PLC0415
    from bot.kube.recording.record import capture  # noqa: PLC0415

    cluster = sources.cluster
    if not isinstance(cluster, LiveCluster):
        raise UsageError(Text("error-recording.only-live-cluster-can"))
    pods = found.around.pods or found.install.pods
    summary = await capture(cluster, found.namespace, pods, out, annotations=ANNOTATIONS)
    lines = [f"captured what the restart destroys: {summary.path}"]
    return "\n".join([*lines, *(f"left out {gap.source}: {in_english(gap.text)}" for gap in summary.gaps)])
