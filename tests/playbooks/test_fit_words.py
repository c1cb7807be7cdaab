"""`fit 2x16Gi`: what the words mean, and what is said where nothing fits; the verdicts themselves are `fit -f`'s."""

import re
from pathlib import Path

import pytest

from bot.errors import UsageError
from bot.report import Report
from bot.texts import in_english
from handlers.parsing.slack_grammar import ManifestWanted, understand
from playbooks.fit.gpu_words import model_in
from playbooks.own.discovery import find
from tests.cases_support import VERSIONS, Question
from tests.playbooks.tables import table
from tests.playbooks.world import (
    Object,
    answer,
    card,
    cause,
    cluster,
    codes,
    commands,
    gpu_node,
    node,
    quota,
    quotes,
    record,
    running,
    scheduler,
)

TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


def ask(tmp_path: Path, objects: list[Object], cards: str, **more: object) -> Report:
    recorded = {key: more.pop(key) for key in ("missing",) if key in more}
    return answer("fit", record(tmp_path, objects, **recorded), {}, cards=cards, **more)


def used(memory: int, name: str = "gpu-1", holder: str = "", **fields: object) -> Object:
    return running(holder or f"holder-{name}", name, (f"GPU-{name}", memory, 0), **fields)


def read(cards: str, **more: object) -> tuple[int, int, int]:
    words = find("fit").request(cards=cards, **more).words
    return words.cards, words.memory_mib, words.percentage


# ---------------------------------------------------------------------------------------------- what is asked


@pytest.mark.parametrize(
    ("cards", "meant"),
    [
        ("2x16Gi", (2, 16384, 0)),
        ("2x16G", (2, 16384, 0)),
        ("16 gb", (1, 16384, 0)),
        ("2X16gib", (2, 16384, 0)),
        ("1x1.5Gi", (1, 1536, 0)),
        ("1x24000", (1, 24000, 0)),
        ("1x24000Mi", (1, 24000, 0)),
        ("3×512Mi", (3, 512, 0)),
        ("16Gi", (1, 16384, 0)),
        ("2x50%", (2, 0, 50)),
        ("50%", (1, 0, 50)),
        ("4", (4, 0, 0)),
    ],
)
def test_words_mean_what_they_say(cards: str, meant: tuple[int, int, int]) -> None:
    assert read(cards) == meant


@pytest.mark.parametrize(
    "cards",
    [
        *["0x16Gi", "0", "2x", "x16Gi", "2x0Gi", "-1x16Gi", "2x16X", "2x16KB", "2x16", "1x101%", "1x0%", "1x1.5%"],
        *["2x1.0001Gi", "two", "2x16Gix3", "99999999x1Gi", "1x9999999999Gi", "2x١٦Gi", "1" * 5000],
    ],
)
def test_unclear_words_are_refused_with_an_example(cards: str) -> None:
    with pytest.raises(UsageError) as refused:
        read(cards)
    assert "For example: fit " in in_english(refused.value.hint)
    assert len(in_english(refused.value.message)) < 150


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("2 8Gi", "2x8Gi"), ("2 16Gi", "2x16Gi"), ("4 50%", "4x50%"), ("2 8 Gi", "2x8Gi"), ("2 x 1 6Gi", "")],
)
def test_two_numbers_side_by_side_are_not_read_as_one(typed: str, meant: str) -> None:
    for cards in (typed, typed.split()):
        with pytest.raises(UsageError) as refused:
            find("fit").request(cards=cards)
        assert in_english(refused.value.message) == f"{typed!r} is not a number of GPUs with an amount of memory"
        assert in_english(refused.value.hint).startswith(f"Did you mean {meant}?" if meant else "For example: fit ")


@pytest.mark.parametrize(
    ("typed", "told", "hint"),
    [
        ("", "fit needs a number of GPUs or a manifest", ""),
        ("2x", "2x names no amount of memory", ""),
        ("0Gi", "0Gi is", ""),
        ("1x0.0001Ti", "0.0001Ti is", ""),
        ("2x16KB", "'KB' is", "For example: fit 2x16Gi"),
        ("2x16", "16 without a unit would be 16 MiB, which is less than 100", "For example: fit 2x16Gi"),
    ],
)
def test_what_was_typed_is_refused_as_it_was_typed(typed: str, told: str, hint: str) -> None:
    with pytest.raises(UsageError) as refused:
        find("fit").request(cards=typed or ())
    assert in_english(refused.value.message).startswith(told)
    assert in_english(refused.value.hint).endswith(hint)


@pytest.mark.parametrize("cards", ["4x40KB", "4x40"])
def test_the_example_for_what_was_mistyped_keeps_its_options(cards: str) -> None:
    with pytest.raises(UsageError) as refused:
        find("fit").request(cards=cards, cores=30, type="Tesla T4")
    assert refused.value.example == "fit 4x40Gi --cores 30 --type 'Tesla T4'"


def test_a_model_as_vendors_name_them_is_a_type_of_gpus() -> None:
    assert find("fit").request(cards="2xH100:16Gi") == find("fit").request(cards="2x16Gi", type="H100")
    models = {
        "H100s": "H100",
        "a100-sxm4-80gb": "A100",
        "rtx4090": "4090",
        "L40S": "L40S",
        "l40": "L40",
        "MI300X": "MI300X",
        "t4": "T4",
    }
    assert {word: model_in(word) for word in models} == models
    assert not [word for word in ("s03", "p50", "v2", "k8s", "8080", "a1", "a100-01", "gpu-node-09") if model_in(word)]


def test_cards_and_a_manifest_exclude_each_other() -> None:
    with pytest.raises(UsageError, match="the manifest itself says"):
        find("fit").request(file=["x"], cards="1")
    with pytest.raises(UsageError, match="number of GPUs"):
        find("fit").request(cores=30)


def test_in_slack_words_are_answered_and_fit_alone_opens_the_form() -> None:
    asked = understand(["fit", "2", "x", "16Gi", "--cores", "30", "-n", "ml", "--cluster", "a"])
    assert (asked.request.words.cards, asked.request.words.cores, asked.request.namespace) == (2, 30, "ml")
    assert asked.options["cluster"] == "a"
    form = understand(["fit", "-n", "ml", "--cluster", "a"])
    assert isinstance(form, ManifestWanted)
    assert (form.namespace, form.options["cluster"]) == ("ml", "a")
    for words in (
        ["fit", "-f", "/etc/passwd"],
        ["fit", "2x16KB"],
        ["fit", "--cores", "30"],
        ["fit", "1", "--cores", "x"],
    ):
        with pytest.raises(UsageError) as refused:
            understand(words)
        assert "For example" in in_english(refused.value.hint)


# ----------------------------------------------------------------------------------------------- how it is read


def test_the_request_is_shown_as_it_was_read(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(gpu_node("gpu-1")), "1x4Gi", cores=30, type="t4", namespace="ml")
    assert report.verdict == "1xt4:4Gi (1 x 4,096 MiB, 30% of the cores) fits now on 1 node: gpu-1."
    (row,) = table(report, "request as read")
    assert (row["namespace"], row["memory"], row["cores"], row["only"]) == ("ml", "4,096 MiB", "30%", "use_type: t4")
    assert (report.subject.kind, report.subject.namespace, report.subject.name) == ("GPUs", "ml", "1xt4:4Gi")


def test_a_whole_card_is_exclusive_since_2_7_and_was_not_before(tmp_path: Path) -> None:
    tiny = used(0, holder="tiny")
    new = ask(tmp_path / "new", cluster(gpu_node(), tiny), "1")
    assert codes(new) == ["fits-nowhere"]
    assert "100% of the cores" in new.verdict
    old = ask(tmp_path / "old", cluster(gpu_node(text=True), tiny, version="2.6.1"), "1")
    assert codes(old) == ["fits"]


def test_resources_of_another_name_and_a_memory_factor_are_those_of_the_device_config(tmp_path: Path) -> None:
    config = "nvidia: {resourceCountName: acme.com/gpu, resourceMemoryName: acme.com/mem, memoryFactor: 10}\n"
    offered = gpu_node("gpu-1", allocatable={"acme.com/gpu": "10"})
    report = ask(tmp_path, [*scheduler(config=config), offered, used(10000)], "1x7Gi")
    assert codes(report) == ["fits-nowhere"]
    assert "7,170 MiB" in report.verdict
    assert commands(report)[0] == "fit 1x6380Mi"


# ---------------------------------------------------------------------------------------------------- the answer


def test_nodes_are_grouped_by_reason_and_listed_one_by_one(tmp_path: Path) -> None:
    nodes = [gpu_node(f"gpu-{i}") for i in range(6)]
    report = ask(tmp_path, cluster(*nodes, node("cpu-1"), used(10000, "gpu-0"), used(9000, "gpu-1")), "1x8Gi")
    groups = [(row["verdict"], row["reason"], row["nodes"], row["which"]) for row in table(report, "by reason")]
    assert groups == [
        ("fit", "", "4", "gpu-2, gpu-3 and 2 more"),
        ("unfit", "CardInsufficientMemory", "2", "gpu-0, gpu-1"),
        ("unfit", "node unregistered", "1", "cpu-1"),
    ]
    assert len(table(report, "nodes")) == 7


def test_the_pods_whose_end_would_help_are_named_the_least_disruptive_first(tmp_path: Path) -> None:
    objects = cluster(
        gpu_node("gpu-1"),
        gpu_node("gpu-2"),
        gpu_node("gpu-3", card("GPU-gpu-3", 1000)),
        used(15000, "gpu-1", age=90000),
        used(15000, "gpu-2", age=60),
        used(900, "gpu-3", age=1),
    )
    report = ask(tmp_path, objects, "1x8Gi")
    rows = [(row["choice"], row["node"], row["pods to end"]) for row in table(report, "pods to end")]
    assert rows == [("1", "gpu-2", "ml/holder-gpu-2"), ("2", "gpu-1", "ml/holder-gpu-1")]
    assert any("ml/holder-gpu-2" in action.label for action in cause(report).next_actions)
    assert "GPU-gpu-2,NVIDIA,15000,0:;" in quotes(report)


def test_a_tainted_node_is_counted_as_dropped_and_not_advised(tmp_path: Path) -> None:
    objects = cluster(gpu_node("gpu-1"), gpu_node("gpu-2", taints=[TAINT]), used(10000), used(5000, "gpu-2"))
    report = ask(tmp_path, objects, "1x12Gi")
    assert "on none of the 2 nodes now: 1 with too little free memory; 1 dropped by" in report.verdict
    assert all("gpu-2" not in command for command in commands(report))
    assert {row["node"] for row in table(report, "pods to end")} == {"gpu-1"}


def test_never_is_said_plainly_with_the_largest_there_is(tmp_path: Path) -> None:
    objects = cluster(
        gpu_node("gpu-1", card("a"), card("b")), gpu_node("gpu-2", card("c", 40960, type="NVIDIA A100-PCIE-40GB"))
    )
    never = "is too large for any registered node, even an empty one: "
    for asked, why in (
        ("1x80Gi", "no GPU has more than 40,960 MiB."),
        ("3x1Gi", "no node has more than 2 GPUs."),
        ("2x20Gi", "at most 2 GPUs on a node, 40,960 MiB on a GPU."),
    ):
        report = ask(tmp_path / asked, objects, asked)
        assert codes(report) == ["impossible-anywhere"]
        assert report.verdict.endswith(never + why)


def test_of_a_mig_card_every_instance_counts_as_one_that_a_pod_may_ask_for(tmp_path: Path) -> None:
    profile = {"name": "1g.10gb", "memoryMB": 9728, "placements": [{"start": at, "size": 1} for at in range(7)]}
    mig = card("GPU-gpu-1", 81920, type="NVIDIA A100-SXM4-80GB", count=7, mode="mig", migProfiles=[profile])
    report = ask(tmp_path, cluster(gpu_node("gpu-1", mig)), "8x1Gi")
    assert report.verdict.endswith("no node has more than 7 GPUs or MIG instances.")
    assert commands(report)[0] == "fit 7x1024Mi"


def test_a_verdict_with_many_reasons_is_a_whole_sentence(tmp_path: Path) -> None:
    types = [card(f"GPU-{at}", type=f"NVIDIA L{at}") for at in range(2)]
    objects = cluster(
        *(gpu_node(f"gpu-{at}", taints=[TAINT] if at > 7 else []) for at in range(9)),
        *(used(0, f"gpu-{at}", cores=0) for at in range(9)),
        gpu_node("other-1", *types),
    )
    report = ask(tmp_path, objects, "1x15Gi", cores=100, type="T4")
    assert cause(report).claim.endswith("1 dropped by Kubernetes' own filters.")
    assert len(cause(report).claim) > 140
    assert report.verdict.endswith("now: 8 with GPUs in use (whole GPUs are needed); 2 for other reasons.")


def test_cards_of_the_asked_type_that_are_too_small_even_empty_are_told_as_that(tmp_path: Path) -> None:
    large = card("GPU-gpu-2", 81920, type="NVIDIA A100")
    report = ask(tmp_path, cluster(gpu_node("gpu-1"), gpu_node("gpu-2", large)), "1x40Gi", type="T4")
    assert codes(report) == ["fits-nowhere"]
    assert "not even on an empty one" in report.verdict
    assert commands(report)[0] == "fit 1x16384Mi --type T4"
    assert "fit 1x40960Mi" in commands(report)
    assert "Leave out --type (gpu-2 would take the pod)" in [action.label for action in cause(report).next_actions]


def test_a_whole_card_that_is_not_free_may_be_shared(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(gpu_node(), used(6384)), "1")
    assert "Share a GPU: request at most 10,000 MiB" in cause(report).next_actions[0].label
    assert commands(report)[0] == "fit 1x10000Mi"


def test_a_type_that_hami_takes_for_a_longer_one_is_said(tmp_path: Path) -> None:
    objects = cluster(
        gpu_node("gpu-1", card("a", type="NVIDIA A100-SXM4-80GB")), gpu_node("gpu-2", card("b", type="NVIDIA A10"))
    )
    told = in_english(ask(tmp_path, objects, "1xA10:4Gi").verdict)
    assert "HAMi takes NVIDIA A100-SXM4-80GB for that type" in told
    assert "HAMi takes" not in in_english(ask(tmp_path / "whole", objects, "1xA100:4Gi").verdict)


def test_a_type_that_no_card_has_gets_the_known_ones_and_the_nearest(tmp_path: Path) -> None:
    cards = [card("a"), card("b", type="NVIDIA A100-SXM4-80GB")]
    report = ask(tmp_path, cluster(gpu_node("gpu-1", *cards)), "1x4Gi", type="A10O")
    assert codes(report) == ["not-found"]
    assert "NVIDIA-Tesla T4, NVIDIA A100-SXM4-80GB" in report.verdict
    assert commands(report) == ["fit 1x4096Mi --type A100", "fit 1x4096Mi"]


# --------------------------------------------------------------------------------------------------- the quota


def test_a_quota_that_alone_refuses_it_is_the_cause_and_less_is_proposed(tmp_path: Path) -> None:
    objects = cluster(gpu_node(), quota(namespace="dev", gpumem=9000), used(5000, namespace="dev"))
    report = ask(tmp_path, objects, "1x8Gi", namespace="dev")
    assert codes(report) == ["resource-quota-not-fit"]
    assert "5,000 of 9,000 limits.nvidia.com/gpumem used, 8,192 requested" in report.verdict
    assert commands(report)[0] == "fit 1x4000Mi -n dev"
    assert table(report, "quota")[0]["verdict"] == "refused"
    assert [row["pods to end"] for row in table(report, "pods to end")] == ["dev/holder-gpu-1"]
    assert "9000" in quotes(report)


def test_a_share_of_a_card_is_held_against_the_quota_with_its_figure_on_each_type_of_card(tmp_path: Path) -> None:
    large = gpu_node("gpu-2", card("GPU-gpu-2", 81920, type="NVIDIA A100"))
    objects = cluster(gpu_node(), large, quota(namespace="dev", gpumem=9000), used(5000, namespace="dev"))
    report = ask(tmp_path / "both", objects, "1x50%", namespace="dev")
    assert "8,192 (NVIDIA-Tesla T4), 40,960 (NVIDIA A100) requested" in cause(report).claim
    assert "8,192 to 40,960 requested" in report.verdict
    (row,) = table(report, "quota")
    assert (row["asked"], row["verdict"]) == ("8192 to 40960", "refused")
    report = ask(tmp_path / "one", objects, "1x50%", namespace="dev", type="T4")
    assert "5,000 of 9,000 limits.nvidia.com/gpumem used, 8,192 requested" in report.verdict
    assert table(report, "quota")[0]["asked"] == "8192"


def test_a_share_that_the_quota_leaves_room_for_on_some_cards_is_neither_refused_nor_fits(tmp_path: Path) -> None:
    large = gpu_node("gpu-2", card("GPU-gpu-2", 81920))
    objects = cluster(gpu_node(), large, quota(namespace="dev", gpumem=9000))
    report = ask(tmp_path, objects, "1x50%", namespace="dev")
    assert (codes(report), table(report, "quota")[0]["verdict"]) == (["fits"], "unknown")


def test_a_namespace_in_which_nothing_was_seen_is_told_beside_the_answer(tmp_path: Path) -> None:
    objects = cluster(gpu_node(), used(10, namespace="team"))
    report = ask(tmp_path / "none", objects, "1x1Gi", type="T4", namespace="tema")
    assert codes(report) == ["fits", "not-found"]
    assert report.verdict.startswith("1xT4:1Gi (1 x 1,024 MiB) fits now")
    assert commands(report) == ["fit 1x1024Mi --type T4 -n team"]
    for number, there in enumerate(("team", "default", "")):
        assert codes(ask(tmp_path / str(number), objects, "1x1Gi", namespace=there)) == ["fits"]


def test_every_node_is_accounted_for_in_words(tmp_path: Path) -> None:
    others = [gpu_node(f"v-{at}", card(f"GPU-v-{at}", type="NVIDIA V100")) for at in range(3)]
    report = ask(tmp_path, cluster(gpu_node(), *others, node("cpu-1"), used(16000)), "1x8Gi", type="T4")
    assert report.verdict == (
        "1xT4:8Gi fits on none of the 5 nodes now: 1 with too little free memory; 3 with GPUs of other types; "
        "1 not registered with HAMi."
    )


def test_more_cards_of_a_type_than_a_node_has_are_told_as_that(tmp_path: Path) -> None:
    four = gpu_node("v-1", *(card(f"GPU-v-{at}", type="NVIDIA V100") for at in range(4)))
    eight = gpu_node("t-1", *(card(f"GPU-t-{at}") for at in range(8)))
    report = ask(tmp_path, cluster(four, eight), "8x1Gi", type="V100")
    assert report.verdict.endswith("not even on an empty one: no node has more than 4 V100 GPUs.")


def test_mig_instances_that_are_too_small_do_not_count_as_cards(tmp_path: Path) -> None:
    profile = {"name": "1g.10gb", "memoryMB": 9728, "core": 14, "sliceCount": 1}
    placed = [profile | {"placements": [{"start": at, "size": 1} for at in range(7)]}]
    with_mig = gpu_node("m-1", card("GPU-m", 81920, mode="mig", count=7, migProfiles=placed, type="NVIDIA A100"))
    whole = gpu_node("w-1", *(card(f"GPU-w-{at}", 81920, type="NVIDIA A100") for at in range(2)))
    report = ask(tmp_path / "whole", cluster(with_mig, whole), "9")
    assert report.verdict.endswith("no node has more than 2 such GPUs.")
    report = ask(tmp_path / "part", cluster(with_mig, whole), "9x5Gi")
    assert report.verdict.endswith("no node has more than 7 GPUs or MIG instances.")


def test_the_quota_that_refuses_is_quoted_with_what_counts_against_it_and_no_other(tmp_path: Path) -> None:
    limits = quota(namespace="dev", gpumem=9000, gpucores=77)
    elsewhere = used(3000, "gpu-2", namespace="dev", holder="small")
    objects = cluster(gpu_node(), gpu_node("gpu-2"), limits, used(4000, namespace="dev"), elsewhere)
    report = ask(tmp_path, objects, "1x6Gi", namespace="dev", cores=20, type="T4")
    assert report.verdict.endswith("GPUs are free.")
    assert quotes(report)[:2] == ["9000", "GPU-gpu-1,NVIDIA,4000,0:;"]
    assert "77" not in quotes(report)


def test_pods_that_would_end_for_the_quota_alone_are_seen_among_what_it_counts(tmp_path: Path) -> None:
    objects = cluster(gpu_node(), gpu_node("gpu-2"), quota(namespace="dev", gpumem=9000))
    report = ask(tmp_path, [*objects, used(5000, "gpu-2", namespace="dev")], "1x8Gi", namespace="dev")
    assert commands(report)[-1] == "kubectl -n dev delete pod holder-gpu-2"


def test_a_quota_with_room_is_shown_beside_the_answer(tmp_path: Path) -> None:
    objects = cluster(gpu_node(), quota(namespace="dev", gpumem=9000, gpucores=100))
    report = ask(tmp_path, objects, "1x4Gi", namespace="dev")
    assert codes(report) == ["fits"]
    effects = {row["key"]: (row["used"], row["asked"], row["verdict"]) for row in table(report, "quota")}
    assert effects["limits.nvidia.com/gpumem"] == ("0", "4096", "fits")
    assert effects["limits.nvidia.com/gpucores"] == ("0", "0", "fits")


def test_kubernetes_own_quota_refuses_a_pod_when_it_is_created(tmp_path: Path) -> None:
    own = {
        "kind": "ResourceQuota",
        "metadata": {"name": "cards", "namespace": "dev"},
        "spec": {"hard": {"requests.nvidia.com/gpu": "3"}},
        "status": {"hard": {"requests.nvidia.com/gpu": "3"}, "used": {"requests.nvidia.com/gpu": "2"}},
    }
    objects = cluster(gpu_node("gpu-1", card("a"), card("b")), own)
    report = ask(tmp_path / "two", objects, "2x4Gi", namespace="dev")
    assert codes(report) == ["resource-quota-not-fit"]
    assert "at creation: 2 of 3 requests.nvidia.com/gpu used, 2 requested" in report.verdict
    assert codes(ask(tmp_path / "one", objects, "1x4Gi", namespace="dev")) == ["fits"]


# ----------------------------------------------------------------------------------------- what cannot be told


def test_a_holder_that_cannot_be_read_makes_the_answer_only_suspected(tmp_path: Path) -> None:
    broken = used(1, holder="broken")
    broken["metadata"]["annotations"] = "none"
    report = ask(tmp_path, cluster(gpu_node(), broken), "1x4Gi")
    assert (codes(report), cause(report).confidence) == (["fits"], "suspected")
    assert "objects" in [gap.source for gap in report.gaps]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("cards", ["4", "4x15Gi"])
def test_the_counts_of_a_recorded_cluster_add_up_to_its_nodes_and_the_largest_is_named(
    version: str, cards: str
) -> None:
    report = Question(version, "fit", cards, {"cards": cards, "type": "T4"}).ask()
    for text in (report.verdict, cause(report).claim):
        found = re.search(r"on none of the (\d+) nodes[^:]*: (\d.*)\.$", text)
        assert found, text
        counts = {part: int(part.split()[0]) for part in found[2].split("; ")}
        assert sum(counts.values()) == int(found[1])
        named = [count for part, count in counts.items() if "other reasons" not in part and "dropped" not in part]
        by_reason = table(report, "by reason")
        assert max(named) >= max(int(row["nodes"]) for row in by_reason if not row["kubernetes"])


def test_who_asks_for_whole_gpus_is_not_told_to_ask_for_most_of_their_cores(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(gpu_node("gpu-1"), used(1000)), "1x4Gi", cores=100)
    assert codes(report) == ["fits-nowhere"]
    assert not any(
        "cores (" in action.label and "no cores" not in action.label for action in cause(report).next_actions
    )
