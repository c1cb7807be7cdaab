"""users.*, usergroups.*."""

from sandbox.slack.errors import SlackError
from sandbox.slack.webapi.call import TIER_2, TIER_3, TIER_4, Answer, Call, method, page_of
from sandbox.slack.workspace import Record


@method("users.info", scope="users:read", tier=TIER_4, needs="user", takes="include_locale")
def info(call: Call) -> Answer:
    return {"user": _shown(call, call.user())}


@method("users.list", scope="users:read", tier=TIER_2, takes="cursor limit include_locale team_id")
def listed(call: Call) -> Answer:
    page, cursor = page_of(list(call.world.workspace.users.values()), call, 1000)
    return {"members": [_shown(call, user) for user in page], "response_metadata": {"next_cursor": cursor}}


@method("users.lookupByEmail", scope="users:read.email", tier=TIER_3, needs="email")
def by_email(call: Call) -> Answer:
    wanted = call.text("email")
    for user in call.world.workspace.users.values():
        if user["profile"]["email"] == wanted:
            return {"user": _shown(call, user)}
    raise SlackError("users_not_found")


@method("usergroups.list", scope="usergroups:read", tier=TIER_2, takes="include_users include_count include_disabled")
def groups(call: Call) -> Answer:
    shown = []
    for group in call.world.seed.usergroups:
        entry: Record = {"id": group.id, "handle": group.handle, "name": group.name, "is_usergroup": True}
        shown.append(entry | ({"users": list(group.users)} if call.flag("include_users") else {}))
    return {"usergroups": shown}


@method("usergroups.users.list", scope="usergroups:read", tier=TIER_2, needs="usergroup", takes="include_disabled")
def members(call: Call) -> Answer:
    for group in call.world.seed.usergroups:
        if group.id == call.text("usergroup"):
            return {"users": list(group.users)}
    raise SlackError("no_such_subteam")


def _shown(call: Call, user: Record) -> Record:
    """A user; the e-mail address only for an app that may see it."""
    if "users:read.email" in call.world.seed.app.scopes or not call.world.strict:
        return user
    return user | {"profile": {key: value for key, value in user["profile"].items() if key != "email"}}
