"""Why a change is not made: said in the reader's language where it is shown, in English where it is written down."""

from collections.abc import Mapping
from typing import NamedTuple

from bot.texts import Text, in_english


class Reason(NamedTuple):
    """The text `refusal.<key>` and its values, of which some may be reasons themselves. As a string it is English."""

    key: str
    values: Mapping[str, object] = {}

    @property
    def text(self) -> Text:
        """The reason as a text."""
        values = {name: value.text if isinstance(value, Reason) else value for name, value in self.values.items()}
        return Text(f"refusal.{self.key}", **values)

    def __str__(self) -> str:
        return in_english(self.text)
