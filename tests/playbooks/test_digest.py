"""`digest`: the figures that one day is compared with the next by, and whose the worst things are."""

from pathlib import Path
from typing import Any

from bot.digest.figures import differences, not_compared
from bot.report import Report
from tests.playbooks.world import (
    LOCK,
    Object,
    ago,
    answer,
    card,
    cluster,
    codes,
    gpu,
    gpu_node,
    none_of,
    owner,
    plugin_pod,
    pod,
    record,
    refused,
    running,
    scheduler,
)
from tests.tune.lab import KERNEL, use

HOUR = 3600
A100 = "NVIDIA-A100-SXM4-40GB"
FULL = refused(none_of(1, "1 1/1 CardInsufficientMemory"))


def ask(folder: Path, *objects: Object, **recorded: Any) -> Report:
    return answer("digest", record(folder, [*objects], **recorded), {})


def figures(report: Report) -> dict[str, str]:
    return {f"{area}/{what}": value for area, what, value in rows(report, "figures")}


def rows(report: Report, title: str) -> list[tuple[str, ...]]:
    return [row for table in report.tables if table.title == title for row in table.rows]


def of(area: str, report: Report) -> dict[str, str]:
    return {name.partition("/")[2]: value for name, value in figures(report).items() if name.startswith(f"{area}/")}


def limited(name: str, key: str, limit: int, used: int | None = None) -> Object:
    """A ResourceQuota of namespace `name`; `used` is what Kubernetes counts."""
    hard = {key: str(limit)}
    status = {"hard": hard} | ({} if used is None else {"used": {key: str(used)}})
    metadata = {"name": "cards", "namespace": name}
    return {"kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}, "status": status}


def restarted(on: str, times: int) -> Object:
    one = plugin_pod(on)
    one["status"]["containerStatuses"] = [{"name": "device-plugin", "restartCount": times, "state": {}}]
    return one


def held(name: str, age: float, by: str) -> Object:
    return gpu_node(name, annotations={LOCK: f"{ago(age)},ml,{by}"})


def test_locks_that_dangle_and_locks_that_are_held_are_figures_with_their_nodes(tmp_path: Path) -> None:
    found = ask(tmp_path, *cluster(held("gpu-1", 90, "gone"), held("gpu-2", 90, "wl"), gpu_node("gpu-3"), pod("wl")))
    assert of("locks", found) == {"dangling": "1", "held": "1"}
    assert of("locked-nodes", found) == {"dangling gpu-1": "1", "held gpu-2": "1"}
    assert not [name for name in of("faulty-nodes", found) if "lock" in name]


def test_restarts_are_counted_for_each_pod_of_the_scheduler_and_of_the_device_plugin(tmp_path: Path) -> None:
    statuses = [{"name": "kube-scheduler", "restartCount": 1}, {"name": "vgpu-scheduler-extender", "restartCount": 2}]
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": statuses}
    hami = scheduler(statuses=(ready,))
    found = ask(tmp_path, *hami, gpu_node(), restarted("gpu-1", 4), restarted("gpu-2", 0))
    assert of("scheduler-restarts", found) == {"hami-scheduler-0": "3"}
    assert of("plugin-restarts", found) == {"hami-device-plugin-gpu-1": "4"}


def test_how_often_memory_and_cores_are_promised_is_told_by_type(tmp_path: Path) -> None:
    scaled = gpu_node("gpu-1", card("GPU-1", 61440, type=A100, devcore=150), card("GPU-2", 40960, type=A100))
    found = ask(tmp_path, *scheduler(config="nvidia:\n  deviceMemoryScaling: 2\n"), scaled, gpu_node("gpu-2"))
    assert of("over-subscription", found) == {
        f"{A100} memory": "1.25",
        f"{A100} cores": "1.25",
        "NVIDIA-Tesla T4 memory": "2.00",  # its name does not say how large it is: the setting does
        "NVIDIA-Tesla T4 cores": "1.00",
    }


def test_capacity_what_is_given_and_the_largest_slice_are_told_by_type(tmp_path: Path) -> None:
    node = gpu_node("gpu-1", card("GPU-1", 40960, type=A100), card("GPU-2", 40960, type=A100))
    found = ask(tmp_path, *cluster(node, running("a", "gpu-1", ("GPU-1", 30_000, 10))))
    assert of("memory-MiB", found) == {A100: "81920"}
    assert of("memory-given-MiB", found) == {A100: "30000"}
    assert of("largest-slice-MiB", found) == {A100: "40960"}


def test_quotas_are_told_from_nine_tenths_of_their_limit_on_whoever_counts(tmp_path: Path) -> None:
    node = gpu_node("gpu-1", card("GPU-1"), card("GPU-2"))
    holders = running("a", "gpu-1", ("GPU-1", 9_000, 0)), running("b", "gpu-1", ("GPU-2", 8_900, 0), namespace="web")
    quotas = (limited(namespace, "limits.nvidia.com/gpumem", 10_000) for namespace in ("ml", "web"))
    counted = limited("batch", "requests.nvidia.com/gpu", 8, used=8)
    found = ask(tmp_path, *cluster(node, *holders, *quotas, counted))
    assert of("quotas", found) == {"ml nvidia.com/gpumem HAMi": "90", "batch nvidia.com/gpu Kubernetes": "100"}


def test_the_worst_have_the_controllers_of_their_pods_and_the_team(tmp_path: Path) -> None:
    labels = {"pod-template-hash": "6d5f7c9b8", "example.com/team": "vision"}
    made_by = owner("ReplicaSet", "trainer-6d5f7c9b8")
    replicas = (pod(f"trainer-6d5f7c9b8-{i}", gpu(memory=8000), said=FULL, labels=labels, owner=made_by) for i in "ab")
    job = pod("sweep-1", gpu(memory=8000), said=FULL, owner=owner("Job", "sweep"))
    bare = pod("alone", gpu(memory=8000), said=FULL)
    full = running("holder", "gpu-1", ("GPU-gpu-1", 12_000, 10), namespace="other")
    found = ask(tmp_path, *cluster(gpu_node(), full, *replicas, job, bare))
    place = str(codes(found).index("card-insufficient-memory") + 1)
    assert [row[1:] for row in rows(found, "owners") if row[0] == place] == [
        ("Deployment", "ml", "trainer", "vision", "2"),
        ("Job", "ml", "sweep", "", "1"),
        ("Namespace", "", "ml", "", "1"),
    ]


def test_a_faulty_node_concerns_whoever_holds_its_cards(tmp_path: Path) -> None:
    ill = gpu_node("gpu-1", card("GPU-1", health=False), card("GPU-2"))
    holder = running("job-1", "gpu-1", ("GPU-2", 1000, 0), namespace="web", owner=owner("Job", "job", namespace="web"))
    found = ask(tmp_path, *cluster(ill, holder))
    place = str(codes(found).index("card-not-healthy") + 1)
    assert [row for row in rows(found, "owners") if row[0] == place] == [(place, "Job", "web", "job", "", "1")]


def test_a_quota_concerns_its_namespace_and_hami_itself_has_its_own(tmp_path: Path) -> None:
    holder = running("a", "gpu-1", ("GPU-gpu-1", 9_500, 0))
    found = ask(tmp_path, *cluster(gpu_node(), holder, limited("ml", "limits.nvidia.com/gpumem", 10_000)))
    whose = {codes(found)[int(row[0]) - 1]: row[1:5] for row in rows(found, "owners")}
    assert whose["quota-near-limit"] == ("Namespace", "", "ml", "")
    assert whose["scheduler-leader-mismatch"] == ("HAMi", "hami-system", "hami-scheduler", "")


def test_what_a_quota_keeps_out_is_told_once_and_concerns_the_controllers_of_the_pods(tmp_path: Path) -> None:
    holder = running("a", "gpu-1", ("GPU-gpu-1", 5_000, 0))
    job = pod("sweep-1", gpu(memory=8000), owner=owner("Job", "sweep"))
    found = ask(tmp_path, *cluster(gpu_node(), holder, job, limited("ml", "limits.nvidia.com/gpumem", 10_000)))
    assert codes(found).count("resource-quota-not-fit") == 1
    place = str(codes(found).index("resource-quota-not-fit") + 1)
    assert [row[1:] for row in rows(found, "owners") if row[0] == place] == [("Job", "ml", "sweep", "", "1")]


def test_nodes_that_are_too_many_to_name_are_not_taken_to_have_recovered(tmp_path: Path) -> None:
    def ill(count: int) -> Report:
        nodes = (gpu_node(f"gpu-{number}", card(f"GPU-{number}", health=False)) for number in range(count))
        return ask(tmp_path / str(count), *cluster(*nodes))

    before, after = figures(ill(50)), figures(ill(51))
    assert [
        (difference.area, difference.before, difference.after)
        for difference in differences(before, after)
        if "nodes" in difference.area
    ] == []
    assert not_compared(before, after) == ["faulty-nodes"]


def test_that_all_is_well_is_said_only_where_everything_was_seen(tmp_path: Path) -> None:
    seen = ask(tmp_path / "seen", *cluster(gpu_node(), plugin_pod("gpu-1")))
    assert seen.verdict.startswith("no pod is pending; no faulty node;")
    blind = ask(tmp_path / "blind", *cluster(gpu_node(), plugin_pod("gpu-1")), missing=["configmaps"])
    assert blind.verdict.startswith("no pending pod in what could be read; no faulty node in what could be read;")


def test_more_restarts_are_news_and_a_pod_that_is_gone_is_none() -> None:
    before = {"plugin-restarts/a": "3", "plugin-restarts/b": "5", "scheduler-restarts/old": "7"}
    after = {
        "plugin-restarts/a": "4",
        "plugin-restarts/b": "5",
        "plugin-restarts/new": "2",
        "scheduler-restarts/s": "0",
    }
    found = [(difference.what, difference.before, difference.after) for difference in differences(before, after)]
    assert found == [("a", "3", "4"), ("new", "0", "2")]


def kernel(pod_name: str, uuid: str, hours: float | str, container: str = "main") -> str:
    seconds = hours if isinstance(hours, str) else hours * HOUR
    return use(KERNEL, pod_name, uuid, seconds, container=container)


def idle(folder: Path, monitor: str, *holders: Object) -> dict[str, str]:
    """The hours by namespace of pods on one node with two GPUs, and what was not measured."""
    node = gpu_node("gpu-1", card("GPU-1"), card("GPU-2"))
    found = ask(folder, *cluster(node, plugin_pod("gpu-1"), *holders), monitors={"gpu-1": monitor} if monitor else None)
    seen = figures(found)
    return of("idle-GPU-hours", found) | {name: value for name, value in seen.items() if name == "gaps/idle-GPU-hours"}


def test_gpu_hours_without_a_kernel_count_by_the_part_of_the_gpu_that_is_held(tmp_path: Path) -> None:
    whole, half = ("GPU-1", 16384, 0), ("GPU-2", 8192, 0)
    holders = running("a", "gpu-1", whole, age=90 * HOUR), running("b", "gpu-1", half, age=90 * HOUR)
    assert idle(tmp_path, kernel("a", "GPU-1", 8) + kernel("b", "GPU-2", 4), *holders) == {"ml": "10"}


def test_no_more_than_a_day_counts_and_no_more_than_the_pods_age(tmp_path: Path) -> None:
    old = running("a", "gpu-1", ("GPU-1", 16384, 0), age=90 * HOUR)
    young = running("b", "gpu-1", ("GPU-2", 16384, 0), age=3 * HOUR)
    assert idle(tmp_path, kernel("a", "GPU-1", 80) + kernel("b", "GPU-2", 80), old, young) == {"ml": "27"}


def test_a_gpu_that_one_container_uses_is_not_idle_for_the_other(tmp_path: Path) -> None:
    holder = running("a", "gpu-1", ("GPU-1", 16384, 0), age=90 * HOUR)
    assert idle(tmp_path, kernel("a", "GPU-1", 9) + kernel("a", "GPU-1", 0.01, "side"), holder) == {}


def test_pods_of_which_nothing_is_measured_count_no_hours_and_are_told(tmp_path: Path) -> None:
    holder = running("a", "gpu-1", ("GPU-1", 16384, 0), age=90 * HOUR)
    other = running("b", "gpu-1", ("GPU-2", 16384, 0), age=90 * HOUR)
    untold = {"gaps/idle-GPU-hours": "pods that are not measured: ml"}
    assert idle(tmp_path / "none", "", holder, other) == untold
    assert idle(tmp_path / "nan", kernel("a", "GPU-1", "NaN"), holder, other) == untold
    assert idle(tmp_path / "one", kernel("a", "GPU-1", 8), holder, other) == {"ml": "8"} | untold
