"""Every text that the recorded clusters hold is understood whole."""

import json
from datetime import timedelta

import msgspec
import pytest

from bot.hami.nodes.node_lock import lock_complaint
from bot.hami.nodes.node_state import read_registrations
from bot.hami.nodes.registration import Registration, Unreadable
from bot.hami.scheduler_logs.log_lines import NODE_UNFIT, parse_line, pod_key_of
from bot.hami.scheduler_logs.scheduling_events import (
    chosen_node,
    parse_code_event,
    parse_unschedulable,
    read_reason,
    reason_of,
    says_none_fit,
)
from bot.kube.models import Node
from bot.kube.times import parse_time
from tests.cases_support import VERSIONS, files_of

every_version = pytest.mark.parametrize("version", VERSIONS)


def objects(version, kind):
    return json.loads(files_of(version)[f"objects/{kind}.json"])["items"]


def messages(version, reason):
    return [object_["message"] for object_ in objects(version, "events") if object_["reason"] == reason]


def said_of_pods(version):
    """The texts of every FailedScheduling event and PodScheduled condition."""
    conditions = (condition for pod in objects(version, "pods") for condition in pod["status"].get("conditions") or ())
    told = [
        condition["message"]
        for condition in conditions
        if condition["type"] == "PodScheduled" and condition.get("message")
    ]
    return told + messages(version, "FailedScheduling")


@every_version
def test_the_nodes_of_every_unschedulable_text_add_up(version):
    texts = [text for text in said_of_pods(version) if text.startswith("0/")]
    assert texts
    for text in texts:
        found = parse_unschedulable(text)
        assert found is not None
        assert sum(reason.nodes for reason in found.reasons) == found.total, text
        assert all(reason_of(card.code) for refusal in found.by_hami for card in refusal.cards), text
        assert all("node" in reason.text or "Insufficient" in reason.text for reason in found.by_kubernetes), text


@every_version
def test_every_other_refusal_is_about_a_lock_or_the_extender(version):
    for text in [*said_of_pods(version), *messages(version, "BindingFailed")]:
        assert text.startswith(("0/", 'Post "https://')) or lock_complaint(text), text


@every_version
def test_every_event_of_hami_s_filter_is_understood(version):
    failed, succeeded = messages(version, "FilteringFailed"), messages(version, "FilteringSucceed")
    assert failed
    assert succeeded
    for text in failed:
        event = parse_code_event(text)
        assert says_none_fit(text) or (event and event.nodes and reason_of(event.code)), text
    names = {node["metadata"]["name"] for node in objects(version, "nodes")}
    assert {chosen_node(text) for text in succeeded} <= names


@every_version
def test_every_logged_verdict_names_its_pod_its_node_and_known_reasons(version):
    taken_at = parse_time(json.loads(files_of(version)["meta.json"])["taken_at"])
    assert taken_at is not None
    name = next(name for name in files_of(version) if name.endswith("vgpu-scheduler-extender.log"))
    seen = 0
    for raw in files_of(version)[name].decode().splitlines():
        line = parse_line(raw, taken_at)
        if line is None or line.message not in NODE_UNFIT:
            continue
        seen += 1
        assert "/" in pod_key_of(line), raw
        assert line.values["node"], raw
        assert line.at is not None
        assert taken_at - line.at < timedelta(hours=1)
        if "reason" in line.values:
            assert all(reason_of(card.code) for card in read_reason(line.values["reason"])), raw
            assert read_reason(line.values["reason"]), raw
    assert seen


@every_version
def test_every_register_annotation_is_read(version):
    for object_ in objects(version, "nodes"):
        for found in read_registrations(msgspec.convert(object_, Node)):
            assert isinstance(found, Registration) or (isinstance(found, Unreadable) and found.why == "empty")
