"""files.*: uploads of version 2."""

from functools import partial

from sandbox.slack.content import message_content
from sandbox.slack.errors import SlackError
from sandbox.slack.files import File
from sandbox.slack.payloads import event_payload
from sandbox.slack.responses import bot_message
from sandbox.slack.webapi.call import TIER_4, Answer, Call, method
from sandbox.slack.workspace import Channel, Record

_ALT_MOST = 1_000  # characters of alt_txt


@method(
    "files.getUploadURLExternal",
    scope="files:write",
    tier=TIER_4,
    needs="filename length",
    takes="alt_txt alt_text snippet_type",
)
def announce(call: Call) -> Answer:
    length = call.text("length")
    if not length.isdecimal() or int(length) < 1:
        raise SlackError("invalid_arguments", "must be greater than 0 [json-pointer:/length]")
    if len(call.text("alt_txt")) > _ALT_MOST:
        raise SlackError("alt_txt_too_large")
    if "/" in call.text("filename"):
        raise SlackError("invalid_arguments", "must be a name [json-pointer:/filename]")
    described = {"alt_text": call.text("alt_txt"), "snippet_type": call.text("snippet_type")}
    file_id, url = call.world.files.announce(call.text("filename"), int(length), **described)
    return {"upload_url": url, "file_id": file_id}


@method(
    "files.completeUploadExternal",
    scope="files:write",
    tier=TIER_4,
    needs="files",
    takes="channel_id channels thread_ts initial_comment blocks",
)
def complete(call: Call) -> Answer:
    """Shares the files as one message by the bot, or keeps them its own if no channel is named."""
    world = call.world
    given = call.json("files")
    if not isinstance(given, list) or not all(isinstance(entry, dict) and entry.get("id") for entry in given):
        raise SlackError("invalid_arguments", "must be a list of objects with an id [json-pointer:/files]")
    files = [world.files.get(str(entry["id"])) for entry in given]
    channels = _channels(call)
    comment = {"text": call.text("initial_comment"), "blocks": call.json("blocks")}
    content = message_content(comment, strict=world.strict) if any(comment.values()) else {"text": ""}
    for file, entry in zip(files, given, strict=True):
        file.title = str(entry.get("title") or file.title)
    threads = [channel.head_of(call.text("thread_ts")) for channel in channels]
    share = partial(_share, call, files, list(zip(channels, threads, strict=True)), content)
    late = world.faults.fired("late_files", "api/files.completeUploadExternal")
    if late is None:
        share()
        return {"files": [world.files.public(file) for file in files]}
    for file in files:
        file.is_processed = False
    world.clock.call_later(late.seconds, share)
    return {"files": [{"id": file.id, "title": file.title} for file in files]}


def _share(call: Call, files: list[File], places: list[tuple[Channel, str]], content: Record) -> None:
    """One message with the files in each place, given as (channel, thread)."""
    world = call.world
    for file in files:
        file.is_processed = True
    for channel, thread_ts in places:
        message = bot_message(world.workspace, content, thread_ts)
        for file in files:
            file.channels.append(channel.id)
            file.shares.setdefault(channel.id, []).append(message["ts"])
        message |= {"files": [world.files.public(file) for file in files], "upload": False}
        world.workspace.add(channel.id, message)
        world.clear_status(channel.id, thread_ts)
        if "file_shared" in world.seed.app.events:
            _tell_app(call, [file.id for file in files], channel, message["ts"])


@method("files.info", scope="files:read", tier=TIER_4, needs="file", takes="cursor limit count page")
def info(call: Call) -> Answer:
    return {"file": call.world.files.public(call.world.files.get(call.text("file")))}


def _channels(call: Call) -> list[Channel]:
    """Where to share. Here only channel ids are taken: a user id is channel_not_found, as at Slack."""
    wanted = [call.text("channel_id")] if call.text("channel_id") else call.text("channels").split(",")
    channels = []
    for channel_id in filter(None, wanted):
        channel = Call(call.world, {"channel": channel_id}).channel()
        if channel.is_archived:
            raise SlackError("is_archived")
        channels.append(channel)
    return channels


def _tell_app(call: Call, file_ids: list[str], channel: Channel, ts: str) -> None:
    for file_id in file_ids:
        event = {"type": "file_shared", "file_id": file_id, "file": {"id": file_id}, "channel_id": channel.id}
        event |= {"user_id": call.world.seed.app.bot_user_id, "event_ts": ts}
        call.world.delivery.later("events_api", event_payload(call.world, event), "file_shared")
