"""Strings that are good for one use and a short time: websocket tickets, trigger ids, upload URLs."""

import secrets
from dataclasses import dataclass
from typing import Generic, TypeVar

from sandbox.slack.clock import Clock

T = TypeVar("T")
_KEPT = 1_000  # of spent ones, so that "used" and "expired" can be told from "never heard of"


class UnknownError(Exception):
    """The token was never given out, or long ago."""


class ExpiredError(Exception):
    """The token was given out, and is redeemed too late."""


class UsedError(Exception):
    """The token was redeemed before."""


@dataclass(slots=True)
class _Token(Generic[T]):
    value: T
    expires: float
    used: bool = False


class Tokens(Generic[T]):
    """Tokens that stand for a value; each can be redeemed once within `seconds`."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._tokens: dict[str, _Token[T]] = {}

    def issue(self, value: T, *, prefix: str = "") -> str:
        text = f"{prefix}{secrets.token_hex(16)}"
        self._tokens[text] = _Token(value, self._clock.now() + self._seconds)
        while len(self._tokens) > _KEPT:
            del self._tokens[next(iter(self._tokens))]
        return text

    def redeem(self, text: str) -> T:
        """The token's value. Raises UnknownError, ExpiredError or UsedError."""
        token = self._tokens.get(text)
        if token is None:
            raise UnknownError
        if self._clock.now() >= token.expires:
            raise ExpiredError
        if token.used:
            raise UsedError
        token.used = True
        return token.value

    def __len__(self) -> int:
        return len(self._tokens)
