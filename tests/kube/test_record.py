import asyncio
import gzip
import tarfile

import pytest

from bot.errors import SourceError, UsageError
from bot.hami.vendors import ANNOTATIONS
from bot.kube.models import ALL_KINDS, CONFIG_MAPS, DEPLOYMENTS, EVENTS, NODES, PODS
from bot.kube.recording.record import record
from bot.kube.recording.recorded_cluster import RecordedCluster
from tests.kube.samples import META, TAKEN_AT, a_list, archive, folder, pod

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
HAMI = {"app.kubernetes.io/component": "hami-scheduler"}
EXTENDER_LOG = "logs/hami-system/hami-scheduler-0/vgpu-scheduler-extender.log"
KUBE_LOG = "logs/hami-system/hami-scheduler-0/kube-scheduler.log"


def secret(place):
    """A value that must not leave the cluster; the place tells which one did."""
    return f"CANARY-{place}"


def scheduler_pod():
    extender = {
        "name": "vgpu-scheduler-extender",
        "command": ["scheduler", "-v=4", f"--token={secret('flag')}"],
        "env": [{"name": "A", "value": secret("env")}],
    }
    sidecar = {
        "name": "kube-scheduler",
        "args": ["--config=/config.yaml"],
        "env": [{"name": "B", "value": secret("env")}],
    }
    value = pod("hami-scheduler-0", "hami-system", containers=[extender, sidecar])
    value["metadata"]["labels"] = HAMI
    return value


def user_pod():
    container = {
        "name": "main",
        "command": ["sh", "-c", secret("command")],
        "args": [secret("args")],
        "env": [{"name": "C", "value": secret("env")}],
        "envFrom": [{"secretRef": {"name": secret("secret-name")}}],
        "resources": {"limits": {"nvidia.com/gpu": 1, "nvidia.com/gpumem": "3000"}},
    }
    value = pod("trainer-0", containers=[container], volumes=[{"secret": {"secretName": secret("volume")}}])
    value["metadata"]["annotations"] = {
        LAST_APPLIED: secret("last-applied"),
        "team.example.com/note": secret("annotation"),
        "hami.io/vgpu-node": "gpu-1",
        "nvidia.com/note": f"token={secret('vendor-annotation')}",
    }
    value["metadata"]["managedFields"] = [{"manager": secret("manager")}]
    value["status"] = {
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "message": f"kept; password={secret('condition')}"}],
        "containerStatuses": [
            {"name": "main", "state": {"waiting": {"message": f"https://u:{secret('url')}@registry.example"}}},
            {"name": "x", "lastState": {"terminated": {"message": f"Bearer {secret('terminated')}"}}},
        ],
    }
    return value


def deployment():
    template = {
        "metadata": {"labels": HAMI, "annotations": {LAST_APPLIED: secret("template")}},
        "spec": scheduler_pod()["spec"],
    }
    metadata = {
        "name": "hami-scheduler",
        "namespace": "hami-system",
        "annotations": {LAST_APPLIED: secret("deployment")},
    }
    return {"kind": "Deployment", "metadata": metadata, "spec": {"replicas": 1, "template": template}}


def config_maps():
    ours = {
        "metadata": {"name": "d", "namespace": "hami-system"},
        "data": {"device-config.yaml": "a: 1", "x": secret("key")},
    }
    theirs = {"metadata": {"name": "app", "namespace": "ml"}, "data": {"config.json": secret("config")}}
    return a_list(ours, theirs)


def cluster_files():
    """A small cluster with a secret in every place that could hold one."""
    event = {
        "metadata": {"name": "e", "namespace": "ml", "annotations": {"x": secret("event-annotation")}},
        "involvedObject": {"kind": "Pod", "namespace": "ml", "name": "trainer-0"},
        "message": f"3 nodes CardInsufficientMemory; api_key: {secret('event')}",
        "lastTimestamp": TAKEN_AT,
    }
    node = {
        "metadata": {
            "name": "gpu-1",
            "annotations": {"hami.io/node-handshake": "Reported", LAST_APPLIED: secret("node")},
        }
    }
    return {
        "objects/pods.json": a_list(user_pod(), scheduler_pod()),
        "objects/events.json": a_list(event),
        "objects/nodes.json": a_list(node),
        "objects/deployments.apps.json": a_list(deployment()),
        "objects/configmaps.json": config_maps(),
        "objects/secrets.json": a_list({"metadata": {"name": "s"}, "data": {"x": secret("secret")}}),
        EXTENDER_LOG: f'1 pod="ml/trainer-0" token={secret("log")}\n2 pod="ml/other"\n'.encode(),
        KUBE_LOG: f'1 pod="ml/other" {{"name":"X","value":"{secret("log-env")}"}}\n'.encode(),
        "logs/ml/trainer-0/main.log": secret("user-log").encode(),
    }


@pytest.fixture
def cluster(tmp_path):
    return RecordedCluster.open(archive(tmp_path / "lab.tar.gz", {"meta.json": META, **cluster_files()}))


def written(cluster, out, pod=None):
    return asyncio.run(record(cluster, out, pod=pod, server_version="v1.34.1", annotations=ANNOTATIONS))


@pytest.fixture(params=["case.tar.gz", "case.tgz", "case"])
def out(request, tmp_path):
    (tmp_path / "out").mkdir()
    return tmp_path / "out" / request.param


def plain_bytes(out):
    if out.is_dir():
        return b"".join(file.name.encode() + file.read_bytes() for file in sorted(out.rglob("*")) if file.is_file())
    return gzip.decompress(out.read_bytes())


def test_no_secret_leaves_the_cluster(cluster, out):
    written(cluster, out)
    data = plain_bytes(out)
    leaks = {data[at : at + 24] for at in range(len(data)) if data.startswith(b"CANARY", at)}
    assert leaks == set()


def test_what_a_diagnosis_needs_is_there_and_reads_back(cluster, out):
    summary = written(cluster, out)
    again = RecordedCluster.open(out)
    assert (again.name, again.now(), asyncio.run(again.server_version())) == ("lab", cluster.now(), "v1.34.1")
    trainer = asyncio.run(again.get(PODS, "trainer-0", "ml"))
    original = asyncio.run(cluster.get(PODS, "trainer-0", "ml"))
    assert trainer.metadata.annotations == {"hami.io/vgpu-node": "gpu-1", "nvidia.com/note": "token=***"}
    assert trainer.metadata.labels == original.metadata.labels
    assert trainer.spec.containers[0].resources == original.spec.containers[0].resources
    assert trainer.condition("PodScheduled").message == "kept; password=***"
    scheduler = asyncio.run(again.get(PODS, "hami-scheduler-0", "hami-system"))
    assert scheduler.spec.containers[0].command == ["scheduler", "-v=4", "--token=***"]
    assert scheduler.spec.containers[1].args == ["--config=/config.yaml"]
    event = asyncio.run(again.list(EVENTS))[0]
    assert event.message == "3 nodes CardInsufficientMemory; api_key: ***"
    configs = {item.name: item.data for item in asyncio.run(again.list(CONFIG_MAPS))}
    assert configs == {"d": {"device-config.yaml": "a: 1"}}
    assert again.files("logs/") == list(summary.logs) == [KUBE_LOG, EXTENDER_LOG]
    assert again.read(EXTENDER_LOG) == b'1 pod="ml/trainer-0" token=***\n2 pod="ml/other"\n'
    assert again.undecodable == []


def test_what_was_recorded_is_recorded_again_unchanged(cluster, out, tmp_path):
    written(cluster, out)
    first, second = RecordedCluster.open(out), tmp_path / "second"
    written(first, second)
    for kind in (PODS, NODES, EVENTS, DEPLOYMENTS, CONFIG_MAPS):
        assert asyncio.run(RecordedCluster.open(second).list(kind)) == asyncio.run(first.list(kind))


def test_a_kind_that_could_not_be_read_is_a_gap_and_no_empty_list(cluster, out):
    summary = written(cluster, out)
    assert summary.objects == {"nodes": 1, "pods": 2, "events": 1, "configmaps": 1, "deployments": 1}
    assert {gap.source for gap in summary.gaps} == {kind.plural for kind in ALL_KINDS} - set(summary.objects)
    with pytest.raises(SourceError, match="is not in the recording"):
        asyncio.run(RecordedCluster.open(out).list(next(kind for kind in ALL_KINDS if kind.plural == "jobs")))


def test_logs_are_limited_to_the_lines_about_one_pod(cluster, out):
    written(cluster, out, pod=("ml", "trainer-0"))
    again = RecordedCluster.open(out)
    assert again.read(EXTENDER_LOG) == b'1 pod="ml/trainer-0" token=***\n'
    assert again.read(KUBE_LOG) == b""
    assert len(asyncio.run(again.list(PODS))) == 2


def test_the_same_cluster_gives_the_same_bytes(cluster, tmp_path):
    for place in ("a", "b"):
        (tmp_path / place).mkdir()
        written(cluster, tmp_path / place / "case.tar.gz")
    assert (tmp_path / "a/case.tar.gz").read_bytes() == (tmp_path / "b/case.tar.gz").read_bytes()


def test_an_archive_carries_the_time_of_the_recording_and_no_user(cluster, tmp_path):
    written(cluster, tmp_path / "case.tar.gz")
    with tarfile.open(tmp_path / "case.tar.gz") as members:
        found = members.getmembers()
    assert [member.name for member in found] == sorted(member.name for member in found)
    assert {member.name.partition("/")[0] for member in found} == {"case"}
    assert {(member.uid, member.gid, member.uname, member.mtime) for member in found} == {
        (0, 0, "", int(cluster.now().timestamp()))
    }


def test_a_log_that_could_not_be_read_is_a_gap(tmp_path):
    files = cluster_files()
    del files[KUBE_LOG]
    summary = written(RecordedCluster.open(folder(tmp_path / "lab", files)), tmp_path / "case")
    assert summary.logs == (EXTENDER_LOG,)
    assert summary.gaps[-1].source == "log of hami-system/hami-scheduler-0 kube-scheduler"


def test_a_scheduler_without_labels_is_known_by_its_container(tmp_path):
    files = cluster_files()
    unlabelled = scheduler_pod()
    del unlabelled["metadata"]["labels"]
    files["objects/pods.json"] = a_list(unlabelled)
    summary = written(RecordedCluster.open(folder(tmp_path / "lab", files)), tmp_path / "case")
    assert summary.logs == (KUBE_LOG, EXTENDER_LOG)


def test_a_pod_whose_name_leads_elsewhere_writes_nothing_there(tmp_path):
    hostile = scheduler_pod()
    hostile["metadata"]["namespace"] = "../../.."
    summary = written(
        RecordedCluster.open(folder(tmp_path / "lab", {"objects/pods.json": a_list(hostile)})), tmp_path / "case"
    )
    assert summary.logs == ()
    assert sorted(file.name for file in (tmp_path / "case").rglob("*") if file.is_file()) == ["meta.json", "pods.json"]


def test_nothing_is_written_when_nothing_could_be_read(tmp_path):
    with pytest.raises(SourceError, match="nothing could be read from lab"):
        written(RecordedCluster.open(folder(tmp_path / "lab", {})), tmp_path / "case")
    assert not (tmp_path / "case").exists()


@pytest.mark.parametrize("name", ["full", "missing/case.tar.gz", "file.json", "full/file.json/case"])
def test_a_place_that_is_taken_or_missing_is_refused_before_reading(cluster, tmp_path, name):
    (tmp_path / "full").mkdir()
    for file in ("full/file.json", "file.json"):
        (tmp_path / file).write_text("mine")
    with pytest.raises(UsageError):
        written(cluster, tmp_path / name)
    assert (tmp_path / "file.json").read_text() == "mine"


def test_an_archive_is_replaced_and_nothing_else_is_left(cluster, tmp_path):
    (tmp_path / "out").mkdir()
    for _ in range(2):
        written(cluster, tmp_path / "out/case.tar.gz")
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["case.tar.gz"]
