import contextlib
import gzip
import io
import tarfile
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bot.errors import SourceError
from bot.kube.recording.files import MAX_JSON, MAX_MEMBERS, MAX_UNPACKED, read_archive
from tests.kube.samples import archive, archive_of

FORMATS = [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT]
LONG = "r/logs/" + "n" * 63 + "/" + "p" * 60 + "/" + "c" * 63 + ".log"


def header(name: str, kind: bytes = tarfile.REGTYPE, size: int = 0) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.size = kind, size
    return member


@pytest.mark.parametrize("tar_format", FORMATS)
def test_every_file_is_read_by_name_whatever_tar_wrote_it(tmp_path, tar_format):
    files = {"r/meta.json": b"{}", "./r/objects/pods.json": b"x" * 5000, LONG: b"line\n", "r/empty": b""}
    read = read_archive(archive(tmp_path / "a.tar.gz", files, tar_format))
    assert read == {name.removeprefix("./"): data for name, data in files.items()}


def test_a_name_outside_ascii_is_read(tmp_path):
    assert read_archive(archive(tmp_path / "a.tar.gz", {"模型/日志": b"x"})) == {"模型/日志": b"x"}


def test_the_later_of_two_members_of_one_name_counts_as_when_unpacking(tmp_path):
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as out:
        for data in (b"old", b"newer"):
            out.addfile(header("f", size=len(data)), io.BytesIO(data))
    assert read_archive(tmp_path / "a.tar.gz") == {"f": b"newer"}


@pytest.mark.parametrize("name", ["/etc/passwd", "../up", "r/../../up", "r/.."])
def test_a_name_that_leads_outside_is_refused(tmp_path, name):
    with pytest.raises(SourceError, match="leads outside"):
        read_archive(archive(tmp_path / "a.tar.gz", {name: b"x"}))


def test_a_folder_that_leads_outside_is_refused(tmp_path):
    with pytest.raises(SourceError, match="leads outside"):
        read_archive(archive_of(tmp_path / "a.tar.gz", header("../up", tarfile.DIRTYPE)))


def test_a_name_that_leads_outside_is_refused_in_an_extension_header_too(tmp_path):
    with pytest.raises(SourceError, match="leads outside"):
        read_archive(archive(tmp_path / "a.tar.gz", {"../" + LONG: b"x"}))


@pytest.mark.parametrize(
    "kind",
    [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.GNUTYPE_SPARSE],
)
def test_links_devices_and_pipes_are_refused(tmp_path, kind):
    with pytest.raises(SourceError, match="neither a file nor a folder"):
        read_archive(archive_of(tmp_path / "a.tar.gz", header("x", kind)))


def test_more_members_than_any_recording_has_are_refused(tmp_path):
    path = archive_of(tmp_path / "a.tar.gz", *[header("x")] * (MAX_MEMBERS + 1))
    with pytest.raises(SourceError, match="more than 20,000 members"):
        read_archive(path)


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path):
    with pytest.raises(SourceError, match="unpacks to more than"):
        read_archive(archive_of(tmp_path / "a.tar.gz", header("x.log", size=MAX_UNPACKED + 1)))


def test_a_json_file_beyond_the_limit_is_refused_before_it_is_unpacked(tmp_path):
    with pytest.raises(SourceError, match="more than 268,435,456"):
        read_archive(archive_of(tmp_path / "a.tar.gz", header("objects/pods.json", size=MAX_JSON + 1)))


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME])
def test_an_endless_extension_header_is_refused_before_it_is_unpacked(tmp_path, kind):
    with pytest.raises(SourceError, match="more than 1,048,576"):
        read_archive(archive_of(tmp_path / "a.tar.gz", header("x", kind, MAX_UNPACKED)))


def test_a_member_of_negative_size_is_refused(tmp_path):
    with pytest.raises(SourceError, match="refused"):
        read_archive(archive_of(tmp_path / "a.tar.gz", header("x", size=-512)))


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.99])
def test_an_archive_that_is_cut_off_says_so(tmp_path, kept):
    path = archive(tmp_path / "a.tar.gz", {"x.log": bytes(range(256)) * 400})
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * kept)])
    with pytest.raises(SourceError, match="cut off"):
        read_archive(path)


def test_an_archive_whose_content_was_damaged_says_so(tmp_path):
    path = archive(tmp_path / "a.tar.gz", {"x.log": b"x"})
    data = bytearray(path.read_bytes())
    data[-8] ^= 1  # the checksum
    path.write_bytes(data)
    with pytest.raises(SourceError, match="CRC"):
        read_archive(path)


@pytest.mark.parametrize("data", [b"hello", b"PK\3\4", gzip.compress(b"hello", mtime=0)])
def test_what_is_no_archive_is_named(tmp_path, data):
    path = tmp_path / "a.tar.gz"
    path.write_bytes(data)
    with pytest.raises(SourceError, match=r"a\.tar\.gz could not be read as a \.tar\.gz"):
        read_archive(path)


def read_bytes(data: bytes) -> None:
    """Reading gives files or a SourceError; anything else fails the test."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "a.tar.gz"
        path.write_bytes(data)
        with contextlib.suppress(SourceError):
            read_archive(path)


@given(st.binary(max_size=2000))
@example(b"\x1f\x8b")
def test_any_bytes_are_read_or_refused(data):
    read_bytes(data)
    read_bytes(gzip.compress(data, mtime=0))


@given(
    st.lists(
        st.tuples(
            st.binary(max_size=120), st.sampled_from(list(b"0\x0015xgLKSD7")), st.integers(-(2**62), 2**62), st.binary()
        ),
        max_size=4,
    )
)
@example([(b"x", ord("x"), 3, b"3 x")])
@example([(b"x", ord("x"), 12, b"99 path=abcd")])
def test_any_headers_are_read_or_refused(members):
    data = b""
    for name, kind, size, body in members:
        member = header(name.decode("latin-1"), bytes([kind]), size % 2048 if len(body) % 2 else size)
        data += member.tobuf(tarfile.GNU_FORMAT, "utf-8", "replace") + body.ljust(512, b"\0")
    read_bytes(gzip.compress(data, mtime=0))


@given(st.data())
def test_a_damaged_archive_is_read_or_refused(data):
    with tempfile.TemporaryDirectory() as place:
        path = archive(
            Path(place) / "a.tar.gz", {"r/meta.json": b"{}", LONG: b"line"}, data.draw(st.sampled_from(FORMATS))
        )
        plain = bytearray(gzip.decompress(path.read_bytes()))
    for position, value in data.draw(st.lists(st.tuples(st.integers(0, 4095), st.integers(0, 255)), max_size=8)):
        plain[position] = value
    read_bytes(gzip.compress(plain, mtime=0))
