"""What every kind of change promises, for all entries of the table: a new one is tested by being there."""

import json

import msgspec
import pytest

from bot.changes.deadline import LONGEST_S, SHORTEST_S, USUAL_S
from bot.changes.effects import blast_radius
from bot.changes.kinds import KINDS, PROFILING, VERBS, ChangeKind, DeploymentContext, Number, kind_of
from bot.changes.plan import NothingToDo, Plan, Raise, plan_extension, plan_raise
from bot.changes.record import KEY, Refusal, read_record, write_record
from bot.errors import UsageError
from bot.hami.version import Version
from bot.kube.times import format_duration
from bot.slack.render.change import what
from bot.store.changes import Approval
from bot.texts import LANGUAGES, Texts, in_english
from handlers.changes.draft import (
    Refused,
    as_typed,
    draft_of,
    is_reverting,
    pending_of,
    read_draft,
    split_change,
    write_draft,
)
from handlers.changes.listeners import CHANGE
from handlers.changes.words import Extend, Revert, Show, words_of
from playbooks.rules.installation.install_settings import how_to_revert
from sandbox.apiserver.jsonpatch import apply_json_patch
from tests.changes.deployments import (
    EVERY,
    EXTENDER,
    KUBE_SCHEDULER,
    NOW,
    but,
    deployment,
    due_on,
    new_value,
    recorded,
    wants,
)
from tests.changes.records import asked
from tests.changes.rig import NEWEST

kinds = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
every = pytest.mark.parametrize(("kind", "container"), EVERY)
languages = pytest.mark.parametrize("language", LANGUAGES)


def wanted(kind: ChangeKind, container: str = "") -> Raise:
    return wants(kind, new_value(kind), container or kind.containers[0], USUAL_S, "U1", "a pod hangs")


def planned(kind: ChangeKind, container: str = "", version: Version | None = NEWEST) -> Plan | NothingToDo | Refusal:
    return plan_raise(recorded("hami-2.10"), wanted(kind, container), now=NOW, change_id="c" * 12, version=version)


def the_plan(kind: ChangeKind, container: str = "") -> Plan:
    plan = planned(kind, container)
    assert isinstance(plan, Plan), plan
    return plan


# --------------------------------------------------------------------------------------------------- the words


@kinds
def test_the_example_of_the_help_asks_for_the_change(kind: ChangeKind) -> None:
    request = asked(kind.example)
    assert isinstance(request, Raise)
    assert (request.verb, request.container) == (kind.verb, kind.containers[0])
    assert request.because
    assert all(kind_of(flag).refusal(request.container, value) is None for flag, value in request.values)


@kinds
def test_the_words_show_extend_and_revert(kind: ChangeKind) -> None:
    assert asked(kind.verb) == Show(kind.verb)
    assert asked(f"{kind.verb} extend 10m") == Extend(kind.verb, 600)
    assert asked(kind.reverting) == Revert(kind.verb)


@every
def test_what_is_asked_for_can_be_typed_again(kind: ChangeKind, container: str) -> None:
    request = Raise(((kind.name, new_value(kind)),), container, USUAL_S, "a pod hangs")
    assert asked(words_of(request)) == request
    assert " ".join(split_change(as_typed(words_of(request)))).startswith(f"{kind.verb} ")


@kinds
def test_without_a_time_it_lasts_its_usual_time(kind: ChangeKind) -> None:
    request = asked(f"{kind.verb} {kind.asked_as(new_value(kind))}")
    assert isinstance(request, Raise)
    assert request.seconds == USUAL_S


@kinds
def test_only_what_is_seen_in_the_log_ends_once_it_is_captured(kind: ChangeKind) -> None:
    text = f"{kind.verb} {kind.asked_as(new_value(kind))} until-captured ml/trainer-0"
    if kind.is_log_level:
        assert asked(text)
    else:
        with pytest.raises(UsageError, match="until-captured"):
            asked(text)


@pytest.mark.parametrize("verb", VERBS)
def test_what_is_set_together_has_one_container(verb: str) -> None:
    (first, *others) = VERBS[verb]
    for kind in others:
        assert kind.containers == first.containers
        assert not kind.is_log_level


@kinds
def test_off_and_revert_both_revert_it(kind: ChangeKind) -> None:
    for word in ("off", "revert", "Revert"):
        assert asked(f"{kind.verb} {word}") == Revert(kind.verb)
        assert is_reverting(f"{kind.verb} {word}")


@kinds
def test_slack_hears_it_as_a_change(kind: ChangeKind) -> None:
    assert CHANGE.match(f"--cluster lab {kind.example}")
    assert is_reverting(kind.reverting)
    assert not is_reverting(kind.example)


# ------------------------------------------------------------------------------------------------- what is done


@kinds
def test_what_is_set_already_is_not_set_again(kind: ChangeKind) -> None:
    after = apply_json_patch(recorded("hami-2.10"), the_plan(kind).patch)
    del after["metadata"]["annotations"][KEY]
    answer = plan_raise(after, wanted(kind), now=NOW, change_id="c" * 12, version=NEWEST)
    assert answer == NothingToDo((new_value(kind),))


@every
def test_only_a_value_of_its_own_is_set(kind: ChangeKind, container: str) -> None:
    above = str(kind.values.highest + 1) if isinstance(kind.values, Number) else "1"
    for value in ("", "nonsense", "-1", kind.values.default if above == "1" else above):
        answer = plan_raise(
            recorded("hami-2.10"), but(wanted(kind, container), value=value), now=NOW, change_id="c", version=NEWEST
        )
        assert isinstance(answer, Refusal)
        assert answer.code == "value"


@kinds
def test_no_container_is_changed_that_has_no_such_flag(kind: ChangeKind) -> None:
    for container in {EXTENDER, KUBE_SCHEDULER, "sidecar"} - set(kind.containers):
        answer = planned(kind, container)
        assert isinstance(answer, Refusal)
        assert answer.code == "value"


@kinds
def test_it_lasts_no_longer_than_its_longest_time(kind: ChangeKind) -> None:
    assert SHORTEST_S <= USUAL_S <= LONGEST_S
    too_long = but(wanted(kind), seconds=LONGEST_S + 1)
    refusal = plan_raise(recorded("hami-2.10"), too_long, now=NOW, change_id="c", version=NEWEST)
    assert isinstance(refusal, Refusal)
    assert format_duration(LONGEST_S) in in_english(refusal.why)
    plan = the_plan(kind)
    after = apply_json_patch(recorded("hami-2.10"), plan.patch)
    longest = plan_extension(after, plan.record, NOW + LONGEST_S, now=NOW)
    assert not isinstance(longest, Refusal)
    assert isinstance(plan_extension(after, plan.record, NOW + LONGEST_S + 1, now=NOW), Refusal)


@kinds
def test_an_extender_that_may_not_know_the_flag_is_left_alone(kind: ChangeKind) -> None:
    if kind.since is None:
        assert isinstance(planned(kind, version=None), Plan)
        return
    assert isinstance(planned(kind, version=kind.since), Plan)
    for version in (None, Version(kind.since.major, kind.since.minor - 1)):
        refusal = planned(kind, version=version)
        assert isinstance(refusal, Refusal)
        assert refusal.code == "no-such-flag"
        assert kind.flag.shown in in_english(refusal.why)


TOGETHER = Raise((("kube-qps", "50"), ("kube-burst", "100"), ("kube-timeout", "30")), EXTENDER, 1800, by="U1")


@pytest.mark.parametrize("flags", [["--kube-qps=20"], ["--kube-burst", "40", "--kube-timeout=9"], []], ids=" ".join)
def test_several_flags_are_one_restart_and_go_back_together_to_the_byte(flags: list[str]) -> None:
    before = deployment(command=["scheduler", *flags, "--debug"])
    plan = plan_raise(before, TOGETHER, now=NOW, change_id="c" * 12, version=NEWEST)
    assert isinstance(plan, Plan)
    assert [(each.flag, each.new) for each in plan.record.flags] == list(TOGETHER.values)
    assert sum(step["op"] == "replace" for step in plan.patch) == 1
    after = apply_json_patch(before, plan.patch)
    due = due_on(after, NOW + 1800)
    assert due.event.kind == "reverted"
    assert json.dumps(apply_json_patch(after, due.patch)["spec"]) == json.dumps(before["spec"])


def test_of_several_flags_only_those_are_set_that_are_lower() -> None:
    before = deployment(args=["scheduler", "--kube-qps=80"])
    plan = plan_raise(before, TOGETHER, now=NOW, change_id="c" * 12, version=NEWEST)
    assert isinstance(plan, Plan)
    assert [each.flag for each in plan.record.flags] == ["kube-burst", "kube-timeout"]


PROFILES = wants(PROFILING, "true", EXTENDER, 600, "U1")


@pytest.mark.parametrize(
    ("flags", "version", "set_"),
    [
        ([], NEWEST, {"profiling": "true"}),
        ([], Version(2, 11, 0), {"profiling": "true", "profiling-bind-address": "0.0.0.0:6060"}),
        (["--profiling"], Version(2, 11, 0), {"profiling-bind-address": "0.0.0.0:6060"}),
        (
            ["--profiling-bind-address=127.0.0.1:7070"],
            NEWEST,
            {"profiling": "true", "profiling-bind-address": "0.0.0.0:7070"},
        ),
        (["--profiling-bind-address=:7070"], Version(2, 12, 0), {"profiling": "true"}),
    ],
    ids=str,
)
def test_profiles_that_only_the_pod_itself_reaches_are_opened_and_closed_with_the_switch(
    flags: list[str], version: Version, set_: dict[str, str]
) -> None:
    before = deployment(command=["scheduler", *flags, "--debug"])
    plan = plan_raise(before, PROFILES, now=NOW, change_id="c" * 12, version=version)
    assert isinstance(plan, Plan)
    assert {each.flag: each.new for each in plan.record.flags} == set_
    assert plan.record.kind.verb == "profiling"
    told = {impact.code for impact in blast_radius(before, plan, DeploymentContext(services=[], version=version))}
    assert "profiles-inside" in told
    due = due_on(apply_json_patch(before, plan.patch), NOW + 600)
    assert due.event.kind == "reverted"
    restored = apply_json_patch(apply_json_patch(before, plan.patch), due.patch)
    assert json.dumps(restored["spec"]) == json.dumps(before["spec"])


def test_flags_of_two_lists_are_not_set_by_one_change() -> None:
    before = deployment(command=["scheduler", "--kube-qps=5"], args=["--debug"])
    refusal = plan_raise(before, TOGETHER, now=NOW, change_id="c" * 12, version=NEWEST)
    assert isinstance(refusal, Refusal)
    assert refusal.code == "unsuitable"


@pytest.mark.parametrize(
    "values", [(), (("v", "5"), ("profiling", "true")), (("kube-qps", "5"), ("kube-qps", "6"))], ids=str
)
def test_a_draft_that_nobody_could_type_is_none_of_ours(values: tuple[tuple[str, str], ...]) -> None:
    text = write_draft(draft_of(the_plan(KINDS["v"]), "lab", NOW))
    draft = json.loads(text)
    draft["request"]["values"] = values
    assert read_draft(json.dumps(draft)) is None


@pytest.mark.parametrize("old", ["kube-qps", "kube-burst", "kube-timeout"])
def test_a_change_of_one_such_flag_that_is_open_still_goes_back(old: str) -> None:
    before, plan = recorded("hami-2.10"), the_plan(KINDS[old])
    after = apply_json_patch(before, plan.patch)
    assert '"also"' not in after["metadata"]["annotations"][KEY]
    due = due_on(after, NOW + 600)
    assert due.event.kind == "reverted"
    assert json.dumps(apply_json_patch(after, due.patch)["spec"]) == json.dumps(before["spec"])


# --------------------------------------------------------------------------------------------------- what is said


@every
@languages
def test_every_text_of_it_is_there(kind: ChangeKind, container: str, language: str) -> None:
    say = Texts(language)
    plan = the_plan(kind, container)
    assert new_value(kind) in say.words(what(plan.record))
    assert all(say.words(impact.prose) for impact in blast_radius(recorded("hami-2.10"), plan, DeploymentContext()))
    highest = kind.values.highest if isinstance(kind.values, Number) else 0
    for value in ("nonsense", str(highest + 1)):
        refusal = kind.refusal(container, value)
        assert refusal
        assert all(say.words(reason) for reason in refusal)


@kinds
def test_the_way_back_is_offered_in_words_that_revert_it(kind: ChangeKind) -> None:
    back, longer = how_to_revert(the_plan(kind).record)
    assert asked(back.command) == Revert(kind.verb)
    assert asked(longer.command) == Extend(kind.verb, 600)


# --------------------------------------------------------------------------------------------------- what is stored


@kinds
def test_its_record_and_its_draft_are_read_as_they_were_written(kind: ChangeKind) -> None:
    plan = the_plan(kind)
    assert read_record(write_record(plan.record)) == plan.record
    assert plan.record.kind is kind
    request = Raise(((kind.name, new_value(kind)),), kind.containers[0], USUAL_S, "a pod hangs")
    draft = draft_of(plan, "lab", NOW)
    assert read_draft(write_draft(draft)) == draft
    assert draft.request == request


def test_a_record_of_an_unknown_kind_is_told_and_left_alone() -> None:
    after = apply_json_patch(recorded("hami-2.10"), the_plan(KINDS["v"]).patch)
    text = after["metadata"]["annotations"][KEY].replace('"flag":"v"', '"flag":"http-timeout"')
    after["metadata"]["annotations"][KEY] = text
    event = due_on(after, NOW + 10**6).event
    assert event.kind == "unreadable"
    assert event.detail.startswith("this version of hami-bot cannot change 'http-timeout'")


def test_a_record_of_an_unknown_kind_cannot_be_made() -> None:
    record = the_plan(KINDS["v"]).record
    with pytest.raises(ValueError, match="cannot change 'http-timeout'"):
        msgspec.structs.replace(record, flag="http-timeout")


def test_a_draft_of_an_unknown_kind_is_none_of_ours() -> None:
    plan = the_plan(KINDS["v"])
    draft = draft_of(plan, "lab", NOW)
    assert read_draft(write_draft(draft).replace('[["v",', '[["timeout",')) is None


def test_what_waits_for_approval_and_is_of_an_unknown_kind_is_refused_in_words() -> None:
    record = write_record(the_plan(KINDS["v"]).record).replace('"flag":"v"', '"flag":"http-timeout"')
    approval = Approval("c" * 12, "", "a/b", "", "U1", "C1", f'{{"record":{record}}}', "pending", "", "", NOW)
    with pytest.raises(Refused, match="cannot change 'http-timeout'"):
        pending_of(approval)
