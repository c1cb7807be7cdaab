"""What a person does on the page of the sandbox: put a message, open a form."""

from typing import Any

from tests.sandbox.page.samples import EVERY_INPUT
from tests.sandbox.page.support import CHANNEL, SlackServer


def put(slack: SlackServer, channel: str = CHANNEL, **message) -> str:
    """A message of the app, past the server's rules."""
    ts = slack.workspace.stamp()
    whole = {"type": "message", "bot_id": "B0HAMIBOT1", "user": "U0HAMIBOT1", "text": "", "ts": ts} | message
    slack.workspace.add(channel, whole)
    return ts


async def open_modal(app, page, view: dict[str, Any] = EVERY_INPUT) -> Any:
    app.answers["/hami"] = app.opens(view)
    field = page.locator("#main textarea")
    await field.fill("/hami open")
    await field.press("Enter")
    dialog = page.get_by_role("dialog")
    await dialog.wait_for()
    return dialog
