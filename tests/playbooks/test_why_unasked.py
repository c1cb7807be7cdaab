"""Pods that HAMi is never asked about, or whose filter or bind ends with an error of another part."""

from pathlib import Path
from typing import Any

import pytest

from tests.playbooks.refused_support import refused_on_the_node
from tests.playbooks.status_support import CONFIG, configured, healthy, without
from tests.playbooks.world import (
    HAMI,
    Object,
    ask,
    bind_error,
    cause,
    codes,
    commands,
    event,
    gpu_node,
    none_of,
    pod,
    quotes,
    refused,
)

NO_EXTENDER = CONFIG[: CONFIG.index("extenders:")]
NO_ANSWER = 'Post "https://127.0.0.1:443/filter": context deadline exceeded (Client.Timeout exceeded)'
CODE_400 = "failed filter with extender at URL http://127.0.0.1:443/filter, code 400"
ACCOUNT = "system:serviceaccount:{}:hami-scheduler"
FORBIDDEN = 'pods "wl" is forbidden: User "{}" cannot patch resource "pods" in API group "" in the namespace "ml"'


def with_config(text: str, *objects: Object) -> list[Object]:
    return [*configured(healthy(), text), gpu_node(), *objects]


def unled(version: str = "2.10.0") -> list[Object]:
    flags = ["--leader-elect-resource-namespace=elsewhere"]
    return [*without(healthy(version, flags=flags), "Lease"), gpu_node()]


def failed_filter(message: str, **fields: Any) -> list[Object]:
    one = pod(said=bind_error(message), **fields)
    return [*healthy(), gpu_node(), one, event(one, "FilteringFailed", message)]


def test_a_profile_of_another_name_explains_why_nobody_tries_the_pod(tmp_path: Path) -> None:
    text = CONFIG.replace("schedulerName: hami-scheduler", "schedulerName: gpu-scheduler")
    report = ask(tmp_path, with_config(text, pod(age=900)))
    assert codes(report)[0] == "extender-misconfigured"
    assert "no profile is called hami-scheduler, its profiles are: gpu-scheduler" in report.verdict
    assert "- schedulerName: gpu-scheduler" in quotes(report)


def test_a_profile_of_another_name_explains_nothing_of_a_pod_that_hami_refused(tmp_path: Path) -> None:
    text = CONFIG.replace("schedulerName: hami-scheduler", "schedulerName: gpu-scheduler")
    said = refused(none_of(1, "1 1/1 CardInsufficientMemory"))
    assert codes(ask(tmp_path, with_config(text, pod(said=said))))[0] != "extender-misconfigured"


def test_an_address_that_hami_does_not_listen_at_explains_why_the_extender_did_not_answer(tmp_path: Path) -> None:
    text = CONFIG.replace("https://127.0.0.1:443", "http://127.0.0.1:443")
    report = ask(tmp_path, with_config(text, pod(said=bind_error(CODE_400))))
    assert codes(report)[0] == "extender-misconfigured"
    assert "it calls http://127.0.0.1:443, HAMi listens on https://0.0.0.0:443" in report.verdict
    assert CODE_400 in quotes(report)


def test_the_extender_s_silence_is_told_as_such_where_the_address_is_right(tmp_path: Path) -> None:
    report = ask(tmp_path, with_config(CONFIG, pod(said=bind_error(CODE_400))))
    assert codes(report)[0] == "scheduler-degraded"


def test_without_an_extender_a_pod_is_placed_without_hami(tmp_path: Path) -> None:
    one = refused_on_the_node(schedulerName="hami-scheduler")
    report = ask(tmp_path, with_config(NO_EXTENDER, one))
    assert codes(report)[0] == "extender-misconfigured"
    assert "does not name HAMi's extender" in report.verdict


def test_without_an_extender_kube_scheduler_looks_for_hami_s_resources_on_the_nodes(tmp_path: Path) -> None:
    said = refused(none_of(1, "1 Insufficient nvidia.com/gpumem"))
    report = ask(tmp_path, with_config(NO_EXTENDER, pod(said=said)))
    assert codes(report)[0] == "extender-misconfigured"
    assert "does not name HAMi's extender" in report.verdict


def test_an_extender_that_waits_for_a_lease_that_nobody_holds_does_not_answer(tmp_path: Path) -> None:
    report = ask(tmp_path, [*unled(), pod(said=bind_error(NO_ANSWER))])
    assert codes(report)[0] == "scheduler-no-leader"
    assert "its lease elsewhere/hami-scheduler does not exist" in report.verdict
    assert NO_ANSWER in quotes(report)


def test_before_2_8_no_lease_is_needed_to_answer(tmp_path: Path) -> None:
    report = ask(tmp_path, [*unled("2.7.1"), pod(said=bind_error(NO_ANSWER))])
    assert codes(report)[0] == "scheduler-degraded"


@pytest.mark.parametrize("stage", ["filter", "bind"])
def test_what_the_api_server_forbids_hami_is_told_as_that(tmp_path: Path, stage: str) -> None:
    words = FORBIDDEN.format(ACCOUNT.format(HAMI))
    objects = failed_filter(words) if stage == "filter" else [*healthy(), gpu_node(), pod(said=bind_error(words))]
    report = ask(tmp_path, objects)
    assert codes(report)[0] == "scheduler-forbidden"
    assert f"kubectl auth can-i patch pods --as={ACCOUNT.format(HAMI)}" in commands(report)


def test_what_is_forbidden_to_somebody_else_is_quoted_and_not_blamed_on_hami_s_rights(tmp_path: Path) -> None:
    report = ask(tmp_path, failed_filter(FORBIDDEN.format(ACCOUNT.format("elsewhere"))))
    assert codes(report)[0] == "filtering-failed"


def test_an_error_of_the_filter_is_not_taken_for_a_refused_bind(tmp_path: Path) -> None:
    words = 'calcScore failed invalid hami.io/device-scoring-weights annotation "slot=1": missing weight for "core"'
    report = ask(tmp_path, failed_filter(words))
    assert (codes(report)[0], cause(report).confidence) == ("filtering-failed", "confirmed")
    assert words in cause(report).claim


def test_the_same_words_without_an_event_of_the_filter_are_a_refused_bind(tmp_path: Path) -> None:
    report = ask(tmp_path, [*healthy(), gpu_node(), pod(said=bind_error("nodes not found"))])
    assert codes(report)[0] == "binding-failed"


def test_volumes_that_kube_scheduler_cannot_bind_are_not_blamed_on_hami(tmp_path: Path) -> None:
    words = 'running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded'
    report = ask(tmp_path, [*healthy(), gpu_node(), pod(said=bind_error(words))])
    assert codes(report)[0] == "binding-failed"
    assert "its plugin VolumeBinding failed before the pod was bound" in report.verdict
    assert commands(report) == ["kubectl -n ml get pvc"]
