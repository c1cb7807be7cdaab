"""A pod that asks for devices through ResourceClaims: their state, and no verdict of HAMi's scheduler."""

from pathlib import Path

import pytest

from tests.playbooks.dra_support import (
    DRIVER,
    claim_template,
    claiming,
    dra_node,
    resource_claim,
    resource_slice,
    templated,
)
from tests.playbooks.world import (
    Object,
    ask,
    bind_error,
    cause,
    cluster,
    codes,
    commands,
    gpu,
    gpu_node,
    none_of,
    pod,
    quotes,
    refused,
)

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
