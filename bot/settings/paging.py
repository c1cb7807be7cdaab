"""What rings a phone: PagerDuty, Opsgenie, or a webhook of one's own."""

from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, SecretStr, model_validator

from bot.settings.addresses import fits_a_header, never_in_clear

_NONE = SecretStr("")

HeaderSecret = Annotated[SecretStr, AfterValidator(fits_a_header)]
Address = Annotated[str, AfterValidator(never_in_clear)]
BaseAddress = Annotated[str, AfterValidator(lambda url: never_in_clear(url).rstrip("/"))]


class PagerDutyPaging(BaseModel):
    """PagerDuty's Events API v2. `routing_key` is the integration key of a service; `webhook_secret` signs what
    PagerDuty posts back to /pager/pagerduty (empty: nothing is taken back). `url` is https://events.eu.pagerduty.com
    for accounts of its EU region.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    routing_key: HeaderSecret
    webhook_secret: HeaderSecret = _NONE
    url: BaseAddress = "https://events.pagerduty.com"


class OpsgeniePaging(BaseModel):
    """Opsgenie's alert API. `api_key` is that of an API integration; `webhook_token` is what Opsgenie's webhook sends
    as `Authorization: Bearer …` to /pager/opsgenie (empty: nothing is taken back). `url` is
    https://api.eu.opsgenie.com for accounts of its EU region.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    api_key: HeaderSecret
    webhook_token: HeaderSecret = _NONE
    url: BaseAddress = "https://api.opsgenie.com"


class WebhookPaging(BaseModel):
    """A server of one's own that is posted to `url`, signed with `secret`; see `bot.pager.wire`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: Address
    secret: HeaderSecret


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
        if missing := [name for name, one in needed.items() if one is not None and not one.get_secret_value()]:
            raise ValueError(f"{', '.join(missing)} is empty")
        return self
