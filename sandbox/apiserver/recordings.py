"""Recordings as seed of the API server. They are ours: nothing here guards against a hostile archive."""

import json
import tarfile
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from sandbox.apiserver.timeshift import shift_log, shift_objects, whole_seconds


class Seed(NamedTuple):
    """What a recording holds, in the shape that `ApiServer` takes it; `server_version` is empty when it has none.

    `metrics` is keyed by namespace, pod and port, `profiles` by namespace, pod and profile.
    """

    objects: dict[str, list[dict[str, Any]]]
    logs: dict[tuple[str, str, str], bytes]
    metrics: dict[tuple[str, str, str], bytes]
    profiles: dict[tuple[str, str, str], bytes]
    server_version: str


def read_recording(path: Path, shift_to: datetime | None = None) -> Seed:
    """What is in a recording: a folder, or a .tar.gz with or without a folder around it.

    With `shift_to` every time in it is moved, as if it had been taken then.
    """
    files = dict(_files(path))
    meta = json.loads(files.get(PurePosixPath("meta.json"), b"{}"))
    offset, year = timedelta(), 0
    if shift_to is not None:
        taken_at = datetime.fromisoformat(meta["taken_at"])
        offset, year = whole_seconds(shift_to, taken_at), taken_at.year
    seed = Seed({}, {}, {}, {}, meta.get("server_version", ""))
    for name, content in files.items():
        match name.parts:
            case ("objects", file):
                text = shift_objects(content, offset) if offset else content
                seed.objects[file.removesuffix(".json")] = json.loads(text)["items"]
            case ("logs", namespace, pod, file):
                container = file.removesuffix(".log")
                seed.logs[namespace, pod, container] = shift_log(content, offset, year) if offset else content
            case ("metrics", namespace, pod, file):
                seed.metrics[namespace, pod, file.removesuffix(".prom")] = content
            case ("pprof", namespace, pod, file):
                seed.profiles[namespace, pod, file.removesuffix(".pb.gz")] = content
            case _:
                pass
    return seed


def _files(path: Path) -> Iterator[tuple[PurePosixPath, bytes]]:
    """Every file of the recording by its path inside it."""
    if path.is_dir():
        for file in sorted(path.rglob("*")):
            if file.is_file():
                yield PurePosixPath(file.relative_to(path).as_posix()), file.read_bytes()
        return
    with tarfile.open(path) as archive:
        names = [PurePosixPath(name) for name in archive.getnames()]
        root = next((name.parent for name in names if name.name == "meta.json"), PurePosixPath())
        for member in archive:
            content = archive.extractfile(member)
            if content and PurePosixPath(member.name).is_relative_to(root):
                yield PurePosixPath(member.name).relative_to(root), content.read()
