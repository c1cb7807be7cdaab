"""What Alertmanager sends becomes alerts; whatever else is sent becomes a clear refusal."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.triage.webhook import LARGEST_BODY, Alert, WrongBody, fingerprint_of, read_alerts

LABELS = {"alertname": "GPUPodPending", "namespace": "ml", "pod": "trainer-0", "severity": "critical"}


def body(*alerts: dict[str, Any], **over: Any) -> bytes:
    shape = {"version": "4", "groupKey": "{}:{}", "status": "firing", "receiver": "hami", "alerts": list(alerts)}
    return json.dumps({**shape, **over}).encode()


def alert(labels: dict[str, str] | None = None, **over: Any) -> dict[str, Any]:
    shape = {
        "status": "firing",
        "labels": LABELS if labels is None else labels,
        "annotations": {"summary": "it waits", "secret_notes": "x"},
        "startsAt": "2026-11-21T05:00:00.123456789Z",
        "endsAt": "0001-01-01T00:00:00Z",
        "generatorURL": "http://prometheus/graph",
        "fingerprint": "c4d2a5f0b1e39a77",
    }
    return {**shape, **over}


def one(**over: Any) -> Alert:
    [read] = read_alerts(body(alert(**over)))
    return read


def test_an_alert_says_which_pod_it_is_about_since_when_and_how_bad() -> None:
    read = one()
    assert (read.name, read.level, read.namespace, read.pod, read.node) == (
        "GPUPodPending", "critical", "ml", "trainer-0", "",
    )  # fmt: skip
    assert (read.fingerprint, read.starts_at, read.status) == ("c4d2a5f0b1e39a77", "2026-11-21T05:00:00Z", "firing")
    assert read.annotations == {"summary": "it waits", "generatorURL": "http://prometheus/graph"}


def test_the_exporters_own_pod_is_not_the_one_the_alert_is_about() -> None:
    named = {"namespace": "monitoring", "pod": "kube-state-metrics-1"}
    read = one(labels={**named, "exported_namespace": "ml", "exported_pod": "trainer-0"})
    assert (read.namespace, read.pod) == ("ml", "trainer-0")


def test_the_labels_of_hami_before_2_9_name_a_pod_as_well() -> None:
    exporter = {"namespace": "hami-system", "pod": "hami-device-plugin-1", "node": "cp-1"}
    read = one(labels={**exporter, "podnamespace": "ml", "podname": "trainer-0", "nodename": "gpu-1"})
    assert (read.namespace, read.pod, read.node) == ("ml", "trainer-0", "gpu-1")


def test_what_is_no_name_of_kubernetes_names_nothing() -> None:
    read = one(labels={"namespace": "ml", "pod": "<!channel>", "node": "a b"})
    assert (read.namespace, read.pod, read.node) == ("ml", "", "")


def test_an_alert_without_a_fingerprint_gets_that_of_its_labels() -> None:
    assert one(fingerprint="").fingerprint == one(fingerprint="no good!").fingerprint == fingerprint_of(LABELS)


def test_times_in_other_zones_and_fractions_are_the_same_outbreak() -> None:
    assert one(startsAt="2026-11-21T13:00:00.9+08:00").starts_at == "2026-11-21T05:00:00Z"
    assert one(startsAt="yesterday").starts_at == one(startsAt="2026-11-21T05:00:00").starts_at == ""


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b'{"version":"3","alerts":[]}',
        b'{"version":"4"}',
        body({"status": "firing"}),
        body(alert(status="broken")),
        body(alert(labels={"alertname": 7})),  # type: ignore[dict-item]
        b'{"a":' * 100_000,
    ],
    ids=["empty", "half", "list", "no text", "version 3", "no alerts", "no labels", "status", "label", "deep"],
)
def test_what_is_no_webhook_of_version_4_is_refused_without_repeating_it(sent: bytes) -> None:
    with pytest.raises(WrongBody) as caught:
        read_alerts(sent)
    assert "broken" not in str(caught.value)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(sent: bytes) -> None:
    with contextlib.suppress(WrongBody):
        read_alerts(sent)


@given(st.dictionaries(st.text(max_size=20), st.text(max_size=300), max_size=5))
def test_any_labels_become_something_that_every_database_takes(labels: dict[str, str]) -> None:
    read = one(labels=labels, fingerprint="")
    told = [read.name, read.namespace, read.pod, read.node, read.cluster, *read.labels, *read.labels.values()]
    assert all("\0" not in text and len(text) <= 255 for text in told)
    for text in told:
        text.encode()


def test_a_thousand_alerts_of_usual_size_are_within_the_limit_of_a_body() -> None:
    long = {"summary": "s" * 300, "description": "d" * 1500}
    assert len(body(*(alert(annotations=long, fingerprint=f"{n:016x}") for n in range(1000)))) < LARGEST_BODY


def test_the_severity_is_kept_as_it_is_labelled_and_a_runbook_as_a_link() -> None:
    read = one(
        labels={**LABELS, "severity": "page"}, annotations={"runbook_url": "https://example.com/runbooks/gpu?a=b"}
    )
    assert (read.severity, read.level, read.runbook) == ("page", "critical", "https://example.com/runbooks/gpu?a=b")
    assert (one(labels={}).severity, one().runbook) == ("", "")


LINKS = ("javascript:alert(1)", "https://", "//example.com", "https://a b", "https://a\n", "", "/graph?g0.expr=up",
         "https://" + "x" * 2000, "http://:9090/graph", "http://?g0.expr=up", "http://[::1/graph", "http://a:99999/b",
)  # fmt: skip


@pytest.mark.parametrize("link", LINKS)
def test_what_no_browser_should_be_sent_to_is_no_link_for_slack_would_refuse_the_whole_message(link: str) -> None:
    read = one(generatorURL=link, annotations={"runbook_url": link})
    assert (read.graph, read.runbook) == ("", "")
    assert "generatorURL" not in read.annotations


def test_the_graph_of_its_expression_is_kept_as_a_link_however_long_the_expression_is() -> None:
    assert one().graph == "http://prometheus/graph"
    long = "https://prometheus/graph?g0.expr=" + "x" * 1500
    assert one(generatorURL=long).graph == long


GRAFANA = {
    "silenceURL": "https://grafana.example.com/alerting/silence/new?alertmanager=grafana",
    "dashboardURL": "https://grafana.example.com/d/gpu",
    "panelURL": "https://grafana.example.com/d/gpu?viewPanel=2",
    "imageURL": "https://grafana.example.com/x.png",
    "values": {"B": 44.2, "C": 1},
    "valueString": "[ var='B' labels={pod=trainer-0} value=44.2 ]",
}
"""What Grafana's alerting has at an alert besides what Alertmanager has."""


def test_a_webhook_of_grafanas_alerting_is_taken_with_the_link_to_its_panel() -> None:
    top = {"version": "1", "orgId": 1, "title": "[FIRING:1]", "state": "alerting", "message": "**Firing**"}
    [read] = read_alerts(body(alert(**GRAFANA), **top))
    assert (read.name, read.namespace, read.pod, read.level) == ("GPUPodPending", "ml", "trainer-0", "critical")
    assert read.graph == GRAFANA["panelURL"]
    [read] = read_alerts(body(alert(**{**GRAFANA, "panelURL": "", "values": None}), **top))
    assert read.graph == GRAFANA["dashboardURL"]
    [read] = read_alerts(body(alert(dashboardURL="javascript:alert(1)"), **top))
    assert read.graph == "http://prometheus/graph"


@pytest.mark.parametrize("version", ["4", "1"])
def test_how_many_alerts_the_sender_cut_off_is_known_of_each_that_came(version: str) -> None:
    read = read_alerts(body(alert(), alert(fingerprint="1"), version=version, truncatedAlerts=40))
    assert [content.cut for content in read] == [40, 40]
    assert one().cut == 0


def test_an_annotation_of_that_name_is_no_graph() -> None:
    assert one(generatorURL="", annotations={"generatorURL": "https://example.com"}).graph == ""
