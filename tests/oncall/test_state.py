"""What becomes of an incident, in any order of events."""

from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.triage.state import (
    WHILE_IT_LASTS,
    Act,
    Deed,
    Incident,
    IncidentTimes,
    MuteUntil,
    News,
    Nodes,
    Step,
    act,
    join_alert,
    new_incident,
    next_call,
    pass_time,
    read_until,
    write_until,
)

ROTA = ("U1", "U2")
TERMS = IncidentTimes(settled_s=300, reopen_s=3600, call_s=900, rota=ROTA)


def done(incident: Incident, deed: Deed, by: str = "ada", at: float = 10.0, **more) -> Incident:
    step = act(incident, Act(deed, by, at, **more))
    assert isinstance(step, Step), step
    return step.incident


def after(incident: Incident, at: float, *, firing: bool, terms: IncidentTimes = TERMS) -> tuple[Incident, list[str]]:
    step = pass_time(incident, at, terms, firing=firing)
    return step.incident, [new.turn for new in step.news]


def test_who_acknowledges_an_incident_that_nobody_owns_owns_it() -> None:
    acked = done(new_incident(0), "ack")
    assert (acked.state, acked.owner) == ("acknowledged", "ada")
    assert done(acked, "take", by="grace").owner == "grace"
    assert done(acked, "handover", to="linus").owner == "linus"


def test_doing_it_again_is_nothing() -> None:
    acked = done(new_incident(0), "ack")
    assert act(acked, Act("ack", "grace", 20)) == "same"
    assert act(acked, Act("take", "ada", 20)) == "same"


def test_a_cause_that_is_gone_and_stays_gone_is_resolved() -> None:
    gone, news = after(new_incident(0), 100, firing=False)
    assert (gone.state, news) == ("open", [])
    gone, news = after(gone, 399, firing=False)
    assert news == []
    gone, news = after(gone, 400, firing=False)
    assert (gone.state, news) == ("resolved", ["resolved"])


def test_a_cause_that_comes_back_before_it_is_settled_was_never_gone() -> None:
    gone, _ = after(new_incident(0), 100, firing=False)
    back, news = after(gone, 200, firing=True)
    assert (back.quiet_since, news) == (0, [])
    assert after(back, 450, firing=False)[1] == []


def test_a_cause_that_comes_back_in_time_reopens_the_incident_of_the_same_owner() -> None:
    gone, _ = after(done(new_incident(0), "ack"), 100, firing=False)
    gone, _ = after(gone, 400, firing=False)
    back, news = after(gone, 3999, firing=True)
    assert (back.state, back.owner, news) == ("open", "ada", ["reopened"])


def test_an_incident_that_stays_resolved_ends() -> None:
    gone, _ = after(new_incident(0), 100, firing=False)
    gone, _ = after(gone, 400, firing=False)
    assert not after(gone, 3999, firing=False)[0].ended
    ended, news = after(gone, 4000, firing=False)
    assert ended.ended
    assert news == []
    assert act(ended, Act("ack", "ada", 4001)) == "ended"


def test_what_fires_on_after_somebody_closed_it_stays_closed() -> None:
    closed = done(new_incident(0), "close")
    assert after(closed, 9999, firing=True) == (closed, [])
    gone, _ = after(closed, 10_000, firing=False)
    assert after(gone, 10_010, firing=True)[1] == ["reopened"]
    assert after(gone, 13_600, firing=False)[0].ended


def test_an_alert_that_comes_after_it_was_closed_opens_it_again_and_one_from_before_does_not() -> None:
    closed = done(done(new_incident(0), "take"), "close", at=10)
    assert join_alert(closed, 10, "DiskFull") == Step(closed)
    step = join_alert(closed, 11, "DiskFull")
    assert (step.incident.state, step.incident.owner) == ("open", "ada")
    assert step.news == (News("renewed", detail="DiskFull"),)
    acked = done(new_incident(0), "ack")
    assert join_alert(acked, 1e9, "DiskFull") == Step(acked)


def test_who_lifts_a_mute_looks_after_it() -> None:
    lifted = act(done(new_incident(0), "mute"), Act("unmute", "grace", 20))
    assert isinstance(lifted, Step)
    assert (lifted.incident.state, lifted.incident.owner) == ("acknowledged", "ada")
    assert lifted.news == (News("unmuted", "grace"),)
    assert act(new_incident(0), Act("unmute", "ada", 20)) == "unmuted"


def test_a_mute_ends_at_its_time_or_with_its_cause() -> None:
    for_an_hour = done(new_incident(0), "mute", until=MuteUntil(3610.0))
    assert after(for_an_hour, 3609, firing=True)[1] == []
    assert after(for_an_hour, 3610, firing=True)[1] == ["unmuted"]
    while_it_lasts = done(new_incident(0), "mute", until=WHILE_IT_LASTS)
    assert after(while_it_lasts, 1e9, firing=True)[1] == []
    gone, _ = after(while_it_lasts, 100, firing=False)
    assert after(gone, 400, firing=False)[1] == ["resolved"]


def test_a_mute_until_a_node_registers_ends_with_that_and_says_so() -> None:
    waiting = done(new_incident(0), "mute", until=MuteUntil(node="gpu-7"))
    assert after(waiting, 1e9, firing=True)[1] == []
    others = Nodes(frozenset({"gpu-8"}), frozenset({"gpu-9"}))
    assert pass_time(waiting, 20.0, TERMS, firing=True, nodes=others).news == ()
    step = pass_time(waiting, 20.0, TERMS, firing=True, nodes=Nodes(frozenset({"gpu-7", "gpu-8"})))
    assert (step.incident.state, step.news) == ("open", (News("unmuted", detail="gpu-7"),))
    gone, _ = after(waiting, 100, firing=False)
    assert after(gone, 400, firing=False)[1] == ["resolved"]


@pytest.mark.parametrize("until", [WHILE_IT_LASTS, MuteUntil(1_800_000_000.0), MuteUntil(node="1800000000")])
def test_until_when_is_the_same_after_it_was_written_down(until: MuteUntil) -> None:
    assert read_until(write_until(until)) == until


def test_who_is_on_call_by_now_is_called_if_they_were_not_before() -> None:
    waiting, _ = after(new_incident(0), 900, firing=True)
    waiting, news = after(waiting, 1800, firing=True, terms=msgspec.structs.replace(TERMS, rota=()))
    assert (waiting.called, news) == (("U1",), [])
    step = pass_time(waiting, 1801, msgspec.structs.replace(TERMS, rota=("U1", "U3", "U2")), firing=True)
    assert step.news == (News("called", detail="U3"),)


def test_nobody_is_to_be_called_for_what_is_gone_seen_or_called_for_by_nobody() -> None:
    assert next_call(new_incident(0), TERMS, firing=False) is None
    assert next_call(done(new_incident(0), "ack"), TERMS, firing=True) is None
    assert next_call(new_incident(0), msgspec.structs.replace(TERMS, rota=()), firing=True) is None
    assert next_call(new_incident(0), msgspec.structs.replace(TERMS, call_s=0), firing=True) is None


_DEEDS = st.sampled_from(get_args(Deed))
_EVENTS = st.lists(st.tuples(st.integers(1, 4000), st.booleans(), st.none() | _DEEDS), max_size=40)


@given(_EVENTS)
def test_in_any_order_of_events_what_must_hold_holds(events: list[tuple[int, bool, Deed | None]]) -> None:
    incident, at = new_incident(0), 0.0
    resolved = reopened = 0
    for wait, firing, deed in events:
        at += wait
        before = incident
        step = pass_time(incident, at, TERMS, firing=firing)
        again = pass_time(step.incident, at, TERMS, firing=firing)
        assert (again.incident, again.news) == (step.incident, ())
        incident = step.incident
        turns = [new.turn for new in step.news]
        resolved += turns.count("resolved")
        reopened += turns.count("reopened")
        assert len(turns) <= 1
        assert not (before.ended and step.incident != before)
        assert incident.ended or not (incident.state == "resolved" and firing)
        if incident.ended and not before.ended:
            assert not firing
            assert incident.state in ("resolved", "closed")
        assert len(incident.called) <= len(ROTA)
        if "called" in turns:
            assert (before.state, firing) == ("open", True)
        if deed is not None and isinstance(
            step := act(incident, Act(deed, "ada", at, to="bob", until=MuteUntil(at + 60))), Step
        ):
            assert not incident.ended or deed == "note"
            incident = step.incident
            assert deed != "mute" or (incident.state, incident.muted_until) == ("muted", MuteUntil(at + 60))
    assert reopened <= resolved + sum(deed == "close" for *_, deed in events)
