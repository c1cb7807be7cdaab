"""A scene on each surface where the bot is asked: commands, mentions, buttons and forms."""

from sandbox.slack.content import elements_of, strings_of
from tests.slack.bot import POD, VERDICT, Here


def text_of(message) -> str:
    return "\n".join(strings_of(message))


def button(message, action: str) -> str:
    """The action id of the first button whose id begins so."""
    ids = [
        element["action_id"] for block in message["blocks"] for element in elements_of(block) if "action_id" in element
    ]
    return next(id_ for id_ in ids if id_.startswith(action))


HELD, HELD_VERDICT = "ml/s05-exclusive-cores100", "is already in use"
"""A pod with a step that is a question, and words of its verdict."""


async def posted_to_channel(here: Here, pod: str = POD, verdict: str = VERDICT):
    """What everybody is shown once ada has posted her answer to the channel; it is nobody's alone any more."""
    answer = await here.command("ada", f"why {pod}", verdict)
    await here.slack.click("ada", button(answer, "post-to-channel"), channel="gpu-oncall", message_ts=answer["ts"])
    posted = await here.slack.wait_for(channel="gpu-oncall", containing=verdict, user="grace")
    assert "ephemeral" not in posted
    await here.slack.wait_for(
        lambda: not [message for message in here.slack.messages("gpu-oncall") if "ephemeral" in message]
    )
    return posted
