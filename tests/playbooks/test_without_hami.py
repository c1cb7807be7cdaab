"""A cluster without HAMi: every question says so, and concludes it only from all that would show HAMi."""

import re
from pathlib import Path
from typing import Any

import pytest

from bot.errors import NotFound, SourceError
from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.report import Report
from bot.texts import Texts
from handlers.changes.request import look
from handlers.changes.words import Revert
from playbooks.own.discovery import find
from playbooks.playbook import Sources
from playbooks.profile.fetch import gather as fetch_profile
from playbooks.profile.request import Request
from sandbox.apiserver.server import ApiServer
from tests.cases_support import ask_cluster
from tests.incidents_support import INCIDENTS
from tests.kube.live_servers import reached
from tests.playbooks.world import (
    HAMI,
    Object,
    answer,
    ask,
    cause,
    codes,
    gpu,
    gpu_node,
    node,
    none_of,
    pod,
    quotes,
    record,
    refused,
)

NO_HAMI = INCIDENTS / "no-hami" / "recording.tar.gz"

WORDS = none_of(1, "1 Insufficient nvidia.com/gpu")
QUESTIONS: dict[str, dict[str, Any]] = {
    "why": {"pod": "ml/wl"},
    "logs": {"pod": "ml/wl"},
    "fit": {"cards": "1"},
    **{verb: {} for verb in ("status", "pending", "nodes", "gpus", "tune", "digest", "quota", "latency")},
}
by_verb = pytest.mark.parametrize("verb", QUESTIONS)


def plain(*more: Object) -> list[Object]:
    """A node of NVIDIA's device plugin, and a pod that default-scheduler finds no room for."""
    waiting = pod(limits=gpu(9), schedulerName="default-scheduler", said=refused(WORDS))
    return [node("n1", allocatable={"nvidia.com/gpu": "8"}), waiting, *more]


def workload(kind: str, name: str, image: str, **labels: str) -> Object:
    containers = [{"name": "main", "image": image}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    return {
        "kind": kind,
        "metadata": {"name": name, "namespace": "gpu", "labels": labels},
        "spec": {"template": template, "selector": {"matchLabels": labels}},
    }


def told(tmp_path: Path, verb: str, objects: list[Object], **recorded: Any) -> Report:
    return ask_cluster(RecordedCluster.open(record(tmp_path, objects, **recorded)), verb=verb, **QUESTIONS[verb])


@by_verb
def test_every_question_says_that_hami_is_not_installed_and_nothing_else(verb: str, tmp_path: Path) -> None:
    report = answer(verb, record(tmp_path, plain()), {}, **QUESTIONS[verb])
    assert codes(report) == ["hami-not-installed"]
    assert (report.severity, cause(report).confidence, report.gaps) == ("warning", "confirmed", ())
    assert "HAMi is not installed in cluster" in report.verdict
    assert not re.search("can be scheduled|registered no|Nothing to change", report.verdict + cause(report).claim)


@pytest.mark.parametrize("verb", ["why", "pending"])
def test_the_pod_s_own_scheduler_is_quoted(verb: str, tmp_path: Path) -> None:
    report = told(tmp_path, verb, plain())
    assert WORDS in quotes(report)
    assert "default-scheduler says: 0/1 nodes are available: 1 Insufficient nvidia.com/gpu." in cause(report).claim


@pytest.mark.parametrize("unread", ["deployments", "daemonsets", "mutatingwebhookconfigurations", "nodes", "pods"])
def test_with_a_gap_nothing_is_concluded(unread: str, tmp_path: Path) -> None:
    for verb in QUESTIONS:
        try:
            report = told(tmp_path / verb, verb, plain(), missing=[unread])
        except SourceError:  # the verb says nothing at all without that list
            continue
        assert not {"hami-not-installed", "scheduler-down"} & set(codes(report)), verb
        assert report.gaps, verb


@pytest.mark.parametrize("unread", ["deployments", "daemonsets", "mutatingwebhookconfigurations", "nodes"])
def test_with_a_gap_the_pod_s_own_scheduler_is_quoted_all_the_same(unread: str, tmp_path: Path) -> None:
    report = told(tmp_path, "why", plain(), missing=[unread])
    assert (codes(report), cause(report).confidence) == (["not-enough-evidence"], "suspected")
    assert WORDS in quotes(report)


def hook(name: str) -> Object:
    webhooks = [{"name": name, "clientConfig": {"url": "https://gpu.example/webhook"}}]
    return {"kind": "MutatingWebhookConfiguration", "metadata": {"name": "gpu"}, "webhooks": webhooks}


@pytest.mark.parametrize(
    "trace",
    [
        gpu_node(),
        hook("vgpu.hami.io"),
        workload("DaemonSet", "gpu", "projecthami/hami:v2.10.0"),
        workload("Deployment", "hami-webui", "example/webui"),
        workload("DaemonSet", "volcano-vgpu-device-plugin", "example/plugin"),
    ],
    ids=["node", "webhook", "image", "deployment", "volcano"],
)
@by_verb
def test_where_anything_of_hami_is_left_it_is_not_called_absent(verb: str, trace: Object, tmp_path: Path) -> None:
    assert "hami-not-installed" not in codes(told(tmp_path, verb, plain(trace)))


def test_what_only_looks_like_hami_s_is_no_trace_of_it(tmp_path: Path) -> None:
    labels = {"app.kubernetes.io/name": "hami-bot", "app.kubernetes.io/instance": "hami"}
    others = [
        workload("Deployment", "hami-bot", "example/project-hami/hami-bot:1", **labels),
        workload("DaemonSet", "nvidia-vgpu-device-manager", "nvcr.io/nvidia/cloud-native/vgpu-device-manager:v0.3"),
        hook("admission.gpu-operator.example"),
        workload("Deployment", "mohamid-web", "example/sahami:1"),
    ]
    assert codes(told(tmp_path, "status", plain(*others))) == ["hami-not-installed"]


def test_hami_in_a_namespace_that_the_settings_leave_out_is_not_absent(tmp_path: Path) -> None:
    there = workload("Deployment", "gpu", "projecthami/hami:v2.10.0")
    path = record(tmp_path, plain(there))
    assert codes(answer("status", path, {"hami_namespace": HAMI})) == ["not-found"]


def test_a_pod_that_runs_is_judged_as_ever(tmp_path: Path) -> None:
    failing = {"name": "main", "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    status = {"phase": "Running", "containerStatuses": [failing]}
    running = pod(limits=gpu(1), schedulerName="default-scheduler", nodeName="n1", status=status)
    report = ask(tmp_path, [plain()[0], running])
    assert codes(report)[0] == "image-or-start-failure"


async def test_a_cluster_that_settings_call_otherwise_is_told_with_its_context(tmp_path: Path) -> None:
    async with reached(ApiServer.from_recording(NO_HAMI), tmp_path, name="training") as live:
        status = find("status")
        report = status.report(await status.gather(status.request(), Sources(live)), Texts("en"))
    context = re.fullmatch(r"HAMi is not installed in cluster training, context (\S+)\.", report.verdict)
    assert context
    assert f"current-context: {context[1]}" in (tmp_path / "kubeconfig").read_text().replace('"', "")


async def test_a_profile_and_a_change_are_answered_with_that_too(tmp_path: Path) -> None:
    async with reached(ApiServer.from_recording(NO_HAMI), tmp_path, name="training") as live:
        sources = Sources(live, ports=live)
        with pytest.raises(NotFound, match="HAMi is not installed in cluster training"):
            await fetch_profile(Request("heap", 0), sources)
        with pytest.raises(NotFound, match="HAMi is not installed in cluster training"):
            await look(sources, Revert("verbosity"))


def test_volcano_with_its_vgpu_plugin_misses_no_scheduler_of_hami_s(tmp_path: Path) -> None:
    plugin = workload("DaemonSet", "volcano-device-plugin", "projecthami/volcano-vgpu-device-plugin:v1.11")
    for verb in ("why", "pending", "status", "digest"):
        report = told(tmp_path / verb, verb, plain(plugin))
        assert not {"hami-not-installed", "scheduler-down"} & set(codes(report)), verb


def test_tune_never_says_that_nothing_has_to_change_where_nothing_was_measured(tmp_path: Path) -> None:
    verdict = told(tmp_path, "tune", plain(workload("DaemonSet", "hami-device-plugin", "projecthami/hami:v2"))).verdict
    assert "Nothing to change" not in verdict
    assert "cannot tell what to change" in verdict
