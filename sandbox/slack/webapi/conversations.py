"""conversations.*: channels, who is in them, and what was said."""

import copy
import math

from sandbox.slack.errors import SlackError
from sandbox.slack.webapi.call import TIER_2, TIER_3, TIER_4, Answer, Call, method, page_of
from sandbox.slack.workspace import Channel, Record

_SINCE = "cursor limit oldest latest inclusive include_all_metadata"
_READ = {"channel": "channels:read", "group": "groups:read", "im": "im:read", "mpim": "mpim:read"}
_HISTORY = {
    "channel": "channels:history",
    "group": "groups:history",
    "im": "im:history",
    "mpim": "mpim:history",
}


@method("conversations.history", scope=" ".join(_HISTORY.values()), tier=TIER_3, needs="channel", takes=_SINCE)
def history(call: Call) -> Answer:
    """Top-level messages, newest first."""
    channel = _allowed(call, _HISTORY)
    replies = {ts for stamps in channel.replies.values() for ts in stamps}
    shown = [
        message
        for ts, message in channel.messages.items()
        if ts not in replies or message.get("subtype") == "thread_broadcast"
    ]
    return _messages(call, channel, sorted(shown, key=lambda message: -float(message["ts"])), 100)


@method("conversations.replies", scope=" ".join(_HISTORY.values()), tier=TIER_3, needs="channel ts", takes=_SINCE)
def replies(call: Call) -> Answer:
    """The head of a thread and its replies, oldest first."""
    channel = _allowed(call, _HISTORY)
    head_ts = call.text("ts")
    if head_ts not in channel.messages:
        raise SlackError("thread_not_found")
    stamps = [head_ts, *channel.replies.get(head_ts, [])]
    return _messages(call, channel, [channel.messages[ts] for ts in stamps], 1000)


@method("conversations.info", scope=" ".join(_READ.values()), tier=TIER_3, needs="channel", takes="include_num_members")
def info(call: Call) -> Answer:
    return {"channel": _shown(call, _allowed(call, _READ, member=False))}


@method(
    "conversations.list",
    scope=" ".join(_READ.values()),
    tier=TIER_2,
    takes="cursor limit types exclude_archived team_id",
)
def listed(call: Call) -> Answer:
    types = {kind.strip() for kind in call.text("types", "public_channel").split(",")}
    words = {"channel": "public_channel", "group": "private_channel", "im": "im", "mpim": "mpim"}
    bot = call.world.seed.app.bot_user_id
    shown = [
        _shown(call, channel)
        for channel in call.world.workspace.channels.values()
        if words[channel.kind] in types
        and (channel.kind == "channel" or bot in channel.members)
        and not (channel.is_archived and call.flag("exclude_archived"))
    ]
    page, cursor = page_of(shown, call, 100)
    return {"channels": page, "response_metadata": {"next_cursor": cursor}}


@method("conversations.members", scope=" ".join(_READ.values()), tier=TIER_4, needs="channel", takes="cursor limit")
def members(call: Call) -> Answer:
    page, cursor = page_of(_allowed(call, _READ, member=False).members, call, 100)
    return {"members": page, "response_metadata": {"next_cursor": cursor}}


@method(
    "conversations.open", scope="im:write mpim:write", tier=TIER_3, takes="users channel return_im prevent_creation"
)
def opened(call: Call) -> Answer:
    if call.text("channel"):
        return {"channel": {"id": call.channel().id}}
    users = [user for user in call.text("users").split(",") if user]
    if not users:
        raise SlackError("users_list_not_supplied")
    if not set(users) <= set(call.world.workspace.users):
        raise SlackError("user_not_found")
    if users == [call.world.seed.app.bot_user_id]:
        raise SlackError("cannot_dm_bot")
    if len(users) > 1:
        _need(call, "mpim:write")
        return {"channel": {"id": call.world.workspace.open_group(users).id}}
    return {"channel": {"id": call.world.workspace.open_dm(users[0]).id}}


@method("conversations.join", scope="channels:join", tier=TIER_3, needs="channel")
def join(call: Call) -> Answer:
    channel = call.channel(member=False)
    if channel.kind != "channel":
        raise SlackError("method_not_supported_for_channel_type")
    if channel.is_archived:
        raise SlackError("is_archived")
    bot = call.world.seed.app.bot_user_id
    if bot not in channel.members:
        channel.members.append(bot)
        call.world.workspace.touch(channel.id)
    return {"channel": _shown(call, channel)}


def _allowed(call: Call, scopes: dict[str, str], *, member: bool = True) -> Channel:
    """The channel, if the app has the scope for its kind. Raises SlackError missing_scope."""
    channel = call.channel(member=member)
    _need(call, scopes[channel.kind])
    return channel


def _need(call: Call, scope: str) -> None:
    provided = call.world.seed.app.scopes
    if call.world.strict and scope not in provided:
        raise SlackError("missing_scope", needed=scope, provided=",".join(provided))


def _messages(call: Call, channel: Channel, messages: list[Record], limit: int) -> Answer:
    oldest, latest = call.stamp("oldest", 0), call.stamp("latest", math.inf)
    inclusive = call.flag("inclusive")
    wanted = [
        message
        for message in messages
        if oldest < float(message["ts"]) < latest or (inclusive and float(message["ts"]) in {oldest, latest})
    ]
    page, cursor = page_of(wanted, call, limit)
    shown = [call.world.workspace.dressed(channel, message) for message in page]
    for message in shown:
        del message["channel"]
        if not call.flag("include_all_metadata"):
            message.pop("metadata", None)
    return {"messages": shown, "has_more": bool(cursor), "response_metadata": {"next_cursor": cursor}}


def _shown(call: Call, channel: Channel) -> Record:
    bot = call.world.seed.app.bot_user_id
    shown: Record = {
        "id": channel.id,
        "is_im": channel.is_im,
        "is_mpim": channel.is_mpim,
        "is_channel": channel.kind == "channel",
        "is_group": channel.kind == "group",
        "is_private": channel.is_private or channel.is_im,
        "is_ext_shared": call.world.workspace.is_shared(channel),
        "is_archived": channel.is_archived,
        "is_member": bot in channel.members,
        "num_members": len(channel.members),
        "topic": {"value": channel.topic},
    }
    names = {"user": channel.name} if channel.is_im else {"name": channel.name, "name_normalized": channel.name}
    return copy.deepcopy(shown | names)
