"""reactions.*, assistant.*, blocks.*."""

from sandbox.slack.content import block_violations, view_violations
from sandbox.slack.errors import SlackError
from sandbox.slack.webapi.call import SPECIAL, TIER_2, TIER_3, Answer, Call, method


@method("reactions.add", scope="reactions:write", tier=TIER_3, needs="channel name timestamp")
def add(call: Call) -> Answer:
    return _react(call, remove=False)


@method("reactions.remove", scope="reactions:write", tier=TIER_2, needs="name", takes="channel timestamp file")
def remove(call: Call) -> Answer:
    return _react(call, remove=True)


def _react(call: Call, *, remove: bool) -> Answer:
    channel = call.channel()
    if channel.is_archived:
        raise SlackError("is_archived")
    message = call.message(channel, "timestamp")
    name = call.text("name").strip(":")
    call.world.workspace.react(channel.id, message["ts"], name, call.world.seed.app.bot_user_id, remove=remove)
    return {}


@method(
    "assistant.threads.setStatus",
    scope="chat:write assistant:write",
    tier=SPECIAL,
    needs="channel_id thread_ts",
    takes="status loading_messages icon_emoji username icon_url",
)
def set_status(call: Call) -> Answer:
    channel = call.channel("channel_id")
    call.message(channel, "thread_ts")
    if len(call.json("loading_messages") or []) > 10:
        raise SlackError("invalid_arguments", "no more than 10 items allowed [json-pointer:/loading_messages]")
    call.world.set_status(channel.id, call.text("thread_ts"), call.text("status"))
    return {}


@method("blocks.validate", tier=SPECIAL, takes="blocks view message", caller="anyone")
def validate(call: Call) -> Answer:
    """The findings of the block rules, for blocks, a view, or a message with blocks."""
    blocks, view, message = (call.json(name) for name in ("blocks", "view", "message"))
    if sum(given is not None for given in (blocks, view, message)) != 1:
        raise SlackError("invalid_arguments", "give one of blocks, view and message")
    if message is not None:
        if not isinstance(message, dict):
            raise SlackError("invalid_arguments", "must be an object [json-pointer:/message]")
        blocks = message.get("blocks", [])
    if isinstance(blocks, dict):  # {"blocks": [...]}, as the Block Kit Builder copies it
        blocks = blocks.get("blocks")
    violations = view_violations(view) if view is not None else block_violations(blocks)
    if violations:
        raise SlackError("invalid_blocks", violations=violations, errors=list(violations))
    return {}
