"""Response URLs: five uses in thirty minutes, without a token, also where the bot is not a member."""

import secrets
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sandbox.slack.clock import Clock
from sandbox.slack.content import message_content
from sandbox.slack.errors import SlackError
from sandbox.slack.workspace import Record, Workspace

USES = 5
SECONDS = 30 * 60
_KEPT = 2_000


@dataclass(slots=True)
class Response:
    """The place where one interaction may be answered. `original`: the ts of the message that it can replace.

    That is the one with the button. For a slash command there is none: each use posts a new message, whatever
    `replace_original` says, and what it posted stays (slackapi/bolt-js#2287, slackapi/bolt-python#1268).
    """

    path: str
    channel: str
    user: str
    expires: float
    thread_ts: str = ""
    original: str = ""
    uses: int = 0


class ResponseUrls:
    """All response URLs that were given out lately, by path."""

    def __init__(self, workspace: Workspace, clock: Clock, *, strict: bool, without: Collection[str] = ()) -> None:
        self._workspace = workspace
        self._clock = clock
        self._strict = strict
        self._without = without
        self._responses: dict[str, Response] = {}

    def __len__(self) -> int:
        return len(self._responses)

    def issue(self, kind: str, channel: str, user: str, *, original: str = "", thread_ts: str = "") -> Response:
        """Makes a URL; `kind` is "commands" or "actions", the first part of its path."""
        path = f"/{kind}/{self._workspace.seed.team_id}/{secrets.randbelow(10**12):012d}/{secrets.token_urlsafe(18)}"
        expires = self._clock.now() + SECONDS
        self._responses[path] = Response(path, channel, user, expires, thread_ts, original)
        while len(self._responses) > _KEPT:
            del self._responses[next(iter(self._responses))]
        return self._responses[path]

    def use(self, path: str, given: dict[str, Any]) -> None:
        """Uses a URL once. Raises SlackError: expired_url, used_url, or what is wrong with the message."""
        response = self._responses.get(path)
        if response is None or self._clock.now() >= response.expires:
            raise SlackError("expired_url")
        if response.uses >= USES:
            raise SlackError("used_url")
        response.uses += 1
        self.post(response, given)

    def post(self, response: Response, given: dict[str, Any]) -> None:
        """Does what a use, or an acknowledgement's payload, does. Raises SlackError for a message that is refused."""
        if given.get("delete_original"):
            self._delete(response)
            return
        content = message_content(given, strict=self._strict, without=self._without)
        if given.get("replace_original") and self._replace(response, content):
            return
        thread_ts = given.get("thread_ts") or response.thread_ts
        message = bot_message(self._workspace, content, thread_ts)
        if given.get("response_type") == "in_channel":
            self._workspace.add(response.channel, message)
        else:
            self._workspace.add_ephemeral(response.channel, response.user, message)

    def _replace(self, response: Response, content: Record) -> bool:
        message = self._workspace.find(response.channel, response.original, response.user)
        if message is None:
            return False
        replace(self._workspace, response.channel, message, content, user=response.user)
        return True

    def _delete(self, response: Response) -> None:
        gone = self._workspace.remove_ephemeral(response.channel, response.user, response.original)
        if not gone and self._workspace.find(response.channel, response.original):
            self._workspace.remove(response.channel, response.original)


def bot_message(workspace: Workspace, content: Record, thread_ts: str = "") -> Record:
    """A message by the app's bot, with a ts of its own."""
    app = workspace.app
    message = {
        "type": "message",
        "user": app.bot_user_id,
        "bot_id": app.bot_id,
        "app_id": app.id,
        "team": workspace.seed.team_id,
        "ts": workspace.stamp(),
        **content,
    }
    return message | ({"thread_ts": thread_ts} if thread_ts else {})


def replace(workspace: Workspace, channel: str, message: Record, content: Record, *, user: str = "") -> None:
    """Gives a message new content, in place; it is marked as edited."""
    for key in ("text", "blocks", "attachments"):
        message.pop(key, None)
    edited = {"user": workspace.app.bot_user_id, "ts": workspace.stamp()}
    message.update(content, edited=edited)
    hidden = workspace.is_ephemeral(channel, message["ts"], user)
    workspace.touch_message(channel, message, only_for=user if hidden else "")
