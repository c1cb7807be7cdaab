"""HAMi's installation, found among objects of whatever chart version."""

from typing import Any

import msgspec
import pytest

from bot.hami.installation.install import find_device_config, is_ready, read_install
from bot.hami.pods.request_parsing import DeviceConfig
from bot.kube.hami_pods import read_flags
from bot.kube.models import ConfigMap, Pod, Workload

COMMAND = ["scheduler", "--http_bind=0.0.0.0:443", "--scheduler-name=hami-scheduler", "--debug", "-v=4"]


def containers(image: str, command: list[str], sidecars_first: int = 1) -> list[dict[str, Any]]:
    others = [{"name": "kube-scheduler", "image": "registry.k8s.io/kube-scheduler:v1.34.1", "command": ["k", "-v=9"]}]
    extender = {"name": "vgpu-scheduler-extender", "image": image, "command": command}
    return [*others * sidecars_first, extender, {"name": "injected-sidecar", "image": "mesh:v9.9.9"}]


def deployment(image="projecthami/hami:v2.10.0", command=COMMAND, labels=None, name="hami-scheduler"):
    return msgspec.convert(
        {
            "metadata": {"name": name, "namespace": "hami-system", "labels": labels},
            "spec": {"template": {"spec": {"containers": containers(image, command)}}},
        },
        Workload,
    )


def scheduler_pod(name="hami-1", image="projecthami/hami:v2.10.0", command=COMMAND, *, ready=True, **labels):
    return msgspec.convert(
        {
            "metadata": {"name": name, "namespace": "hami-system", "labels": labels},
            "spec": {"containers": containers(image, command)},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": str(ready)}]},
        },
        Pod,
    )


def test_the_extender_is_found_by_its_container_name_in_any_position():
    install = read_install([deployment()], [scheduler_pod()], None)
    assert install.seen
    assert install.namespace == "hami-system"
    assert install.flags["v"] == "4"
    assert install.scheduler_name == "hami-scheduler"


def test_nothing_found_is_not_seen_and_has_the_default_name():
    install = read_install([], [], None)
    assert not install.seen
    assert install.version is None
    assert install.scheduler_name == "hami-scheduler"


def test_pods_without_the_extender_are_no_schedulers():
    other = msgspec.convert({"metadata": {"name": "x"}, "spec": {"containers": [{"name": "app"}]}}, Pod)
    assert read_install([], [other], None).pods == ()


def test_a_running_image_counts_before_the_deployment_s_and_both_before_labels():
    chart = {"helm.sh/chart": "hami-2.7.0", "app.kubernetes.io/version": "2.7.0"}
    deployed = deployment("projecthami/hami:v2.7.1", labels=chart)
    both = read_install([deployed], [scheduler_pod(image="projecthami/hami:v2.7.2")], None)
    assert both.version is not None
    assert (str(both.version.version), both.version.object) == ("2.7.2", "Pod hami-system/hami-1")
    alone = read_install([deployed], [], None)
    assert alone.version is not None
    assert (str(alone.version.version), alone.version.quote) == ("2.7.1", "projecthami/hami:v2.7.1")


@pytest.mark.parametrize("image", ["projecthami/hami:latest", "hami@sha256:0123456789", "host-2.10.example.com/hami"])
def test_an_image_without_a_version_leaves_it_to_the_labels_and_then_to_the_hint(image):
    labelled = read_install([deployment(image, labels={"helm.sh/chart": "hami-2.8.1"})], [], None)
    assert labelled.version is not None
    assert (str(labelled.version.version), labelled.version.quote) == ("2.8.1", "hami-2.8.1")
    hinted = read_install([deployment(image)], [], None, version_hint="v2.9.0")
    assert hinted.version is not None
    assert (str(hinted.version.version), hinted.version.object) == ("2.9.0", "meta.json of the recording")
    assert read_install([deployment(image)], [], None).version is None


def test_ready_pods_come_first():
    install = read_install([], [scheduler_pod("a", ready=False), scheduler_pod("b")], None)
    assert [pod.name for pod in install.pods] == ["b", "a"]
    assert [pod.name for pod in install.ready_pods] == ["b"]


@pytest.mark.parametrize(
    ("phase", "status", "deleted", "ready"),
    [
        ("Running", "True", None, True),
        ("Running", "False", None, False),
        ("Running", "Unknown", None, False),
        ("Pending", "True", None, False),
        ("Running", "True", "2026-11-21T05:00:00Z", False),
    ],
)
def test_a_pod_is_ready_when_it_runs_and_says_so(phase, status, deleted, ready):
    one = msgspec.convert(
        {
            "metadata": {"name": "p", "deletionTimestamp": deleted},
            "status": {"phase": phase, "conditions": [{"type": "Ready", "status": status}]},
        },
        Pod,
    )
    assert is_ready(one) is ready


@pytest.mark.parametrize(
    ("command", "flags"),
    [
        (["scheduler", "--a=b", "--debug", "-v=4"], {"a": "b", "debug": "true", "v": "4"}),
        (["scheduler", "-v", "5"], {"v": "5"}),
        (["scheduler", "-v=4", "--v=5"], {"v": "5"}),
        (["scheduler", "--scheduler-name", "mine", "--debug"], {"scheduler-name": "mine", "debug": "true"}),
        (["scheduler", "--empty=", "--leader-elect=true"], {"empty": "", "leader-elect": "true"}),
        (["scheduler", "--node-label-selector=a=b,c!=d"], {"node-label-selector": "a=b,c!=d"}),
        (["scheduler", "--debug", "-v=4"], {"debug": "true", "v": "4"}),
        (["sh", "-c", "scheduler --a=b"], {"c": "scheduler", "a": "b"}),
        (["--", "-", "---x", "plain"], {}),
        ([], {}),
    ],
)
def test_flags_of_a_command_line_the_last_one_winning(command, flags):
    assert read_flags(command) == flags


def test_flags_may_stand_in_args():
    template = {"spec": {"containers": [{"name": "vgpu-scheduler-extender", "command": ["s"], "args": ["--x=y"]}]}}
    one = msgspec.convert({"spec": {"template": template}}, Workload)
    assert read_install([one], [], None).flags == {"x": "y"}


def test_the_device_config_is_found_by_its_file_name():
    maps = [
        msgspec.convert({"data": {"config.yaml": "x"}}, ConfigMap),
        msgspec.convert({"data": None}, ConfigMap),
        msgspec.convert({"data": {"device-config.yaml": "nvidia: {memoryFactor: 2}"}}, ConfigMap),
    ]
    found = find_device_config(maps)
    assert isinstance(found, DeviceConfig)
    assert found.gpus.memory_factor == 2
    assert find_device_config(maps[:2]) is None
    broken = find_device_config([msgspec.convert({"data": {"device-config.yaml": "["}}, ConfigMap)])
    assert isinstance(broken, str)
