"""chat.*: messages by the bot."""

from sandbox.slack.content import message_content
from sandbox.slack.errors import SlackError
from sandbox.slack.responses import bot_message, replace
from sandbox.slack.webapi.call import SPECIAL, TIER_3, TIER_4, Answer, Call, method
from sandbox.slack.workspace import Channel

_UPDATE_TEXT_MOST = 4_000  # chat.update refuses what chat.postMessage takes
_CONTENT = "text blocks attachments metadata mrkdwn parse link_names"
_LOOKS = "username icon_emoji icon_url unfurl_links unfurl_media as_user"


@method(
    "chat.postMessage",
    scope="chat:write",
    tier=0,  # one per second and channel instead
    needs="channel",
    takes=f"{_CONTENT} {_LOOKS} thread_ts reply_broadcast markdown_text client_msg_id",
)
def post_message(call: Call) -> Answer:
    everywhere = "chat:write.public" in call.world.seed.app.scopes
    channel = _unarchived(call.channel(member=not everywhere, open_dm=True))
    content = message_content(call.content(), strict=call.world.strict, without=call.world.unknown_blocks)
    message = bot_message(call.world.workspace, content, channel.head_of(call.text("thread_ts")))
    if call.text("username"):
        message["username"] = call.text("username")
    if call.flag("reply_broadcast") and message.get("thread_ts"):
        message["subtype"] = "thread_broadcast"
    call.world.workspace.add(channel.id, message)
    call.world.clear_status(channel.id, message.get("thread_ts", ""))
    return {"channel": channel.id, "ts": message["ts"], "message": message}


@method(
    "chat.update",
    scope="chat:write",
    tier=TIER_3,
    needs="channel ts",
    takes=f"{_CONTENT} as_user file_ids reply_broadcast markdown_text",
)
def update(call: Call) -> Answer:
    channel = _unarchived(call.channel())
    message = call.message(channel)
    if message.get("bot_id") != call.world.seed.app.bot_id:
        raise SlackError("cant_update_message")
    content = message_content(
        call.content(), strict=call.world.strict, without=call.world.unknown_blocks, text_most=_UPDATE_TEXT_MOST
    )
    # What is not named stays: to take blocks away, an app sends an empty list.
    content |= {part: message[part] for part in ("blocks", "attachments") if part in message and part not in call.args}
    replace(call.world.workspace, channel.id, message, content)
    return {"channel": channel.id, "ts": message["ts"], "text": message["text"], "message": message}


@method("chat.delete", scope="chat:write", tier=TIER_3, needs="channel ts", takes="as_user")
def delete(call: Call) -> Answer:
    channel = _unarchived(call.channel())
    message = call.message(channel)
    if message.get("bot_id") != call.world.seed.app.bot_id:
        raise SlackError("cant_delete_message")
    call.world.workspace.remove(channel.id, message["ts"])
    return {"channel": channel.id, "ts": message["ts"]}


@method(
    "chat.postEphemeral",
    scope="chat:write",
    tier=TIER_4,
    needs="channel user",
    takes=f"{_CONTENT} {_LOOKS} thread_ts markdown_text",
)
def post_ephemeral(call: Call) -> Answer:
    channel = _unarchived(call.channel())
    user = call.user()["id"]
    if user not in channel.members:
        raise SlackError("user_not_in_channel")
    content = message_content(call.content(), strict=call.world.strict, without=call.world.unknown_blocks)
    message = bot_message(call.world.workspace, content, channel.head_of(call.text("thread_ts")))
    call.world.workspace.add_ephemeral(channel.id, user, message)
    return {"message_ts": message["ts"]}


@method("chat.getPermalink", tier=SPECIAL, needs="channel message_ts")
def permalink(call: Call) -> Answer:
    channel = call.channel(member=False)
    message = call.message(channel, "message_ts")
    link = f"{call.world.url}/archives/{channel.id}/p{message['ts'].replace('.', '')}"
    return {"channel": channel.id, "permalink": link}


def _unarchived(channel: Channel) -> Channel:
    if channel.is_archived:
        raise SlackError("is_archived")
    return channel
