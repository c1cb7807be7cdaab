"""GPU-hours affected: what the pods of a thread asked for, for as long as alerts about them fired."""

import math
from pathlib import Path

import pytest

from bot.slack.render.summary import gpu_hours
from bot.slack.render.text import utc
from bot.texts import LANGUAGES, Texts
from bot.triage.summary import FiringSpan, GpuTime, gpu_time
from bot.triage.webhook import Alert
from handlers.oncall.keeper import Keeper
from handlers.oncall.service import TriageService
from sandbox.slack.content import strings_of
from tests.oncall.heads import ADA
from tests.oncall.rig import Rig, a_rig, on_rig, pending
from tests.playbooks.world import cluster, gpu, gpu_node, none_of, pod, record, refused, running
from tests.slack.outbox_support import START

_FULL = refused(none_of(1, "1 1/1 CardInsufficientMemory"))


def spell(name: str, gpus: int | None, began: float, ended: float = math.inf) -> FiringSpan:
    return FiringSpan(("ml", name), gpus, began, ended)


def test_a_moment_with_two_alerts_about_a_pod_counts_once() -> None:
    found = gpu_time([spell("a", 4, 0, 100), spell("a", 4, 50, 150), spell("a", 4, 200, 300)], 1000)
    assert found == GpuTime(4 * 250.0, 4, 1, 1)


def test_pods_count_beside_each_other_and_what_fires_still_counts_up_to_now() -> None:
    found = gpu_time([spell("a", 4, 0, 100), spell("b", 2, 50)], 150)
    assert found == GpuTime(4 * 100.0 + 2 * 100.0, 6, 2, 2)
    assert found.mean_s == 100.0


def test_only_what_lies_in_the_period_counts() -> None:
    found = gpu_time([spell("a", 1, 0, 100), spell("a", 1, 400), spell("b", 8, 0, 90)], 500, 90)
    assert found == GpuTime(10.0 + 100.0, 1, 1, 1)


def test_pods_of_which_nobody_knows_what_they_ask_for_are_not_counted_and_told() -> None:
    found = gpu_time([spell("a", 2, 0, 10), spell("a", None, 10, 20), spell("b", None, 0, 50)], 100)
    assert found == GpuTime(40.0, 2, 1, 2)


def test_a_pod_made_anew_with_another_request_counts_with_each() -> None:
    assert gpu_time([spell("a", 1, 0, 10), spell("a", 4, 10, 20)], 100) == GpuTime(50.0, 4, 1, 1)


def test_an_alert_that_came_and_went_counts_with_its_share_unless_another_counts_more() -> None:
    flapping = spell("a", 4, 0, 1000)._replace(share=0.5)
    assert gpu_time([flapping], 1000).seconds == 4 * 500.0
    assert gpu_time([flapping, spell("a", 4, 500, 700)], 1000).seconds == 4 * (400.0 + 200.0)
    assert gpu_time([flapping], 1000, 900).seconds == 4 * 50.0


@pytest.mark.parametrize(
    ("affected", "told"),
    [
        (GpuTime(12_480.0, 4, 2, 2), "GPU-hours affected: 3.5 (4 GPUs requested, 52m each on average)"),
        (GpuTime(60.0, 1, 1, 1), "GPU-hours affected: 0.017 (1 GPU requested, 1m each on average)"),
        (
            GpuTime(3600.0, 1, 1, 3),
            "GPU-hours affected: at least 1.0 (1 GPU requested, 1h each on average; requests known of 1 of 3 pods)",
        ),
        (GpuTime(0.0, 0, 2, 2), "GPU-hours affected: 0 (no pod requests a GPU)"),
        (GpuTime(0.0, 0, 0, 1), "GPU-hours affected: unknown (requests known of 0 of 1 pod)"),
    ],
)
def test_the_figure_comes_with_what_it_is_made_of(affected: GpuTime, told: str) -> None:
    assert Texts("en").words(gpu_hours(affected)) == told
    assert all(Texts(language).words(gpu_hours(affected)) for language in LANGUAGES)


def crowded(folder: Path) -> Path:
    """A recording in which two pods wait for 4 GPUs each, and a running one has 1."""
    node = gpu_node("gpu-1")
    holder = running("holder", "gpu-1", ("GPU-gpu-1", 12_000, 10))
    waiting = (pod("trainer-0", gpu(4, 8000), said=_FULL), pod("trainer-3", gpu(4, 8000), said=_FULL))
    return record(folder, cluster(node, holder, *waiting))


async def at(rig: Rig, clock: str, keeper: Keeper, *given: Alert) -> None:
    """The alerts are taken at that time of the day, and looked at."""
    hours, minutes = map(int, clock.split(":"))
    await rig.bot.clock.advance(START + (hours - 8) * 3600 + minutes * 60 - rig.now)
    await keeper.take(list(given))
    await rig.passes(5, keeper)


def over(number: int, clock: str, name: str = "GPUPodPending") -> Alert:
    return pending(number, name=name, status="resolved", ends_at=f"2027-01-15T{clock}:00Z")


async def test_the_summary_the_export_and_the_report_tell_gpu_hours_also_of_what_came_back(
    database: str, tmp_path: Path
) -> None:
    told = "GPU-hours affected: 3.3 (8 GPUs requested, 25m each on average)"

    async with a_rig(database, crowded(tmp_path)) as rig:
        keeper = rig.keeper()
        service = TriageService(rig.deps(), keeper, ())
        await at(rig, "08:00", keeper, pending(0), pending(0, name="PodStuck"), pending(3))
        await at(rig, "08:10", keeper, over(0, "08:10"), over(0, "08:10", "PodStuck"))
        await at(rig, "08:20", keeper, pending(0, starts_at="2027-01-15T08:20:00Z"))
        await at(rig, "08:30", keeper, over(0, "08:30"), over(3, "08:30"))
        [row] = await rig.store.incidents.opened()
        await rig.passes(400, keeper, step_s=50)
        [head] = rig.heads()
        assert told in rig.replies(head)[-1]
        [file] = (await service.export(ADA, row)).files
        assert file.content.decode().splitlines()[-1] == "- " + told
        assert told in list(strings_of({"blocks": list((await service.report()).blocks)}))


@on_rig(1)
async def test_a_pod_that_is_gone_when_its_alert_comes_gets_no_invented_figure(rig: Rig, keeper: Keeper) -> None:
    service = TriageService(rig.deps(), keeper, ())
    await at(rig, "08:00", keeper, pending(pod="gone-1"))
    await at(rig, "08:10", keeper)
    [row] = await rig.store.incidents.opened()
    [file] = (await service.export(ADA, row)).files
    assert file.content.decode().splitlines()[-1].endswith("unknown (requests known of 0 of 1 pod)")


@on_rig(crowded)
async def test_what_is_kept_of_alerts_that_flap_does_not_grow_with_each_time(rig: Rig, keeper: Keeper) -> None:
    await keeper.take([pending(0), pending(3)])
    await rig.passes(5, keeper)
    for _ in range(12):
        await rig.bot.clock.advance(300)
        ended = {"status": "resolved", "ends_at": utc(rig.now)}
        await keeper.take([pending(0, **ended), pending(3, **ended)])
        await rig.bot.clock.advance(300)
        await keeper.take([pending(number, starts_at=utc(rig.now)) for number in (0, 3)])
        await keeper.look()
    [row] = [row for row in await rig.store.incidents.opened() if row.incident.is_open]
    found = (await rig.store.alerts.spells([row.id]))[row.id]
    assert len(found) == 2 * (1 + 1)
    affected = gpu_time(found, rig.now)
    assert affected.seconds == pytest.approx(2 * 4 * (12 * 300 + 5), abs=2 * 4 * 12)


@on_rig(crowded)
async def test_a_running_pod_counts_with_what_it_asks_for(rig: Rig, keeper: Keeper) -> None:
    await at(rig, "08:00", keeper, pending(pod="holder"))
    await at(rig, "09:00", keeper)
    [row] = await rig.store.incidents.opened()
    [found] = (await rig.store.alerts.spells([row.id]))[row.id]
    assert (found.pod, found.gpus, found.began) == (("ml", "holder"), 1, START)
    assert math.isinf(found.ended)


@on_rig(crowded, new=True)
async def test_a_sender_cannot_say_that_a_pod_was_affected_before_there_was_one(rig: Rig, keeper: Keeper) -> None:
    await at(rig, "08:00", keeper, pending(0, starts_at="1999-01-01T00:00:00Z"))
    [row] = await rig.store.incidents.opened()
    [found] = (await rig.store.alerts.spells([row.id]))[row.id]
    assert START - 365 * 86400 < found.began < START
