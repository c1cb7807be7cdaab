"""What changed between two recordings, and whether it helped: a difference within noise is none."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bot.errors import UsageError
from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.report import Report, in_words
from bot.texts import LANGUAGES, Texts
from handlers.cluster_choice import ClusterChoice
from handlers.parsing.grammar import read
from handlers.parsing.slack_grammar import understand
from handlers.shell_commands import CompareAsked, compare_recordings
from handlers.shell_grammar import build_grammar
from playbooks.own.discovery import find
from playbooks.playbook import Sources
from playbooks.tune.compare import (
    ChangeRow,
    Difference,
    MeasuredRow,
    compare,
    compare_counts,
    compare_times,
    gather_side,
)
from playbooks.tune.playbook import Request
from tests.latency.support import at, said, started
from tests.playbooks.world import EXTENDER, HAMI, READY, Object, ago, check, gpu_node, pod, record, scheduler, text_of
from tests.tune.support import CASES

_BEGAN: Object = {
    **READY,
    "containerStatuses": [{"name": EXTENDER, "ready": True, "state": {"running": {"startedAt": ago(700)}}}],
}


def recorded(name: str) -> Path:
    return CASES / name / "recording.tar.gz"


def compared(before: Path, after: Path) -> Report:
    async def ask() -> list[Report]:
        sides = [await gather_side(Sources(RecordedCluster.open(path))) for path in (before, after)]
        return [in_words(compare(Request(all=True), *sides), Texts(language)) for language in LANGUAGES]

    english, chinese = asyncio.run(ask())
    assert [table.rows[1:] for table in english.tables[1:]] == [table.rows[1:] for table in chinese.tables[1:]]
    return english


def answers(report: Report) -> dict[str, str]:
    return {row.figure: row.answer for row in report.typed(MeasuredRow)}


def burst(folder: Path, *, count: int = 12, bound: float = 2, log: str = "", pending: int = 0, **fields: Any) -> Path:
    """So many pods that were created together; each was bound after so many seconds and runs a second later."""
    folder.mkdir()
    names = [f"wl-{number}" for number in range(count)]
    pods = [started(name, after=bound + 1, bound=bound) for name in names]
    pods += [pod(f"stuck-{number}", age=600) for number in range(pending)]
    lines = "".join(said(name, filter=1, chosen=1, bind=1, bound=bound) for name in names)
    kube = {f"{HAMI}/hami-scheduler-0/kube-scheduler": at(-60, "flags.go:27] FLAG")}
    nodes = [gpu_node(f"gpu-{number}") for number in range(fields.pop("nodes", 1))]
    objects = [*scheduler(statuses=[_BEGAN], **fields), *nodes, *pods]
    return record(folder, objects, logs=at(-60, "flags.go:27] FLAG") + lines + log, others=kube)


def waits(count: int) -> str:
    text = 'request.go:683] "Waited before sending request" delay="{}ms" reason="client-side throttling, not priority '
    text += 'and fairness" verb="PATCH" URL="https://10.0.0.1/{}"'
    return "".join(at(2, text.format(900 + number, number)) for number in range(count))


def test_more_requests_a_second_helped_the_throttled_client() -> None:
    report = compared(recorded("throttled-client"), recorded("throttled-client-after"))
    assert report.verdict == "It helped: GPU pods took 50.0 s from created to running before, 2.0 s after (median)."
    assert report.typed(ChangeRow) == [
        ChangeRow("--kube-qps", "5 (the default)", "50"),
        ChangeRow("--kube-burst", "10 (the default)", "100"),
    ]
    (throttled,) = (row for row in report.typed(MeasuredRow) if row.figure == "throttled requests")
    assert (throttled.before, throttled.after, throttled.answer) == (538, 0, "better")
    (after,) = (proof for proof in report.findings[0].evidence if proof.quote == "--kube-qps=50")
    assert after.command.endswith('containers[?(@.name=="vgpu-scheduler-extender")].command}\'')
    assert (report.severity, report.findings[0].confidence) == ("info", "confirmed")


def test_the_other_way_round_it_got_worse() -> None:
    report = compared(recorded("throttled-client-after"), recorded("throttled-client"))
    assert report.verdict.startswith("It got worse: GPU pods took 2.0 s")
    assert report.severity == "warning"
    assert "--kube-qps 50 to 5 (the default)" in report.findings[0].claim


def test_a_recording_does_not_differ_from_itself() -> None:
    report = compared(recorded("throttled-client"), recorded("throttled-client"))
    assert set(answers(report).values()) == {"no difference"}
    assert report.typed(ChangeRow) == []
    assert "no more than chance" in report.verdict


@pytest.mark.parametrize("name", ["healthy", "no-metrics", "idle-holders"])
def test_without_new_pods_there_is_not_enough_data(name: str) -> None:
    report = compared(recorded(name), recorded(name))
    assert report.verdict.startswith("Not enough data")
    assert set(answers(report).values()) == {"not enough data"}


def test_values_of_the_configuration_and_counts_are_compared(tmp_path: Path) -> None:
    before = burst(tmp_path / "a", config="nvidia: {deviceSplitCount: 10}\n", flags=["--node-lock-timeout=5m"])
    after = burst(tmp_path / "b", config="nvidia: {deviceSplitCount: 20}\n", version="2.9.0", nodes=2)
    changes = {row.setting: (row.before, row.after) for row in compared(before, after).typed(ChangeRow)}
    assert changes["hami-scheduler-device device-config.yaml nvidia.deviceSplitCount"] == ("10", "20")
    assert changes["--node-lock-timeout"] == ("5m", "not set")
    assert changes["HAMi"] == ("2.10.0", "2.9.0")
    assert changes["nodes"] == ("1", "2")


def test_what_one_recording_lacks_is_no_change(tmp_path: Path) -> None:
    before = burst(tmp_path / "a", bound=40, config="nvidia: {deviceSplitCount: 10}\n")
    after = burst(tmp_path / "b", bound=4, flags=["--kube-qps=20"])
    for file in ("configmaps.json", "nodes.json"):
        (after / "objects" / file).unlink()
    report = compared(before, after)
    assert [row.setting for row in report.typed(ChangeRow)] == ["--kube-qps"]
    assert report.findings[0].confidence == "suspected"
    assert any(gap.source.startswith("after: ") for gap in report.gaps)


def test_other_config_maps_of_the_namespace_are_no_settings(tmp_path: Path) -> None:
    paths = [burst(tmp_path / name) for name in ("a", "b")]
    other = {"kind": "ConfigMap", "metadata": {"name": "app", "namespace": HAMI}, "data": {"app.properties": "x=1"}}
    maps = json.loads((paths[1] / "objects" / "configmaps.json").read_text())
    (paths[1] / "objects" / "configmaps.json").write_text(json.dumps(maps | {"items": [*maps["items"], other]}))
    assert compared(*paths).typed(ChangeRow) == []


def test_a_change_within_noise_did_not_help(tmp_path: Path) -> None:
    before = burst(tmp_path / "a", bound=30)
    after = burst(tmp_path / "b", bound=30.4, flags=["--kube-qps=20"])
    report = compared(before, after)
    assert report.verdict.startswith("It did not help")
    assert answers(report)["bind started -> bound"] == "no difference"


def test_faster_without_a_change_is_not_put_down_to_one(tmp_path: Path) -> None:
    report = compared(burst(tmp_path / "a", bound=40), burst(tmp_path / "b", bound=4))
    assert report.verdict.endswith("but no setting that the bot reads changed.")
    assert report.findings[0].confidence == "suspected"


def test_a_much_smaller_load_is_not_compared(tmp_path: Path) -> None:
    before = burst(tmp_path / "a", count=40, bound=40)
    after = burst(tmp_path / "b", count=12, bound=4, flags=["--kube-qps=20"])
    assert "the loads are too different" in compared(before, after).verdict


def test_pods_from_before_the_scheduler_started_do_not_count(tmp_path: Path) -> None:
    before, after = burst(tmp_path / "a", bound=40), burst(tmp_path / "b", bound=4, flags=["--kube-qps=20"])
    pods = (after / "objects" / "pods.json").read_text().replace(ago(700), ago(500))
    (after / "objects" / "pods.json").write_text(pods)
    assert compared(before, after).verdict.startswith("Not enough data: 12 pods ran before, 0 after")


def test_a_quieter_log_says_nothing_of_throttling(tmp_path: Path) -> None:
    before = burst(tmp_path / "a", log=waits(100))
    after = burst(tmp_path / "b", flags=["-v=0"])
    assert answers(compared(before, after))["throttled requests"] == "not enough data"


def test_more_pending_pods_are_worse(tmp_path: Path) -> None:
    report = compared(burst(tmp_path / "a", count=20), burst(tmp_path / "b", count=20, pending=25))
    assert answers(report)["new pods that are pending"] == "worse"


def test_every_claim_is_quoted(tmp_path: Path) -> None:
    before = burst(tmp_path / "a", log=waits(100), flags=["--kube-qps=5"], bound=30)
    after = burst(tmp_path / "b", log=waits(3), flags=["--kube-qps=50"])
    check(compared(before, after), text_of(before) + text_of(after))


def shell(words: Sequence[str]) -> CompareAsked:
    asked = read(build_grammar(), words)
    assert isinstance(asked, CompareAsked)
    return asked


def test_a_shell_compares_two_files() -> None:
    asked = shell(["tune", "compare", str(recorded("throttled-client")), str(recorded("throttled-client-after"))])
    report = in_words(asyncio.run(compare_recordings(asked, ClusterChoice())), Texts("zh"))
    assert report.verdict.startswith("有帮助")


@pytest.mark.parametrize("option", ["recording", "kubeconfig", "context"])
def test_a_cluster_that_is_named_beside_two_recordings_is_refused(option: str) -> None:
    asked, where = shell(["tune", "compare", "a", "b"]), ClusterChoice(**{option: Path("c")})
    with pytest.raises(UsageError, match=f"--{option} names another cluster"):
        asyncio.run(compare_recordings(asked, where))


def test_tune_keeps_its_own_options_beside_the_comparison() -> None:
    asked = read(build_grammar(), ["tune", "--template", "production"])
    assert asked.request == find("tune").request(template="production")


@pytest.mark.parametrize("words", [["compare"], ["compare", "a"], ["compare", "a", "b", "c"], ["contrast", "a", "b"]])
def test_a_comparison_takes_two_recordings(words: list[str]) -> None:
    with pytest.raises(UsageError, match="two recordings") as told:
        read(build_grammar(), ["tune", *words])
    assert told.value.example == "tune compare before.tar.gz after.tar.gz"


@pytest.mark.parametrize("words", ["tune compare a.tar.gz b.tar.gz", "tune compare 2026-11-20 b.tar.gz"])
def test_slack_says_that_recordings_are_compared_in_a_shell(words: str) -> None:
    with pytest.raises(UsageError, match="ask that in a shell") as refused:
        understand(words.split())
    assert refused.value.example.startswith("hami-bot tune compare")


_SPREAD = [float(second) for second in range(1, 21)]


@pytest.mark.parametrize(
    ("before", "after", "answer"),
    [
        (_SPREAD, [second / 10 for second in _SPREAD], "better"),
        ([second / 10 for second in _SPREAD], _SPREAD, "worse"),
        (_SPREAD, [second + 0.5 for second in _SPREAD], "no difference"),
        (_SPREAD, _SPREAD, "no difference"),
        ([5.0] * 20, [5.0] * 20, "no difference"),
        (_SPREAD[:9], [0.1] * 20, "not enough data"),
        ([], [], "not enough data"),
    ],
)
def test_times_differ_by_rank_and_by_median(before: list[float], after: list[float], answer: Difference) -> None:
    assert compare_times(before, after, 0.05) == answer


def test_a_difference_below_what_can_be_measured_is_none() -> None:
    assert compare_times([1.0] * 30, [1.5] * 30, 1.0) == "no difference"
    assert compare_times([1.0] * 30, [1.5] * 30, 0.05) == "worse"


@pytest.mark.parametrize(
    ("before", "after", "pods", "answer"),
    [
        (538, 0, (60, 60), "better"),
        (0, 538, (60, 60), "worse"),
        (10, 12, (60, 60), "no difference"),
        (100, 50, (60, 30), "no difference"),
        (0, 0, (60, 60), "no difference"),
        (538, 0, (60, 9), "not enough data"),
    ],
)
def test_counts_differ_by_more_than_chance(before: int, after: int, pods: tuple[int, int], answer: Difference) -> None:
    assert compare_counts(before, after, *pods) == answer
