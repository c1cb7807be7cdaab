"""Pods as users write them, against what HAMi's own webhook and a real API server made of them.

Recorded under v2.10.0 with the chart's device config: `webhook` is dry-run creations of one world, `refused` the pods
of the other worlds that could not be created, but for those over a quota.
"""

import gzip
import json
from pathlib import Path

import msgspec
import pytest

from bot.hami.pods.request_parsing import read_device_config
from bot.hami.version import Version
from bot.hami.webhook import Rejection, WebhookSetting, admit
from bot.kube.models import Pod
from bot.kube.quantities import canonical
from tests.cases_support import CASES as CASES_FOLDER

CASES = json.loads(gzip.decompress((Path(__file__).parent / "webhook.json.gz").read_bytes()))
CONFIG = read_device_config((CASES_FOLDER / "fit-vendors" / "device-config.yaml").read_text())
SETTING = WebhookSetting(Version(2, 10, 0), "hami-scheduler", CONFIG.devices)


def shape(pod: Pod) -> dict:
    """What the webhook may change, in the API's own spelling."""

    def amounts(container):
        parts = container.resources
        return {
            key: {name: canonical(value) for name, value in (some or {}).items()}
            for key, some in (("limits", parts and parts.limits), ("requests", parts and parts.requests))
        }

    return {
        "scheduler": pod.spec.scheduler_name or "default-scheduler",
        "annotations": pod.metadata.annotations or {},
        "containers": [amounts(container) for container in pod.spec.containers],
        "init": [amounts(container) for container in pod.spec.init_containers or ()],
    }


def outcome(case: dict) -> object:
    """What we make of the pod, as the recording says it."""
    pod = msgspec.convert(case["pod"], Pod)
    ours = admit(pod, SETTING)
    return ours.message(pod) if isinstance(ours, Rejection) else shape(ours)


def recorded(case: dict) -> object:
    return case["refused"] if "refused" in case else shape(msgspec.convert(case["admitted"], Pod))


@pytest.mark.parametrize("what", ["webhook", "refused"])
def test_pods_are_admitted_or_refused_as_by_the_webhook(what):
    differing = [case["pod"]["metadata"]["name"] for case in CASES[what] if outcome(case) != recorded(case)]
    assert differing == []


def test_the_number_of_pods_checked():
    assert {what: len(cases) for what, cases in CASES.items()} == {"webhook": 336, "refused": 96}


def made(limits: dict, version=SETTING.version, **spec) -> Pod | Rejection:
    container = {"name": "main", "resources": {"limits": limits}, "securityContext": spec.pop("security", None)}
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [container], **spec}}
    return admit(msgspec.convert(pod, Pod), SETTING._replace(version=version))


@pytest.mark.parametrize("version", [Version(2, 7, 0), Version(2, 10, 0)])
def test_a_count_alone_gets_all_cores(version):
    assert shape(made({"nvidia.com/gpu": 1}, version))["containers"][0]["limits"]["nvidia.com/gpucores"] == "100"


def test_a_count_alone_gets_no_cores_before_2_7():
    assert shape(made({"nvidia.com/gpu": 1}, Version(2, 6, 1)))["containers"][0]["limits"] == {"nvidia.com/gpu": "1"}


def test_a_privileged_container_is_refused_since_2_10():
    asked = {"birentech.com/gpu": 1}
    assert made(asked, security={"privileged": True}) == Rejection("webhook", "container main is privileged")
    assert made(asked, Version(2, 9, 0), security={"privileged": True}).spec.scheduler_name == ""


def test_a_pod_for_another_scheduler_is_left_alone():
    assert made({"nvidia.com/gpumem": 2000}, schedulerName="volcano").spec.scheduler_name == "volcano"


@pytest.mark.parametrize(("version", "added"), [(Version(2, 8, 1), False), (Version(2, 9, 0), True)])
def test_2_7_and_2_8_leave_a_pod_alone_that_names_hami_s_scheduler(version, added):
    pod = made({"nvidia.com/gpumem": 2000}, version, schedulerName="hami-scheduler")
    assert ("nvidia.com/gpu" in shape(pod)["containers"][0]["limits"]) == added


def test_several_devices_with_a_part_of_memory_are_refused_in_each_version_s_words():
    asked = {"huawei.com/Ascend910B3": 2, "huawei.com/Ascend910B3-memory": 16384}
    assert made(asked).words == "vNPU not supported for multiple devices"
    assert made(asked, Version(2, 9, 0)).words == "vNPU nor supported for multiple devices"


def test_a_request_without_a_limit_is_refused_by_the_api():
    container = {"name": "main", "resources": {"requests": {"mthreads.com/vgpu": 1}}}
    refused = admit(msgspec.convert({"spec": {"containers": [container]}}, Pod), SETTING)
    assert refused.by == "API"
    assert "Limit must be set for non overcommitable resources" in refused.words
