"""Filter runs rebuilt from the extender's lines, on what real schedulers of every version and verbosity wrote."""

import gzip
from collections import defaultdict
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.hami.scheduler_logs.filter_runs import CARD_CODES, rebuild
from bot.hami.scheduler_logs.log_lines import FILTER_STARTS, pod_key_of, read_line, whose
from bot.hami.scheduler_logs.scheduling_events import read_reason, reason_of

LOGS = Path(__file__).parent / "data" / "logs"
NAMES = sorted(path.name.removesuffix(".log.gz") for path in LOGS.iterdir())
NOW = datetime(2026, 11, 21, 9, tzinfo=UTC)
HEAD = "I1121 04:59:58.123456   15866 "

every_log = pytest.mark.parametrize("name", NAMES)


@cache
def raw_lines(name):
    return tuple(gzip.decompress((LOGS / f"{name}.log.gz").read_bytes()).decode().splitlines())


@cache
def pods_of(name):
    """Per pod its own lines, told apart without our code's help: by the start lines' own words."""
    found = defaultdict(list)
    for raw in raw_lines(name):
        line = read_line(raw, NOW)
        if line and "/" in (key := pod_key_of(line)):
            found[key].append(line)
    return dict(found)


def runs_of(name):
    return [(key, run) for key, lines in pods_of(name).items() for run in rebuild(lines)]


def lines(*texts):
    found = [read_line(f"{HEAD}{text}", NOW) for text in texts]
    assert all(found)
    return found


def start(pod="wl", uid="u1"):
    return f'scheduler.go:1] "Starting schedule filter process" pod="{pod}" uuid="{uid}" namespace="ml"'


def unfit(node, reason="1/1 CardCordoned", pod="ml/wl"):
    return f'score.go:1] "NodeUnfitPod" pod="{pod}" node="{node}" reason="{reason}"'


def card(uuid, code="CardInsufficientMemory", pod="ml/wl"):
    return (
        f'device.go:1] "{code}" pod="{pod}" device="{uuid}" device index=3 device total memory=15360 '
        "device used memory=0 request memory=20000"
    )


def event(reason, message, pod="ml/wl"):
    return (
        f'event.go:1] "Event occurred" object="{pod}" kind="Pod" type="Warning" reason="{reason}" message="{message}"'
    )


# ------------------------------------------------------------------------------------------- recorded logs


@every_log
def test_every_recorded_line_is_read(name):
    assert len(raw_lines(name)) > 300
    assert [raw for raw in raw_lines(name) if read_line(raw, NOW) is None] == []


@every_log
def test_every_start_line_begins_a_run_and_no_two_runs_of_a_pod_are_mixed(name):
    starts = sum('"Starting schedule filter process"' in raw for raw in raw_lines(name))
    runs = [run for _, run in runs_of(name)]
    assert sum(run.start is not None for run in runs) == starts
    assert not any(run.mixed for run in runs)
    assert all(run.uid for run in runs if run.start)


@every_log
def test_every_verdict_names_a_node_and_reasons_that_we_know(name):
    for _, run in runs_of(name):
        for verdict in run.refused:
            assert verdict.node.startswith(("gpu-node-", "cpu-node-", "cp-node-"))
            assert all(reason_of(code) for code in verdict.codes), verdict
        assert {finding.code for finding in run.cards} <= CARD_CODES


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith(("v4", "v5")) and "2.5" not in name])
def test_the_reasons_of_each_run_are_those_of_hamis_own_events(name):
    """HAMi makes an event per code from the same verdicts; NodeInsufficientDevice never becomes one."""
    compared = 0
    for key, run in runs_of(name):
        if not (run.refused and run.code_events):
            continue
        events = defaultdict(set)
        for one, _ in run.code_events:
            events[one.code].update(one.nodes)
        rebuilt = {code: set(nodes) for code, nodes in run.nodes_by_code().items() if code != "NodeInsufficientDevice"}
        assert rebuilt == events, (key, run.start)
        compared += 1
    assert compared > 8


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith(("v0", "v2"))])
def test_without_verdicts_the_events_tell_the_reasons(name):
    runs = [run for _, run in runs_of(name) if run.none_fit]
    assert not any(run.nodes for run in runs)
    told = [run for run in runs if run.nodes_by_code()]
    assert len(told) > 8
    for run in told:
        assert len({node for nodes in run.nodes_by_code().values() for node in nodes}) <= run.unfit
        assert all(run.proof_of(code) for code in run.nodes_by_code())


def test_at_verbosity_5_the_lines_about_cards_add_up_to_the_verdicts():
    compared = 0
    for key, run in runs_of("2.10.0-v5"):
        if not run.refused or len(run.refused) < len(run.nodes):
            continue  # cards of a node that fits are refused too, and no verdict counts them
        of_cards, of_nodes = defaultdict(int), defaultdict(int)
        for state in run.cards:
            of_cards[state.code] += bool(state.card)
        for verdict in run.refused:
            for refusal in read_reason(verdict.reason):
                of_nodes[refusal.code] += refusal.count
        # Said of a node's cards as a whole, or without the namespace of the pod.
        whole = ("NodeInsufficientDevice", "AllocatedCardsInsufficientRequest", "ResourceQuotaNotFit", "NumaNotFit")
        expected = {code: count for code, count in of_nodes.items() if code not in whole}
        assert {code: of_cards[code] for code in expected} == expected, key
        compared += 1
    assert compared > 10


@every_log
def test_a_run_that_chose_a_node_ends_bound_or_with_an_error(name):
    chosen = [run for _, run in runs_of(name) if run.chosen]
    for run in chosen:
        assert run.choice
        assert run.bound or run.bind_error or run.outcome is None
        assert not run.nodes_by_code() or run.nodes
    if name != "2.5.1-v4" and not name.startswith("2.7"):  # those recordings begin after the pods that were bound
        assert any(run.bound for run in chosen)


# ------------------------------------------------------------------------------------------ one run and another


def test_a_run_has_its_verdicts_cards_and_events():
    (run,) = rebuild(
        lines(
            start(),
            'devices.go:1] "Resource requirements collected" pod="ml/wl" requests=[{},{"NVIDIA":{"Nums":1}}]',
            card("GPU-1"),
            unfit("n1", "1/1 CardInsufficientMemory"),
            unfit("n2"),
            'score.go:1] "NodeFitPod" pod="ml/wl" node="n3" score=0.5',
            event("FilteringFailed", "no available node, 2 nodes do not meet"),
        )
    )
    assert run.nodes_by_code() == {"CardInsufficientMemory": ["n1"], "CardCordoned": ["n2"]}
    assert [node.node for node in run.nodes if node.fits] == ["n3"]
    assert run.cards[0].card == "GPU-1"
    assert run.cards[0].figures == "device total memory 15360, device used memory 0, request memory 20000"
    assert run.requests == (False, True)
    assert (run.unfit, run.uid) == (2, "u1")


def test_a_reason_of_most_nodes_comes_first_and_of_equals_what_others_use():
    (run,) = rebuild(lines(start(), unfit("n1"), unfit("n2", "1/1 NumaNotFit"), unfit("n3", "1/1 NodeNews")))
    assert list(run.nodes_by_code()) == ["NumaNotFit", "CardCordoned", "NodeNews"]


def test_a_node_judged_twice_in_one_run_shows_that_two_runs_overlap():
    (one,) = rebuild(lines(start(), unfit("n1"), unfit("n1")))
    assert one.mixed
    first, second = rebuild(lines(start(), start(), unfit("n1"), unfit("n1"), unfit("n2")))
    assert (first.mixed, second.mixed) == (False, True)


def test_an_init_container_that_does_not_fit_is_no_second_verdict():
    init = 'score.go:1] "Init container does not fit" pod="ml/wl" node="n1" containerIndex=0 reason="1/1 CardCordoned"'
    (run,) = rebuild(lines(start(), init, unfit("n1")))
    assert not run.mixed
    assert run.nodes_by_code() == {"CardCordoned": ["n1"]}


def test_2_4_and_2_5_say_no_reason():
    begin = 'scheduler.go:1] "begin schedule filter" pod="wl" uuid="u" namespace="ml"'
    *_, run = rebuild(lines(unfit("n9"), begin, 'score.go:1] "calcScore:node not fit pod" pod="ml/wl" node="n1"'))
    assert [(verdict.node, verdict.reason) for verdict in run.refused] == [("n1", "")]


def test_lines_before_the_first_start_are_a_run_only_when_they_are_of_one():
    webhook = "webhook.go:1] Processing admission hook for pod ml/wl, UID: "
    assert rebuild(lines(webhook)) == []
    cut_off, whole = rebuild(lines(unfit("n1"), start(), unfit("n2")))
    assert cut_off.start is None
    assert cut_off.uid == ""
    assert whole.start


@pytest.mark.parametrize(
    ("last", "bound", "error"),
    [
        ('scheduler.go:1] "Successfully bound pod to node" pod="wl" namespace="ml" node="n1"', True, ""),
        (event("BindingFailed", "node n1 has been locked within 5m0s"), False, "node n1 has been locked within 5m0s"),
        ('scheduler.go:1] "Failed to lock node" err="is locked" node="n1" pod="ml/wl"', False, "is locked"),
        ('scheduler.go:1] "Failed to bind pod" pod="ml/wl"', False, "Failed to bind pod"),
    ],
)
def test_the_bind_that_follows_belongs_to_the_run(last, bound, error):
    chose = 'scheduler.go:1] "Scheduling pod to node" podNamespace="ml" podName="wl" nodeID="n1"'
    (run,) = rebuild(lines(start(), chose, last))
    assert (run.chosen, run.bound, run.bind_error) == ("n1", bound, error)


def test_a_pod_that_asks_for_nothing_is_let_pass():
    (run,) = rebuild(lines(start(), 'scheduler.go:1] "Pod does not request any resources" pod="ml/wl"'))
    assert run.asked_nothing


# --------------------------------------------------------------------------------------- lines of several pods

LOOKALIKES = ("ml/wl-1", "ml/wl-10", "other/wl-1", "ml/wl", "ml/awl-1", "ml/wl-1.x")


def run_lines(pod, number):
    """One run of a pod, whose lines all say in their node's name whose they are."""
    namespace, name = pod.split("/")
    node = f"{namespace}.{name}.{number}"
    return [
        f'scheduler.go:1] "Starting schedule filter process" pod="{name}" uuid="{pod}" namespace="{namespace}"',
        card(f"GPU-{node}", pod=pod),
        unfit(node, "1/1 CardInsufficientMemory", pod=pod),
        f'scheduler.go:1] "No available nodes meet the required scores" pod="{name}"',
        event("FilteringFailed", f"1 nodes CardInsufficientMemory({node})", pod=pod),
    ]


@st.composite
def interleaved(draw):
    """Runs of several pods: klog keeps the order of each pod's lines, and mixes the pods' in any way."""
    queues = {pod: [] for pod in draw(st.lists(st.sampled_from(LOOKALIKES), min_size=1, max_size=6, unique=True))}
    for pod in queues:
        for number in range(draw(st.integers(1, 3))):
            queues[pod] += run_lines(pod, number)
    counts = {pod: sum(FILTER_STARTS[0] in text for text in texts) for pod, texts in queues.items()}
    log = []
    while left := sorted(pod for pod, texts in queues.items() if texts):
        log.append(HEAD + queues[draw(st.sampled_from(left))].pop(0))
    return log, counts


@given(interleaved())
def test_no_line_is_ever_given_to_another_pod(case):
    log, counts = case
    for pod in LOOKALIKES:
        namespace, name = pod.split("/")
        parsed = [read_line(raw, NOW) for raw in log if name in raw]
        own = [line for line in parsed if line and whose(line, name) == namespace]
        runs = rebuild(own)
        assert len(runs) == counts.get(pod, 0)
        for number, run in enumerate(runs):
            node = f"{namespace}.{name}.{number}"
            assert not run.mixed
            assert run.uid == pod
            assert run.nodes_by_code() == {"CardInsufficientMemory": [node]}
            assert [state.card for state in run.cards] == [f"GPU-{node}"]
            assert [one.nodes for one, _ in run.code_events] == [(node,)]
