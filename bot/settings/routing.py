"""Which alerts go to which channel, and which to none."""

from typing import Self

from pydantic import BaseModel, ConfigDict, field_validator, model_validator

from bot.errors import WrongValue
from bot.settings.ids import channel_id
from bot.texts import Text
from bot.triage.routes import EXAMPLE, Route, read_route


class RouteSettings(BaseModel):
    """Where alerts with certain labels go: to a channel, or with `ignore` to nobody."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    match: tuple[str, ...]
    """Alertmanager's matchers, such as `team="ml"`. All of them have to match."""
    channel: str = ""
    """Id of the channel where the thread is opened."""
    ignore: bool = False
    """`true`: these alerts open no thread."""
    group_by: tuple[str, ...] = ()
    """Labels. Alerts with equal values of them share one thread, whatever their causes."""

    @field_validator("channel")
    @classmethod
    def _room(cls, channel: str) -> str:
        return channel_id(channel) if channel else channel

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if not self.match:
            raise WrongValue(Text("error-settings.match-is-empty", example=EXAMPLE))
        if bool(self.channel) == self.ignore:
            raise WrongValue(Text("error-settings.channel-or-ignore"))
        if self.ignore and self.group_by:
            raise WrongValue(Text("error-settings.group-by-needs-channel"))
        self.route()
        return self

    def route(self) -> Route:
        """With its matchers read. Raises ValueError."""
        return read_route(self.match, self.channel, self.group_by)
