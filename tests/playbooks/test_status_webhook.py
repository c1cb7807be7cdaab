"""`status`: what is wrong with the webhook."""

import json
from pathlib import Path

import pytest

from tests.playbooks.status_support import ask, changed, endpoints, healthy, only, webhook, without
from tests.playbooks.world import HAMI, Object, cause, codes


def test_a_webhook_that_is_not_registered_is_found(tmp_path: Path) -> None:
    report = ask(tmp_path, without(healthy(), "MutatingWebhookConfiguration"))
    assert codes(report) == ["webhook-missing"]
    assert cause(report).confidence == "confirmed"


def test_webhooks_that_could_not_be_read_are_a_gap(tmp_path: Path) -> None:
    report = ask(tmp_path, healthy(), missing=["mutatingwebhookconfigurations"])
    assert codes(report) == ["healthy"]
    assert [gap.source for gap in report.gaps] == ["webhooks"]


@pytest.mark.parametrize(("policy", "said"), [("Ignore", "bypass HAMi"), ("Fail", "can be created")])
def test_what_a_dead_webhook_means_depends_on_its_policy(tmp_path: Path, policy: str, said: str) -> None:
    objects = without(without(healthy(), "MutatingWebhookConfiguration"), "EndpointSlice")
    report = ask(tmp_path, [*objects, webhook(policy), endpoints("hami-scheduler-0", ready=False)])
    assert codes(report) == ["webhook-unreachable"]
    assert said in report.verdict


def test_a_webhook_whose_service_is_gone_is_found(tmp_path: Path) -> None:
    report = ask(tmp_path, without(without(healthy(), "Service"), "EndpointSlice"))
    assert codes(report) == ["webhook-unreachable"]
    assert "does not exist" in report.verdict


def test_endpoints_that_could_not_be_read_are_a_gap(tmp_path: Path) -> None:
    assert codes(ask(tmp_path, healthy(), missing=["endpointslices"])) == ["healthy"]


def test_an_endpoint_without_conditions_is_ready(tmp_path: Path) -> None:
    objects = [*without(healthy(), "EndpointSlice"), endpoints("hami-scheduler-0", ready=None)]
    assert codes(ask(tmp_path, objects)) == ["healthy"]


def test_a_webhook_without_a_certificate_authority_is_suspected(tmp_path: Path) -> None:
    objects = [*without(healthy(), "MutatingWebhookConfiguration"), webhook(caBundle=None)]
    found = only(ask(tmp_path, objects), "webhook-untrusted")
    assert found.confidence == "suspected"


def test_a_webhook_by_url_is_a_gap(tmp_path: Path) -> None:
    hook = webhook(service=None, caBundle=None, url="https://user:secret-word@10.0.0.1/webhook")
    report = ask(tmp_path, [*without(healthy(), "MutatingWebhookConfiguration"), hook])
    assert codes(report) == ["healthy"]
    assert [gap.source for gap in report.gaps] == ["webhook"]
    assert "secret-word" not in json.dumps([row for table in report.tables for row in table.rows])


REJECTED = "2026/11/21 04:58:00 http: TLS handshake error from 10.0.0.9:4711: remote error: tls: bad certificate\n"


def test_a_certificate_that_callers_reject_is_suspected(tmp_path: Path) -> None:
    found = only(ask(tmp_path, healthy(), logs=REJECTED), "webhook-untrusted")
    assert (found.severity, found.confidence) == ("critical", "suspected")
    assert found.evidence[0].quote == REJECTED.rstrip()


@pytest.mark.parametrize(
    ("client", "said"),
    [({"port": 8443}, "it calls port 8443"), ({"path": "/mutate"}, "it calls the path /mutate")],
)
def test_a_webhook_that_calls_a_wrong_port_or_path_is_found(tmp_path: Path, client: Object, said: str) -> None:
    hook = webhook(service={"namespace": HAMI, "name": "hami-scheduler", **client})
    report = ask(tmp_path, [*without(healthy(), "MutatingWebhookConfiguration"), hook])
    assert codes(report) == ["webhook-unreachable"]
    assert said in report.verdict


def test_a_service_that_sends_requests_elsewhere_is_found(tmp_path: Path) -> None:
    def change(service: Object) -> None:
        service["spec"]["ports"][0]["targetPort"] = 9443

    assert "HAMi listens on 443" in ask(tmp_path, changed(healthy(), "Service", change)).verdict
