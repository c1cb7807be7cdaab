import asyncio
import contextlib
import gzip
import json
import os
import tarfile
import tempfile
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.errors import NotFound, SourceError
from bot.kube.cluster import LogLines, LogWanted
from bot.kube.models import DEPLOYMENTS, EVENTS, LEASES, PODS
from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.texts import in_english
from tests.kube.samples import META, TAKEN_AT, a_list, archive, folder, pod

LOG = "logs/hami-system/scheduler-0/extender.log"


def listed(cluster, kind, *args, **kwargs):
    return [item.name for item in asyncio.run(cluster.list(kind, *args, **kwargs))]


def logged(cluster, needle=b"", limit=1000, at=("hami-system", "scheduler-0", "extender")):
    return asyncio.run(cluster.log(LogWanted(*at, needle, limit_bytes=limit)))


@pytest.fixture(params=["folder", "archive", "archive without a top folder", "folder in a folder"])
def opened(request, tmp_path):
    """Opens the same files as each of the forms that a recording may have."""

    def open_as(files, meta=META):
        match request.param:
            case "folder":
                return RecordedCluster.open(folder(tmp_path / "case", files, meta))
            case "folder in a folder":
                folder(tmp_path / "case" / "inner", files, meta)
                return RecordedCluster.open(tmp_path / "case")
        members = {**files} if meta is None else {"meta.json": meta, **files}
        if request.param == "archive":
            members = {f"case/{name}": data for name, data in members.items()}
        return RecordedCluster.open(archive(tmp_path / "case.tar.gz", members))

    return open_as


def test_a_recording_answers_for_the_moment_it_was_taken(opened):
    cluster = opened({"objects/pods.json": a_list()}, META | {"hami_version": "v2.10.0", "unknown": 1})
    assert cluster.now() == datetime(2026, 11, 21, 5, tzinfo=UTC)
    assert (cluster.name, asyncio.run(cluster.server_version()), cluster.hami_version_hint) == (
        "lab",
        "v1.34.1",
        "v2.10.0",
    )


def test_what_no_object_shows_of_hami_s_devices_stands_in_meta(opened):
    told = {"hami_vnpu_core": True, "neuron_cores_per_device": 4}
    cluster = opened({"objects/pods.json": a_list()}, META | told)
    assert cluster.device_hints == {"hami_vnpu_core": 1, "neuron_cores_per_device": 4}
    assert opened({"objects/pods.json": a_list()}, META).device_hints == {}


def test_a_time_is_all_that_a_hand_made_meta_needs(opened):
    cluster = opened({"objects/pods.json": a_list()}, {"taken_at": TAKEN_AT})
    assert (cluster.name, cluster.hami_version_hint, cluster.notes) == ("case", "", ())


def test_without_meta_the_newest_time_of_the_objects_is_taken_and_told(opened):
    seen = pod("a") | {"status": {"conditions": [{"type": "Ready", "lastTransitionTime": "2026-11-21T04:00:00Z"}]}}
    seen["metadata"]["managedFields"] = [{"time": "2027-01-01T00:00:00Z"}]
    seen["metadata"]["annotations"] = {"startTime": "2027-01-01T00:00:00Z"}
    event = {"metadata": {"name": "e"}, "lastTimestamp": "2026-11-21T05:00:00Z", "eventTime": None}
    cluster = opened({"objects/pods.json": a_list(seen), "objects/events.json": a_list(event)}, meta=None)
    assert cluster.now() == datetime(2026, 11, 21, 5, tzinfo=UTC)
    assert [note.source for note in cluster.notes] == ["meta.json"]
    assert "2026-11-21T05:00:00Z" in in_english(cluster.notes[0].text)


@pytest.mark.parametrize(
    ("meta", "said"),
    [
        ({"format": "hami-bot.recording/v2", "taken_at": TAKEN_AT}, "hami-bot.recording/v2"),
        ({"format": "hami-bot.recording/v1"}, "taken_at"),
        ({"taken_at": "yesterday"}, "yesterday"),
        ({"taken_at": "2026-11-21"}, "2026-11-21"),
        ({"taken_at": 5}, "taken_at"),
        ({"taken_at": TAKEN_AT, "cluster": ["x"]}, "cluster"),
        ([], "meta.json"),
        (b"{", "meta.json"),
        (b"[" * 100_000, "meta.json"),
        (b'{"taken_at": "\xff"}', "meta.json"),
        (None, "no object in it carries a time"),
    ],
)
def test_an_unusable_meta_is_named_with_a_hint(opened, meta, said):
    with pytest.raises(SourceError, match=said) as caught:
        opened({"objects/pods.json": a_list(pod("a"))}, meta)
    assert in_english(caught.value.hint)


@pytest.mark.parametrize("name", ["nowhere", "nowhere.tar.gz", "x\0y"])
def test_a_path_that_does_not_exist_is_named(tmp_path, name):
    with pytest.raises(SourceError, match="does not exist"):
        RecordedCluster.open(tmp_path / name)


def test_a_folder_that_is_no_recording_is_named(tmp_path):
    (tmp_path / "sub").mkdir()
    with pytest.raises(SourceError, match=r"no meta\.json and no objects/"):
        RecordedCluster.open(tmp_path)


def test_an_archive_that_is_no_recording_is_named(tmp_path):
    with pytest.raises(SourceError, match=r"no meta\.json and no objects/"):
        RecordedCluster.open(archive(tmp_path / "a.tar.gz", {"a/b/meta.json": META, "readme": b""}))


def test_which_of_two_recordings_is_meant_is_not_guessed(tmp_path):
    for name in ("a", "b"):
        folder(tmp_path / name, {})
    with pytest.raises(SourceError, match="holds 2 recordings"):
        RecordedCluster.open(tmp_path)


def test_what_macos_adds_to_an_archive_does_no_harm(tmp_path):
    members = {"._case": b"\0", "case/._meta.json": b"\0", "case/meta.json": META, "case/objects/._pods.json": b"\0"}
    assert RecordedCluster.open(archive(tmp_path / "a.tar.gz", members)).name == "lab"


def test_objects_are_found_by_namespace_labels_and_fields(opened):
    pods = a_list(pod("a", nodeName="gpu-1"), pod("b"), pod("a", "other"))
    cluster = opened({"objects/pods.json": pods})
    assert listed(cluster, PODS) == ["a", "b", "a"]
    assert listed(cluster, PODS, "ml") == ["a", "b"]
    assert listed(cluster, PODS, labels="app in (b)") == ["b"]
    assert listed(cluster, PODS, "ml", fields="spec.nodeName!=gpu-1", metadata_only=True) == ["b"]
    assert asyncio.run(cluster.get(PODS, "a", "other")).namespace == "other"


@pytest.mark.parametrize("selector", [{"labels": "a=b=c"}, {"fields": "nonsense"}, {"fields": "spec.nope=1"}])
def test_a_selector_that_cannot_be_evaluated_is_no_empty_answer(opened, selector):
    with pytest.raises(SourceError, match="could not be searched"):
        listed(opened({"objects/pods.json": a_list(pod("a"))}), PODS, **selector)


def test_an_absent_object_is_named_as_the_api_server_would(opened):
    cluster = opened({"objects/pods.json": a_list(pod("a")), "objects/deployments.apps.json": a_list()})
    for kind, said in ((PODS, 'pods "x" not found'), (DEPLOYMENTS, 'deployments.apps "x" not found')):
        with pytest.raises(NotFound) as caught:
            asyncio.run(cluster.get(kind, "x", "ml"))
        assert in_english(caught.value.message) == said


def test_a_missing_file_is_no_empty_list_and_no_absent_object(opened):
    cluster = opened({"objects/pods.json": a_list()})
    for reading in (cluster.list(EVENTS), cluster.get(EVENTS, "x", "ml")):
        with pytest.raises(SourceError, match=r"objects/events\.json is not in the recording") as caught:
            asyncio.run(reading)
        assert not isinstance(caught.value, NotFound)
        assert in_english(caught.value.hint)


def test_a_file_that_is_no_list_is_named(opened):
    cluster = opened({"objects/leases.coordination.k8s.io.json": b"No resources found"})
    with pytest.raises(SourceError, match=r"^objects/leases\.coordination\.k8s\.io\.json is no") as caught:
        listed(cluster, LEASES)
    assert "kubectl get leases.coordination.k8s.io -A -o json" in in_english(caught.value.hint)


def test_what_could_not_be_decoded_is_remembered_and_not_called_absent(opened):
    broken = pod("x") | {"spec": {"containers": 5}}
    cluster = opened({"objects/pods.json": a_list(pod("a"), broken)})
    assert listed(cluster, PODS) == listed(cluster, PODS) == ["a"]
    assert len(cluster.undecodable) == 1
    assert cluster.undecodable[0].startswith("pods.json item 1 (ml/x): Expected `array`")
    with pytest.raises(SourceError, match="item 1 could not be read") as caught:
        asyncio.run(cluster.get(PODS, "x", "ml"))
    assert not isinstance(caught.value, NotFound)
    with pytest.raises(NotFound):
        asyncio.run(cluster.get(PODS, "y", "ml"))


def test_an_item_without_a_readable_name_may_be_any_object(opened):
    cluster = opened({"objects/pods.json": a_list(pod("a"), 7)})
    with pytest.raises(SourceError, match="item 1 could not be read"):
        asyncio.run(cluster.get(PODS, "y", "ml"))


@pytest.mark.parametrize(
    ("needle", "lines"),
    [
        (b"ml/a", ("1 ml/a", "4 ml/a ml/a")),
        (b"2", ("2 ml/b",)),
        (b"nothing", ()),
        (b"ml/a\n2", ()),
        (b"", ("1 ml/a", "2 ml/b", "", "4 ml/a ml/a", "\ufffd")),
    ],
)
def test_the_lines_that_hold_the_needle_are_given_in_order(opened, needle, lines):
    cluster = opened({LOG: b"1 ml/a\n2 ml/b\n\n4 ml/a ml/a\n\xff"})
    assert logged(cluster, needle)[:2] == (lines, False)


@given(st.lists(st.binary(max_size=6).map(lambda line: line.replace(b"\n", b"")), max_size=8), st.binary(max_size=2))
def test_searching_gives_what_splitting_would(lines, needle):
    log = b"".join(line + b"\n" for line in lines)
    with tempfile.TemporaryDirectory() as place:
        found = logged(RecordedCluster.open(folder(Path(place), {LOG: log})), needle)
    assert found.lines == tuple(line.decode("utf-8", "replace") for line in lines if needle in line)


@pytest.mark.parametrize(
    ("limit", "lines", "cut"),
    [
        (100, ("one", "two", "three"), False),
        (14, ("one", "two", "three"), False),
        (13, ("two", "three"), True),
        (10, ("two", "three"), True),
        (9, ("three",), True),
        (3, (), True),
        (0, (), True),
    ],
)
def test_of_a_long_log_the_newest_whole_lines_are_given(opened, limit, lines, cut):
    assert logged(opened({LOG: b"one\ntwo\nthree\n"}), limit=limit)[:2] == (lines, cut)


@pytest.mark.parametrize("limit", [0, 10, 3_999_990, 4_000_000, 4_000_001, 9_000_000])
def test_a_long_log_in_an_archive_gives_what_it_gives_in_a_folder(tmp_path, limit):
    """Lines of 10 bytes, over many pieces; the archive does not keep such a log."""
    files = {LOG: b"".join(b"%09d\n" % number for number in range(400_000)), "objects/pods.json": a_list()}
    there = [
        RecordedCluster.open(folder(tmp_path / "case", files)),
        RecordedCluster.open(archive(tmp_path / "case.tar.gz", {"meta.json": META, **files})),
    ]
    first, second = (logged(name, b"99", limit) for name in there)
    assert first == second
    assert first.cut is (limit < 4_000_000)


def test_a_log_of_a_hundred_megabytes_is_never_held_whole(tmp_path):
    piece = b"".join(b"%063d\n" % number for number in range(16 * 1024))
    path = tmp_path / "long.tar.gz"
    meta, header = tarfile.TarInfo("meta.json"), tarfile.TarInfo(LOG)
    about = json.dumps(META).encode()
    meta.size, header.size = len(about), 100 * len(piece)
    with gzip.open(path, "wb", compresslevel=1) as packed:
        packed.write(meta.tobuf() + about.ljust(512, b"\0") + header.tobuf())
        for _ in range(100):
            packed.write(piece)
        packed.write(bytes(1024))
    tracemalloc.start()
    try:
        found = logged(RecordedCluster.open(path), b"%063d" % 16_000, limit=200 * 1024 * 1024)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(found.lines) == 100
    assert peak < 8 * 1024 * 1024


@pytest.mark.parametrize("tail", [0, 9])
def test_the_runtime_s_times_are_given_only_to_who_asks_for_them(opened, tail):
    # By kubectl logs --timestamps; the third line as an editor leaves it that cuts spaces at the end.
    log = b"2026-11-21T04:59:58.123456789Z panic: 0\n2026-11-21T04:59:59Z \n2026-11-21T04:59:59Z\n"
    cluster, at = opened({LOG: log}), LOG.removeprefix("logs/").removesuffix(".log").split("/")
    plain, stamped = (
        asyncio.run(cluster.log(LogWanted(*at, b"", tail=tail, stamped=stamped))) for stamped in (False, True)
    )
    assert (plain.lines, plain.first) == (("panic: 0", "", ""), "panic: 0")
    assert stamped.lines == tuple(log.decode().splitlines())


@pytest.mark.parametrize("tail", [0, 9])
def test_a_time_that_the_program_wrote_itself_stays(opened, tail):
    log = b"2026-11-21T04:59:58Z INFO starts\nTraceback: 0\n"
    cluster, at = opened({LOG: log}), LOG.removeprefix("logs/").removesuffix(".log").split("/")
    found = asyncio.run(cluster.log(LogWanted(*at, b"", tail=tail)))
    assert (found.lines, found.first) == (tuple(log.decode().splitlines()), "2026-11-21T04:59:58Z INFO starts")


def test_the_log_of_the_run_before_a_restart_is_a_file_of_its_own(opened):
    cluster = opened({LOG: b"now\n", LOG.replace(".log", ".previous.log"): b"then\n"})
    at = LOG.removeprefix("logs/").removesuffix(".log").split("/")
    wanted = LogWanted(*at, b"", previous=True)
    assert asyncio.run(cluster.log(wanted)) == LogLines(("then",), first="then")


@pytest.mark.parametrize("name", ["../../secret", "..", "", "a/b", "a\\b", "a\0b"])
def test_no_name_of_a_pod_leads_outside_the_logs(opened, name):
    cluster = opened({"logs/secret.log": b"x", "logs/ns/pod/c.log": b"x"})
    for at in ((name, "pod", "c"), ("ns", name, "c"), ("ns", "pod", name)):
        with pytest.raises(SourceError):
            logged(cluster, at=at)


def test_other_files_are_offered_by_name(opened):
    cluster = opened({"metrics/hami-system/s/9395.prom": b"x 1\n", "pprof/p.pb.gz": b"\x1f\x8b"})
    assert cluster.files("metrics/") == ["metrics/hami-system/s/9395.prom"]
    assert cluster.files() == ["meta.json", "metrics/hami-system/s/9395.prom", "pprof/p.pb.gz"]
    assert cluster.read("pprof/p.pb.gz") == b"\x1f\x8b"
    with pytest.raises(SourceError, match="x is not in the recording"):
        cluster.read("x")


def test_a_link_in_a_folder_leads_nowhere_outside(tmp_path):
    (tmp_path / "secret").write_bytes(a_list(pod("a")))
    case = folder(tmp_path / "case", {"objects/nodes.json": a_list()})
    (case / "objects/pods.json").symlink_to(tmp_path / "secret")
    cluster = RecordedCluster.open(case)
    with pytest.raises(SourceError):
        listed(cluster, PODS)
    with pytest.raises(SourceError):
        cluster.read("../secret")


def test_a_pipe_in_a_folder_is_not_waited_for(tmp_path):
    case = folder(tmp_path / "case", {"objects/nodes.json": a_list()})
    os.mkfifo(case / "objects/pods.json")
    with pytest.raises(SourceError, match="is not in the recording"):
        listed(RecordedCluster.open(case), PODS)


@pytest.mark.parametrize("name", ["x" * 300, "\ud800"])
def test_a_name_that_no_file_can_have_is_a_missing_file(tmp_path, name):
    cluster = RecordedCluster.open(folder(tmp_path / "case", {}))
    with pytest.raises(SourceError):
        cluster.read(name)


@given(st.binary(), st.binary())
def test_any_bytes_as_a_file_are_read_or_refused(meta, objects):
    with tempfile.TemporaryDirectory() as place, contextlib.suppress(SourceError):
        case = folder(Path(place), {"objects/pods.json": objects, "meta.json": meta}, meta=None)
        asyncio.run(RecordedCluster.open(case).list(PODS))


def test_a_list_is_decoded_once(tmp_path):
    cluster = RecordedCluster.open(folder(tmp_path / "case", {"objects/pods.json": a_list(pod("a"))}))
    first = asyncio.run(cluster.get(PODS, "a", "ml"))
    (tmp_path / "case/objects/pods.json").write_text(json.dumps({}))
    assert asyncio.run(cluster.get(PODS, "a", "ml")) is first
