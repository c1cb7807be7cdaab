"""Where alerts go by the matchers of the settings, which are Alertmanager's."""

import contextlib
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.errors import UsageError
from bot.settings import load_settings
from bot.triage.cause import Cause
from bot.triage.routes import Route, read_matcher, read_route, route_of, threaded

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
