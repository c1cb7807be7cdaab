"""`status`: versions that do not agree, open profiles, log levels, and flags without their secrets."""

import json
from pathlib import Path

import pytest

from tests.playbooks.status_support import ask, changed, daemon_set, healthy, only, service, without
from tests.playbooks.tables import table
from tests.playbooks.world import Object, cause, codes, quotes


@pytest.mark.parametrize(
    ("plugin", "found"),
    [
        ("2.7.1", ["version-mismatch"]),
        ("2.9.0", ["version-mismatch"]),
        ("2.10.3", ["healthy"]),
    ],
)
def test_minor_versions_of_scheduler_and_plugin_have_to_agree(tmp_path: Path, plugin: str, found: list[str]) -> None:
    report = ask(tmp_path, [*without(healthy(), "DaemonSet"), daemon_set(2, plugin)])
    assert codes(report) == found
    assert (report.severity == "critical") == (plugin == "2.7.1")


def test_each_of_several_device_plugins_has_to_agree(tmp_path: Path) -> None:
    second = daemon_set(1, "2.7.1")
    second["metadata"] = second["metadata"] | {"name": "hami-device-plugin-old"}
    report = ask(tmp_path, [*healthy(), second])
    assert codes(report) == ["version-mismatch"]
    assert "DaemonSet hami-system/hami-device-plugin-old" in [proof.object for proof in cause(report).evidence]


def test_a_chart_and_a_plugin_that_differ_from_the_scheduler_are_both_told(tmp_path: Path) -> None:
    objects = [*without(healthy(), "DaemonSet"), daemon_set(2, "2.9.0")]
    label = {"helm.sh/chart": "hami-2.8.0", "app.kubernetes.io/component": "hami-scheduler"}
    report = ask(tmp_path, changed(objects, "Deployment", lambda object_: object_["metadata"].update(labels=label)))
    assert codes(report) == ["version-mismatch", "version-mismatch"]


def test_a_chart_of_another_minor_version_is_found(tmp_path: Path) -> None:
    objects = changed(
        healthy(), "Deployment", lambda object_: object_["metadata"].update(labels={"helm.sh/chart": "hami-2.7.0"})
    )
    objects[0]["metadata"]["labels"] |= {"app.kubernetes.io/component": "hami-scheduler"}
    assert codes(ask(tmp_path, objects)) == ["version-mismatch"]


@pytest.mark.parametrize(
    ("version", "kind", "severity"),
    [("2.6.0", "NodePort", "warning"), ("2.9.0", "NodePort", "warning"), ("2.9.0", "ClusterIP", "info")],
)
def test_open_profiles_are_a_security_finding(tmp_path: Path, version: str, kind: str, severity: str) -> None:
    report = ask(tmp_path, [*without(healthy(version), "Service"), service(version, kind)])
    assert sorted(codes(report)) == ["healthy", "pprof-exposed"]
    found = only(report, "pprof-exposed")
    assert (found.severity, found.confidence) == (severity, "suspected")


def test_profiling_that_was_switched_on_is_found(tmp_path: Path) -> None:
    report = ask(tmp_path, healthy(flags=["--profiling"]))
    assert codes(report) == ["pprof-exposed", "healthy"]
    assert cause(report).confidence == "confirmed"


@pytest.mark.parametrize(("level", "severity"), [(5, "info"), (6, "warning"), (9, "warning")])
def test_a_raised_log_level_is_told(tmp_path: Path, level: int, severity: str) -> None:
    assert only(ask(tmp_path, healthy(flags=[f"-v={level}"])), "verbosity-high").severity == severity


def test_no_flag_shows_a_secret(tmp_path: Path) -> None:
    flags = ["--api-token=hush-hush", "--password", "hush-hush", "--proxy=http://me:hush-hush@proxy"]
    report = ask(tmp_path, healthy(flags=flags))
    rows = {row["flag"]: row["value"] for row in table(report, "flags")}
    assert rows["--api-token"] == rows["--password"] == "***"
    assert "hush-hush" not in json.dumps([*rows.items(), *quotes(report)])


def test_the_flags_show_what_holds_where_nothing_is_set(tmp_path: Path) -> None:
    rows = {row["flag"]: row["value"] for row in table(ask(tmp_path, healthy()), "flags") if row["of"] == "scheduler"}
    assert rows["--kube-qps"] == "5 (default)"
    assert rows["-v"] == "4"


# ---------------------------------------------------------------------------------------------- Kubernetes


def with_kubelets(version: str, *names: str) -> list[Object]:
    """A healthy installation whose nodes of these names have a kubelet of that version."""
    objects = healthy()
    for object_ in objects:
        if object_["kind"] == "Node" and object_["metadata"]["name"] in names:
            object_["status"]["nodeInfo"] = {"kubeletVersion": version}
    return objects


def test_kubelets_older_than_1_23_are_not_supported(tmp_path: Path) -> None:
    report = ask(tmp_path, with_kubelets("v1.22.17+k3s1", "gpu-2"))
    assert codes(report) == ["kubernetes-unsupported", "healthy"]
    assert "kubelet on gpu-2 is 1.22.17, older than 1.23" in report.verdict
    assert cause(report).scope.nodes == ("gpu-2",)


@pytest.mark.parametrize("version", ["v1.23.0", "v1.36.2-eks-1", "unknown"])
def test_newer_kubelets_and_those_of_no_known_version_are_well(tmp_path: Path, version: str) -> None:
    assert codes(ask(tmp_path, with_kubelets(version, "gpu-1", "gpu-2"))) == ["healthy"]
