"""Who the app is, and how it connects: auth.*, apps.connections.open."""

from sandbox.slack.errors import SlackError
from sandbox.slack.webapi.call import SPECIAL, TIER_1, Answer, Call, method


@method("auth.test", tier=SPECIAL)
def auth_test(call: Call) -> Answer:
    seed = call.world.seed
    return {
        "url": f"{call.world.url}/",
        "team": seed.team,
        "user": seed.app.name,
        "team_id": seed.team_id,
        "user_id": seed.app.bot_user_id,
        "bot_id": seed.app.bot_id,
        "is_enterprise_install": False,
    }


@method("apps.connections.open", tier=TIER_1, caller="app")
def connections_open(call: Call) -> Answer:
    sockets = call.world.sockets
    if not sockets.link_enabled:
        raise SlackError("link_disabled")
    ticket = sockets.tickets.issue(None)
    host = call.world.url.removeprefix("http://")
    return {"url": f"ws://{host}/link/?ticket={ticket}&app_id={call.world.seed.app.id}"}
