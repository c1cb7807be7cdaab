"""What is judged by the values that are deployed: cores, HAMi-core's log, the timeout of requests, policies."""

from pathlib import Path

import pytest

from tests.playbooks.world import EXTENDER, Object, card, gpu_node, node, running, scheduler
from tests.tune.lab import CORE, USED, FakePrometheus, advised, row, told, tune, use

ONE = running("one", "gpu-1", ("GPU-a", 4096, 30))
OTHER = running("other", "gpu-1", ("GPU-a", 4096, 30))


def cluster(
    *objects: Object, config: str = "nvidia: {}\n", flags: tuple[str, ...] = (), cores: int = 100
) -> list[Object]:
    return [*scheduler(config=config, flags=flags), gpu_node("gpu-1", card("GPU-a", devcore=cores)), *objects]


def test_more_than_100_cores_leave_no_gpu_to_be_had_alone(tmp_path: Path) -> None:
    report = tune(tmp_path, cluster(ONE, cores=150))
    assert row(report, "core-scaling")[1:5] == ("lower", "NVIDIA-Tesla T4 gpu-1", "1.5", "1")
    finding = told(report, "deviceCoreScaling")
    assert '"devcore": 150' in finding.evidence[0].quote
    assert "devicePlugin.deviceCoreScaling=1" in finding.next_actions[0].label
    assert finding.next_actions[1].command == "gpus --node gpu-1"


def test_a_verbose_core_library_is_turned_down(tmp_path: Path) -> None:
    report = tune(tmp_path, cluster(config="nvidia:\n  libCudaLogLevel: 4\n"))
    assert row(report, "library-log")[1:5] == ("lower", "", "4", "1")
    (proof,) = told(report, "libCudaLogLevel").evidence
    assert proof.quote == "libCudaLogLevel: 4"
    assert proof.object == "ConfigMap hami-system/hami-scheduler-device"
    assert proof.command.endswith("| grep libCudaLogLevel")


@pytest.mark.parametrize(
    "config", ["nvidia: {}\n", "nvidia:\n  libCudaLogLevel: 1\n", "nvidia:\n  libCudaLogLevel: 0\n"]
)
def test_a_quiet_core_library_is_kept(tmp_path: Path, config: str) -> None:
    assert row(tune(tmp_path, cluster(config=config)), "library-log").direction == "keep"


def cores_of_a_day(*averages: tuple[str, float]) -> FakePrometheus:
    """A Prometheus that has the whole day of these pods' shares of GPU-a."""
    now = use(USED, "one", "GPU-a", 1)
    return FakePrometheus(now, cores="".join(use(CORE, name, "GPU-a", value) for name, value in averages))


def test_a_container_above_its_cores_for_a_day_on_a_shared_gpu_asks_for_a_strict_policy(tmp_path: Path) -> None:
    week = cores_of_a_day(("one", 80), ("other", 20))
    report = tune(tmp_path, cluster(ONE, OTHER, config="nvidia:\n  gpuCorePolicy: disable\n"), prometheus=week)
    assert row(report, "core-policy")[1:5] == ("raise", "", "disable", "force")
    finding = told(report, "gpuCorePolicy")
    assert "on the average of a day, the most ml/one: 80% used, 30% requested" in finding.claim
    average, requested, _ = finding.evidence
    assert average.command.startswith("PromQL: avg_over_time((max by (exported_pod")
    assert "GPU-a,NVIDIA,4096,30" in requested.quote


def test_one_sample_of_the_cores_is_no_proof(tmp_path: Path) -> None:
    used = use(CORE, "one", "GPU-a", 80) + use(CORE, "other", "GPU-a", 20)
    report = tune(tmp_path, cluster(ONE, OTHER, config="nvidia:\n  gpuCorePolicy: disable\n"), monitors={"gpu-1": used})
    found = row(report, "core-policy")
    assert (found.direction, found.current) == ("cannot-tell", "disable")
    assert "whole day" in found.why


@pytest.mark.parametrize(
    ("pods", "averages"),
    [
        ((ONE,), (("one", 90),)),
        ((ONE, OTHER), (("one", 45), ("other", 5))),
        ((running("one", "gpu-1", ("GPU-a", 4096, 0)), OTHER), (("one", 90), ("other", 5))),
    ],
    ids=["alone on its GPU", "a little above", "requested no cores"],
)
def test_using_cores_that_nobody_is_kept_from_is_fine(
    tmp_path: Path, pods: tuple[Object, ...], averages: tuple[tuple[str, float], ...]
) -> None:
    report = tune(tmp_path, cluster(*pods), prometheus=cores_of_a_day(*averages))
    assert row(report, "core-policy").direction == "keep"


def test_a_day_of_some_of_the_containers_alone_tells_nothing_of_the_others(tmp_path: Path) -> None:
    report = tune(tmp_path, cluster(ONE, OTHER), prometheus=cores_of_a_day(("one", 10)))
    assert row(report, "core-policy").direction == "cannot-tell"


def test_without_a_day_of_the_cores_nothing_is_told(tmp_path: Path) -> None:
    assert row(tune(tmp_path, cluster(ONE, OTHER)), "core-policy").direction == "cannot-tell"
    report = tune(tmp_path, cluster(ONE, OTHER), prometheus=cores_of_a_day())
    assert row(report, "core-policy").direction == "cannot-tell"


def test_without_the_device_config_nothing_is_told_of_it(tmp_path: Path) -> None:
    report = tune(tmp_path, cluster(ONE), missing=("configmaps",))
    assert row(report, "library-log").direction == row(report, "core-policy").direction == "cannot-tell"


def test_before_2_6_hami_has_neither_policy_nor_log_level(tmp_path: Path) -> None:
    report = tune(tmp_path, [*scheduler("2.5.1"), gpu_node("gpu-1", card("GPU-a"), text=True)])
    assert not {topic for topic, *_ in report.tables[0].rows} & {"core-policy", "library-log"}


def test_a_short_timeout_is_raised_by_the_size_of_the_cluster(tmp_path: Path) -> None:
    nodes = [node(f"cpu-{number}") for number in range(60)]
    report = tune(tmp_path, [*cluster(flags=("--kube-timeout=5",)), *nodes])
    assert row(report, "kube-timeout")[1:5] == ("raise", "", "5 s", "20 s")
    quotes = [(proof.quote, proof.command) for proof in told(report, "--kube-timeout").evidence]
    assert quotes[0][0] == "--kube-timeout=5"
    assert quotes[1] == ("61", "kubectl get nodes -o name | wc -l")


@pytest.mark.parametrize(
    ("command", "args", "quote", "shown"),
    [
        (["scheduler"], ["--kube-timeout", "5"], '"--kube-timeout","5"', ".command}{"),
        (["scheduler", "-kube-timeout=5"], [], "-kube-timeout=5", '")].command}'),
        (
            ["sh", "-c", "exec scheduler --kube-timeout=5 -v=4"],
            [],
            '["sh","-c","exec scheduler --kube-t',
            '")].command}',
        ),
    ],
    ids=["two words in args", "one hyphen", "a shell"],
)
def test_a_flag_is_read_and_quoted_however_it_is_written(
    tmp_path: Path, command: list[str], args: list[str], quote: str, shown: str
) -> None:
    objects = [*cluster(), *(node(f"cpu-{number}") for number in range(60))]
    for object_ in objects:
        if object_["metadata"]["name"] == "hami-scheduler-0":
            (extender,) = (part for part in object_["spec"]["containers"] if part["name"] == EXTENDER)
            extender |= {"command": command, "args": args}
    report = tune(tmp_path, objects)
    assert row(report, "kube-timeout").current == "5 s"
    proof = told(report, "--kube-timeout").evidence[0]
    assert proof.quote.startswith(quote)
    assert shown in proof.command


@pytest.mark.parametrize("flags", [(), ("--kube-timeout=0",), ("--kube-timeout=30",)])
def test_no_timeout_and_a_long_one_are_kept(tmp_path: Path, flags: tuple[str, ...]) -> None:
    assert row(tune(tmp_path, cluster(flags=flags)), "kube-timeout").direction == "keep"


def test_policies_are_shown_and_never_changed_by_a_measurement(tmp_path: Path) -> None:
    report = tune(tmp_path, cluster(ONE, flags=("--node-scheduler-policy=spread",)))
    assert row(report, "scheduling-policy")[1:5] == ("keep", "", "spread/spread", "spread/spread")
    assert advised(report) == set()


def test_a_flag_that_is_not_set_is_shown_by_the_whole_command_line(tmp_path: Path) -> None:
    nodes = [node(f"cpu-{number}") for number in range(60)]
    report = tune(tmp_path, [*cluster(), *nodes])
    (finding,) = (finding for finding in report.findings if "--kube-qps" in finding.claim)
    assert finding.evidence[0].quote.startswith('["scheduler","--scheduler-name=hami-scheduler"')
