"""How the moments of a pod are quoted."""

import shlex

from bot.hami.scheduler_logs.scheduling_latency import Life, Moment, PodLogLine
from bot.kube.times import format_time
from bot.report import Evidence
from playbooks import quotes

_ANNOTATIONS: dict[Moment, str] = {"chosen": "hami.io/vgpu-time", "bind_started": "hami.io/bind-time"}


def of_said(said: PodLogLine) -> Evidence:
    """A line of a scheduler's log."""
    log = said.log
    scheduler = log.scheduler
    words = ["-n", scheduler.namespace, "logs", scheduler.name, "-c", log.container]
    words += ["--previous"] if log.previous else []
    about = said.line.values.get("pod") or said.line.values.get("podName") or "schedule"
    return Evidence(
        source="scheduler log",
        object=f"Pod {scheduler.namespace}/{scheduler.name} container {log.container}",
        at=format_time(said.at),
        quote=quotes.shown(said.line.raw),
        command=f"{quotes.kubectl(*words)} | grep {shlex.quote(about)}",
    )


def of_moment(life: Life, moment: Moment, *, exact: bool) -> list[Evidence]:
    """The line, or the part of the object, that shows when it was."""
    pod = life.pod
    if exact and moment in life.logged:
        return [of_said(life.logged[moment])]
    if moment not in life.noted:
        return []
    if moment in _ANNOTATIONS:
        return [quotes.of_pod_annotation(pod, _ANNOTATIONS[moment])]
    if moment == "bound" and (bound := pod.condition("PodScheduled")):
        path = '{.status.conditions[?(@.type=="PodScheduled")].lastTransitionTime}'
        return [quotes.of_pod(pod, bound.last_transition_time or "", path)]
    if moment == "allocated":
        return [quotes.of_pod(pod, pod.status.start_time or "", "{.status.startTime}")]
    if moment == "created":
        return [quotes.of_pod(pod, pod.metadata.creation_timestamp or "", "{.metadata.creationTimestamp}")]
    return [quotes.of_pod(pod, format_time(life.noted[moment]), "{.status.containerStatuses}")]
