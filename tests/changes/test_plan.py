"""A raise and its revert, planned and applied by an exact JSON patch: everything is as it was."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.changes.deadline import LONGEST_S, later
from bot.changes.decide import Wait, decide
from bot.changes.kinds import KINDS, PROFILING, VERBOSITY
from bot.changes.plan import NothingToDo, Plan, Raise, annotation, plan_extension, plan_raise
from bot.changes.record import KEY, Record, Refusal, read_record
from bot.hami.version import Version
from bot.texts import in_english
from sandbox.apiserver.jsonpatch import PatchError, apply_json_patch
from tests.changes.deployments import (
    EXTENDER,
    KUBE_SCHEDULER,
    NOW,
    but,
    deployment,
    due_at_deadline,
    due_on,
    new_value,
    recorded,
    wants,
)

NEWEST = Version(2, 10)
LEVEL = wants(VERBOSITY, "5", EXTENDER, 600, "U1", "a pod hangs")


def planned(target: dict[str, Any], wanted: Raise = LEVEL, version: Version | None = NEWEST) -> Plan:
    plan = plan_raise(target, wanted, now=NOW, change_id="c1", version=version)
    assert isinstance(plan, Plan), plan
    return plan


def raised(target: dict[str, Any], wanted: Raise = LEVEL) -> dict[str, Any]:
    return apply_json_patch(target, planned(target, wanted).patch)


def template(target: dict[str, Any]) -> str:
    return json.dumps(target["spec"])


words = st.lists(
    st.sampled_from(["scheduler", "-v=4", "--v=2", "-v", "--v", "3", "-v1", "--debug", "--profiling=false", "-x"]),
    max_size=6,
)


@given(words, words, st.sampled_from(list(KINDS.values())), st.sampled_from([None, {}, {"a": "b"}]))
def test_whatever_the_words_what_is_raised_is_put_back(command, args, kind, annotations) -> None:
    before = deployment(command=command, args=args, annotations=annotations)
    wanted = but(LEVEL, kind=kind, value=new_value(kind))
    plan = plan_raise(before, wanted, now=NOW, change_id="c1", version=Version(2, 10))
    if not isinstance(plan, Plan):
        return
    after = apply_json_patch(before, plan.patch)
    assert isinstance(decide(after, NOW), Wait)
    due = due_on(after, NOW + 600)
    assert due.event.kind == "reverted"
    assert due.patch == plan.revert_patch
    undone = apply_json_patch(after, due.patch)
    assert template(undone) == template(before)
    assert (undone["metadata"].get("annotations") or {}) == (annotations or {})


@pytest.mark.parametrize(
    ("edit", "name"),
    [
        (lambda object_: object_["metadata"].update(uid="u-2"), "re-created"),
        (lambda object_: object_["metadata"].update(resourceVersion="8"), "edited"),
        (lambda object_: object_["spec"]["template"]["spec"]["containers"].reverse(), "reordered"),
    ],
)
def test_a_patch_does_nothing_to_an_object_that_changed_since(edit, name) -> None:
    before = deployment(args=["-v=4"])
    plan = planned(before)
    if name == "reordered":  # even where nothing else would notice
        before["spec"]["template"]["spec"]["containers"].append({"name": "fourth"})
    edit(before)
    with pytest.raises(PatchError):
        apply_json_patch(before, plan.patch)


def test_containers_that_change_places_are_still_put_back() -> None:
    after = raised(deployment(args=["-v=4"]))
    after["spec"]["template"]["spec"]["containers"].insert(0, {"name": "injected", "args": ["-v=5"]})
    due = due_on(after, NOW + 600)
    assert due.event.kind == "reverted"
    containers = apply_json_patch(after, due.patch)["spec"]["template"]["spec"]["containers"]
    assert [container.get("args") for container in containers] == [["-v=5"], None, ["-v=4"], ["-v=1"]]


def test_a_foreign_edit_is_left_alone_and_shown() -> None:
    after = raised(deployment(args=["-v=4"]))
    after["spec"]["template"]["spec"]["containers"][1]["args"] = ["-v=6"]
    due = due_on(after, NOW + 600)
    assert (due.event.kind, due.event.detail) == ("drifted", "- -v=5\n+ -v=6")
    undone = apply_json_patch(after, due.patch)
    assert template(undone) == template(after)
    assert annotation(undone) is None


def test_a_container_that_is_gone_leaves_nothing_to_undo() -> None:
    after = raised(deployment(args=["-v=4"]))
    after["spec"]["template"]["spec"]["containers"][1]["name"] = "renamed"
    due = due_on(after, NOW + 10)
    assert due.event.kind == "container-gone"


@pytest.mark.parametrize("text", ["", "{}", "null", "x" * 70_000, '{"v":2}', "[" * 5000])
def test_a_record_that_cannot_be_read_is_left_where_it_is(text: str) -> None:
    assert due_on(deployment(args=["-v=4"], annotations={KEY: text}), NOW).event.kind == "unreadable"


def test_a_record_copied_to_another_object_is_not_acted_upon() -> None:
    copied = raised(deployment(args=["-v=4"]))
    copied["metadata"]["name"] = "hami-scheduler-copy"
    assert due_on(copied, NOW + 600).event.kind == "unreadable"


def test_a_level_set_in_the_running_process_changes_no_words() -> None:
    before = recorded("hami-2.10")
    after = raised(before, but(LEVEL, container=KUBE_SCHEDULER, means="debug-flags"))
    assert template(after) == template(before)
    due = due_at_deadline(after)
    assert due.event.kind == "reverted"
    assert due.event.record.old == "4"
    assert annotation(apply_json_patch(after, due.patch)) is None


def test_a_level_set_in_the_process_is_forgotten_when_somebody_set_another_in_the_words() -> None:
    after = raised(recorded("hami-2.10"), but(LEVEL, container=KUBE_SCHEDULER, means="debug-flags"))
    after["spec"]["template"]["spec"]["containers"][0]["command"].append("-v=2")
    due = due_on(after, NOW + 600)
    assert due.event.kind == "drifted"


def test_an_extension_moves_the_deadline_and_keeps_what_is_undone() -> None:
    after = raised(deployment(args=["-v=4"]))
    record = open_on(after)
    longer = plan_extension(after, record, later(record, 660, now=NOW + 60), now=NOW + 60)
    assert not isinstance(longer, Refusal)
    extended = apply_json_patch(after, longer[1])
    due = due_at_deadline(extended, 1260)
    assert due.event.kind == "reverted"
    assert due.event.record.words_before == ("-v=4",)


def open_on(after: Any) -> Record:
    record = read_record(annotation(after) or "")
    assert isinstance(record, Record)
    return record


def test_an_extension_is_added_to_the_deadline_or_to_now_where_that_has_passed() -> None:
    record = open_on(raised(deployment(args=["-v=4"])))
    assert later(record, 600, now=NOW + 60) == NOW + 1200
    assert later(record, 600, now=NOW + 900) == NOW + 1500


@pytest.mark.parametrize(
    ("until", "hint"),
    [
        (LONGEST_S + 1, "it can be extended by 230 min at most"),
        (2 * LONGEST_S, "it can be extended by 230 min at most"),
        (600, "such as 10m"),
    ],
)
def test_an_extension_out_of_bounds_is_refused(until: int, hint: str) -> None:
    after = raised(deployment(args=["-v=4"]))
    refused = plan_extension(after, open_on(after), NOW + until, now=NOW + 60)
    assert isinstance(refused, Refusal)
    assert hint in in_english(refused.hint)


def test_a_change_is_extended_up_to_the_longest_time_and_then_no_further() -> None:
    after = raised(deployment(args=["-v=4"]))
    whole = plan_extension(after, open_on(after), NOW + LONGEST_S, now=NOW + 60.7)
    assert not isinstance(whole, Refusal)
    assert whole[0].deadline == NOW + LONGEST_S
    after = apply_json_patch(after, whole[1])
    refused = plan_extension(after, open_on(after), NOW + LONGEST_S + 60, now=NOW + 60)
    assert isinstance(refused, Refusal)
    assert (
        in_english(refused.hint) == "it cannot be extended any further; after the revert you can make the change again"
    )


@pytest.mark.parametrize(("now", "wanted"), [("-v=5", "5"), ("-v=7", "5"), ("--v=5", "4")])
def test_a_level_that_is_there_already_is_enough(now: str, wanted: str) -> None:
    answer = plan_raise(deployment(args=[now]), but(LEVEL, value=wanted), now=NOW, change_id="c", version=None)
    assert isinstance(answer, NothingToDo)


PROFILE = but(LEVEL, kind=PROFILING, value="true")


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (but(LEVEL, value="٥"), "value"),
        (but(LEVEL, seconds=59), "duration"),
        (but(LEVEL, container=KUBE_SCHEDULER), "no-container"),
    ],
)
def test_what_must_not_be_done_is_refused(wanted: Raise, code: str) -> None:
    answer = plan_raise(deployment(args=["-v=4"]), wanted, now=NOW, change_id="c", version=NEWEST)
    assert isinstance(answer, Refusal)
    assert answer.code == code
    assert in_english(answer.why)


def test_a_second_change_is_refused_with_the_open_one() -> None:
    answer = plan_raise(raised(deployment(args=["-v=4"])), PROFILE, now=NOW, change_id="c2", version=Version(2, 10))
    assert isinstance(answer, Refusal)
    assert answer.record
    assert (answer.code, answer.record.id) == ("open", "c1")


ROLLOUTS = {
    "generation": ({"observedGeneration": 2}, {}),
    "updated": ({"updatedReplicas": 0}, {}),
    "old pods": ({"replicas": 2}, {}),
    "available": ({"availableReplicas": 0}, {}),
    "paused": ({}, {"paused": True}),
}


@pytest.mark.parametrize(("status", "spec"), ROLLOUTS.values(), ids=ROLLOUTS)
def test_nothing_is_raised_while_a_rollout_is_under_way(status, spec) -> None:
    target = deployment(args=["-v=4"])
    target["status"] |= status
    target["spec"] |= spec
    answer = plan_raise(target, LEVEL, now=NOW, change_id="c", version=None)
    assert isinstance(answer, Refusal)
    assert answer.code in ("rollout", "paused")


def test_a_change_whose_record_could_not_be_read_again_is_refused() -> None:
    answer = plan_raise(
        deployment(args=["-v=4"]), but(LEVEL, because="x" * 70_000), now=NOW, change_id="c", version=None
    )
    assert isinstance(answer, Refusal)
    assert "too long to read back" in in_english(answer.why)


def test_half_a_character_in_the_reason_is_no_obstacle() -> None:
    record = planned(deployment(args=["-v=4"]), but(LEVEL, because="a\ud800b")).record
    assert record.because == "a?b"


RUNNING = but(LEVEL, container=KUBE_SCHEDULER, means="debug-flags")


@pytest.mark.parametrize(
    ("wanted", "word"),
    [
        (but(RUNNING, container=EXTENDER), "-v=4"),
        (RUNNING, "-v=$(LEVEL)"),
    ],
    ids=["the extender", "a level that is no number"],
)
def test_what_cannot_be_set_back_in_the_running_process_is_not_set_there(wanted: Raise, word: str) -> None:
    target = recorded("hami-2.10")
    for container in target["spec"]["template"]["spec"]["containers"]:
        container["command"] = [each for each in container["command"] if not each.startswith("-v")] + [word]
    answer = plan_raise(target, wanted, now=NOW, change_id="c", version=NEWEST)
    assert isinstance(answer, Refusal)
    assert answer.code == "unsuitable"


@pytest.mark.parametrize("late_s", [6, 3 * 3600, 86_400])
def test_a_change_that_was_raised_with_a_clock_ahead_lasts_its_own_time_from_when_it_is_seen(late_s: int) -> None:
    after = raised(deployment(args=["-v=4"]))
    now = NOW - late_s + 0.5
    due = due_on(after, now)
    assert due.event.kind == "retimed"
    seen = apply_json_patch(after, due.patch)
    assert open_on(seen) == due.event.record
    assert (due.event.record.since, due.event.record.deadline) == (NOW - late_s, NOW - late_s + 600)
    assert isinstance(decide(seen, now), Wait)
    assert due_on(seen, NOW - late_s + 600).event.kind == "reverted"


def test_api_servers_that_are_a_little_apart_move_no_deadline() -> None:
    assert isinstance(decide(raised(deployment(args=["-v=4"])), NOW - 5), Wait)


@pytest.mark.parametrize(("skew_s", "told"), [(61, "1m1s ahead of"), (-10_800, "3h behind")])
def test_nothing_is_raised_with_a_clock_that_is_wrong(skew_s: float, told: str) -> None:
    answer = plan_raise(deployment(args=["-v=4"]), LEVEL, now=NOW, change_id="c", version=None, skew_s=skew_s)
    assert isinstance(answer, Refusal)
    assert (answer.code, told in in_english(answer.why)) == ("clock", True)
    assert "NTP" in in_english(answer.hint)
