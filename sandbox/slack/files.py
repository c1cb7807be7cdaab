"""Uploaded files: the three steps of version 2, and their bytes."""

import mimetypes
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from sandbox.slack.clock import Clock
from sandbox.slack.errors import SlackError
from sandbox.slack.tokens import ExpiredError, Tokens, UnknownError, UsedError
from sandbox.slack.workspace import Record, Workspace

_UPLOAD_SECONDS = 30 * 60
_BYTES_KEPT = 256 * 1024 * 1024  # all files together; the oldest go
INLINE = {"image/png", "image/jpeg", "image/gif"}  # what a page may show; all else is a download


@dataclass(slots=True)
class File:
    """An uploaded file; `content` is None until its bytes have arrived."""

    id: str
    name: str
    length: int
    created: int
    alt_text: str = ""
    snippet_type: str = ""
    title: str = ""
    content: bytes | None = None
    channels: list[str] = field(default_factory=list)
    shares: dict[str, list[str]] = field(default_factory=dict)
    is_processed: bool = True

    @property
    def mimetype(self) -> str:
        """The file's type; empty until Slack has looked at the file."""
        if not self.is_processed:
            return ""
        kind = mimetypes.guess_type(self.name)[0]
        return kind or ("text/plain" if self.snippet_type else "application/octet-stream")


class Files:
    """All files, by id. `base_url` is set when the server listens."""

    def __init__(self, workspace: Workspace, clock: Clock) -> None:
        self.base_url = ""
        self._workspace = workspace
        self._clock = clock
        self._files: dict[str, File] = {}
        self._uploads: Tokens[str] = Tokens(clock, _UPLOAD_SECONDS)

    def announce(self, name: str, length: int, *, alt_text: str = "", snippet_type: str = "") -> tuple[str, str]:
        """The id of a file to come, and the URL that takes its bytes once."""
        file_id = self._workspace.new_id("F")
        now = int(self._clock.now())
        self._files[file_id] = File(file_id, name, length, now, alt_text, snippet_type, title=name)
        return file_id, f"{self.base_url}/upload/{self._uploads.issue(file_id)}"

    def receive(self, token: str, content: bytes) -> File:
        """Takes the bytes of a file. Raises SlackError for a URL that is spent or bytes of another length."""
        try:
            file = self._files[self._uploads.redeem(token)]
        except (UnknownError, ExpiredError, UsedError, KeyError) as error:
            raise SlackError("invalid_upload_url") from error
        if len(content) != file.length:
            raise SlackError("length_mismatch", f"announced {file.length} bytes, received {len(content)}")
        file.content = content
        while sum(len(file.content or b"") for file in self._files.values()) > _BYTES_KEPT and len(self._files) > 1:
            del self._files[next(iter(self._files))]
        return file

    def get(self, file_id: str) -> File:
        """A file whose bytes are there. Raises SlackError file_not_found."""
        file = self._files.get(file_id)
        if file is None or file.content is None:
            raise SlackError("file_not_found")
        return file

    def public(self, file: File) -> Record:
        """The file as the Web API shows it."""
        link = f"{self.base_url}{_path(file.id, file.name)}"
        shown: Record = {
            "id": file.id,
            "created": file.created,
            "name": file.name,
            "title": file.title,
            "mimetype": file.mimetype,
            "filetype": file.snippet_type or (file.name.rpartition(".")[2] if "." in file.name else "binary"),
            "size": file.length,
            "user": self._workspace.app.bot_user_id,
            "url_private": link,
            "url_private_download": link,
            "permalink": link,
            "channels": file.channels,
            "shares": {"public": {channel: [{"ts": ts} for ts in stamps] for channel, stamps in file.shares.items()}},
        }
        return shown | ({"alt_txt": file.alt_text} if file.alt_text else {})

    @staticmethod
    def on_page(message: Record) -> Record:
        """The message, its files with the page's relative URLs."""
        if not message.get("files"):
            return message
        kept = ("id", "name", "title", "mimetype", "filetype", "size", "alt_txt")
        files: list[dict[str, Any]] = [
            {key: file[key] for key in kept if key in file} | {"url": _path(file["id"], file["name"])}
            for file in message["files"]
        ]
        return message | {"files": files}


def _path(file_id: str, name: str) -> str:
    return f"/files/{file_id}/{quote(name)}"
