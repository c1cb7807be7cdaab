"""Clusters where HAMi's devices go to ResourceClaims (HAMi-DRA): recognised, not judged, and both modes an alarm."""

from pathlib import Path
from typing import Any

import pytest

from bot.report import Report
from tests.playbooks.dra_support import (
    DRIVER,
    claim_template,
    claiming,
    dra_node,
    dra_webhook,
    resource_claim,
    resource_slice,
    templated,
)
from tests.playbooks.status_support import healthy
from tests.playbooks.world import (
    Object,
    ago,
    answer,
    ask,
    bind_error,
    card,
    cause,
    cluster,
    codes,
    commands,
    event,
    fit,
    gpu,
    gpu_node,
    none_of,
    plugin_pod,
    pod,
    quotes,
    record,
    refused,
)

VERBS: list[tuple[str, dict[str, Any]]] = [("status", {}), ("nodes", {}), ("gpus", {}), ("fit", {"cards": ["1x1Gi"]})]
every_verb = pytest.mark.parametrize(("verb", "words"), VERBS, ids=[verb for verb, _ in VERBS])
DRA_ONLY = [dra_node(), dra_webhook(), resource_slice()]


def put(verb: str, folder: Path, objects: list[Object], words: dict[str, Any], **recorded: Any) -> Report:
    return answer(verb, record(folder, objects, **recorded), {}, **words)


@every_verb
def test_a_cluster_in_dra_mode_is_recognised_and_not_judged(verb: str, words: dict[str, Any], tmp_path: Path) -> None:
    report = put(verb, tmp_path, DRA_ONLY, words)
    assert codes(report) == ["dra-mode"]
    assert report.severity == "info"
    assert f"DRA driver {DRIVER} hands out 1 device on dra-1" in report.verdict


def test_the_webhook_alone_tells_the_mode(tmp_path: Path) -> None:
    report = put("status", tmp_path, [dra_node(), dra_webhook()], {})
    assert codes(report) == ["dra-mode"]
    assert quotes(report) == ["mutate.hami.io"]
    assert "HAMi-DRA" in [gap.source for gap in report.gaps]


@every_verb
def test_a_recording_from_before_slices_were_recorded_is_answered_as_ever(
    verb: str, words: dict[str, Any], tmp_path: Path
) -> None:
    before = put(verb, tmp_path / "a", healthy(), words, missing=["resourceslices", "resourceclaims"])
    assert before == put(verb, tmp_path / "b", healthy(), words)


@every_verb
def test_slices_of_another_driver_are_no_dra_mode(verb: str, words: dict[str, Any], tmp_path: Path) -> None:
    report = put(verb, tmp_path, [*healthy(), resource_slice("cp-9", driver="gpu.nvidia.com")], words)
    assert "dra-mode" not in codes(report)


@every_verb
@pytest.mark.parametrize("driver", [DRIVER, "gpu.nvidia.com"])
def test_a_gpu_that_both_hand_out_is_an_alarm(verb: str, words: dict[str, Any], driver: str, tmp_path: Path) -> None:
    objects = cluster(gpu_node("gpu-1", card("GPU-a"), card("GPU-b")), resource_slice("gpu-1", "GPU-b", driver=driver))
    report = put(verb, tmp_path, objects, words)
    told = next(finding for finding in report.findings if finding.code == "dra-mixed")
    assert (told.severity, told.confidence, told.scope.nodes) == ("critical", "confirmed", ("gpu-1",))
    assert all("GPU-b" in evidence.quote and "GPU-a" not in evidence.quote for evidence in told.evidence)
    assert {evidence.object for evidence in told.evidence} == {"Node gpu-1", f"ResourceSlice gpu-1-{driver}-1x7kq"}


@every_verb
def test_nodes_of_their_own_for_each_mode_are_no_alarm(verb: str, words: dict[str, Any], tmp_path: Path) -> None:
    by_hami = healthy() if verb == "status" else cluster(gpu_node("gpu-1"), plugin_pod("gpu-1"))
    report = put(verb, tmp_path, [*by_hami, dra_node(), resource_slice()], words)
    assert "dra-mode" in codes(report)
    assert [finding.code for finding in report.findings if finding.severity != "info"] == []


def test_a_registration_that_an_earlier_install_left_behind_is_no_alarm(tmp_path: Path) -> None:
    left = gpu_node("gpu-1", card("GPU-a"), allocatable={"nvidia.com/gpu": "0"})
    report = put("nodes", tmp_path, cluster(left, resource_slice("gpu-1", "GPU-a")), {})
    assert codes(report) == ["dra-mode"]
    alone = put("status", tmp_path / "b", [gpu_node("gpu-1", card("GPU-a")), resource_slice("gpu-1", "GPU-a")], {})
    assert codes(alone) == ["dra-mode"]


def test_two_webhooks_that_take_the_same_pods_are_a_warning(tmp_path: Path) -> None:
    report = put("status", tmp_path, [*healthy(), dra_webhook()], {})
    told = cause(report)
    assert (told.code, told.severity) == ("dra-mixed", "warning")
    assert [evidence.quote for evidence in told.evidence] == ["mutate.hami.io", "vgpu.hami.io"]


def test_a_node_whose_device_plugin_stands_is_judged_whatever_a_driver_publishes(tmp_path: Path) -> None:
    objects = cluster(dra_node(), plugin_pod("dra-1"), resource_slice())
    assert "node-unregistered" in codes(put("nodes", tmp_path, objects, {}))


def test_one_node_is_told_of_its_own_devices_alone(tmp_path: Path) -> None:
    objects = [*DRA_ONLY, dra_node("dra-2"), resource_slice("dra-2", "GPU-x", "GPU-y")]
    assert "2 devices on dra-2" in put("nodes", tmp_path, objects, {"node": "dra-2"}).verdict


def test_pods_that_hami_dra_s_webhook_changed_are_pending_pods(tmp_path: Path) -> None:
    waiting = [claiming("a", "claim-a"), claiming("b", "claim-b")]
    report = put("pending", tmp_path, [*waiting, resource_claim("claim-a"), *DRA_ONLY], {})
    assert codes(report) == ["resource-claim"]
    assert report.findings[0].claim.startswith("2 pods are pending")


def test_other_pods_with_claims_are_named_as_not_judged(tmp_path: Path) -> None:
    report = put("pending", tmp_path, [claiming(labels={}), pod("plain", limits={}, schedulerName="x")], {})
    assert codes(report) == ["nothing-pending"]
    assert [gap.why for gap in report.gaps if gap.source == "pods"] == [
        "1 further pod asks for devices through ResourceClaims and is not judged here: ml/wl"
    ]


def test_a_manifest_with_claims_gets_no_verdict_of_hami_s_scheduler(tmp_path: Path) -> None:
    manifest = """
kind: Pod
metadata: {name: wl}
spec:
  containers: [{name: main, image: example/main}]
  resourceClaims: [{name: npu, resourceClaimTemplateName: one-npu}]
"""
    report = fit(tmp_path, cluster(gpu_node()), manifest)
    assert codes(report) == ["resource-claim"]
    assert "ResourceClaims (npu)" in report.verdict


@pytest.mark.parametrize("scheduler", ["hami-scheduler", "default-scheduler"])
def test_a_pod_that_hami_dra_s_webhook_missed_is_told_so(scheduler: str, tmp_path: Path) -> None:
    report = ask(tmp_path, [*DRA_ONLY, pod(schedulerName=scheduler)])
    assert codes(report) == ["webhook-bypassed"]
    assert "no ResourceClaim was made of it" in report.verdict
    assert DRIVER in quotes(report)
    pending = put("pending", tmp_path / "b", [*DRA_ONLY, pod(schedulerName=scheduler)], {})
    assert codes(pending) == ["webhook-bypassed"]


def test_a_claim_that_the_driver_cannot_prepare_keeps_the_pod_from_starting(tmp_path: Path) -> None:
    placed = claiming(nodeName="dra-1", status={"containerStatuses": [{"name": "main", "state": {"waiting": {}}}]})
    said = event(placed, "FailedPrepareDynamicResources", f"driver {DRIVER} is not registered", lastTimestamp=ago(5))
    report = ask(tmp_path, [*DRA_ONLY, placed, said])
    assert codes(report)[0] == "image-or-start-failure"
    assert f"driver {DRIVER} is not registered" in report.verdict


WAITS = "1 cannot allocate all claims"


def test_the_pod_gets_no_verdict_and_no_table_of_hami_s_scheduler(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(gpu_node(), claiming(), resource_claim(), resource_slice("gpu-9")))
    assert codes(report) == ["resource-claim"]
    assert report.tables == ()
    assert commands(report) == ["kubectl -n ml get resourceclaims,resourceclaimtemplates"]


def test_a_claim_that_does_not_exist_comes_before_what_kube_scheduler_says(tmp_path: Path) -> None:
    said = refused(none_of(3, f"{WAITS}, 2 node(s) had untolerated taint {{team: a}}"))
    report = ask(tmp_path, [dra_node(), claiming(claim="gone", said=said), resource_claim("other")])
    assert codes(report) == ["resource-claim", "kubernetes-filter", "kubernetes-filter"]
    assert "ResourceClaim gone, which does not exist" in cause(report).claim
    assert cause(report).confidence == "confirmed"
    assert "gone" in quotes(report)


def test_a_claim_of_another_namespace_is_not_the_pod_s(tmp_path: Path) -> None:
    report = ask(tmp_path, [claiming(), resource_claim(namespace="web")])
    assert "does not exist" in report.verdict


def test_a_template_that_does_not_exist_is_told(tmp_path: Path) -> None:
    report = ask(tmp_path, [templated(), claim_template("other")])
    assert "ResourceClaimTemplate one-gpu, which does not exist" in report.verdict


def test_a_claim_that_is_still_to_be_made_is_no_missing_one(tmp_path: Path) -> None:
    report = ask(tmp_path, [templated(), claim_template()])
    assert "for which no ResourceClaim exists yet" in report.verdict


def test_the_claim_that_was_made_from_a_template_is_found_by_the_pod_s_status(tmp_path: Path) -> None:
    made = resource_claim("wl-gpu-x7kq", ("dra-1", "hami-gpu-0"), users=["wl"])
    report = ask(tmp_path, [templated(made="wl-gpu-x7kq"), claim_template(), made])
    assert "allocated the ResourceClaim wl-gpu-x7kq" in report.verdict
    assert "reserved it for wl" in report.verdict


def test_a_claim_that_the_api_server_did_not_need_to_make_is_not_missing(tmp_path: Path) -> None:
    needless = claiming(status={"resourceClaimStatuses": [{"name": "gpu"}]}, resourceClaims=[{"name": "gpu"}])
    assert "exist" not in ask(tmp_path, [needless]).verdict


def test_devices_of_the_claim_s_driver_are_counted_and_not_judged(tmp_path: Path) -> None:
    taken = resource_claim("other", ("dra-1", "hami-gpu-0"), namespace="web")
    offered = [resource_slice("dra-1", "GPU-a", "GPU-b"), resource_slice("dra-2"), resource_slice("x", driver="nic.io")]
    report = ask(tmp_path, [claiming(), resource_claim(), taken, *offered])
    assert f"Driver {DRIVER} offers 3 devices, 2 of them in no claim" in cause(report).claim


def test_slices_of_an_older_generation_of_a_pool_are_not_counted(tmp_path: Path) -> None:
    slices = [resource_slice("dra-1", "GPU-a", generation=2), resource_slice("dra-1", "GPU-a", "GPU-b", generation=1)]
    assert "offers 1 device," in ask(tmp_path, [claiming(), resource_claim(), *slices]).verdict


def test_a_driver_without_any_slice_is_told_and_only_suspected(tmp_path: Path) -> None:
    waiting = claiming(said=refused(none_of(1, WAITS)))
    report = ask(tmp_path, [waiting, resource_claim(), resource_slice(driver="gpu.nvidia.com")])
    assert codes(report) == ["resource-claim", "kubernetes-filter"]
    assert f"no ResourceSlice of driver {DRIVER} exists" in cause(report).claim
    assert cause(report).confidence == "suspected"


def test_what_kubernetes_says_of_the_nodes_comes_before_a_claim_that_only_waits(tmp_path: Path) -> None:
    said = refused(none_of(3, f"{WAITS}, 2 node(s) had untolerated taint {{team: a}}"))
    report = ask(tmp_path, [claiming(said=said), resource_claim(), resource_slice()])
    assert codes(report) == ["kubernetes-filter", "resource-claim", "kubernetes-filter"]
    assert "taint" in report.verdict


def test_what_the_scheduler_says_in_other_words_is_quoted(tmp_path: Path) -> None:
    words = 'running PreBind plugin "DynamicResources": claim half-gpu: driver timed out'
    report = ask(tmp_path, [claiming(said=bind_error(words)), resource_claim(), resource_slice()])
    assert codes(report) == ["resource-claim"]
    assert words in quotes(report)


@pytest.mark.parametrize("class_name", ["gpu.nvidia.com", "h100"])
def test_nothing_is_said_of_the_devices_of_a_class_that_is_not_hami_s(class_name: str, tmp_path: Path) -> None:
    report = ask(tmp_path, [claiming(), resource_claim(class_name=class_name), resource_slice()])
    assert "not allocated yet: kube-scheduler gives it devices of a DRA driver" in report.verdict
    assert class_name in quotes(report)


def test_a_claim_as_kubernetes_1_32_serves_it_is_read_as_well(tmp_path: Path) -> None:
    report = ask(tmp_path, [claiming(), resource_claim(beta=True), resource_slice(beta=True)])
    assert "offers 1 device, 1 of them in no claim" in report.verdict


@pytest.mark.parametrize("unread", ["resourceclaims", "resourceslices", "resourceclaimtemplates"])
@pytest.mark.parametrize("waiting", [claiming(), templated()], ids=["a claim", "a template"])
def test_what_could_not_be_read_is_a_gap_and_nothing_is_concluded_from_it(
    unread: str, waiting: Object, tmp_path: Path
) -> None:
    report = ask(tmp_path, [waiting], missing=[unread])
    assert any(f"objects/{unread}." in gap.why for gap in report.gaps)
    text = {
        "resourceclaims": "does not exist",
        "resourceslices": "no ResourceSlice",
        "resourceclaimtemplates": "Template",
    }
    assert text[unread] not in cause(report).claim


def test_a_claim_that_cannot_be_decoded_does_not_pass_for_a_missing_one(tmp_path: Path) -> None:
    report = ask(tmp_path, [claiming(), resource_claim() | {"status": "?"}])
    assert "does not exist" not in report.verdict
    assert any(gap.source == "resource claims" for gap in report.gaps)


def test_a_pod_that_asks_hami_as_well_is_judged_and_a_missing_claim_told_first(tmp_path: Path) -> None:
    both = pod(limits=gpu(memory=99_000), resourceClaims=[{"name": "nic", "resourceClaimName": "gone"}])
    assert codes(ask(tmp_path / "a", cluster(gpu_node(), both)))[0] == "resource-claim"
    there = ask(tmp_path / "b", cluster(gpu_node(), both, resource_claim("gone", class_name="nic")))
    assert "resource-claim" not in codes(there)
