"""One flag goes back among words that somebody else edited; what cannot be told apart is left to a person."""

import copy
import json
import shlex
from collections.abc import Sequence
from typing import Any

import pytest

from bot.changes.kinds import VERBOSITY
from bot.changes.merge import by_hand
from bot.changes.plan import Plan, Raise, annotation, plan_raise
from bot.changes.record import KEY, Record, read_record
from bot.hami.version import Version
from sandbox.apiserver.jsonpatch import PatchError, apply_json_patch
from tests.changes.deployments import (
    EDITS,
    EXTENDER,
    KUBE_SCHEDULER,
    NOW,
    but,
    deployment,
    due_at_deadline,
    due_on,
    recorded,
    wants,
)

LEVEL = wants(VERBOSITY, "5", EXTENDER, 600, "U1", "a pod hangs")
SPELLINGS = [
    spelling.split() for spelling in ("-v=4", "--v=4", "-v 4", "--v 4", "-v4", "-v=1 --debug --v=4", "-v=5 -v=4", "")
]


def raised(words: Sequence[str], *, field: str = "args", wanted: Raise = LEVEL) -> dict[str, Any]:
    lists: dict[str, Any] = {field: ["scheduler", *words, "--debug"]}
    before = deployment(**lists)
    plan = plan_raise(before, wanted, now=NOW, change_id="c1", version=Version(2, 10))
    assert isinstance(plan, Plan), plan
    return apply_json_patch(before, plan.patch)


def edited(target: dict[str, Any], words: Sequence[str], *, field: str = "args") -> dict[str, Any]:
    after = copy.deepcopy(target)
    after["spec"]["template"]["spec"]["containers"][1][field] = list(words)
    return after


def words_of(target: dict[str, Any], field: str = "args") -> list[str]:
    return target["spec"]["template"]["spec"]["containers"][1][field]


def record_of(target: dict[str, Any]) -> Record:
    record = read_record(annotation(target) or "")
    assert isinstance(record, Record)
    return record


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
@pytest.mark.parametrize("spelling", SPELLINGS, ids=" ".join)
@pytest.mark.parametrize("field", ["args", "command"])
def test_only_our_element_goes_back_among_what_somebody_else_edited(field: str, spelling: list[str], edit: Any) -> None:
    before = ["scheduler", *spelling, "--debug"]
    target = raised(spelling, field=field)
    after = edited(target, edit(words_of(target, field)), field=field)
    due = due_at_deadline(after)
    assert due.event.kind == "reverted"
    undone = apply_json_patch(after, due.patch)
    assert json.dumps(undone["spec"]) == json.dumps(edited(after, edit(before), field=field)["spec"])
    assert annotation(undone) is None


def test_what_somebody_else_edited_is_told() -> None:
    due = due_on(edited(raised(["-v=4"]), ["scheduler", "-v=5", "--debug", "--token=abc"]), NOW + 600)
    assert due.event.kind == "reverted"
    assert due.event.detail.startswith("+ --token=")
    assert "abc" not in due.event.detail


def test_an_edit_that_comes_between_the_look_and_the_patch_is_not_overwritten() -> None:
    after = edited(raised(["-v=4"]), ["scheduler", "-v=5", "--debug", "--foreign"])
    due = due_on(after, NOW + 600)
    assert due.event.kind == "reverted"
    with pytest.raises(PatchError):
        apply_json_patch(edited(after, ["scheduler", "-v=5", "--debug", "--foreign", "--more"]), due.patch)


def test_our_value_in_another_spelling_goes_back_in_that_spelling() -> None:
    due = due_on(after := edited(raised(["-v=4"]), ["scheduler", "--v", "5"]), NOW + 600)
    assert due.event.kind == "reverted"
    assert words_of(apply_json_patch(after, due.patch)) == ["scheduler", "--v", "4"]


def test_a_flag_that_was_not_set_is_taken_out_in_whichever_spelling_it_stands() -> None:
    due = due_on(after := edited(raised([]), ["scheduler", "--v", "5", "--debug"]), NOW + 600)
    assert due.event.kind == "reverted"
    assert words_of(apply_json_patch(after, due.patch)) == ["scheduler", "--debug"]


@pytest.mark.parametrize(
    "words",
    [["scheduler", "-v=2"], ["scheduler", "--debug", "--v", "7"], ["scheduler"], ["scheduler", "--", "-v=5"]],
    ids=" ".join,
)
def test_where_somebody_else_set_another_value_nothing_is_overwritten(words: list[str]) -> None:
    after = edited(raised(["-v=4"]), words)
    due = due_at_deadline(after)
    assert due.event.kind == "drifted"
    assert words_of(apply_json_patch(after, due.patch)) == words


@pytest.mark.parametrize(
    ("spelling", "words"),
    [(["-v=4"], ["scheduler", "-v=4"]), (["-v=4"], ["scheduler", "--x", "--v=4"]), ([], ["scheduler", "--x"])],
)
def test_what_another_put_back_among_other_edits_is_forgotten_at_once(spelling: list[str], words: list[str]) -> None:
    after = edited(raised(spelling), words)
    due = due_on(after, NOW + 30)
    assert due.event.kind == "reverted-by-another"
    assert annotation(apply_json_patch(after, due.patch)) is None


TWICE = ["scheduler", "-v=5", "--debug", "--v", "5"]


def test_our_value_twice_is_left_and_stays_due() -> None:
    after = edited(raised(["-v=4"]), TWICE)
    due = due_at_deadline(after)
    assert due.event.kind == "failed"
    assert due.event.record == record_of(after)


def test_our_value_in_the_containers_other_list_is_left_and_stays_due() -> None:
    after = edited(edited(raised(["-v=4"]), []), ["scheduler", "-v=5"], field="command")
    assert due_on(after, NOW + 600).event.kind == "failed"


def run_by_hand(command: str, target: dict[str, Any]) -> dict[str, Any]:
    """What kubectl makes of the object."""
    words = shlex.split(command)
    assert words[:6] == ["kubectl", "-n", "kube-system", "patch", "deployment", "hami-scheduler"]
    return apply_json_patch(target, json.loads(words[words.index("-p") + 1]))


@pytest.mark.parametrize(
    ("spelling", "words", "left"),
    [
        (["-v=4"], ["scheduler", "-v=5", "--foreign"], ["scheduler", "-v=4", "--foreign"]),
        (["-v=4"], TWICE, ["scheduler", "-v=4", "--debug", "--v", "4"]),
        ([], ["scheduler", "-v", "5", "--debug", "-v=5"], ["scheduler", "--debug"]),
    ],
)
def test_the_command_reverts_by_hand_and_touches_nothing_else(
    spelling: list[str], words: list[str], left: list[str]
) -> None:
    after = edited(raised(spelling), words)
    undone = run_by_hand(by_hand(after, record_of(after)), after)
    assert json.dumps(undone["spec"]) == json.dumps(edited(after, left)["spec"])
    assert KEY not in undone["metadata"]["annotations"]


def test_the_command_shows_nobodys_secrets() -> None:
    after = edited(raised(["-v=4"]), ["scheduler", "-v=5", "--token=abc"])
    assert "abc" not in by_hand(after, record_of(after))


def running() -> dict[str, Any]:
    before = recorded("hami-2.10")
    wanted = but(LEVEL, container=KUBE_SCHEDULER, means="debug-flags")
    plan = plan_raise(before, wanted, now=NOW, change_id="c1", version=Version(2, 10))
    assert isinstance(plan, Plan)
    return apply_json_patch(before, plan.patch)


def test_a_level_set_in_the_process_is_set_back_though_somebody_else_edited_the_words() -> None:
    after = running()
    after["spec"]["template"]["spec"]["containers"][0]["command"].append("--x")
    due = due_on(after, NOW + 600)
    assert due.event.kind == "reverted"
    undone = apply_json_patch(after, due.patch)
    assert undone["spec"] == after["spec"]
    assert annotation(undone) is None


def test_by_hand_a_level_set_in_the_process_ends_with_a_restart() -> None:
    told = by_hand(after := running(), record_of(after))
    assert told.startswith("kubectl -n hami-system rollout restart deployment hami-scheduler && kubectl ")
    assert told.endswith(f" annotate deployment hami-scheduler {KEY}-")


SEVERAL = Raise((("kube-qps", "50"), ("kube-burst", "100"), ("kube-timeout", "30")), EXTENDER, 600, by="U1")


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_several_flags_go_back_among_what_somebody_else_edited(edit: Any) -> None:
    target = raised(["--kube-burst=40"], wanted=SEVERAL)
    after = edited(target, edit(words_of(target)))
    due = due_on(after, NOW + 600)
    assert due.event.kind == "reverted"
    assert words_of(apply_json_patch(after, due.patch)) == edit(["scheduler", "--kube-burst=40", "--debug"])


def test_of_several_flags_the_one_that_somebody_else_set_stays_and_the_others_go_back() -> None:
    target = raised(["--kube-burst=40"], wanted=SEVERAL)
    theirs = ["--kube-burst=70" if word == "--kube-burst=100" else word for word in words_of(target)]
    after = edited(target, theirs)
    due = due_at_deadline(after)
    assert due.event.kind == "reverted"
    assert "--kube-burst=70" in due.event.detail
    assert words_of(apply_json_patch(after, due.patch)) == ["scheduler", "--kube-burst=70", "--debug"]


def test_several_flags_of_which_one_cannot_be_told_wait_for_a_person_whose_command_reverts_all() -> None:
    target = raised(["--kube-burst=40"], wanted=SEVERAL)
    after = edited(target, [*words_of(target), "--kube-qps=50"])
    assert due_on(after, NOW + 600).event.kind == "failed"
    patch = json.loads(shlex.split(by_hand(after, record_of(after)))[-1])
    assert words_of(apply_json_patch(after, patch)) == ["scheduler", "--kube-burst=40", "--debug"]


def test_several_flags_that_somebody_else_put_back_one_by_one_are_reverted_by_another() -> None:
    target = raised(["--kube-burst=40"], wanted=SEVERAL)
    after = edited(target, ["scheduler", "--kube-burst=40", "--debug", "--other"])
    due = due_on(after, NOW)
    assert due.event.kind == "reverted-by-another"
