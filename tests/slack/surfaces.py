"""A scene on each surface where the bot is asked: commands, mentions, buttons and forms."""

from sandbox.slack.content import elements_of, strings_of


def text_of(message) -> str:
    return "\n".join(strings_of(message))


def button(message, action: str) -> str:
    """The action id of the first button whose id begins so."""
    ids = [
        element["action_id"] for block in message["blocks"] for element in elements_of(block) if "action_id" in element
    ]
    return next(id_ for id_ in ids if id_.startswith(action))
