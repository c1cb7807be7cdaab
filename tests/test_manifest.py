"""The Slack app's manifest asks for what the code uses, and for nothing else."""

import ast
import json
import re
from pathlib import Path

import pytest

from bot.slack.app import NEEDED_SCOPES, WISHED_SCOPES
from handlers.manifest import EVENTS, manifest
from tests.project import tree_of

ROOT = Path(__file__).parents[1]
SCOPES = {*NEEDED_SCOPES, *WISHED_SCOPES}

# Slack's reference pages of the methods; None needs no scope of the bot's token.
SCOPE_OF = {
    "apps.connections.open": None,  # of the app-level token: connections:write
    "auth.test": None,
    "chat.postEphemeral": "chat:write",
    "chat.postMessage": "chat:write",
    "chat.update": "chat:write",
    "conversations.history": "channels:history",
    "conversations.open": "im:write",
    "conversations.replies": "channels:history",
    "files.completeUploadExternal": "files:write",
    "files.getUploadURLExternal": "files:write",
    "reactions.add": "reactions:write",
    "reactions.remove": "reactions:write",
    "usergroups.users.list": "usergroups:read",
    "users.info": "users:read",
    "views.open": None,
    "views.publish": None,
    "views.update": None,
}
SCOPE_OF_EVENT = {"app_mention": "app_mentions:read", "message.im": "im:history", "app_home_opened": None}
# conversations.history needs one scope for each kind of conversation; commands belongs to the slash command.
ALSO_NEEDED = {"commands", "groups:history"}
# Called only where whoever installed the app has granted its scope besides (channels:join).
IF_GRANTED = {"conversations.join"}


def called_methods() -> set[str]:
    """Every string of the gateway that looks like a method of Slack's Web API, but for those of `IF_GRANTED`."""
    trees = [tree_of(path) for path in (ROOT / "bot" / "slack").glob("*.py")]
    strings = {
        node.value
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    families = {method.split(".")[0] for method in SCOPE_OF} | {"users", "usergroups", "pins", "bookmarks", "canvases"}
    found = {
        string
        for string in strings
        if string.split(".")[0] in families and re.fullmatch(r"[a-zA-Z]+(\.[a-zA-Z]+)+", string)
    }
    return found - IF_GRANTED


def test_the_file_to_install_is_what_the_code_says() -> None:
    written = json.loads((ROOT / "deploy" / "slack-manifest.json").read_text())
    assert written == manifest(), "run `make manifest`"


def test_no_method_is_called_that_the_scopes_do_not_allow() -> None:
    called = called_methods()
    assert {"chat.postMessage", "views.open"} <= called
    assert not {
        method for method in called if SCOPE_OF.get(method, "unknown") not in {None, *NEEDED_SCOPES, *WISHED_SCOPES}
    }


def test_no_scope_is_asked_for_without_need() -> None:
    used = {SCOPE_OF[method] for method in called_methods()} | {SCOPE_OF_EVENT[event] for event in EVENTS}
    assert (used | ALSO_NEEDED) - {None} == SCOPES


@pytest.mark.parametrize("scope", sorted(SCOPES))
def test_the_docs_say_why_each_scope_is_asked_for(scope: str) -> None:
    assert f"`{scope}`" in (ROOT / "docs" / "slack.md").read_text(encoding="utf-8")
