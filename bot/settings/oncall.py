"""The settings of on-call: alerts and their routes, triage threads, whom threads call, and which pagers ring."""

import re
from typing import Annotated, Self

from pydantic import BaseModel, Field, SecretStr, field_validator, model_validator

from bot.errors import WrongValue
from bot.settings.values import (
    CHANNEL,
    PERSON,
    Address,
    BaseAddress,
    Channel,
    HeaderSecret,
    Ids,
    MaybeChannel,
    NeededSecret,
    People,
    named_people,
    written,
    wrong_ones,
)
from bot.texts import Text
from bot.triage.hours import read_hours
from bot.triage.routes import EXAMPLE, Route, read_route

_SCHEDULE = re.compile(r"[A-Z0-9]{2,32}")
_ADDRESS = re.compile(r".*@.*", re.DOTALL)


class PagerDutySettings(BaseModel, extra="forbid", frozen=True):
    """How the bot reads from PagerDuty who is on call. Slack needs no further scope for it."""

    token: NeededSecret
    """A REST API key of PagerDuty that may only read. The bot calls whoever PagerDuty has on call before `oncall.rota`.
    The rota is required, because it is called when PagerDuty does not answer.
    """
    schedules: Ids = Field(min_length=1)
    """Ids of schedules (`PI7DH85`, as in their addresses), in the order in which they are called."""
    people: dict[str, str] = Field(min_length=1)
    """Maps the e-mail address in PagerDuty to the id in Slack (`ada@example.com: U0123ABCD`)."""
    url: BaseAddress = "https://api.pagerduty.com"
    """PagerDuty's REST API; `https://api.eu.pagerduty.com` for accounts of its EU region."""

    @field_validator("schedules")
    @classmethod
    def _ids(cls, schedules: tuple[str, ...]) -> tuple[str, ...]:
        if wrong := wrong_ones(schedules, _SCHEDULE):
            raise WrongValue(Text("error-settings.entry-is-no-schedule-id", wrong=wrong))
        return schedules

    @field_validator("people")
    @classmethod
    def _by_address(cls, people: dict[str, str]) -> dict[str, str]:
        if wrong := wrong_ones(people, _ADDRESS):
            raise WrongValue(Text("error-settings.entry-is-no-email", wrong=wrong))
        named_people(tuple(people.values()))
        return {address.casefold(): person for address, person in people.items()}


class PagerDutyPaging(BaseModel, extra="forbid", frozen=True):
    """How the bot pages through PagerDuty's Events API v2, and reads the webhooks that PagerDuty posts back."""

    routing_key: NeededSecret
    """The integration key of a PagerDuty service (Events API v2), through which phones ring."""
    webhook_secret: HeaderSecret = SecretStr("")
    """The secret of a v3 webhook subscription that posts to `/pager/pagerduty`. Without it the bot takes no updates
    from PagerDuty.
    """
    url: BaseAddress = "https://events.pagerduty.com"
    """PagerDuty's Events API; `https://events.eu.pagerduty.com` in the EU region."""


class WebhookPaging(BaseModel, extra="forbid", frozen=True):
    """A server of the operator's own that gets pages, see `bot.pager`."""

    url: Address
    """A server of your own that gets each page as a POST."""
    secret: NeededSecret
    """Signs each page. See [on call](oncall.md#pages-to-your-own-server)."""


class PagingSettings(BaseModel, extra="forbid", frozen=True):
    """The pagers that ring when a person is called; none by default."""

    pagerduty: PagerDutyPaging | None = None
    webhook: WebhookPaging | None = None


class RouteSettings(BaseModel, extra="forbid", frozen=True):
    """Where alerts with certain labels go: to a channel, or with `ignore` nowhere."""

    match: tuple[str, ...]
    """Alertmanager's matchers, such as `team="ml"`. All of them have to match."""
    channel: MaybeChannel = ""
    """Id of the channel where the thread is opened."""
    ignore: bool = False
    """`true`: these alerts open no thread."""
    group_by: tuple[str, ...] = ()
    """Labels. Alerts with equal values of them share one thread, whatever their causes."""

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
        """The route with its matchers read. Raises ValueError."""
        return read_route(self.match, self.channel, self.group_by)


class OncallSettings(BaseModel, extra="forbid", frozen=True):
    """The settings of alerts and triage threads, and of who is called."""

    channel: Channel
    """Id of the channel where triage threads are opened. Without `oncall` the bot opens none."""
    token: SecretStr = SecretStr("")
    """The bearer token that Alertmanager sends. Without it, and without `oncall.user` and `oncall.password`, the bot
    takes no alerts: its threads are about what it notices by itself.
    """
    user: str = ""
    """The user that Alertmanager sends with basic authentication."""
    password: SecretStr = SecretStr("")
    """The password that Alertmanager sends with basic authentication."""
    cluster: str = ""
    """The cluster of alerts without a `cluster` label. One that names none of yours gets no diagnosis."""
    responders: People = ()
    """Ids of the users and user groups who may act on threads. Everybody without it."""
    rota: People = ()
    """Ids of the people who are called, in this order, while nobody acknowledges. Nobody is called without it."""
    pagerduty: PagerDutySettings | None = None
    paging: PagingSettings = PagingSettings()
    call_minutes: int = Field(default=15, ge=0)
    """How long an open thread waits before the next person of the rota is called. 0 turns escalation off."""
    hours: str = ""
    """When a warning calls people: `mon-fri 09:00-18:00 Europe/Berlin`. Always without it. A critical thread calls at
    any time, an info thread never.
    """
    critical_at_once: bool = False
    """`true`: a critical thread calls the first person as soon as it opens, without waiting `oncall.call_minutes`."""
    last_resort: Annotated[str, written(f"{CHANNEL.pattern}|{PERSON.pattern}|")] = ""
    """Who is called after the whole rota: the id of a user group, of a channel (the bot posts there) or of a user (gets
    a direct message).
    """
    repeat_minutes: int = Field(default=60, ge=0)
    """How long after the last call the rota starts again. 0: never."""
    lapse_minutes: int = Field(default=0, ge=0)
    """How long after an acknowledgement a thread opens and calls again if its cause still exists. 0: never."""
    settled_minutes: int = Field(default=5, ge=0)
    """How long a cause has to be gone before its thread is resolved."""
    reopen_minutes: int = Field(default=60, ge=0)
    """If the cause comes back within this time, the same thread is open again."""
    silent_hours: int = Field(default=24, ge=0)
    """An alert that Alertmanager has not repeated for this long counts as over. Set more than its `repeat_interval`. 0:
    never.
    """
    watchdog_minutes: int = Field(default=0, ge=0)
    """The longest time between two `Watchdog` alerts. If it passes, the bot says that alerts do not arrive. Set more
    than the route's `repeat_interval`. 0: off.
    """
    threads_per_minute: int = Field(default=10, ge=0)
    """The most threads that may open in a channel within a minute. One thread gathers the rest. 0: no limit."""
    routes: tuple[RouteSettings, ...] = ()
    """Sends alerts to other channels, groups them or ignores them, by their labels. The first route that matches
    counts. See [routes](oncall.md#routes). In the environment a JSON list.
    """
    pending_minutes: int = Field(default=10, ge=0)
    """How long a pod may wait for GPUs before the bot opens a thread by itself. 0: forever."""
    pending_minutes_in: dict[str, int] = Field(default_factory=dict)
    """Maps namespaces to other values of `oncall.pending_minutes`."""

    @property
    def takes_alerts(self) -> bool:
        """Whether the bot takes alerts: it has credentials that prove that one is Alertmanager's."""
        return bool(self.token.get_secret_value() or self.user)

    @field_validator("hours")
    @classmethod
    def _known_hours(cls, hours: str) -> str:
        read_hours(hours)
        return hours

    @field_validator("last_resort")
    @classmethod
    def _somebody(cls, last: str) -> str:
        if last and not (CHANNEL.fullmatch(last) or PERSON.fullmatch(last)):
            raise WrongValue(Text("error-settings.id-of-group-channel-user"))
        return last

    @model_validator(mode="after")
    def _proves_itself(self) -> Self:
        if bool(self.user) != bool(self.password.get_secret_value()):
            raise WrongValue(Text("error-settings.user-and-password"))
        if self.pagerduty and not self.rota:
            raise WrongValue(Text("error-settings.rota-is-missing"))
        return self
