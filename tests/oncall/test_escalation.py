"""Who is called when: by severity and hours, in rounds, after an acknowledgement lapsed or a cause became worse."""

from datetime import UTC, datetime
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr, ValidationError

from bot.report import SEVERITIES
from bot.settings.oncall import OncallSettings
from bot.triage.hours import read_hours, within
from bot.triage.state import (
    CALLS,
    Act,
    Deed,
    Extent,
    Incident,
    IncidentTimes,
    MuteUntil,
    News,
    Step,
    act,
    new_incident,
    next_call,
    pass_time,
)

TERMS = IncidentTimes(rota=("U1", "U2"), call_s=900, last_resort="S9", repeat_s=3600, lapse_s=7200)
CRITICAL, INFO = Extent("critical", 3), Extent("info", 3)
WARNING = Extent("warning", 3)


def after(
    incident: Incident, at: float, terms: IncidentTimes = TERMS, extent: Extent = WARNING
) -> tuple[Incident, list[News]]:
    step = pass_time(incident, at, terms, firing=True, extent=extent)
    return step.incident, list(step.news)


def done(incident: Incident, deed: Deed, at: float, **more) -> Incident:
    step = act(incident, Act(deed, "ada", at, **more))
    assert isinstance(step, Step), step
    return step.incident


def acknowledged(extent: Extent = WARNING) -> Incident:
    """At 1000, and looked at once since."""
    return after(done(after(new_incident(0), 900)[0], "ack", 1000), 1001, extent=extent)[0]


def moment(text: str) -> float:
    return datetime.fromisoformat(text).astimezone(UTC).timestamp()


def test_after_the_rota_the_last_resort_is_called_and_then_the_rota_again_until_somebody_acknowledges() -> None:
    waiting, called = new_incident(0), []
    for minute in range(0, 241, 5):
        waiting, news = after(waiting, minute * 60)
        called += [(minute, new.turn, new.detail) for new in news]
    first = [(15, "called", "U1"), (30, "called", "U2"), (45, "last-resort", "S9")]
    again = [(105, "called", "U1"), (120, "called", "U2"), (135, "last-resort", "S9")]
    assert called == [*first, *again, (195, "called", "U1"), (210, "called", "U2"), (225, "last-resort", "S9")]
    assert next_call(done(waiting, "ack", 14400), msgspec.structs.replace(TERMS, lapse_s=0), firing=True) is None


def test_a_last_resort_alone_is_called_where_there_is_no_rota() -> None:
    assert after(new_incident(0), 900, msgspec.structs.replace(TERMS, rota=()))[1] == [News("last-resort", detail="S9")]


def test_what_is_info_calls_nobody() -> None:
    waiting = new_incident(0)
    for hour in range(100):
        waiting, news = after(waiting, hour * 3600, msgspec.structs.replace(TERMS, critical_at_once=True), INFO)
        assert news == []
    assert next_call(waiting, TERMS, firing=True, extent=INFO) is None


def test_what_is_critical_calls_at_once_if_so_set() -> None:
    at_once = msgspec.structs.replace(TERMS, critical_at_once=True)
    assert after(new_incident(0), 0, at_once, CRITICAL)[1] == [News("called", detail="U1")]
    assert after(new_incident(0), 0, TERMS, CRITICAL)[1] == []
    assert after(new_incident(0), 899, at_once, WARNING)[1] == []
    waiting, _ = after(new_incident(0), 0, at_once, WARNING)
    assert after(waiting, 60, at_once, CRITICAL)[1] == [News("called", detail="U1")]


def test_a_warning_calls_within_office_hours_and_what_is_critical_at_any_time() -> None:
    in_office = msgspec.structs.replace(TERMS, hours=read_hours("mon-fri 09:00-18:00 Europe/Berlin"))
    saturday, monday = moment("2026-11-21T12:00:00+01:00"), moment("2026-11-23T09:00:00+01:00")
    waiting = new_incident(saturday)
    assert next_call(waiting, in_office, firing=True, extent=WARNING) == ("U1", monday)
    assert after(waiting, monday - 1, in_office)[1] == []
    assert after(waiting, monday, in_office)[1] == [News("called", detail="U1")]
    assert after(waiting, saturday + 900, in_office, CRITICAL)[1] == [News("called", detail="U1")]


@pytest.mark.parametrize(
    ("hours", "at", "begins"),
    [
        ("mon-fri 09:00-18:00 Europe/Berlin", "2026-11-20T17:59:59+01:00", "2026-11-20T17:59:59+01:00"),
        ("mon-fri 09:00-18:00 Europe/Berlin", "2026-11-20T18:00:00+01:00", "2026-11-23T09:00:00+01:00"),
        ("mon-fri 09:00-18:00 Europe/Berlin", "2026-11-23T08:59:00+01:00", "2026-11-23T09:00:00+01:00"),
        ("mon,thu 00:00-24:00 Asia/Shanghai", "2026-11-23T23:59:59+08:00", "2026-11-23T23:59:59+08:00"),
        ("mon,thu 00:00-24:00 Asia/Shanghai", "2026-11-24T00:00:00+08:00", "2026-11-26T00:00:00+08:00"),
        ("sat-mon 10:00-12:00 UTC", "2026-11-24T10:00:00+00:00", "2026-11-28T10:00:00+00:00"),
        ("sun 09:00-17:00 Europe/Berlin", "2027-03-27T12:00:00+01:00", "2027-03-28T09:00:00+02:00"),
    ],
)
def test_hours_begin_when_the_clock_of_their_zone_says_so(hours: str, at: str, begins: str) -> None:
    assert within(read_hours(hours), moment(at)) == moment(begins)


@pytest.mark.parametrize(
    ("hours", "told"),
    [
        ("9 to 5", "are no hours"),
        ("mon-fri 09:00-18:00", "are no hours"),
        ("mon-foo 09:00-18:00 UTC", "is no days"),
        ("mon-fri 18:00-09:00 UTC", "the end is not after the start"),
        ("mon-fri 09:00-25:00 UTC", "not a time of day"),
        ("mon-fri 09:00-18:00 Europe/Nowhere", "not a time zone"),
        ("mon-fri 09:00-18:00 ../../etc/passwd", "not a time zone"),
    ],
)
def test_hours_that_make_no_sense_are_refused(hours: str, told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        OncallSettings(channel="C0123ABCD", token=SecretStr("x"), hours=hours)


def test_a_last_resort_is_named_by_its_id() -> None:
    for last in ("S0123ABCD", "C0123ABCD", "U0123ABCD", ""):
        assert OncallSettings(channel="C0123ABCD", token=SecretStr("x"), last_resort=last).last_resort == last
    with pytest.raises(ValidationError, match="the id of a user group"):
        OncallSettings(channel="C0123ABCD", token=SecretStr("x"), last_resort="#gpu-oncall")


def test_an_acknowledgement_lapses_and_the_rota_is_called_from_its_beginning_at_once() -> None:
    acked = acknowledged()
    assert next_call(acked, TERMS, firing=True) == ("U1", 8200)
    assert after(acked, 8199)[1] == []
    again, news = after(acked, 8200)
    assert news == [News("lapsed"), News("called", detail="U1")]
    assert (again.state, again.called, again.owner) == ("open", ("U1",), "ada")
    assert after(acked, 1e6, msgspec.structs.replace(TERMS, lapse_s=0))[1] == []


@pytest.mark.parametrize(
    ("now", "detail"), [(CRITICAL, "critical"), (Extent("warning", 30), "30"), (Extent("critical", 30), "critical")]
)
@pytest.mark.parametrize("deed", ["ack", "mute", ""])
def test_what_becomes_worse_calls_even_if_it_was_acknowledged(now: Extent, detail: str, deed: Deed | str) -> None:
    incident, _ = after(new_incident(0), 900)
    if deed in {"ack", "mute"}:
        incident = done(incident, deed, 1000, until=MuteUntil(1e9))
    incident, _ = after(incident, 1001)
    step = after(incident, 1010, extent=now)
    assert step[1] == [News("worse", detail=detail), News("called", detail="U1")]
    assert after(step[0], 1011, extent=now)[1] == []


@pytest.mark.parametrize("now", [Extent("warning", 29), Extent("info", 300), Extent("info", 3)])
def test_what_is_little_more_calls_nobody_again(now: Extent) -> None:
    assert after(acknowledged(), 1010, extent=now)[1] == []


def test_who_acknowledges_what_became_worse_has_seen_that() -> None:
    worse, _ = after(acknowledged(), 1010, extent=CRITICAL)
    acked, _ = after(done(worse, "ack", 1020), 1021, extent=CRITICAL)
    assert after(acked, 1030, extent=CRITICAL)[1] == []


def test_what_grows_before_anybody_was_called_waits_as_before() -> None:
    waiting, _ = after(new_incident(0), 1, extent=Extent("warning", 1))
    assert after(waiting, 10, extent=Extent("warning", 500))[1] == []


def test_while_it_is_not_known_who_is_on_call_nothing_is_said_to_be_worse() -> None:
    acked = acknowledged()
    assert after(acked, 1010, msgspec.structs.replace(TERMS, rota=(), last_resort=""), CRITICAL) == (acked, [])


_EVENTS = st.lists(
    st.tuples(
        st.integers(1, 8000),
        st.sampled_from([True, True, True, False]),
        st.sampled_from(SEVERITIES),
        st.integers(0, 200),
        st.none() | st.none() | st.sampled_from(get_args(Deed)),
    ),
    max_size=30,
)


@given(_EVENTS, st.booleans(), st.sampled_from([0.0, 3600.0]), st.sampled_from([0.0, 7200.0]))
def test_in_any_order_of_events_only_those_are_called_who_have_to_be(
    events: list[tuple[int, bool, str, int, Deed | None]], at_once: bool, repeat_s: float, lapse_s: float
) -> None:
    terms = msgspec.structs.replace(TERMS, critical_at_once=at_once, repeat_s=repeat_s, lapse_s=lapse_s)
    incident, at = new_incident(0), 0.0
    for wait, firing, severity, pods, deed in events:
        at += wait
        extent = Extent(severity, pods)  # type: ignore[arg-type]
        due = next_call(incident, terms, firing=firing, extent=extent)
        step = pass_time(incident, at, terms, firing=firing, extent=extent)
        turns = [new.turn for new in step.news]
        calls = [turn for turn in turns if turn in CALLS]
        assert len(calls) <= 1
        again = pass_time(step.incident, at, terms, firing=firing, extent=extent)
        assert (again.incident, again.news) == (step.incident, ())  # each call once, also for another replica
        if calls:
            assert firing
            assert severity != "info"
            assert step.incident.state == "open"
            opens = {"worse", "lapsed", "reopened", "unmuted", "node-gone"} & set(turns)
            assert incident.state == "open" or opens
            if not opens:
                assert due == (step.news[-1].detail, due.at if due else 0)
                assert due.at <= at
        if incident.state in ("acknowledged", "muted") and step.incident.state == "open":
            assert {"worse", "lapsed", "unmuted", "node-gone"} & set(turns)
        incident = step.incident
        if deed and isinstance(step := act(incident, Act(deed, "ada", at, to="bob", until=MuteUntil(at + 5000))), Step):
            incident = step.incident


@given(_EVENTS, st.sampled_from(["warning", "critical"]))
def test_whatever_happened_before_the_last_resort_is_reached_if_nobody_acknowledges(
    events: list[tuple[int, bool, str, int, Deed | None]], severity: str
) -> None:
    terms = msgspec.structs.replace(TERMS, hours=read_hours("mon-fri 09:00-18:00 Europe/Berlin"))
    incident, at = new_incident(0), 0.0
    for wait, firing, before, pods, deed in events:
        at += wait
        incident = pass_time(incident, at, terms, firing=firing, extent=Extent(before, pods)).incident  # type: ignore[arg-type]
        if (
            deed
            and deed != "close"
            and isinstance(step := act(incident, Act(deed, "ada", at, to="bob", until=MuteUntil(at + 5000))), Step)
        ):
            incident = step.incident
    if incident.ended:
        return
    reached = False
    for _ in range(4 * 24 * 10):  # ten days, for a weekend is in between
        at += 900
        step = pass_time(incident, at, terms, firing=True, extent=Extent(severity, 5))  # type: ignore[arg-type]
        incident = step.incident
        reached = reached or "last-resort" in [new.turn for new in step.news]
    assert reached
