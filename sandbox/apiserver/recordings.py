"""Recordings as seed of the API server. They are ours: nothing here guards against a hostile archive."""

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple


class Seed(NamedTuple):
    """What a recording holds, in the shape that `ApiServer` takes it; `server_version` is empty when it has none."""

    objects: dict[str, list[dict[str, Any]]]
    logs: dict[tuple[str, str, str], bytes]
    server_version: str


def read_recording(path: Path) -> Seed:
    """The objects, logs and version of a recording: a folder, or a .tar.gz with or without a folder around it."""
    seed = Seed({}, {}, "")
    for name, content in _files(path):
        parts = name.parts
        if parts == ("meta.json",):
            seed = seed._replace(server_version=json.loads(content).get("server_version", ""))
        elif len(parts) == 2 and parts[0] == "objects":
            seed.objects[parts[1].removesuffix(".json")] = json.loads(content)["items"]
        elif len(parts) == 4 and parts[0] == "logs":
            seed.logs[parts[1], parts[2], parts[3].removesuffix(".log")] = content
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
