"""Alerts go to the channels that the routes name, by matchers that are Alertmanager's; their threads stay there."""

import contextlib
import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from bot.errors import UsageError
from bot.settings import load_settings
from bot.settings.oncall import OncallSettings, RouteSettings
from bot.settings.schema import Settings
from bot.slack.render.triage_head import digest_of
from bot.triage.cause import Cause
from bot.triage.routes import Ignored, Route, read_matcher, read_route, route_of, threaded
from bot.triage.webhook import Alert
from handlers.changes.draft import AccessDenied, Person
from handlers.health_monitor import watched
from handlers.oncall.alert_sorter import by_channel
from handlers.oncall.service import IncidentDeed, TriageService
from handlers.oncall.watcher import Patience, Watcher
from tests.oncall.bot import CHANNEL, TOKEN, World, played, webhook
from tests.oncall.rig import Rig, on_rig, pending, text
from tests.oncall.scenes import busy_cluster
from tests.oncall.watching import seen, waiting
from tests.slack.outbox_support import ONCALL

pytestmark = pytest.mark.few(4)

OTHER, OTHER_ROOM = "C0MLTRAIN1", "ml-training"
ML = read_route(['team="ml"'], OTHER)
NOISE = read_route(['alertname="Noise"'], "")


def of_team(number: int, team: str, **over: str) -> Alert:
    one = pending(number, fingerprint=f"{team}{number}", **over)
    return msgspec.structs.replace(one, labels={**one.labels, "team": team})


def bare(number: int, **over: str) -> Alert:
    """One that no cluster explains: a cause of its own."""
    one = of_team(number, **{"team": "", "name": f"Disk{number:04}", **over})
    return msgspec.structs.replace(one, namespace="", pod="")


@on_rig(9)
async def test_one_cause_is_a_thread_in_each_channel_with_the_alerts_that_are_routed_there(rig: Rig) -> None:
    keeper = rig.keeper(routes=(ML,))
    await keeper.take([of_team(0, "ml"), of_team(3, "ops"), of_team(6, "ml")])
    await rig.passes(10, keeper)
    [here], [there] = rig.heads(), rig.heads(OTHER)
    assert "1 pod" in text(here)
    assert "2 pods" in text(there)
    assert "trainer-3" not in "\n".join(rig.replies(there, OTHER))
    assert rig.replies(here)
    assert rig.replies(there, OTHER)


@on_rig(3)
async def test_a_thread_is_called_and_acted_on_and_resolves_in_its_own_channel(rig: Rig) -> None:
    keeper = rig.keeper(routes=(ML,))
    service = TriageService(rig.deps(), keeper, ())
    await keeper.take([of_team(0, "ml")])
    await rig.passes(1000, keeper, step_s=100)
    [head] = rig.heads(OTHER)
    assert any("U0ADA00001" in reply for reply in rig.replies(head, OTHER))
    [row] = await rig.store.incidents.opened()
    with pytest.raises(AccessDenied):
        await service.act(Person("U0ADA00001", ONCALL), row, IncidentDeed("ack"))
    await service.act(Person("U0ADA00001", OTHER), row, IncidentDeed("ack"))
    assert (await service.export(Person("U0ADA00001", OTHER), row)).files
    await keeper.take([of_team(0, "ml", status="resolved")])
    await rig.passes(600, keeper, step_s=100)
    [head] = rig.heads(OTHER)
    assert head["text"].startswith("✅ Resolved")
    assert rig.heads() == []


@on_rig(6)
async def test_a_thread_stays_where_it_is_when_the_routes_change_over_a_restart(rig: Rig) -> None:
    keeper = rig.keeper(routes=(ML,))
    await keeper.take([of_team(0, "ml")])
    await rig.passes(10, keeper)
    later = rig.keeper("two")
    await later.take([of_team(0, "ml", status="resolved")])
    await rig.passes(600, later, step_s=100)
    [head] = rig.heads(OTHER)
    assert head["text"].startswith("✅ Resolved")
    await later.take([of_team(3, "ml")])
    await rig.passes(10, later)
    assert len(rig.heads()) == 1
    assert len(rig.heads(OTHER)) == 1


@on_rig(1)
async def test_what_a_route_ignores_opens_no_thread_and_is_counted_in_the_list(rig: Rig) -> None:
    keeper = rig.keeper(routes=(NOISE,))
    service = TriageService(rig.deps(), keeper, ())
    await keeper.take([bare(number, name="Noise") for number in range(3)])
    await rig.passes(10, keeper)
    assert rig.heads() == []
    assert rig.read == 0
    told = text({"blocks": list((await service.listed()).blocks)})
    assert "oncall.routes ignores 3 alerts; 3 still firing: Noise" in told
    await keeper.take([bare(0, name="Noise", status="resolved", ends_at="2027-01-15T09:00:00Z")])
    again = {"starts_at": "2027-01-15T09:30:00Z"}
    await keeper.take([bare(0, name="Noise", **again)])
    await rig.passes(10, keeper)
    await keeper.take([bare(0, name="Noise", status="resolved", ends_at="2027-01-15T10:00:00Z", **again)])
    await rig.passes(10, keeper)
    assert await rig.store.alerts.ignored() == Ignored(2, 3, ("Noise",))
    assert rig.heads() == []
    assert await rig.store.incidents.opened() == []


@on_rig(1)
async def test_what_was_ignored_and_fires_is_told_after_a_start_without_that_route(rig: Rig) -> None:
    keeper = rig.keeper(routes=(NOISE,))
    over = bare(1, name="Noise", status="resolved", ends_at="2027-01-15T09:00:00Z")
    await keeper.take([bare(0, name="Noise"), bare(1, name="Noise")])
    await rig.passes(10, keeper)
    await keeper.take([over])
    await rig.passes(10, rig.keeper("two"))
    [head] = rig.heads()
    assert "Noise" in text(head)
    assert await rig.store.alerts.ignored() == Ignored(0, 1, ())


@on_rig(6)
async def test_with_group_by_alerts_of_different_causes_are_one_thread_over_a_restart(rig: Rig) -> None:
    routes = (read_route(['alertname=~"GPU.*"'], OTHER, ["team"]),)
    keeper = rig.keeper(routes=routes)
    await keeper.take([of_team(0, "ml"), of_team(1, "ml"), of_team(2, "ops")])
    await rig.passes(10, keeper)
    assert len(rig.heads(OTHER)) == 2
    later = rig.keeper("two", routes=routes)
    await later.take([of_team(5, "ml"), of_team(4, "ops")])
    await rig.passes(60, later, step_s=30)
    assert sorted("3 pods" in text(head) for head in rig.heads(OTHER)) == [False, True]
    assert len(rig.heads(OTHER)) == 2
    assert rig.heads() == []


@on_rig(1)
async def test_a_storm_in_one_channel_gathers_none_of_another(rig: Rig) -> None:
    keeper = rig.keeper(threads_per_minute=3, routes=(ML,))
    await keeper.take([*(bare(number, team="ml") for number in range(10)), bare(50), bare(51)])
    await rig.passes(10, keeper)
    assert len(rig.heads(OTHER)) == 4
    assert len(rig.heads()) == 2
    assert not any("gathers the rest" in text(head) for head in rig.heads())


@on_rig(1)
async def test_a_name_that_is_opened_out_of_a_storm_has_its_thread_in_that_channel(rig: Rig) -> None:
    keeper = rig.keeper(threads_per_minute=1, routes=(ML,))
    await keeper.take([bare(number, team="ml") for number in range(3)])
    await rig.passes(10, keeper)
    [row] = [row for row in await rig.store.incidents.opened() if "gathers" in row.cause.claim]
    later = rig.keeper("two", threads_per_minute=1)
    service = TriageService(rig.deps(), later, ())
    await service.open_cause(Person("U0ADA00001", OTHER), row, digest_of("Disk0002"))
    await rig.passes(10, later)
    assert len(rig.heads(OTHER)) == 3
    assert rig.heads() == []


@on_rig(lambda folder: seen(folder / "c", waiting("old", 11)), new=True)
async def test_the_bots_own_findings_are_routed_by_the_labels_that_they_have(rig: Rig) -> None:
    route = read_route(['alertname="HAMiPodWaiting"', 'namespace="ml"'], OTHER)
    keeper = rig.keeper(routes=(route,))
    await Watcher(rig.deps(), keeper, ("",), Patience(), "one").look()
    await rig.passes(10, keeper)
    assert rig.heads(OTHER)
    assert rig.heads() == []


def test_a_thread_tells_the_worst_of_the_causes_that_it_opens_with() -> None:
    mild = Cause("1" * 16, "a", "mild", "warning"), [of_team(0, "ml")]
    bad = Cause("2" * 16, "b", "bad", "critical"), [of_team(1, "ml")]
    route = Route("x", (), OTHER, ("team",))
    [(cause, members)] = by_channel([mild, bad], (route,), ONCALL)[OTHER]
    assert (cause.claim, len(members)) == ("bad", 2)


def test_membership_of_the_routes_channels_is_watched_too() -> None:
    routes = (RouteSettings(match=("a=b",), channel=OTHER), RouteSettings(match=("a=c",), ignore=True))
    oncall = OncallSettings(channel=CHANNEL, token=SecretStr(TOKEN), routes=routes)
    assert watched(Settings(oncall=oncall)).channels == (CHANNEL, OTHER)


def test_the_running_bot_sends_alerts_where_its_settings_say(tmp_path: Path) -> None:
    routes = (
        RouteSettings(match=('team="noise"',), ignore=True),
        RouteSettings(match=('team="ml"',), channel=OTHER),
    )
    given = OncallSettings(channel=CHANNEL, token=SecretStr(TOKEN), routes=routes)

    async def scene(world: World) -> None:
        for pod, team in (("trainer-0", "noise"), ("trainer-1", "ml"), ("trainer-2", "ops")):
            assert await world.post(webhook(pod, team=team)) == (200, "ok\n")
        await world.slack.wait_for(channel=OTHER_ROOM, containing="trainer-1")
        head = await world.head("trainer-2")
        assert "trainer-0" not in text(head)
        await world.command("ada", "oncall", "oncall.routes ignores 1 alert; 1 still firing")

    played(tmp_path, busy_cluster(tmp_path / "cluster", 3), scene, given)


NAMES = st.sampled_from(["severity", "team", "alertname"])
VALUES = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
LABELS = st.dictionaries(NAMES, VALUES)
CAUSE = Cause("0123456789abcdef", "quota-exceeded", "the quota is full", "warning")


def quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


@given(NAMES, VALUES, LABELS)
def test_a_label_equals_a_value_or_does_not_and_is_empty_where_it_is_missing(
    name: str, value: str, labels: dict[str, str]
) -> None:
    found = labels.get(name, "")
    assert read_matcher(f"{name}={quoted(value)}").holds(found) is (found == value)
    assert read_matcher(f" {name} != {quoted(value)} ").holds(found) is (found != value)


@given(NAMES, VALUES, VALUES)
def test_a_pattern_matches_the_whole_value(name: str, value: str, more: str) -> None:
    literal = quoted("".join(f"\\x{{{ord(item):x}}}" for item in value))
    assert read_matcher(f"{name}=~{literal}").holds(value)
    assert not read_matcher(f"{name}!~{literal}").holds(value)
    assert read_matcher(f"{name}=~{literal}").holds(value + more) is (not more)


@given(st.lists(LABELS, min_size=1, max_size=4), LABELS)
def test_the_first_route_of_which_all_matchers_hold_counts(
    wanted: list[dict[str, str]], labels: dict[str, str]
) -> None:
    routes = [
        read_route([f"{name}={quoted(value)}" for name, value in one.items()], f"C{number}00")
        for number, one in enumerate(wanted)
    ]
    fits = [all(labels.get(name, "") == value for name, value in want.items()) for want in wanted]
    assert route_of(labels, routes) is (routes[fits.index(True)] if any(fits) else None)


@given(st.text(max_size=40))
def test_whatever_stands_for_a_matcher_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert read_matcher(text).label in text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('alertname=~"GPU.*"', "GPULost"),
        ('alertname=~"GPU\\d+"', "GPU7"),
        ("severity=critical", "critical"),
        ('team!~"a|b"', "ab"),
        ('team=""', ""),
        ('team=~".*"', ""),
        ('note="two \\"words\\""', 'two "words"'),
    ],
)
def test_matchers_as_alertmanagers_documentation_has_them(text: str, value: str) -> None:
    assert read_matcher(text).holds(value)


def test_no_pattern_is_slow() -> None:
    assert not read_matcher('alertname=~"(a*)*b"').holds("a" * 255)


@given(LABELS, LABELS)
def test_threads_of_a_route_are_one_for_equal_values_of_its_labels(one: dict[str, str], two: dict[str, str]) -> None:
    route = read_route(['team!="x"'], "C0200", ["severity", "team"])
    other = Cause("fedcba9876543210", "card-lost", "the GPU is lost", "critical")
    same = [one.get(name, "") for name in route.group_by] == [two.get(name, "") for name in route.group_by]
    first, second = threaded(CAUSE, one, route, "C0100"), threaded(other, two, route, "C0100")
    assert (first.signature == second.signature) is same
    assert first.claim == CAUSE.claim


def test_a_cause_is_a_thread_in_each_channel_and_in_the_usual_one_the_same_as_without_routes() -> None:
    usual, other = Route("", (), "C0100"), Route("", (), "C0200")
    assert threaded(CAUSE, {}, usual, "C0100") == threaded(CAUSE, {}, None, "C0100") == CAUSE
    assert threaded(CAUSE, {}, other, "C0100").signature != CAUSE.signature


@pytest.mark.parametrize(
    ("route", "problem"),
    [
        ("{match: ['severity'], channel: C0200}", 'entry 1 of match is no matcher, such as severity="critical"'),
        ("{match: ['a=\"b'], channel: C0200}", "is no matcher, such as"),
        ("{match: ['a=~\"(\"'], channel: C0200}", "has a wrong regular expression, unlike"),
        ("{match: [], channel: C0200}", "name at least one matcher, such as"),
        ("{match: ['a=b']}", "either a channel, such as C0123ABCD, or ignore: true"),
        ("{match: ['a=b'], channel: C0200, ignore: true}", "either a channel, such as C0123ABCD, or ignore: true"),
        ("{match: ['a=b'], channel: gpu}", "named by its id, such as C0123ABCD"),
        ("{match: ['a=b'], channel: C0200, group_by: ['no label']}", "is not a name of a label, such as namespace"),
        ("{match: ['a=b'], ignore: true, group_by: [team]}", "group_by needs a channel"),
    ],
)
def test_a_wrong_route_is_told_at_start_with_its_place_and_an_example(tmp_path: Path, route: str, problem: str) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text(f"oncall:\n  channel: C0100\n  token: t\n  routes:\n    - {route}\n", encoding="utf-8")
    with pytest.raises(UsageError, match=rf"oncall\.routes\.0.*{re.escape(problem)}"):
        load_settings(path)


def test_routes_are_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HAMI_BOT_ONCALL__CHANNEL", "C0100")
    monkeypatch.setenv("HAMI_BOT_ONCALL__TOKEN", "t")
    monkeypatch.setenv("HAMI_BOT_ONCALL__ROUTES", '[{"match": ["team=\\"ml\\""], "channel": "C0200"}]')
    settings = load_settings()
    assert settings
    assert settings.oncall
    assert [route.route().channel for route in settings.oncall.routes] == ["C0200"]
