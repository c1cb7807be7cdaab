"""Modals and Home tabs: a stack of at most three per person, hashes, and what a submission does."""

import copy
import secrets
from typing import Any

from sandbox.slack.errors import SlackError
from sandbox.slack.workspace import Record, Workspace

STACK_MOST = 3


class Views:
    """What each person has open. Content is complete (content.view_content) when it gets here."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._stacks: dict[str, list[Record]] = {}
        self._homes: dict[str, Record] = {}

    def stack(self, user: str) -> list[Record]:
        """Copies of a user's open modals, the one on top last."""
        return copy.deepcopy(self._stacks.get(user, []))

    def home(self, user: str) -> Record | None:
        return copy.deepcopy(self._homes.get(user))

    def find(self, user: str, view_id: str) -> Record | None:
        """A view that the user has open, or the Home tab; live."""
        home = self._homes.get(user)
        if home and home["id"] == view_id:
            return home
        return next((view for view in self._stacks.get(user, []) if view["id"] == view_id), None)

    def open(self, user: str, content: Record) -> Record:
        """Opens a modal in place of what was open."""
        self._stacks[user] = []
        return self._add(user, content)

    def push(self, user: str, content: Record) -> Record:
        """Opens a modal on top. Raises SlackError push_limit_reached."""
        if len(self._stacks.get(user, [])) >= STACK_MOST:
            raise SlackError("push_limit_reached")
        return self._add(user, content)

    def _add(self, user: str, content: Record) -> Record:
        self._must_be_alone(content.get("external_id", ""), "")
        stack = self._stacks.setdefault(user, [])
        view_id = self._workspace.new_id("V")
        root, previous = (stack[0]["id"], stack[-1]["id"]) if stack else (view_id, None)
        view = self._dressed(content) | {"id": view_id, "root_view_id": root, "previous_view_id": previous}
        stack.append(view)
        self._tell(user)
        return copy.deepcopy(view)

    def update(self, content: Record, *, view_id: str = "", external_id: str = "", view_hash: str = "") -> Record:
        """Gives a modal new content. Raises SlackError not_found, hash_conflict."""
        for user, stack in self._stacks.items():
            for view in stack:
                if view["id"] == view_id or (external_id and view.get("external_id") == external_id):
                    if view_hash and view_hash != view["hash"]:
                        raise SlackError("hash_conflict")
                    self._must_be_alone(content.get("external_id", ""), view["id"])
                    return self._rewrite(user, view, content)
        raise SlackError("not_found")

    def publish(self, user: str, content: Record, *, view_hash: str = "") -> Record:
        """Sets the Home tab of a user. Raises SlackError hash_conflict."""
        current = self._homes.get(user)
        if view_hash and current and view_hash != current["hash"]:
            raise SlackError("hash_conflict")
        view_id = current["id"] if current else self._workspace.new_id("V")
        view = self._dressed(content) | {"id": view_id, "root_view_id": view_id, "previous_view_id": None}
        self._homes[user] = view
        self._workspace.tell({"type": "home", "user": user}, only_for=user)
        return copy.deepcopy(view)

    def close(self, user: str, view_id: str, *, all_of_them: bool = False) -> None:
        """Closes a modal, with those above it."""
        stack = self._stacks.get(user, [])
        position = next((number for number, view in enumerate(stack) if view["id"] == view_id), 0)
        self._stacks[user] = [] if all_of_them else stack[:position]
        if not self._stacks[user]:
            del self._stacks[user]
        self._tell(user)

    def submitted(self, user: str, view_id: str, answer: dict[str, Any], content: Record | None) -> None:
        """Does what the app's answer to a submission says; `content` is the view in it, complete."""
        view = self.find(user, view_id)
        if view is None:  # the app closed it meanwhile
            return
        match answer.get("response_action"):
            case "errors":
                return
            case "update" if content:
                self._rewrite(user, view, content)
            case "push" if content:
                self.push(user, content)
            case "clear":
                self.close(user, view["id"], all_of_them=True)
            case _:
                self.close(user, view["id"])

    def _rewrite(self, user: str, view: Record, content: Record) -> Record:
        kept = {key: view[key] for key in ("id", "root_view_id", "previous_view_id")}
        values = view["state"]
        view.clear()
        view.update(self._dressed(content), state=values, **kept)
        self._tell(user)
        return copy.deepcopy(view)

    def _must_be_alone(self, external_id: str, own_id: str) -> None:
        others = (view for stack in self._stacks.values() for view in stack if view["id"] != own_id)
        if external_id and any(view.get("external_id") == external_id for view in others):
            raise SlackError("duplicate_external_id")

    def _dressed(self, content: Record) -> Record:
        app = self._workspace.app
        stamp = f"{self._workspace.stamp()}.{secrets.token_hex(4)}"
        defaults = {
            "team_id": self._workspace.seed.team_id,
            "callback_id": "",
            "private_metadata": "",
            "external_id": "",
            "title": None,
            "submit": None,
            "close": None,
            "clear_on_close": False,
            "notify_on_close": False,
        }
        return defaults | content | {"state": {"values": {}}, "hash": stamp, "app_id": app.id, "bot_id": app.bot_id}

    def _tell(self, user: str) -> None:
        self._workspace.tell({"type": "views", "user": user}, only_for=user)
