"""`gpus`: what is given of every card; what is free, and what nobody can get."""

import gzip
import json
import re
from collections import defaultdict
from pathlib import Path

import pytest

from bot.errors import SourceError
from bot.render.terminal import terminal
from bot.render.words import table_heading
from bot.report import Report
from bot.texts import Texts
from tests import cases_support
from tests.cases_support import CASES, VERSIONS
from tests.playbooks.scheduler_metrics import GIB, counted, scrape
from tests.playbooks.tables import only, table
from tests.playbooks.world import (
    HANDSHAKE,
    Object,
    answer,
    card,
    cause,
    cluster,
    codes,
    commands,
    gpu,
    gpu_node,
    node,
    none_of,
    pod,
    quotes,
    record,
    refused,
    running,
    scheduler,
)
from tests.playbooks.world import ask as why

T4 = "NVIDIA-Tesla T4"
A100 = "NVIDIA A100-SXM4-80GB"
MIG = {"mode": "mig", "migProfiles": [{"name": "1g.10gb", "memoryMB": 9728, "placements": [{"start": 0, "size": 1}]}]}


def ask(tmp_path: Path, *objects: Object, version: str = "2.10.0", **more: object) -> Report:
    """What `gpus` says. `more`: node, type; `missing` goes to the recording."""
    path = record(tmp_path, cluster(*objects, version=version), missing=more.pop("missing", ()))
    return answer("gpus", path, {}, **more)


def cards(report: Report) -> dict[str, dict[str, str]]:
    return {row["card"]: row for row in table(report, "cards")}


def states(report: Report) -> list[str]:
    return [row["state"] for row in table(report, "cards")]


# ------------------------------------------------------------------------------------------------- the cards


def test_a_card_shows_what_is_given_of_it_and_to_whom(tmp_path: Path) -> None:
    holders = [running("b", "gpu-1", ("GPU-gpu-1", 4000, 30)), running("a", "gpu-1", ("GPU-gpu-1", 1000, 0))]
    report = ask(tmp_path, gpu_node(), *holders)
    assert cards(report)["GPU-gpu-1"] == {
        "node": "gpu-1",
        "card": "GPU-gpu-1",
        "type": T4,
        "state": "free",
        "memory used": "5000",
        "memory free": "11384",
        "memory total": "16384",
        "holders": "ml/a, ml/b",
        "slots": "2/10",
        "cores used": "30",
        "cores total": "100",
        "HAMi counts": "",
    }
    of_node, of_type = (ask(tmp_path, gpu_node(), *holders, **about) for about in ({"node": "gpu-1"}, {"type": "T4"}))
    assert of_node.verdict.startswith("2 pods hold its GPUs: ml/a, ml/b. 1 of 1 GPUs can still take a pod")
    assert [of.tables[0].title for of in (of_node, of_type)] == ["cards", "cards"]


def test_a_reservation_is_told_from_a_pod_that_runs(tmp_path: Path) -> None:
    reserved = running("wl", "gpu-1", ("GPU-gpu-1", 4000, 0))
    reserved["spec"].pop("nodeName")
    reserved["status"]["phase"] = "Pending"
    assert cards(ask(tmp_path, gpu_node(), reserved))["GPU-gpu-1"]["holders"] == "ml/wl (reserved)"


@pytest.mark.parametrize(
    ("state", "given", "fields"),
    [
        ("free", (16383, 99), {}),
        ("no-memory", (16384, 0), {}),
        ("no-cores", (1000, 100), {}),
        ("no-slots", (1000, 10), {"count": 1}),
        ("unhealthy", (0, 0), {"health": False}),
        ("no-mig-placement", (0, 0), {"mode": "mig", "migProfiles": []}),
        ("other-type", (0, 0), {"type": "Tesla T4"}),
    ],
)
def test_a_card_s_state_is_why_it_takes_no_pod(
    tmp_path: Path, state: str, given: tuple[int, int], fields: Object
) -> None:
    holders = [running("holder", "gpu-1", ("GPU-0", *given))] if any(given) else []
    report = ask(tmp_path, gpu_node("gpu-1", card(**fields)), *holders)
    assert states(report) == [state]
    assert (cause(report).severity == "info") == (state == "free")


def test_a_card_cordoned_by_annotation_is_no_room_from_2_10_on(tmp_path: Path) -> None:
    one = gpu_node(annotations={"hami.io/device-cordon": "GPU-gpu-1"})
    report = ask(tmp_path / "new", one)
    assert states(report) == ["cordoned"]
    undo = report.findings[-1].next_actions[-1]
    assert (undo.command, undo.changes_cluster) == ("kubectl annotate node gpu-1 hami.io/device-cordon-", True)
    assert states(ask(tmp_path / "old", one, version="2.9.0")) == ["free"]


def test_only_the_cordoned_cards_that_were_asked_about_are_uncordoned(tmp_path: Path) -> None:
    all_of_them = [card("GPU-t"), card("GPU-a", type=A100)]
    one = gpu_node("gpu-1", *all_of_them, annotations={"hami.io/device-cordon": "GPU-t,GPU-a,GPU-gone"})
    undo = ask(tmp_path, one, type="T4").findings[-1].next_actions[-1]
    assert undo.command == "kubectl annotate node gpu-1 --overwrite hami.io/device-cordon=GPU-a,GPU-gone"


@pytest.mark.parametrize(
    ("state", "fields"),
    [
        ("node-cordoned", {"unschedulable": True}),
        ("node-cordoned", {"taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]}),
        ("node-not-ready", {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]}),
        ("free", {"taints": [{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}]}),
    ],
)
def test_a_node_that_kubernetes_keeps_pods_off_has_no_room(tmp_path: Path, state: str, fields: Object) -> None:
    assert states(ask(tmp_path, gpu_node(**fields))) == [state]


def test_a_node_that_is_not_ready_has_no_room(tmp_path: Path) -> None:
    one = gpu_node()
    one["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    report = ask(tmp_path, one)
    assert states(report) == ["node-not-ready"]
    assert report.verdict == "None of 1 GPUs is known to have room: node not ready (1)."


def test_a_mig_card_gives_its_largest_profile_that_has_a_place(tmp_path: Path) -> None:
    report = ask(tmp_path, gpu_node("gpu-1", card(memory=81920, type=A100, **MIG)))
    assert "9,728 MiB" in report.verdict
    assert [row["largest slice"] for row in table(report, "largest free slice by type")] == ["9728"]


def test_mig_before_2_10_is_not_judged_and_that_is_said(tmp_path: Path) -> None:
    report = ask(tmp_path, gpu_node("gpu-1", card("GPU-0"), card("GPU-1", mode="mig")), version="2.9.0")
    assert states(report) == ["free", "unknown"]
    assert report.verdict.endswith(" 1 could not be checked.")
    assert cause(report).confidence == "suspected"
    assert [gap.why for gap in report.gaps] == ["MIG templates of versions before 2.10"]


# ----------------------------------------------------------------------------------------------- the answer


def test_the_answer_names_the_largest_slice_and_quotes_its_registration(tmp_path: Path) -> None:
    nodes = [gpu_node("gpu-1"), gpu_node("gpu-2", card("GPU-a", memory=81920, type=A100))]
    report = ask(tmp_path, *nodes, running("holder", "gpu-2", ("GPU-a", 40960, 0)))
    assert report.verdict == (
        f"2 of 2 GPUs can still take a pod; the largest free slice is 40,960 MiB on gpu-2 ({A100})."
    )
    assert (codes(report), report.severity) == (["capacity"], "info")
    (evidence,) = cause(report).evidence
    assert evidence.quote == json.dumps(card("GPU-a", memory=81920, type=A100))
    assert evidence.command == (
        r"kubectl get node gpu-2 -o jsonpath='{.metadata.annotations.hami\.io/node-nvidia-register}'"
    )


def test_a_registration_as_text_is_quoted_card_by_card(tmp_path: Path) -> None:
    report = ask(tmp_path, gpu_node("gpu-1", card("GPU-a"), card("GPU-b"), text=True), version="2.7.1")
    assert quotes(report) == ["GPU-a,10,16384,100,NVIDIA-Tesla T4,0,true,0,hami-core:"]


def test_full_cards_are_a_warning_that_says_what_they_lack_but_of_one_node_alone(tmp_path: Path) -> None:
    objects = gpu_node(), running("holder", "gpu-1", ("GPU-gpu-1", 16384, 0))
    report = ask(tmp_path / "all", *objects)
    assert report.verdict == "None of 1 GPUs is known to have room: no memory (1)."
    assert (codes(report), report.severity) == (["capacity"], "warning")
    assert "GPU-gpu-1,NVIDIA,16384,0:;" in quotes(report)
    report = ask(tmp_path / "one", *objects, node="gpu-1")
    assert (codes(report), report.severity) == (["capacity"], "info")


def test_memory_that_nobody_can_get_is_told_with_its_reasons(tmp_path: Path) -> None:
    full = gpu_node("gpu-2", card("GPU-a", memory=10000))
    report = ask(tmp_path, gpu_node("gpu-1"), full, running("holder", "gpu-2", ("GPU-a", 4000, 100)))
    told = only(report, "stranded-capacity")
    assert told.claim == "6,000 MiB are free on GPUs that can take no pod: no cores (1)."
    assert (told.severity, told.scope.nodes) == ("warning", ("gpu-2",))
    assert "GPU-a,NVIDIA,4000,100:;" in [proof.quote for proof in told.evidence]
    assert commands(report) == ["gpus --node gpu-2"]


def test_little_stranded_memory_is_no_warning(tmp_path: Path) -> None:
    nodes = gpu_node("gpu-1", *(card(f"GPU-{i}") for i in range(8)), card("GPU-x", memory=1000, health=False))
    report = ask(tmp_path, nodes)
    assert only(report, "stranded-capacity").severity == "info"
    assert report.severity == "info"


def test_types_are_summed_apart(tmp_path: Path) -> None:
    one = gpu_node("gpu-1", card("GPU-0"), card("GPU-1", health=False), card("GPU-2", memory=81920, type=A100))
    report = ask(tmp_path, one, running("holder", "gpu-1", ("GPU-0", 1000, 0)))
    assert table(report, "largest free slice by type") == [
        {
            "type": A100,
            "cards": "1",
            "free": "1",
            "memory used": "0",
            "memory total": "81920",
            "memory stranded": "0",
            "largest slice": "81920",
            "node": "gpu-1",
        },
        {
            "type": T4,
            "cards": "2",
            "free": "1",
            "memory used": "1000",
            "memory total": "32768",
            "memory stranded": "16384",
            "largest slice": "15384",
            "node": "gpu-1",
        },
    ]


def test_cards_that_hami_dropped_are_shown_and_not_counted(tmp_path: Path) -> None:
    dead = {HANDSHAKE: "Requesting_2026-11-20 01:02:03"}
    lost = gpu_node("gpu-2", annotations=dead, allocatable={"nvidia.com/gpu": "0"}, labels={"gpu": "on"})
    report = ask(tmp_path, gpu_node("gpu-1"), lost)
    assert {row["state"]: row["memory free"] for row in table(report, "cards")} == {"free": "16384", "unregistered": ""}
    assert report.verdict.startswith("1 of 1 GPUs")
    told = only(report, "node-unregistered")
    assert told.scope.nodes == ("gpu-2",)
    assert [proof.quote for proof in told.evidence] == ["0"]


# ------------------------------------------------------------------------------------------------ the question


def test_one_node_s_cards_can_be_asked_for(tmp_path: Path) -> None:
    report = ask(tmp_path, gpu_node("gpu-1"), gpu_node("gpu-2"), node="gpu-2")
    assert list(cards(report)) == ["GPU-gpu-2"]
    assert (report.subject.kind, report.subject.name) == ("Node", "gpu-2")
    assert cause(report).scope.nodes == ("gpu-2",)


def test_a_type_is_matched_by_any_part_in_any_case(tmp_path: Path) -> None:
    nodes = [gpu_node("gpu-1"), gpu_node("gpu-2", card("GPU-a", type=A100))]
    assert list(cards(ask(tmp_path, *nodes, type="a100"))) == ["GPU-a"]


def test_an_unknown_node_is_answered_with_near_names(tmp_path: Path) -> None:
    report = ask(tmp_path, gpu_node("gpu-node-01"), gpu_node("gpu-node-02"), node="gpu-node-1")
    assert report.verdict == "There is no node gpu-node-1."
    assert sorted(commands(report)) == ["gpus --node gpu-node-01", "gpus --node gpu-node-02"]


def test_an_unknown_type_is_answered_with_the_types_there_are(tmp_path: Path) -> None:
    report = ask(tmp_path, gpu_node(), type="H100")
    assert codes(report) == ["not-found"]
    assert commands(report) == [f"gpus --type '{T4}'"]


def test_a_node_that_needs_no_cards_is_said_to_have_none(tmp_path: Path) -> None:
    assert ask(tmp_path, gpu_node(), node("cpu-1"), node="cpu-1").verdict == (
        "cpu-1 has no GPUs registered with HAMi, and none are expected there."
    )


def test_a_cluster_without_cards_is_said_to_have_none(tmp_path: Path) -> None:
    assert ask(tmp_path, node("cpu-1")).verdict == "No node has GPUs registered with HAMi."


# --------------------------------------------------------------------------------------------- what is not seen


def test_without_the_pods_nothing_is_said_about_what_is_free(tmp_path: Path) -> None:
    report = ask(tmp_path, gpu_node("gpu-1", card("GPU-0"), card("GPU-1", health=False)), missing=("pods",))
    assert codes(report) == ["not-enough-evidence"]
    assert report.verdict == "2 GPUs with 32,768 MiB are registered; what pods hold of them could not be read."
    assert states(report) == ["unknown", "unhealthy"]
    assert {(row["memory used"], row["memory free"]) for row in table(report, "cards")} == {("?", "?")}
    assert [row["largest slice"] for row in table(report, "largest free slice by type")] == ["?"]
    assert "pods" in [gap.source for gap in report.gaps]


def test_without_the_nodes_there_is_no_answer(tmp_path: Path) -> None:
    with pytest.raises(SourceError):
        ask(tmp_path, gpu_node(), missing=("nodes",))


def test_quotas_do_not_matter(tmp_path: Path) -> None:
    report = ask(tmp_path, gpu_node(), missing=("resourcequotas",))
    assert (cause(report).confidence, report.gaps) == ("confirmed", ())


def test_a_card_that_possible_versions_judge_differently_is_unknown(tmp_path: Path) -> None:
    one = gpu_node("gpu-1", card("GPU-0"), card("GPU-1"), annotations={"hami.io/device-cordon": "GPU-1"})
    path = record(tmp_path, [*scheduler(image="registry.example/hami"), one])
    report = answer("gpus", path, {})
    assert states(report) == ["free", "unknown"]
    assert cause(report).confidence == "suspected"
    assert "HAMi version" in [gap.source for gap in report.gaps]


def test_cards_of_other_vendors_are_said_not_to_be_counted(tmp_path: Path) -> None:
    ascend = [
        {"id": "Ascend910B3-0", "count": 10, "devmem": 65536, "devcore": 20, "type": "Ascend910B3", "health": True}
    ]
    report = ask(tmp_path, gpu_node(annotations={"hami.io/node-register-Ascend910B3": json.dumps(ascend)}))
    assert [gap.why for gap in report.gaps] == [
        "1 Ascend910B3 device: the bot does not model how HAMi counts this vendor's devices"
    ]


# --------------------------------------------------------------------------------------------- the way here


def test_a_hostile_node_name_stays_one_word_of_the_command(tmp_path: Path) -> None:
    said = refused(none_of(1, "1 1/1 CardInsufficientMemory"))
    asks = pod("wl", gpu(memory=90000), said=said)
    small = gpu_node("gpu 1; reboot")
    large = gpu_node("gpu-2", card("GPU-l", memory=100000))
    holder = running("holder", "gpu-2", ("GPU-l", 50000, 0))
    report = why(tmp_path, cluster(small, large, holder, asks))
    assert "gpus --node 'gpu 1; reboot'" in commands(report)


# --------------------------------------------------------------------------------- what the scheduler counts


@pytest.mark.parametrize("verb", ["gpus", "status"])
def test_with_all_every_table_is_shown_beside_the_scheduler_s_count(tmp_path: Path, verb: str) -> None:
    path = record(tmp_path, cluster(gpu_node()), metrics=scrape(counted("gone", 8 * GIB)))
    report = answer(verb, path, {}, all=True)
    text = terminal(report, Texts("en"), width=200, colour=False)
    assert "scheduler's count" in [shown.title for shown in report.tables]
    assert all(Texts("en").words(table_heading(shown)) in text for shown in report.tables)
    assert "--all" not in text


def test_a_gpu_that_the_scheduler_counts_for_a_pod_that_is_gone_is_told_first(tmp_path: Path) -> None:
    path = record(tmp_path, cluster(gpu_node()), metrics=scrape(counted("gone", 8 * GIB)))
    report = answer("gpus", path, {}, node="gpu-1")
    assert codes(report) == ["scheduler-ledger-stale", "capacity"]
    assert cards(report)["GPU-gpu-1"]["HAMi counts"] == "8192"
    (row,) = table(report, "scheduler's count")
    assert (row["node"], row["pods hold"], row["only counted"]) == ("gpu-1", "0", "ml/gone")


DATA = Path(__file__).parent / "data"
Card = tuple[str, str]
Figures = tuple[int, int, int, int, int]
LIMIT_OF_MEMORY, MEMORY, CORES, SHARED, LIMIT_OF_CORES = range(5)
METRICS = {
    "GPUDeviceMemoryLimit": LIMIT_OF_MEMORY,
    "GPUDeviceMemoryAllocated": MEMORY,
    "GPUDeviceCoreAllocated": CORES,
    "GPUDeviceSharedNum": SHARED,
    "GPUDeviceCoreLimit": LIMIT_OF_CORES,
    "hami_gpu_memory_limit_bytes": LIMIT_OF_MEMORY,
    "hami_gpu_memory_allocated_bytes": MEMORY,
    "hami_gpu_core_allocated_ratio": CORES,
    "hami_gpu_shared_count": SHARED,
    "hami_gpu_core_limit_ratio": LIMIT_OF_CORES,
}
NOT_COUNTED_BY_HAMI: dict[str, dict[Card, Figures]] = {
    # ml/s17-slice-2 was given a share of this card, and binding it failed. HAMi forgets such a reservation when it
    # tries the pod again, which by its log it did in the very second of the recording; the pod's annotation stays.
    "hami-2.5.1": {("gpu-node-10", "GPU-33be18b3-bf76-46bf-843b-41a1f86f4f91"): (0, 100, 0, 1, 0)},
}


def metrics(version: str) -> dict[Card, Figures]:
    """Per node and card: memory limit and memory given in MiB, cores given, how many share it, and its cores."""
    found: dict[Card, list[int]] = defaultdict(lambda: [-1] * 5)
    for line in gzip.decompress((DATA / f"{version}.prom.gz").read_bytes()).decode().splitlines():
        name, labels, value = re.fullmatch(r"(\w+)\{(.*)\} (\S+)", line).groups()
        if (kind := METRICS.get(name)) is None:
            continue
        label = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        at = label.get("nodeid") or label["node"], label.get("deviceuuid") or label["device_uuid"]
        found[at][kind] = int(float(value)) >> (20 if kind in (LIMIT_OF_MEMORY, MEMORY) else 0)
    return {at: tuple(figures) for at, figures in found.items()}


@pytest.mark.parametrize("version", VERSIONS)
def test_every_card_s_figures_and_the_sums_per_type_are_those_of_the_real_scheduler(version: str) -> None:
    report = cases_support.ask(CASES / version / "recording.tar.gz", verb="gpus")
    ours: dict[Card, Figures] = {}
    for row in table(report, "cards"):
        if row["state"] != "unregistered":
            shared = row["slots"].split("/")[0]
            figures = (row["memory total"], row["memory used"], row["cores used"], shared, row["cores total"])
            ours[row["node"], row["card"]] = tuple(map(int, figures))
            assert int(row["memory free"]) == max(int(row["memory total"]) - int(row["memory used"]), 0)
    for at, more in NOT_COUNTED_BY_HAMI.get(version, {}).items():
        ours[at] = tuple(mine - extra for mine, extra in zip(ours[at], more, strict=True))
    assert len(ours) == 102
    assert ours == metrics(version)
    sums = table(report, "largest free slice by type")
    theirs = metrics(version).values()
    extra = sum(value[MEMORY] for value in NOT_COUNTED_BY_HAMI.get(version, {}).values())
    assert sum(int(row["cards"]) for row in sums) == len(theirs)
    assert sum(int(row["memory total"]) for row in sums) == sum(their[LIMIT_OF_MEMORY] for their in theirs)
    assert sum(int(row["memory used"]) for row in sums) == sum(their[MEMORY] for their in theirs) + extra
