"""A refusal by Slack: the word in `error` and what else the answer carries."""

from typing import Any


class SlackError(Exception):
    """Becomes {"ok": false, "error": word, ...}. `violations` are findings of the block rules, for the journal."""

    def __init__(self, word: str, *messages: str, violations: tuple[dict[str, Any], ...] = (), **extra: Any) -> None:
        super().__init__(word)
        self.word = word
        self.messages = messages
        self.violations = violations
        self.extra = extra

    def body(self) -> dict[str, Any]:
        answer = {"ok": False, "error": self.word, **self.extra}
        if self.messages:
            answer["errors"] = list(self.messages)
            answer["response_metadata"] = {"messages": [f"[ERROR] {message}" for message in self.messages]}
        return answer
