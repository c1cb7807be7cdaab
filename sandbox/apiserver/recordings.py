"""Recordings as seed of the API server. They are ours: nothing here guards against a hostile archive."""

import tarfile
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import msgspec

from sandbox.apiserver.timeshift import shift_log, shift_objects, whole_seconds


class Seed(NamedTuple):
    """What a recording holds, as `ApiServer` takes it; `server_version` is empty if it has none. `metrics` is keyed by
    namespace, pod and port, `profiles` by namespace, pod and profile.
    """

    objects: dict[str, list[dict[str, Any]]]
    logs: dict[tuple[str, str, str], bytes]
    previous_logs: dict[tuple[str, str, str], bytes]
    metrics: dict[tuple[str, str, str], bytes]
    profiles: dict[tuple[str, str, str], bytes]
    server_version: str


def read_recording(path: Path, shift_to: datetime | None = None) -> Seed:
    """Reads a recording: a folder, or a .tar.gz with or without a folder around it. With `shift_to` every time in it is
    moved, as if it had been taken then.
    """
    files = _archived(path, path.stat().st_mtime_ns) if path.is_file() else dict(_in_folder(path))
    meta = msgspec.json.decode(files.get(PurePosixPath("meta.json"), b"{}"))
    offset, year = timedelta(), 0
    if shift_to is not None:
        taken_at = datetime.fromisoformat(meta["taken_at"])
        offset, year = whole_seconds(shift_to, taken_at), taken_at.year
    seed = Seed({}, {}, {}, {}, {}, meta.get("server_version", ""))
    for name, content in files.items():
        match name.parts:
            case ("objects", file):
                text = shift_objects(content, offset) if offset else content
                seed.objects[file.removesuffix(".json")] = msgspec.json.decode(text)["items"]
            case ("logs", namespace, pod, file):
                container = file.removesuffix(".log")
                logs = seed.previous_logs if container.endswith(".previous") else seed.logs
                logs[namespace, pod, container.removesuffix(".previous")] = (
                    shift_log(content, offset, year) if offset else content
                )
            case ("metrics", namespace, pod, file):
                seed.metrics[namespace, pod, file.removesuffix(".prom")] = content
            case ("pprof", namespace, pod, file):
                seed.profiles[namespace, pod, file.removesuffix(".pb.gz")] = content
            case _:
                pass
    return seed


def _in_folder(path: Path) -> Iterator[tuple[PurePosixPath, bytes]]:
    """Every file of the recording by its path inside it."""
    for file in sorted(path.rglob("*")):
        if file.is_file():
            yield PurePosixPath(file.relative_to(path).as_posix()), file.read_bytes()


@lru_cache(maxsize=8)
def _archived(path: Path, changed_at: int) -> dict[PurePosixPath, bytes]:
    """The same of an archive, which is read once for all servers of a process. The caller changes nothing in it."""
    del changed_at
    with tarfile.open(path) as archive:
        names = [PurePosixPath(name) for name in archive.getnames()]
        root = next((name.parent for name in names if name.name == "meta.json"), PurePosixPath())
        read = ((PurePosixPath(member.name), archive.extractfile(member)) for member in archive)
        return {name.relative_to(root): file.read() for name, file in read if file and name.is_relative_to(root)}
