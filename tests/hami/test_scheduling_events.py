"""Real texts of kube-scheduler and of HAMi's events, of every version."""

import pytest

from bot.hami.scheduler_logs.scheduling_events import (
    REASONS,
    CardCount,
    CodeEvent,
    chosen_node,
    event_reason,
    parse_code_event,
    parse_unschedulable,
    read_reason,
    says_none_fit,
    strip_combined,
)

TAIL = (
    " no new claims to deallocate, preemption: 0/22 nodes are available: 18 Preemption is not helpful for scheduling,"
    " 4 No preemption victims found for incoming pod."
)
ONE_NODE = "1 1/4 CardTimeSlicingExhausted, 3/4 CardInsufficientMemory, 1 4/4 CardInsufficientMemory"
LARGER = "3 node unregistered, 8 8/8 CardInsufficientMemory, 9 NodeInsufficientDevice"
OLD_TAINT = "node(s) had taint {node-role.kubernetes.io/master: }, that the pod didn't tolerate"
TAINT = "node(s) had untolerated taint(s)"
SELECTOR = "node(s) didn't match Pod's node affinity/selector"


def parsed(message):
    """(nodes, text) of every reason, and whether HAMi gave it."""
    found = parse_unschedulable(message)
    assert found is not None
    return [(reason.nodes, reason.text, bool(reason.cards)) for reason in found.reasons]


@pytest.mark.parametrize(
    ("message", "reasons"),
    [
        (
            f"0/22 nodes are available: 1 node(s) had untolerated taint(s), 17 {SELECTOR}, 4 node not fit pod.{TAIL}",
            [(1, TAINT, False), (17, SELECTOR, False), (4, "node not fit pod", True)],
        ),
        (
            f"0/22 nodes are available: 1 {TAINT}, 18 NodeUnfitPod, 3 node unregistered.{TAIL}",
            [(1, TAINT, False), (18, "NodeUnfitPod", True), (3, "node unregistered", True)],
        ),
        (
            f"0/22 nodes are available: 1 node unregistered, 1 {TAINT}, 20 {SELECTOR}.{TAIL}",
            [(1, "node unregistered", True), (1, TAINT, False), (20, SELECTOR, False)],
        ),
        (
            f"0/22 nodes are available: {ONE_NODE}, 1 {TAINT}, 17 {SELECTOR}, 2 4/4 CardCordoned.{TAIL}",
            [
                (1, "1/4 CardTimeSlicingExhausted, 3/4 CardInsufficientMemory", True),
                (1, "4/4 CardInsufficientMemory", True),
                (1, TAINT, False),
                (17, SELECTOR, False),
                (2, "4/4 CardCordoned", True),
            ],
        ),
        (
            f"0/22 nodes are available: 1 2/2 CardInsufficientMemory, 1 {TAINT}, {LARGER}.{TAIL}",
            [
                (1, "2/2 CardInsufficientMemory", True),
                (1, TAINT, False),
                (3, "node unregistered", True),
                (8, "8/8 CardInsufficientMemory", True),
                (9, "NodeInsufficientDevice", True),
            ],
        ),
        (
            "0/3 nodes are available: 1 1/2 CardTypeMismatch, 1/2 CardInsufficientMemory, 2 node unregistered.",
            [(1, "1/2 CardTypeMismatch, 1/2 CardInsufficientMemory", True), (2, "node unregistered", True)],
        ),
        (
            f"0/22 nodes are available: 1 4/8 AllocatedCardsInsufficientRequest, 4/8 NumaNotFit, 1 {TAINT}.{TAIL}",
            [(1, "4/8 AllocatedCardsInsufficientRequest, 4/8 NumaNotFit", True), (1, TAINT, False)],
        ),
        ("0/1 nodes are available: 1 node unregistered.", [(1, "node unregistered", True)]),
        (
            "0/7 nodes available: 1 NodeUnfitPod, 6 node unregistered",
            [(1, "NodeUnfitPod", True), (6, "node unregistered", True)],
        ),
    ],
)
def test_reasons_and_their_nodes(message, reasons):
    assert parsed(message) == reasons
    assert parsed(f"(combined from similar events): {message}") == reasons


@pytest.mark.parametrize(
    "tail",
    [
        "",
        ".",
        " preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
        ". preemption: 0/3 nodes are available: 1 No preemption victims found for incoming pod, 2 x.",
        ". preemption: not eligible due to preemptionPolicy=Never.",
        ". preemption: not eligible due to a terminating pod on the nominated node.",
        ". no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful.",
        ". no new claims to deallocate.",
        ". still not schedulable, preemption: 0/3 nodes are available: 3 x.",
    ],
)
def test_what_kubernetes_versions_say_of_preemption_is_no_reason(tail):
    message = f"0/3 nodes are available: 1 Insufficient cpu, 2 1/2 CardCordoned, 1/2 CardNotHealth{tail}"
    assert parsed(message) == [(1, "Insufficient cpu", False), (2, "1/2 CardCordoned, 1/2 CardNotHealth", True)]


@pytest.mark.parametrize(
    ("text", "reasons"),
    [
        (f"1 {OLD_TAINT}, 2 Insufficient memory", [OLD_TAINT, "Insufficient memory"]),
        ("3 node(s) had untolerated taint {gpu: true}", ["node(s) had untolerated taint {gpu: true}"]),
        (
            "1 node(s) didn't match pod anti-affinity rules, 2 Too many pods",
            ["node(s) didn't match pod anti-affinity rules", "Too many pods"],
        ),
        ("pod has unbound immediate PersistentVolumeClaims", []),
        ("3 node(s) had volume node affinity conflict", ["node(s) had volume node affinity conflict"]),
    ],
)
def test_kubernetes_own_reasons_may_hold_commas(text, reasons):
    found = parse_unschedulable(f"0/3 nodes are available: {text}. preemption: 0/3 nodes are available: 3 x.")
    assert found is not None
    assert [reason.text for reason in found.reasons] == reasons
    assert found.by_hami == ()
    assert found.total == 3


@pytest.mark.parametrize(
    "text",
    [
        'Device with UUID "GPU-1" not found on node gpu-1 after Fit',
        "AddResourceUsage failed for device GPU-1: MIG profile and placement allocation failed",
        "failed to fetch node info: node gpu-1 not found",
        "node usage unavailable",
        "Device type not found",
        "2/2 CardFromTheFuture",
        "1/8 CardNotHealth, 3/8 CardInsufficientMemory",
    ],
)
def test_hami_s_other_texts_are_hami_s_not_kubernetes(text):
    found = parse_unschedulable(f"0/2 nodes are available: 1 Insufficient cpu, 1 {text}.")
    assert found is not None
    assert [reason.text for reason in found.by_kubernetes] == ["Insufficient cpu"]
    assert [refusal.text for refusal in found.by_hami] == [text]


@pytest.mark.parametrize(
    "message",
    [
        "",
        "node gpu-1 is locked",
        "no available node, 4 nodes do not meet",
        "0 nodes",
        "Successfully assigned ml/a to b",
    ],
)
def test_other_texts_are_no_such_list(message):
    assert parse_unschedulable(message) is None


def test_every_code_of_the_atlas_is_read_as_hami_s():
    for reason in REASONS:
        assert read_reason(reason.text) == (CardCount(reason.text, 0, 0),)
        if " " not in reason.text:
            assert read_reason(f"3/8 {reason.text}") == (CardCount(reason.text, 3, 8),)


@pytest.mark.parametrize(
    ("text", "cards"),
    [
        ("1/8 CardNotHealth, 3/8 X", (CardCount("CardNotHealth", 1, 8), CardCount("X", 3, 8))),
        ("3/1 AllocatedCardsInsufficientRequest", (CardCount("AllocatedCardsInsufficientRequest", 3, 1),)),
        ("", ()),
        ("Insufficient cpu", ()),
        ("1/8 CardNotHealth, node(s) had taints", ()),
        ("1/8", ()),
    ],
)
def test_a_node_s_reason(text, cards):
    assert read_reason(text) == cards


# ------------------------------------------------------------------ HAMi's own events


@pytest.mark.parametrize(
    ("message", "event"),
    [
        ("1 nodes CardTimeSlicingExhausted(master-01)", CodeEvent("CardTimeSlicingExhausted", ("master-01",))),
        (
            "3 nodes CardInsufficientMemory(gpu-c,gpu-a,gpu-b)",
            CodeEvent("CardInsufficientMemory", ("gpu-a", "gpu-b", "gpu-c")),
        ),
        ("1 nodes ModeNotFit(devserver-bms-71e0dc7a)", CodeEvent("ModeNotFit", ("devserver-bms-71e0dc7a",))),
        ("2 nodes CardMigTopologyInfeasible(mig-1,mig-2)", CodeEvent("CardMigTopologyInfeasible", ("mig-1", "mig-2"))),
        (
            "(combined from similar events): 1 nodes CardCordoned(gpu-b)",
            CodeEvent("CardCordoned", ("gpu-b",)),
        ),
        (
            "Bindingfailed: CardInsufficientMemory on node gpu-node-01",
            CodeEvent("CardInsufficientMemory", ("gpu-node-01",)),
        ),
        ("CardInsufficientMemory on node gpu-node-01.", CodeEvent("CardInsufficientMemory", ("gpu-node-01",))),
        ("0 nodes X()", CodeEvent("X", ())),
    ],
)
def test_events_that_name_a_code_and_nodes(message, event):
    assert parse_code_event(message) == event


@pytest.mark.parametrize(
    "message",
    [
        "",
        "no available node, 4 nodes do not meet",
        "something on node gpu-1",
        "does not request any resource",
        "calcScore failed invalid hami.io/device-scoring-weights annotation for pod x",
        "1 nodes CardCordoned(gpu-b) and more",
    ],
)
def test_events_that_name_no_code(message):
    assert parse_code_event(message) is None


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("no available node, all node scores do not meet", True),
        ("no available node, 4 nodes do not meet", True),
        ("(combined from similar events): no available node, 12 nodes do not meet", True),
        ("4 nodes do not meet", False),
        ("1 nodes CardCordoned(gpu-b)", False),
    ],
)
def test_events_that_say_only_that_none_fits(message, said):
    assert says_none_fit(message) is said


@pytest.mark.parametrize(
    ("message", "node"),
    [
        ("Successfully filtered to following nodes: [gpu12] for default/gpu-pod ", "gpu12"),
        ("find fit node(node3), 7 nodes not fit, 2 nodes fit(node3:0.98,node4:0.65)", "node3"),
        ("find fit node(gpu-node-01), 0 nodes not fit, 1 nodes fit(gpu-node-01:0.00)", "gpu-node-01"),
        ("(combined from similar events): find fit node(n), 0 nodes not fit, 1 nodes fit(n:1)", "n"),
        ("Successfully filtered to following nodes: [] for a/b ", ""),
        ("Successfully binding node [gpu12] to default/gpu-pod", ""),
        ("", ""),
    ],
)
def test_the_node_that_a_filter_chose(message, node):
    assert chosen_node(message) == node


def test_the_guides_names_of_event_reasons_are_understood():
    assert event_reason("EventReasonFilteringFailed") == event_reason("FilteringFailed") == "FilteringFailed"
    assert strip_combined("(combined from similar events): x") == strip_combined("x") == "x"
