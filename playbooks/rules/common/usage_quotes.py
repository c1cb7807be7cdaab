"""How figures of what pods use are quoted."""

from datetime import datetime
from typing import Protocol

from bot.hami.metrics.exposition import Sample
from bot.hami.metrics.gpu_usage import PORT, ContainerUse
from bot.kube.times import format_time
from bot.report import Evidence
from playbooks.gather.usage import UsageSeen
from playbooks.quotes import kubectl


class MeasuredSnapshot(Protocol):
    """A snapshot with the figures, and when they were read."""

    @property
    def usage(self) -> UsageSeen: ...

    @property
    def taken_at(self) -> datetime: ...


def of_use(use: ContainerUse, reading: Sample, node: str, measured: MeasuredSnapshot) -> Evidence:
    """One figure of a container."""
    return of_sample(f"Pod {use.namespace}/{use.pod}", reading, node, measured, grep=f'"{use.pod}"')


def of_sample(about: str, reading: Sample, node: str, measured: MeasuredSnapshot, *, grep: str) -> Evidence:
    """One sample, as the monitor of the node or Prometheus gave it."""
    return Evidence(
        "metrics", about, format_time(measured.taken_at), reading.line, _command(reading, node, measured, grep)
    )


def _command(reading: Sample, node: str, measured: MeasuredSnapshot, grep: str) -> str:
    seen = measured.usage
    if seen.of_prometheus:
        return f"PromQL: {reading.line.rpartition(' ')[0]}"
    monitor = next((pod for pod in seen.monitors if pod.spec.node_name == node), None)
    if monitor is None:
        return ""
    path = f"/api/v1/namespaces/{monitor.namespace}/pods/{monitor.name}:{PORT}/proxy/metrics"
    return f"{kubectl('get', '--raw', path)} | grep '{grep}'"
