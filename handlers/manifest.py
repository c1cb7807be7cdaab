"""The Slack app's manifest, made from the events that the code listens to and the scopes it needs. `python -m
handlers.manifest` prints it; `deploy/slack-manifest.json` is that output.
"""

import json
import sys
from typing import Any
from urllib.parse import quote

from bot.slack.app import NEEDED_SCOPES, WISHED_SCOPES
from handlers.parsing.slack_grammar import BOT, COMMAND, FIRST
from handlers.question_listeners import DIAGNOSE_CALLBACK

EVENTS = ("app_home_opened", "app_mention", "message.im")


def manifest() -> dict[str, Any]:
    """A manifest as api.slack.com/apps takes it (manifest-schema 2), for Socket Mode: no public address is needed."""
    return {
        "display_information": {
            "name": BOT,
            "description": "Why is this GPU pod pending? The cause, the proof and the next step, from your cluster.",
        },
        "features": {
            "app_home": {
                "home_tab_enabled": True,
                "messages_tab_enabled": True,
                "messages_tab_read_only_enabled": False,
            },
            "bot_user": {"display_name": BOT, "always_online": True},
            "slash_commands": [
                {
                    "command": COMMAND,
                    "description": "Ask about pods that wait for GPUs",
                    "usage_hint": " | ".join(FIRST),
                    "should_escape": False,
                }
            ],
            "shortcuts": [
                {
                    "name": "Diagnose with HAMi",
                    "type": "message",
                    "callback_id": DIAGNOSE_CALLBACK,
                    "description": "Why is the pod pending that this message names?",
                }
            ],
        },
        "oauth_config": {"scopes": {"bot": sorted({*NEEDED_SCOPES, *WISHED_SCOPES})}},
        "settings": {
            "event_subscriptions": {"bot_events": list(EVENTS)},
            "interactivity": {"is_enabled": True},
            "org_deploy_enabled": False,
            "socket_mode_enabled": True,
            "token_rotation_enabled": False,
        },
    }


def create_link() -> str:
    """The address where Slack offers to create an app with this manifest."""
    encoded = quote(json.dumps(manifest(), separators=(",", ":")), safe="")
    return f"https://api.slack.com/apps?new_app=1&manifest_json={encoded}"


if __name__ == "__main__":
    sys.stdout.write(json.dumps(manifest(), indent=2) + "\n")
