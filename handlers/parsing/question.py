"""A question as it was asked in Slack."""

import msgspec

from bot.slack.origin import Origin
from handlers.parsing.slack_grammar import BOT, COMMAND


class Question(msgspec.Struct, frozen=True, omit_defaults=True):
    """A question as asked, complete enough to be answered by another process after a restart.

    `public` answers stand in the channel or thread for everyone, others are shown to `user` alone. `asked_ts` is the
    message that asked, if one did. `asked_at` is in unix seconds. `beside`: what the
    response_url belongs to stays, the answer stands beside it; for a command's, which replaces nothing, always.
    `everything`: the answer comes with its files, also
    where one person alone sees it. `manifest` is the pod of a `fit`; `about` is a
    message that names a pod, for a question without words. `edited_ts`: the message was edited then, and these are its
    words since. `read` is the gist of the answer that is to be posted: if
    the answer is another one by now, it is not. `sent_by`: who sent it, to be checked again after a restart.
    """

    words: str
    user: str
    channel: str
    asked_at: float
    thread_ts: str = ""
    public: bool = False
    response_url: str = ""
    asked_ts: str = ""
    beside: bool = False
    everything: bool = False
    manifest: str = ""
    about: str = ""
    read: str = ""
    edited_ts: str = ""
    sent_by: Origin | None = None

    @property
    def message(self) -> str:
        """What names the message that asked, whatever it became; empty if none did."""
        return f"{self.channel}:{self.asked_ts}" if self.asked_ts else ""

    @property
    def program(self) -> str:
        """What stands before the words of a question there: a mention in threads, nothing in direct messages."""
        if self.is_direct:
            return ""
        return f"@{BOT}" if self.asked_ts or self.thread_ts else COMMAND

    @property
    def is_direct(self) -> bool:
        """Whether it was asked where nobody else reads: a user's id is the channel of their direct messages."""
        return self.channel.startswith(("D", "U", "W"))

    @property
    def in_thread(self) -> bool:
        """Whether it was asked below an earlier message; one that begins its thread was not."""
        return self.thread_ts not in {"", self.asked_ts}

    def for_who_asked(self) -> "Question":
        """Where something is told that is not what was to be posted: beside what the person read."""
        return msgspec.structs.replace(self, public=False, beside=True, read="") if self.read else self


def read_question(payload: str) -> Question | None:
    """A kept question; None for one of another version."""
    try:
        return msgspec.json.decode(payload, type=Question)
    except msgspec.DecodeError:
        return None
