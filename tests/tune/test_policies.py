"""Binpack is advised where spreading leaves no GPU with room for a pod that waits, and packing would."""

from pathlib import Path

import pytest

from bot.report import Report
from tests.playbooks.world import Object, card, gpu, gpu_node, none_of, pod, refused, running, scheduler
from tests.tune.lab import row, told, tune

REFUSED = refused(none_of(1, "1 2/2 CardInsufficientMemory"))
GPUS = (card("GPU-a"), card("GPU-b"))
SPREAD = [running("a", "gpu-1", ("GPU-a", 6000, 0)), running("b", "gpu-1", ("GPU-b", 6000, 0))]


def ask(
    folder: Path, *pods: Object, memory: int = 12000, flags: tuple[str, ...] = (), said: Object = REFUSED
) -> Report:
    waiting = pod("waiting", gpu(memory=memory), said=said)
    return tune(folder, [*scheduler(flags=flags), gpu_node("gpu-1", *GPUS), *pods, waiting])


def test_memory_that_is_free_on_no_single_gpu_asks_for_binpack(tmp_path: Path) -> None:
    report = ask(tmp_path, *SPREAD)
    found = row(report, "scheduling-policy")
    assert (found.direction, found.current, found.recommended) == ("raise", "binpack/spread", "binpack/binpack")
    assert found.why == (
        "ml/waiting waits for 12,000 MiB on one GPU; gpu-1 has 20,768 MiB free on 2 GPUs, at most 10,384 MiB on one; "
        "packed, its pods would leave 16,384 MiB on one"
    )


def test_every_number_of_it_is_quoted(tmp_path: Path) -> None:
    finding = told(ask(tmp_path, *SPREAD), "--gpu-scheduler-policy")
    shown = [proof.quote for proof in finding.evidence]
    assert "CardInsufficientMemory" in shown[0]
    assert [uuid for uuid in ("GPU-a", "GPU-b") if not any(uuid in quote and "16384" in quote for quote in shown)] == []
    assert sum(",NVIDIA,6000,0" in quote for quote in shown) == 2
    assert "scheduler.defaultSchedulerPolicy.gpuSchedulerPolicy=binpack" in finding.next_actions[0].label


TIGHT = [running("a", "gpu-1", ("GPU-a", 9000, 0)), running("b", "gpu-1", ("GPU-b", 9000, 0))]
CORES = [running("a", "gpu-1", ("GPU-a", 6000, 60)), running("b", "gpu-1", ("GPU-b", 6000, 60))]


@pytest.mark.parametrize(
    ("pods", "more"),
    [
        (SPREAD, {"flags": ("--gpu-scheduler-policy=binpack",)}),
        (SPREAD, {"memory": 16000, "said": refused(none_of(1, "1 node(s) didn't match Pod's node affinity"))}),
        (SPREAD, {"memory": 17000}),
        (SPREAD, {"memory": 9000}),
        (TIGHT, {}),
        (CORES, {}),
    ],
    ids=[
        "binpack already",
        "another reason",
        "larger than a GPU",
        "it has room",
        "no packing helps",
        "cores forbid it",
    ],
)
def test_the_policies_are_kept_where_packing_would_not_help(
    tmp_path: Path, pods: list[Object], more: dict[str, object]
) -> None:
    assert row(ask(tmp_path, *pods, **more), "scheduling-policy").direction == "keep"  # type: ignore[arg-type]
