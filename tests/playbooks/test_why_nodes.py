"""Nodes whose cards HAMi does not know: every why, per version, and what is done about it."""

import json
from pathlib import Path

import pytest

from bot.report import Finding, Report
from tests.playbooks.world import (
    HANDSHAKE,
    NOW,
    REGISTER,
    Object,
    as_text,
    ask,
    card,
    cause,
    cluster,
    codes,
    commands,
    container,
    event,
    gpu,
    gpu_node,
    node,
    none_of,
    owner,
    plugin_pod,
    pod,
    quota,
    quotes,
    refused,
    running,
    scheduler,
)

UNREGISTERED = refused(none_of(1, "1 node unregistered"))
LONG_AGO = "2026-11-21 04:00:00"


def unregistered(tmp_path: Path, gpus: Object, version: str = "2.10.0", *more: Object) -> Finding:
    """The first finding about a pod that was refused because of this node."""
    report = ask(tmp_path, cluster(gpus, *more, pod(said=UNREGISTERED), version=version))
    found = cause(report)
    assert (found.scope.nodes, found.confidence, found.severity) == (("gpu-1",), "confirmed", "warning")
    assert UNREGISTERED["message"] in quotes(report)
    return found


def with_register(text: str) -> Object:
    return gpu_node(annotations={REGISTER: text})


def test_a_node_that_should_have_cards_and_registered_none(tmp_path: Path) -> None:
    found = unregistered(tmp_path, node("gpu-1", labels={"gpu": "on"}))
    assert (found.code, found.claim.startswith("Not registered with HAMi: gpu-1.")) == ("node-unregistered", True)
    assert found.next_actions[0].key == "node-unregistered.no-plugin"


def test_a_device_plugin_that_is_there_is_restarted_after_its_log_was_read(tmp_path: Path) -> None:
    found = unregistered(tmp_path, node("gpu-1", labels={"gpu": "on"}), "2.10.0", plugin_pod("gpu-1"))
    log, restart = found.next_actions
    assert log.command == "kubectl -n hami-system logs hami-device-plugin-gpu-1 --all-containers --tail=50"
    assert restart.command == "kubectl -n hami-system delete pod hami-device-plugin-gpu-1"
    assert (log.changes_cluster, restart.changes_cluster) == (False, True)


@pytest.mark.parametrize("text", ["", "[]", "null", "  "])
def test_an_empty_registration_is_told_as_that(tmp_path: Path, text: str) -> None:
    found = unregistered(tmp_path, with_register(text))
    assert (found.code, "empty list" in found.claim) == ("node-unregistered", True)


@pytest.mark.parametrize("text", ["nonsense", '[{"id":', '[{"id": 5}]', '[{"id":"a","count":NaN}]', "a,b,c:"])
def test_a_registration_that_nobody_can_read_is_quoted(tmp_path: Path, text: str) -> None:
    found = unregistered(tmp_path, with_register(text))
    assert "cannot read the register annotation" in found.claim
    assert text in [proof.quote for proof in found.evidence]


def test_a_registration_in_the_older_form_is_a_version_skew(tmp_path: Path) -> None:
    found = unregistered(tmp_path, gpu_node(text=True), "2.8.1")
    assert "plugin and scheduler versions differ" in found.claim
    assert "hami-device-plugin" in found.next_actions[0].command


def test_a_registration_in_the_newer_form_is_a_version_skew(tmp_path: Path) -> None:
    assert "plugin and scheduler versions differ" in unregistered(tmp_path, gpu_node(), "2.7.1").claim


def test_a_node_outside_the_scheduler_s_label_selector(tmp_path: Path) -> None:
    install = scheduler(flags=["--node-label-selector=[pool=gpu]"])
    report = ask(tmp_path, [*install, gpu_node(), pod(said=UNREGISTERED)])
    told = "gpu-1: without the label that HAMi's scheduler wants of a node (pool=gpu, --node-label-selector)"
    assert cause(report).claim.startswith(told)
    assert commands(report) == ["kubectl label node gpu-1 pool=gpu"]


def test_a_node_inside_the_scheduler_s_label_selector_is_registered(tmp_path: Path) -> None:
    install = scheduler(flags=["--node-label-selector=pool=gpu"])
    assert codes(ask(tmp_path, [*install, gpu_node(labels={"pool": "gpu"}), pod()])) == ["waiting-for-retry"]


def test_a_topology_score_that_is_no_json_costs_the_node_its_cards(tmp_path: Path) -> None:
    found = unregistered(tmp_path, gpu_node(annotations={"hami.io/node-nvidia-score": "{{"}))
    assert "node-nvidia-score" in found.claim


@pytest.mark.parametrize("version", ["2.6.1", "2.7.1"])
def test_up_to_2_7_an_unanswered_request_is_stale(tmp_path: Path, version: str) -> None:
    found = unregistered(tmp_path, gpu_node(text=True, annotations={HANDSHAKE: f"Requesting_{LONG_AGO}"}), version)
    assert found.code == "handshake-stale"


def test_a_node_without_cards_by_right_is_told_only_when_there_is_nothing_else(tmp_path: Path) -> None:
    alone = ask(tmp_path / "alone", cluster(node("cpu-1"), pod(said=UNREGISTERED)))
    assert (codes(alone), alone.severity) == (["node-unregistered"], "info")
    assert "this is normal" in alone.verdict
    held = running("holder", "gpu-1", ("GPU-gpu-1", 16000, 0))
    said = refused(none_of(2, "1 1/1 CardInsufficientMemory, 1 node unregistered"))
    report = ask(tmp_path / "both", cluster(node("cpu-1"), gpu_node(), held, pod(said=said)))
    assert cause(report).code == "card-insufficient-memory"
    assert all(finding.severity == "info" for finding in report.findings[1:])


def test_an_unregistered_node_that_would_not_fit_either_is_background(tmp_path: Path) -> None:
    small = gpu_node("gpu-2", card("GPU-2", 8000), annotations={REGISTER: as_text([card("GPU-2", 8000)])})
    held = running("holder", "gpu-1", ("GPU-gpu-1", 16000, 0))
    said = refused(none_of(2, "1 1/1 CardInsufficientMemory, 1 node unregistered"))
    report = ask(tmp_path, cluster(gpu_node(), small, held, pod(limits=gpu(memory=12000), said=said)))
    assert codes(report) == ["card-insufficient-memory", "node-unregistered"]
    assert report.findings[1].severity == "info"


# ------------------------------------------------------------------------- the guides' unix-seconds handshake


def guides(seconds_old: int) -> Object:
    """A node with the handshake as the guides describe it."""
    return gpu_node(annotations={HANDSHAKE: str(int(NOW.timestamp()) - seconds_old)})


def test_the_guides_handshake_older_than_300_s_explains_a_refusal(tmp_path: Path) -> None:
    found = unregistered(tmp_path, guides(600))
    assert (found.code, "older than 300 s" in found.claim) == ("handshake-stale", True)
    assert str(int(NOW.timestamp()) - 600) in [proof.quote for proof in found.evidence]


def test_it_explains_the_guides_own_refusal_too(tmp_path: Path) -> None:
    waiting = pod()
    refusal = event(waiting, "FilteringFailed", "NodeUnfitPod on node gpu-1")
    report = ask(tmp_path, cluster(guides(600), waiting, refusal))
    assert (codes(report), cause(report).confidence) == (["handshake-stale"], "suspected")


def test_the_guides_handshake_younger_than_300_s_explains_nothing(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(guides(100), pod(said=UNREGISTERED)))
    assert "handshake-stale" not in codes(report)


def test_where_nothing_was_refused_an_old_one_is_background(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(guides(600), pod()))
    assert (codes(report), report.severity) == (["waiting-for-retry", "handshake-stale"], "info")


def test_where_another_node_has_room_an_old_one_is_background(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(guides(600), gpu_node("gpu-2"), pod(said=UNREGISTERED)))
    assert codes(report) == ["waiting-for-retry", "handshake-stale"]
    assert report.findings[1].severity == "info"


def test_a_full_node_is_full_whatever_its_handshake(tmp_path: Path) -> None:
    held = running("holder", "gpu-1", ("GPU-gpu-1", 16000, 0))
    said = refused(none_of(1, "1 1/1 CardInsufficientMemory"))
    report = ask(tmp_path, cluster(guides(600), held, pod(said=said)))
    assert codes(report) == ["card-insufficient-memory", "handshake-stale"]
    assert report.findings[1].severity == "info"


def test_a_pod_that_runs_on_such_a_node_just_runs(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(guides(600), running("wl", "gpu-1", ("GPU-gpu-1", 1000, 0))))
    assert codes(report) == ["running"]


def refusal(tmp_path: Path, reason: str, waiting: Object, *objects: Object, version: str = "2.10.0") -> Report:
    """The report on a pod that the only node refused for this reason."""
    waiting["status"]["conditions"] = [refused(none_of(1, f"1 {reason}"))]
    report = ask(tmp_path, cluster(waiting, *objects, version=version))
    assert cause(report).confidence == "confirmed"
    assert report.severity == "warning"
    assert waiting["status"]["conditions"][0]["message"] in quotes(report)
    return report


def holder(memory: int = 100, cores: int = 0, uuid: str = "GPU-gpu-1") -> Object:
    return running(f"holder-{uuid.lower()}", "gpu-1", (uuid, memory, cores))


def test_too_little_memory_names_the_largest_slice_and_what_would_fit(tmp_path: Path) -> None:
    report = refusal(tmp_path, "1/1 CardInsufficientMemory", pod(limits=gpu(memory=9000)), gpu_node(), holder(10000))
    assert codes(report) == ["card-insufficient-memory"]
    assert "9,000 MiB free; at most 6,384 MiB is free, on gpu-1" in report.verdict
    labels = [action.label for action in cause(report).next_actions]
    assert any("at most 6,384 MiB" in label for label in labels)
    assert any("Wait for ml/holder-gpu-gpu-1 to finish" in label for label in labels)


def test_of_several_containers_the_one_that_does_not_fit_is_told(tmp_path: Path) -> None:
    both = [container(gpu(memory=100), "small"), container(gpu(memory=9000), "large")]
    report = refusal(tmp_path, "1/1 CardInsufficientMemory", pod(containers=both), gpu_node(), holder(10000))
    assert "has 9,000 MiB free" in report.verdict


def test_a_card_whose_cores_are_all_taken(tmp_path: Path) -> None:
    report = refusal(tmp_path, "1/1 CardComputeUnitsExhausted", pod(), gpu_node(), holder(cores=100))
    assert codes(report) == ["card-compute-units-exhausted"]


def test_unhealthy_cards_are_looked_at_before_the_pod_goes_elsewhere(tmp_path: Path) -> None:
    sick = gpu_node("gpu-1", card("GPU-gpu-1", health=False), labels={"pool": "sick"})
    waiting = pod(nodeSelector={"pool": "sick"})
    report = refusal(tmp_path, "1/1 CardNotHealth", waiting, sick, gpu_node("gpu-2"), plugin_pod("gpu-1"))
    assert [(step.label.split(":")[0], step.changes_cluster) for step in cause(report).next_actions] == [
        ("Find the GPUs that are registered as unhealthy, and their Xid errors in dmesg on gpu-1", False),
        ("Either", True),
        ("Or", True),
    ]


@pytest.mark.parametrize("well", ["GPU-a", "GPU-b"])
def test_of_several_gpus_the_unhealthy_one_is_quoted(tmp_path: Path, well: str) -> None:
    both = gpu_node("gpu-1", *(card(uuid, health=uuid == well) for uuid in ("GPU-a", "GPU-b")))
    reason = "1/2 CardNotHealth, 1/2 CardInsufficientMemory"
    report = refusal(tmp_path, reason, pod(limits=gpu(memory=4000)), both, holder(16000, uuid=well))
    (found,) = [finding for finding in report.findings if finding.code == "card-not-healthy"]
    (proof,) = [proof for proof in found.evidence if proof.object == "Node gpu-1"]
    sick = json.loads(proof.quote)
    assert (sick["id"] != well, sick["health"]) == (True, False)


@pytest.mark.parametrize(
    ("kind", "command"),
    [
        ("", "kubectl -n ml annotate pod wl --overwrite nvidia.com/use-gputype-"),
        ("Job", "kubectl -n ml annotate pod wl --overwrite nvidia.com/use-gputype-"),
        ("StatefulSet", "kubectl -n ml patch statefulset/web -p "),
    ],
)
def test_an_annotation_that_no_card_meets_is_taken_from_the_waiting_pod_itself_unless_its_owner_replaces_it(
    tmp_path: Path, kind: str, command: str
) -> None:
    wants = pod(annotations={"nvidia.com/use-gputype": "H100"}, owner=owner(kind, "web") if kind else None)
    report = refusal(tmp_path, "1/1 CardTypeMismatch", wants, gpu_node())
    assert codes(report) == ["card-type-mismatch"]
    assert "(H100)" in report.verdict
    first = cause(report).next_actions[0]
    assert "Remove the annotation nvidia.com/use-gputype: H100 (" in first.label
    assert first.command.startswith(command)


def test_an_annotation_that_allows_none_of_the_cards_is_not_said_to_allow_no_other(tmp_path: Path) -> None:
    wants = pod(limits=gpu(2, 1000), annotations={"nvidia.com/use-gputype": "H100"})
    two = gpu_node("gpu-2", card("GPU-a"), card("GPU-b"))
    report = refusal(tmp_path, "1/1 NodeInsufficientDevice", wants, gpu_node(), two)
    assert "no other GPU" not in " ".join(finding.claim for finding in report.findings)


@pytest.mark.parametrize("room", [False, True])
def test_another_type_is_offered_only_where_a_node_has_room_for_all_of_the_pod(tmp_path: Path, room: bool) -> None:
    wants = pod(limits=gpu(2, 9000), annotations={"nvidia.com/use-gputype": "H100"})
    full = running("full", "gpu-1", ("GPU-b", 1000 if room else 16000, 0))
    report = refusal(tmp_path, "2/2 CardTypeMismatch", wants, gpu_node("gpu-1", card("GPU-a"), card("GPU-b")), full)
    offered = [step.label for finding in report.findings for step in finding.next_actions if "would take" in step.label]
    assert any("2 NVIDIA-Tesla T4" in label for label in offered) == room
    assert not [label for label in offered if "1 NVIDIA-Tesla T4" in label]


def test_fewer_cards_than_asked_for_on_every_node_that_the_pod_selects(tmp_path: Path) -> None:
    large = gpu_node("gpu-2", *(card(f"GPU-{i}") for i in range(4)), labels={"pool": "b"})
    waiting = pod(limits=gpu(3, 1000), nodeSelector={"pool": "a"})
    waiting["status"]["conditions"] = [
        refused(none_of(2, "1 NodeInsufficientDevice, 1 node(s) didn't match Pod's node affinity/selector"))
    ]
    report = ask(tmp_path, cluster(gpu_node(labels={"pool": "a"}), large, waiting))
    assert codes(report) == ["node-insufficient-device", "kubernetes-filter"]
    assert "HAMi would take the pod on gpu-2" in report.findings[1].claim


def test_some_cards_that_fit_but_too_few_are_told_behind_what_fills_the_others(tmp_path: Path) -> None:
    two = gpu_node("gpu-1", card("GPU-a"), card("GPU-b"))
    waiting = pod(limits=gpu(2, 9000))
    reason = "1/2 AllocatedCardsInsufficientRequest, 1/2 CardInsufficientMemory"
    report = refusal(tmp_path, reason, waiting, two, holder(10000, uuid="GPU-a"))
    assert codes(report)[0] == "card-insufficient-memory"
    assert "allocated-cards-insufficient" in codes(report)


def test_a_numa_node_with_too_few_gpus_is_told_once(tmp_path: Path) -> None:
    waiting = pod(limits=gpu(2, 1000), annotations={"nvidia.com/numa-bind": "true"})
    apart = gpu_node("gpu-1", card("GPU-a", numa=0), card("GPU-b", numa=1))
    reason = "1/2 NumaNotFit, 1/2 AllocatedCardsInsufficientRequest"
    report = refusal(tmp_path, reason, waiting, apart)
    assert codes(report) == ["numa-not-fit"]
    assert "no NUMA node has 2 usable GPUs" in cause(report).claim


def test_a_refusal_whose_cause_is_not_modelled_is_told_as_that(tmp_path: Path) -> None:
    mig = card("GPU-gpu-1", mode="mig", type="NVIDIA-A30")
    report = refusal(tmp_path, "NodeUnfitPod", pod(), gpu_node("gpu-1", mig), version="2.9.0")
    assert codes(report) == ["node-unfit-pod"]
    assert any("MIG" in gap.why for gap in report.gaps)


# ------------------------------------------------------------------------------------------------ quotas


def test_a_quota_of_memory_tells_its_figures_and_where_to_look(tmp_path: Path) -> None:
    report = refusal(
        tmp_path, "1/1 ResourceQuotaNotFit", pod(limits=gpu(memory=4000)), gpu_node(), holder(9000), quota(gpumem=10000)
    )
    assert codes(report) == ["resource-quota-not-fit"]
    assert "nvidia.com/gpumem is exceeded: 9,000 of 10,000 MiB used, 1 x 4,000 MiB asked" in report.verdict
    assert "10000" in quotes(report)
    assert "quota ml" in commands(report)


def raises(report: Report) -> list[tuple[str, str]]:
    return [(action.label, action.command) for action in cause(report).next_actions if "Raise" in action.label]


def test_a_quota_that_alone_keeps_a_pod_out_may_be_raised_to_what_the_pod_needs(tmp_path: Path) -> None:
    waiting, limit = pod(limits=gpu(memory=4000)), quota(gpumem=10000)
    report = refusal(tmp_path, "1/1 ResourceQuotaNotFit", waiting, gpu_node(), holder(9000), limit)
    label = "Or: Raise limits.nvidia.com/gpumem of quota ml/cards to 13,000, which wl needs"
    patch = """'{"spec":{"hard":{"limits.nvidia.com/gpumem":"13000"}}}'"""
    assert raises(report) == [(label, f"kubectl -n ml patch resourcequota cards --type merge -p {patch}")]


def test_a_quota_is_not_to_be_raised_for_a_pod_that_no_node_has_room_for_anyway(tmp_path: Path) -> None:
    maker = owner("ReplicaSet", "web")
    waiting, sibling = pod(limits=gpu(memory=4000), owner=maker), holder(16384)
    sibling["metadata"]["ownerReferences"] = waiting["metadata"]["ownerReferences"]
    report = refusal(tmp_path, "1/1 ResourceQuotaNotFit", waiting, gpu_node(), sibling, quota(gpumem=17000))
    assert codes(report) == ["resource-quota-not-fit", "card-insufficient-memory"]
    assert commands(report)[0] == "quota ml"
    assert raises(report) == []


def test_a_quota_of_cores_is_told_in_cores(tmp_path: Path) -> None:
    waiting = pod(limits=gpu(memory=4000, cores=60))
    unrelated = quota("pods-only")
    unrelated["spec"]["hard"] = {"pods": "10"}
    report = refusal(tmp_path, "1/1 ResourceQuotaNotFit", waiting, gpu_node(), unrelated, quota(gpucores=50))
    assert codes(report) == ["resource-quota-not-fit"]
    assert "nvidia.com/gpucores is exceeded: 0 of 50 used, 60 asked" in report.verdict
    assert {"50", "60"} <= set(quotes(report))


def test_a_pod_that_opted_out_of_the_webhook_meets_the_quota_in_the_filter(tmp_path: Path) -> None:
    waiting = pod(limits=gpu(memory=4000), labels={"hami.io/webhook": "ignore"})
    report = refusal(tmp_path, "NodeUnfitPod", waiting, gpu_node(), quota(gpumem=1000), version="2.9.0")
    assert codes(report) == ["resource-quota-not-fit"]


# ----------------------------------------------------------------------------------------- other vendors

ASCEND = {"huawei.com/Ascend910B3": "1", "huawei.com/Ascend910B3-memory": "16384"}
NPU_NODE = node(
    "npu-1",
    {"hami.io/node-register-Ascend910B3": json.dumps([card("NPU-0", type="Ascend910B3")])},
    allocatable={"huawei.com/Ascend910B3": "8"},
)


def assert_vendor_gap(report: Report) -> None:
    assert any("the vendor of huawei.com/Ascend910B3" in gap.why for gap in report.gaps)
    assert not report.tables


def test_another_vendor_s_mode_is_told_in_hami_s_words_and_our_fit_names_its_gap(tmp_path: Path) -> None:
    waiting = pod(limits=ASCEND, said=refused(none_of(1, "1 NodeUnfitPod")))
    told = event(waiting, "FilteringFailed", "1 nodes ModeNotFit(npu-1)")
    report = ask(tmp_path, cluster(NPU_NODE, waiting, told, version="2.9.0"))
    assert codes(report) == ["mode-not-fit"]
    assert cause(report).scope.nodes == ("npu-1",)
    assert "1 nodes ModeNotFit(npu-1)" in quotes(report)
    assert_vendor_gap(report)


def test_another_vendor_s_own_rule_is_told_in_hami_s_words(tmp_path: Path) -> None:
    waiting = pod(limits=ASCEND, said=refused(none_of(1, "1 8/8 CardNotFoundCustomFilterRule")))
    report = ask(tmp_path, cluster(NPU_NODE, waiting))
    assert (codes(report), cause(report).confidence) == (["custom-filter-rule"], "confirmed")
    assert_vendor_gap(report)


def test_another_vendor_s_pod_that_a_lock_holds_is_held_like_any(tmp_path: Path) -> None:
    waiting = pod(limits=ASCEND, said=refused("node npu-1 has been locked within 5m0s", reason="SchedulerError"))
    assert codes(ask(tmp_path, cluster(NPU_NODE, waiting))) == ["node-lock-held"]


def test_another_vendor_s_pod_that_kubernetes_drops_is_told_so(tmp_path: Path) -> None:
    tainted = {**NPU_NODE, "spec": {"taints": [{"key": "dedicated", "effect": "NoSchedule"}]}}
    report = ask(tmp_path, cluster(tainted, pod(limits=ASCEND)))
    assert codes(report) == ["kubernetes-filter"]
    assert_vendor_gap(report)


def test_of_another_vendor_s_pod_nothing_is_claimed_where_nothing_was_said(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(NPU_NODE, pod(limits=ASCEND)))
    assert codes(report) == ["not-enough-evidence"]
    assert_vendor_gap(report)


def test_a_pod_that_wants_cards_of_two_vendors_is_not_promised_a_place(tmp_path: Path) -> None:
    both = pod(limits=ASCEND | gpu(memory=1000), said=refused(none_of(2, "2 NodeUnfitPod")))
    report = ask(tmp_path, cluster(NPU_NODE, gpu_node(), both, version="2.9.0"))
    assert codes(report) == ["node-unfit-pod"]
    assert_vendor_gap(report)
