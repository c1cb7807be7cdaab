"""The bot as a process of its own that is asked over a socket."""

from sandbox.slack import Ack, SlackServer
from sandbox.slack.content import strings_of


def answers(slack: SlackServer, number: int) -> int:
    """How many messages of the bot, wherever they are and whoever sees them, answer that question."""
    named = f"question-{number:03}"
    return len(
        [
            message
            for channel in slack.workspace.channels
            for _, message in slack.workspace.everything(channel)
            if message.get("bot_id") and named in "\n".join(strings_of(message))
        ]
    )


class Asking:
    """Numbers the questions, and notes which of them the bot acknowledged."""

    def __init__(self, slack: SlackServer) -> None:
        self._slack = slack
        self._number = 0
        self.taken: list[int] = []

    async def everywhere(self) -> None:
        """A command, a mention and a direct message of everybody."""
        for user in ("ada", "grace", "linus"):
            self._note(await self._slack.command(user, "gpu-oncall", self._next()))
            self._note(await self._slack.mention(user, "general", self._next()))
            self._note(await self._slack.say(user, self._slack.dm(user), self._next()))

    def answered(self) -> bool:
        return all(answers(self._slack, number) for number in self.taken)

    def counts(self) -> list[int]:
        return [answers(self._slack, number) for number in self.taken]

    def _next(self) -> str:
        self._number += 1
        return f"why ml/question-{self._number:03}"

    def _note(self, ack: Ack) -> None:
        if ack.ok:
            self.taken.append(self._number)
