"""Alerts become threads by their cause, and a thread says what is so now."""

import msgspec
import pytest

from bot.errors import SourceError
from bot.triage.state import IncidentTimes
from handlers.changes.draft import Person
from handlers.oncall.causes import cause_alone
from handlers.oncall.keeper import Keeper
from handlers.oncall.service import IncidentDeed, TriageService
from tests.oncall.rig import TERMS, Rig, on_rig, pending, text
from tests.oncall.scenes import CAUSES
from tests.slack.outbox_support import ONCALL


async def come_and_gone(rig: Rig, keeper: Keeper) -> None:
    """An alert that fires, opens a thread, and is resolved."""
    await keeper.take([pending(0)])
    await rig.passes(5, keeper)
    await keeper.take([pending(0, status="resolved")])


@on_rig(12)
async def test_alerts_of_one_cause_are_one_thread_whatever_they_are_called(rig: Rig, keeper: Keeper) -> None:
    names = ("GPUPodPending", "KubePodNotReady")
    await keeper.take([pending(3 * number, name=name) for number in range(4) for name in names])
    await rig.passes(10, keeper)
    [head] = rig.heads()
    assert "Open, warning: " in text(head)
    assert "4 of 4 pods still affected, 8 alerts" in text(head)
    assert CAUSES[0] in text(head)
    assert "GPUPodPending, KubePodNotReady" in text(head)


@on_rig(9)
async def test_the_head_shows_what_its_alerts_say_of_place_severity_and_runbook(rig: Rig, keeper: Keeper) -> None:
    link = "https://example.com/runbooks/gpu?a=b"
    await keeper.take([pending(0, severity="page", runbook=link), pending(3), pending(6, runbook=link)])
    await rig.passes(10, keeper)
    [head] = rig.heads()
    assert head["text"].startswith("🔴 Open, critical: ")
    assert " in \ntext\nml\n" in text(head)
    assert str(head["blocks"]).count(str({"type": "link", "url": link, "text": "Runbook"})) == 1
    assert "Severity: page" in rig.replies(head)[0]


@on_rig(9)
async def test_the_head_links_to_the_graph_of_the_first_alert_that_has_one(rig: Rig, keeper: Keeper) -> None:
    graph = "https://prometheus.example.com/graph?g0.expr=kube_pod_status_phase%7Bphase%3D%22Pending%22%7D+%3E+0"
    of_alertmanager = {"annotations": {"generatorURL": graph}}
    await keeper.take([pending(0), pending(3, **of_alertmanager), pending(6, **of_alertmanager)])
    await rig.passes(10, keeper)
    [head] = rig.heads()
    assert str(head["blocks"]).count(str({"type": "link", "url": graph, "text": "Graph"})) == 1


@on_rig(6)
async def test_the_head_says_how_many_alerts_the_sender_cut_off_until_it_sends_all(rig: Rig, keeper: Keeper) -> None:
    for cut, told in ((0, False), (40, True), (0, False)):
        await keeper.take([pending(0, cut=cut), pending(3, cut=cut)])
        await rig.passes(60, keeper, step_s=30)
        assert ("the sender cut off 40 more alerts: raise max_alerts" in text(rig.heads()[0])) is told


@on_rig(36)
async def test_counts_are_edited_every_45_seconds_and_a_state_at_once(rig: Rig, keeper: Keeper) -> None:
    for number in range(12):
        await keeper.take([pending(3 * number)])
        await rig.passes(5, keeper)
    edits = len(rig.bot.slack.journal.of("api", "chat.update"))
    assert edits <= 2
    await rig.passes(50, keeper, step_s=50)
    assert "12 of 12 pods" in text(rig.heads()[0])
    [row] = await rig.store.incidents.opened()
    await rig.acts(row, "ack")
    await keeper.look()
    await rig.send()
    [head] = rig.heads()
    assert "Acknowledged, warning" in text(head)
    assert any("Acknowledged" in reply for reply in rig.replies(head))


@on_rig(3)
async def test_a_deed_that_changes_nothing_on_the_head_edits_nothing(rig: Rig) -> None:
    keeper = rig.keeper(terms=IncidentTimes())
    await keeper.take([pending(0)])
    await rig.passes(60, keeper, step_s=30)
    edits = rig.bot.slack.journal.of("api", "chat.update")
    [row] = await rig.store.incidents.opened()
    await rig.acts(row, "note", "rebooted gpu-7")
    await rig.passes(120, keeper, step_s=60)
    assert rig.bot.slack.journal.of("api", "chat.update") == edits


@on_rig(6)
async def test_a_cause_that_is_gone_for_five_minutes_resolves_its_thread_and_reopens_it_in_an_hour(
    rig: Rig, keeper: Keeper
) -> None:
    await come_and_gone(rig, keeper)
    await rig.passes(290, keeper, step_s=58)
    assert "Resolved" not in text(rig.heads()[0])
    await rig.passes(20, keeper)
    assert "Resolved, warning" in text(rig.heads()[0])
    await keeper.take([pending(3)])
    await rig.passes(10, keeper)
    [head] = rig.heads()
    assert "Open, warning" in text(head)
    _, resolved, reopened = rig.replies(head)
    assert "Resolved: the cause is gone" in resolved
    assert "Reopened: the cause is back" in reopened


@on_rig(6)
async def test_a_new_alert_reopens_what_was_closed_while_it_fired_and_the_old_ones_do_not(
    rig: Rig, keeper: Keeper
) -> None:
    row = await rig.opens(keeper, pending(0))
    await rig.acts(row, "close")
    await rig.bot.clock.advance(60)
    await keeper.take([pending(0)])
    await rig.passes(600, keeper, step_s=150)
    assert "Closed, warning" in text(rig.heads()[0])
    await keeper.take([pending(0), pending(3)])
    await rig.passes(100, keeper, step_s=50)
    [head] = rig.heads()
    assert "Open, warning" in text(head)
    assert [
        reply
        for reply in rig.replies(head)
        if "Reopened: a new alert of this cause: GPUPodPending ml/trainer-3" in reply
    ]
    assert "renewed" in [event.news.turn for event in await rig.store.timeline.of(row.id)]


@on_rig(6)
async def test_after_the_hour_it_is_a_new_thread(rig: Rig, keeper: Keeper) -> None:
    await come_and_gone(rig, keeper)
    await rig.passes(5000, keeper, step_s=300)
    await keeper.take([pending(3)])
    await rig.passes(10, keeper)
    assert len(rig.heads()) == 2


@on_rig(6)
async def test_a_replay_of_what_was_resolved_fires_nothing(rig: Rig, keeper: Keeper) -> None:
    assert await rig.store.alerts.take([pending(0), pending(0)]) == 1
    assert await rig.store.alerts.take([pending(0, status="resolved")]) == 1
    assert await rig.store.alerts.take([pending(0), pending(0, status="resolved")]) == 0
    assert await rig.store.alerts.take([pending(3, status="resolved")]) == 1
    await rig.passes(10, keeper)
    [head] = rig.heads()
    assert "none of 1 pod affected any more, 1 alert" in text(head)


@on_rig(3)
async def test_the_rota_is_called_in_the_thread_when_nobody_acknowledges(rig: Rig, keeper: Keeper) -> None:
    await keeper.take([pending(0)])
    await rig.passes(1000, keeper, step_s=100)
    [head] = rig.heads()
    assert [reply for reply in rig.replies(head) if "is called" in reply]
    called = [message for message in rig._said() if "is called: nobody" in text(message)]
    assert ["U0ADA00001" in str(message["blocks"]) for message in called] == [True]
    assert [message.get("subtype") for message in called] == ["thread_broadcast"]
    assert len([message for message in rig._said() if message.get("subtype") == "thread_broadcast"]) == 1
    await rig.passes(3000, keeper, step_s=500)
    assert len([reply for reply in rig.replies(head) if "is called" in reply]) == 2


@on_rig(3)
async def test_while_the_cluster_cannot_be_read_alerts_wait_and_then_stand_for_themselves(
    rig: Rig, keeper: Keeper
) -> None:
    rig.down = SourceError("GET /api/v1/pods: HTTP 503")
    await keeper.take([pending(0), pending(1), pending(2, name="Other")])
    await rig.passes(50, keeper, step_s=25)
    assert rig.heads() == []
    await rig.passes(20, keeper)
    heads = sorted(text(head) for head in rig.heads())
    assert len(heads) == 2
    assert all("The bot did not look for the cause: GET /api/v1/pods: HTTP 503" in head for head in heads)


@on_rig(3)
async def test_a_cluster_that_can_be_read_again_in_time_gives_the_causes(rig: Rig, keeper: Keeper) -> None:
    rig.down = SourceError("GET /api/v1/pods: HTTP 503")
    await keeper.take([pending(0)])
    await rig.passes(30, keeper)
    rig.down = None
    await rig.passes(10, keeper)
    assert CAUSES[0] in text(rig.heads()[0])


@on_rig(3)
async def test_an_alert_of_no_known_cause_says_what_it_is_labelled_with(rig: Rig, keeper: Keeper) -> None:
    labels = {"alertname": "DiskFull", "severity": "critical", "instance": "db-1", "device": "/dev/<!here>"}
    bare = pending(0, name="DiskFull", pod="x", severity="critical", level="critical", labels=labels)
    await keeper.take([msgspec.structs.replace(bare, namespace="", pod="", annotations={})])
    await rig.passes(10, keeper)
    [head] = rig.heads()
    assert "Open, critical: DiskFull" in text(head)
    [details] = rig.replies(head)
    assert "Labels \ntext\ndevice=/dev/<!here>, instance=db-1\n" in details


@on_rig(3)
async def test_an_alert_that_comes_again_with_nothing_but_a_higher_severity_opens_what_was_closed(
    rig: Rig, keeper: Keeper
) -> None:
    """To Alertmanager it is another alert: the severity is one of its labels."""
    low = pending(0, severity="warning")
    high = pending(0, severity="page", level="critical", fingerprint="0p")
    row = await rig.opens(keeper, low, seconds=60)
    service = TriageService(rig.deps(), keeper, ())
    await service.act(Person("U0ADA00001", ONCALL), row, IncidentDeed("close"))
    await rig.passes(60, keeper)
    await keeper.take([low, msgspec.structs.replace(low, status="resolved"), high])
    await rig.passes(60, keeper)
    [head] = rig.heads()
    assert "Open, critical: " in text(head)
    assert "1 of 1 pod still affected" in text(head)
    assert any("a new alert of this cause: GPUPodPending ml/trainer-0" in reply for reply in rig.replies(head))


@on_rig(3)
async def test_who_closes_what_still_fires_is_told_so_also_in_words_where_nothing_asks_before(
    rig: Rig, keeper: Keeper
) -> None:
    service, ada = TriageService(rig.deps(), keeper, ()), Person("U0ADA00001", ONCALL)
    for status, told in (("firing", "its cause is still there"), ("resolved", "Done")):
        await keeper.take([pending(0)])
        await rig.passes(5, keeper)
        [row] = [row for row in await rig.store.incidents.opened() if row.incident.is_open]
        await keeper.take([pending(0, status=status)])
        await rig.passes(5, keeper)
        assert told in await service.act(ada, row, IncidentDeed("close"))
        await keeper.take([pending(0, status="resolved")])
        await rig.passes(2 * 3600, keeper, step_s=600)


@pytest.mark.each_way
@on_rig(12, new=True)
async def test_two_replicas_open_one_thread(rig: Rig) -> None:
    one, two = rig.keeper("one"), rig.keeper("two")
    await one.take([pending(number) for number in range(9)])
    await two.take([pending(number) for number in range(9, 12)])
    await rig.passes(100, one, two, step_s=50)
    heads = rig.heads()
    assert len(heads) == 3
    assert all("4 of 4 pods" in text(head) and len(rig.replies(head)) == 1 for head in heads)


@on_rig(6)
async def test_the_thread_is_known_though_the_outbox_forgot_its_head(rig: Rig, keeper: Keeper) -> None:
    await keeper.take([pending(0)])
    await rig.passes(60, keeper, step_s=60)
    await rig.bot.clock.advance(8 * 86400)
    await rig.store.outbox.sweep(rig.now)
    await keeper.take([pending(0), pending(3)])
    await rig.passes(60, keeper, step_s=60)
    [head] = rig.heads()
    assert "2 of 2 pods" in text(head)


@on_rig(3)
async def test_an_alert_about_a_pod_that_runs_is_no_thread_about_pods_that_run(rig: Rig, keeper: Keeper) -> None:
    memory = msgspec.structs.replace(pending(pod="holder", name="HAMiGPUMemoryHigh"), namespace="other")
    await keeper.take([memory, pending(pod="gone", name="HAMiGPUMemoryHigh"), pending(pod="gone", name="Other")])
    await rig.passes(10, keeper)
    assert len(rig.heads()) == 3
    assert all("running" not in text(head) and "not-found" not in text(head) for head in rig.heads())


@on_rig(3)
async def test_a_head_that_slack_refused_is_posted_once_the_bot_is_a_member(rig: Rig, keeper: Keeper) -> None:
    room = rig.bot.slack.workspace.channels[ONCALL]
    bot = rig.bot.slack.workspace.app.bot_user_id
    room.members.remove(bot)
    await keeper.take([pending(0)])
    await rig.passes(60, keeper, step_s=30)
    assert rig.heads() == []
    room.members.append(bot)
    await rig.passes(130, keeper, step_s=65)
    [head] = rig.heads()
    assert len(rig.replies(head)) == 1


@on_rig(3)
async def test_a_crowd_of_alerts_about_running_pods_keeps_no_other_waiting(rig: Rig, keeper: Keeper) -> None:
    crowd = [pending(pod=f"gone-{number}", name="HAMiGPUMemoryHigh") for number in range(60)]
    await keeper.take([*crowd, pending(0)])
    await keeper.look()
    assert await rig.store.alerts.unsorted(1) == []
    await rig.send()
    assert sorted("60 pods" in text(head) for head in rig.heads()) == [False, True]


@pytest.mark.each_way
@on_rig(6, new=True)
async def test_a_replica_that_was_held_up_opens_no_thread_for_alerts_that_another_sorted(rig: Rig) -> None:
    slow, quick = rig.keeper("slow"), rig.keeper("quick")
    await slow.take([pending(0), pending(3)])
    held = await rig.store.alerts.unsorted(10)  # read by the slow one, before it waits for the cluster
    await quick.look()
    alone = cause_alone(held[0], "no answer within 60 s")
    assert await rig.store.incidents.sort("", alone, held, ONCALL) == ""
    await rig.passes(10, slow, quick)
    [head] = rig.heads()
    assert "2 of 2 pods still affected, 2 alerts" in text(head)


@on_rig(6)
async def test_alerts_that_are_not_repeated_count_as_over_and_the_thread_says_so(rig: Rig, keeper: Keeper) -> None:
    await keeper.take([pending(0), pending(3)])
    await rig.passes(3600, keeper, step_s=900)
    await keeper.take([pending(0)])
    await rig.passes(TERMS.silent_s - 1800, keeper, step_s=TERMS.silent_s / 8)
    assert "1 of 2 pods still affected" in text(rig.heads()[0])
    await rig.passes(7200, keeper, step_s=900)
    [head] = rig.heads()
    assert "Resolved" in text(head)
    assert [reply for reply in rig.replies(head) if "Alertmanager stopped repeating them" in reply]
    await keeper.take([pending(0)])
    await rig.passes(10, keeper)
    assert "Open, warning" in text(rig.heads()[-1])


@on_rig(3)
async def test_a_bot_that_was_not_there_to_hear_alerts_forgets_none(rig: Rig) -> None:
    await rig.keeper().take([pending(0)])
    await rig.bot.clock.advance(TERMS.silent_s * 2)
    await rig.passes(300, rig.keeper("after"), step_s=100)
    assert "1 of 1 pod still affected" in text(rig.heads()[0])
