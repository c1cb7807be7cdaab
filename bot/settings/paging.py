"""What rings a phone: PagerDuty, Opsgenie, or a webhook of one's own."""

from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, SecretStr, model_validator

from bot.errors import WrongValue
from bot.settings.addresses import HeaderSecret, never_in_clear
from bot.texts import Text

_NONE = SecretStr("")

Address = Annotated[str, AfterValidator(never_in_clear)]
BaseAddress = Annotated[str, AfterValidator(lambda url: never_in_clear(url).rstrip("/"))]


class PagerDutyPaging(BaseModel):
    """PagerDuty's Events API v2, and the webhooks that PagerDuty posts back."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    routing_key: HeaderSecret
    """The integration key of a PagerDuty service (Events API v2), through which phones ring."""
    webhook_secret: HeaderSecret = _NONE
    """The secret of a v3 webhook subscription that posts to `/pager/pagerduty`. Without it the bot takes no updates
    from PagerDuty.
    """
    url: BaseAddress = "https://events.pagerduty.com"
    """PagerDuty's Events API; `https://events.eu.pagerduty.com` in the EU region."""


class OpsgeniePaging(BaseModel):
    """Opsgenie's alert API, and the webhooks that Opsgenie posts back."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    api_key: HeaderSecret
    """The key of an API integration of Opsgenie, through which phones ring."""
    webhook_token: HeaderSecret = _NONE
    """What a webhook integration of Opsgenie sends to `/pager/opsgenie` as `Authorization: Bearer TOKEN`. Without it
    the bot takes no updates from Opsgenie.
    """
    url: BaseAddress = "https://api.opsgenie.com"
    """Opsgenie's API; `https://api.eu.opsgenie.com` in the EU region."""


class WebhookPaging(BaseModel):
    """A server of the operator, see `bot.pager.requests`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: Address
    """A server of your own that gets each page as a POST."""
    secret: HeaderSecret
    """Signs each page. See [on call](oncall.md#pages-to-your-own-server)."""


class PagingSettings(BaseModel):
    """The pagers that ring when somebody is called; none by default."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    pagerduty: PagerDutyPaging | None = None
    opsgenie: OpsgeniePaging | None = None
    webhook: WebhookPaging | None = None

    @model_validator(mode="after")
    def _proves_itself(self) -> Self:
        needed = {
            "pagerduty.routing_key": self.pagerduty and self.pagerduty.routing_key,
            "opsgenie.api_key": self.opsgenie and self.opsgenie.api_key,
            "webhook.secret": self.webhook and self.webhook.secret,
        }
        if missing := [name for name, secret in needed.items() if secret is not None and not secret.get_secret_value()]:
            raise WrongValue(Text("error-command.is-empty", what=", ".join(missing)))
        return self
