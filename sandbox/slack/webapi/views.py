"""views.*: modals and Home tabs."""

from sandbox.slack.content import view_content
from sandbox.slack.errors import SlackError
from sandbox.slack.tokens import ExpiredError, UnknownError, UsedError
from sandbox.slack.webapi.call import TIER_4, Answer, Call, method
from sandbox.slack.workspace import Record


@method("views.open", tier=TIER_4, needs="view", takes="trigger_id interactivity_pointer")
def opened(call: Call) -> Answer:
    content = _modal(call)
    return {"view": call.world.views.open(_user_of_trigger(call), content)}


@method("views.push", tier=TIER_4, needs="view", takes="trigger_id interactivity_pointer")
def push(call: Call) -> Answer:
    content = _modal(call)
    return {"view": call.world.views.push(_user_of_trigger(call), content)}


@method("views.update", tier=TIER_4, needs="view", takes="view_id external_id hash")
def update(call: Call) -> Answer:
    if not (call.text("view_id") or call.text("external_id")):
        raise SlackError("invalid_arguments", "either view_id or external_id is needed")
    which = {"view_id": call.text("view_id"), "external_id": call.text("external_id")}
    return {"view": call.world.views.update(_modal(call), view_hash=call.text("hash"), **which)}


@method("views.publish", tier=TIER_4, needs="user_id view", takes="hash")
def publish(call: Call) -> Answer:
    user = call.user("user_id")["id"]
    content = view_content(call.json("view"), strict=call.world.strict)
    if content["type"] != "home":
        raise SlackError("invalid_arguments", "must be home [json-pointer:/view/type]")
    return {"view": call.world.views.publish(user, content, view_hash=call.text("hash"))}


def _modal(call: Call) -> Record:
    content = view_content(call.json("view"), strict=call.world.strict)
    if content["type"] != "modal":
        raise SlackError("invalid_arguments", "must be modal [json-pointer:/view/type]")
    return content


def _user_of_trigger(call: Call) -> str:
    try:
        return call.world.triggers.redeem(call.text("trigger_id"))
    except UnknownError as error:
        raise SlackError("invalid_trigger_id") from error
    except ExpiredError as error:
        raise SlackError("expired_trigger_id") from error
    except UsedError as error:
        raise SlackError("exchanged_trigger_id") from error
