"""Small recordings, written by hand: as folders and as archives."""

import gzip
import io
import json
import tarfile
from pathlib import Path
from typing import Any

TAKEN_AT = "2026-11-21T05:00:00Z"
META = {"format": "hami-bot.recording/v1", "taken_at": TAKEN_AT, "cluster": "lab", "server_version": "v1.34.1"}


def pod(name: str, namespace: str = "ml", **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "labels": {"app": name}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [], **spec}, "status": {}}


def a_list(*items: Any, kind: str = "List") -> bytes:
    return json.dumps({"apiVersion": "v1", "kind": kind, "metadata": {"resourceVersion": ""}, "items": items}).encode()


def content(value: Any) -> bytes:
    return value if isinstance(value, bytes) else json.dumps(value).encode()


def folder(path: Path, files: dict[str, Any], meta: Any = META) -> Path:
    """A recording in a folder; without a meta.json when `meta` is None."""
    for name, value in (files if meta is None else {"meta.json": meta, **files}).items():
        file = path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content(value))
    return path


def archive(path: Path, members: dict[str, Any], tar_format: int = tarfile.PAX_FORMAT) -> Path:
    """A `.tar.gz` of these files, as `tar czf` writes them."""
    with tarfile.open(path, "w:gz", format=tar_format) as out:
        for name, value in members.items():
            data = content(value)
            member = tarfile.TarInfo(name)
            member.size = len(data)
            out.addfile(member, io.BytesIO(data))
    return path


def archive_of(path: Path, *members: tarfile.TarInfo) -> Path:
    """A `.tar.gz` of bare headers: what they announce does not follow."""
    blocks = b"".join(member.tobuf(tarfile.GNU_FORMAT) for member in members)
    path.write_bytes(gzip.compress(blocks + bytes(1024)))
    return path
