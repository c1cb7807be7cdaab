"""Where a cluster's Prometheus is."""

from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, SecretStr, model_validator

from bot.errors import WrongValue
from bot.settings.addresses import VISIBLE, HeaderSecret, never_in_clear, parts_of
from bot.texts import Text

_NONE = SecretStr("")


class PrometheusSettings(BaseModel):
    """The Prometheus that scrapes this cluster's HAMi scheduler and vGPUmonitor."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str
    """The address of the cluster's Prometheus, such as `http://prometheus.monitoring:9090`. With a token or password it
    begins with https:// (http:// only on loopback).
    """
    token: HeaderSecret = _NONE
    """The bearer token with which the bot logs in."""
    user: str = ""
    """The user with which the bot logs in by basic authentication."""
    password: SecretStr = _NONE
    """The password of that user."""
    ca_file: Path | None = None
    """A file of certificates (PEM) that the bot trusts in place of the system's."""

    @model_validator(mode="after")
    def _secret_stays_so(self) -> Self:
        parts = parts_of(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname or not VISIBLE.fullmatch(self.url):
            raise WrongValue(Text("error-settings.url-must-be-an-address"))
        if parts.username or parts.password or parts.query or parts.fragment:
            raise WrongValue(Text("error-settings.url-has-credentials"))
        if bool(self.user) != bool(self.password.get_secret_value()):
            raise WrongValue(Text("error-settings.user-and-password"))
        if self.user and self.token.get_secret_value():
            raise WrongValue(Text("error-settings.token-or-password"))
        if self.token.get_secret_value() or self.user:
            never_in_clear(self.url)
        return self
