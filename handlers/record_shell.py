"""`hami-bot record`: writes what it reads of a cluster; and what a restart would destroy, before a change."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from bot.errors import SourceError, UsageError
from bot.texts import Text, in_english
from playbooks.playbook import Sources

if TYPE_CHECKING:
    from handlers.changes.request import ChangeSnapshot


_NEVER = (
    "left out on purpose: Secrets, the logs and last words of workloads, their commands, and the values of environment"
    " variables that HAMi and NVIDIA do not read"
)


class RecordAsked(NamedTuple):
    """The command as typed."""

    out: Path
    pod: tuple[str, str] | None
    options: dict[str, Any]


def record_command(program: str, options: Sequence[click.Parameter]) -> click.Command:
    """The command; what it gives is a RecordAsked."""
    return click.Command(
        "record",
        callback=_asked,
        help="Write a redacted recording of the cluster, which --recording replays offline.",
        epilog=f"Example: {program} record -o case.tar.gz --pod ml/trainer-0",
        params=[
            click.Option(
                ["-o", "--out"],
                type=click.Path(path_type=Path),
                required=True,
                metavar="PATH",
                help="A folder or NAME.tar.gz.",
            ),
            click.Option(["--pod"], metavar="NS/NAME", help="Keep only the log lines that name this pod."),
            *options,
        ],
    )


def _asked(out: Path, pod: str | None, **options: Any) -> RecordAsked:
    namespace, _, name = (pod or "").partition("/")
    if pod and not (namespace and name):
        raise UsageError(Text("error-recording.pod-is-not-namespace-name", pod=repr(pod)), example="--pod ml/trainer-0")
    return RecordAsked(out, (namespace, name) if pod else None, options)


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
