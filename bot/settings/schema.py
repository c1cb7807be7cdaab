"""What may be set, and what it means."""

import json
import re
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from bot.settings.addresses import fits_a_header, never_in_clear
from bot.settings.ids import CHANNEL, PERSON, channel_id
from bot.settings.paging import PagingSettings
from bot.settings.routing import RouteSettings
from bot.texts import Language
from bot.triage.hours import read_hours

PREFIX = "HAMI_BOT_"
_SCHEDULE = re.compile(r"[A-Z0-9]{2,32}")

Ids = Annotated[tuple[str, ...], NoDecode]
"""In the environment a JSON list, or ids with commas between them."""


class ClusterSettings(BaseModel):
    """How one cluster is reached. Everything is optional: what is left out is found by itself.

    `recording` takes the place of a live cluster: for game days, demos and tests. `lease_namespace` is where the Lease
    lives by which one of several replicas leads: the bot's own namespace if it runs in the cluster, else HAMi's.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kubeconfig: Path | None = None
    context: str = ""
    recording: Path | None = None
    hami_namespace: str = ""
    scheduler_deployment: str = ""
    lease_namespace: str = ""


class ChannelSettings(BaseModel):
    """What holds in one Slack channel: the cluster that a question there is about when it names none."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cluster: str


class SlackSettings(BaseModel):
    """How the bot reaches its Slack workspace. Socket Mode needs no address that Slack can reach; HTTP mode does.

    `api_url` is Slack's own unless a stand-in is meant; plain http only on loopback, so that no token leaves in clear.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    mode: Literal["socket", "http"] = "socket"
    bot_token: SecretStr = SecretStr("")
    app_token: SecretStr = SecretStr("")
    signing_secret: SecretStr = SecretStr("")
    api_url: str = "https://slack.com/api/"

    @field_validator("api_url")
    @classmethod
    def _secret_stays_so(cls, url: str) -> str:
        return never_in_clear(url).rstrip("/") + "/"

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if not self.bot_token.get_secret_value():
            raise ValueError("bot_token is missing: the Bot User OAuth Token, xoxb-…")
        if self.mode == "socket" and not self.app_token.get_secret_value():
            raise ValueError("app_token is missing: Socket Mode needs an app-level token, xapp-…")
        if self.mode == "http" and not self.signing_secret.get_secret_value():
            raise ValueError("signing_secret is missing: HTTP mode proves with it that a request is Slack's")
        return self


class AccessSettings(BaseModel):
    """Who may change something; by default nobody. See `bot.access`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    operators: Ids = ()
    approvers: Ids = ()
    channels: Ids = ()
    two_person: bool = False
    changes_per_hour: int = Field(default=6, ge=1)

    @field_validator("operators", "approvers", "channels", mode="before")
    @classmethod
    def _list(cls, given: object) -> object:
        return _listed(given)

    @field_validator("operators", "approvers")
    @classmethod
    def _people(cls, ids: tuple[str, ...]) -> tuple[str, ...]:
        return _named_people(ids)

    @field_validator("channels")
    @classmethod
    def _rooms(cls, ids: tuple[str, ...]) -> tuple[str, ...]:
        if wrong := [one for one in ids if not CHANNEL.fullmatch(one)]:
            raise ValueError(f"{', '.join(wrong)}: a channel is named by its id, such as C0123ABCD, not by its name")
        return ids

    @model_validator(mode="after")
    def _somebody_else(self) -> Self:
        if self.two_person and not self.approvers:
            raise ValueError("two_person needs approvers: nobody could approve anything")
        return self


class PagerDutySettings(BaseModel):
    """Whom PagerDuty has on call: `schedules` are the ids of schedules, in the order in which they are called.

    `token` is a REST API key that may read, `people` says by e-mail address who that is in Slack: the bot needs no
    scope of Slack's for it. `url` is PagerDuty's own, https://api.eu.pagerduty.com for accounts of its EU region.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    token: SecretStr
    schedules: Ids = Field(min_length=1)
    people: dict[str, str] = Field(min_length=1)
    url: str = "https://api.pagerduty.com"

    @field_validator("schedules", mode="before")
    @classmethod
    def _list(cls, given: object) -> object:
        return _listed(given)

    @field_validator("schedules")
    @classmethod
    def _ids(cls, schedules: tuple[str, ...]) -> tuple[str, ...]:
        if wrong := [one for one in schedules if not _SCHEDULE.fullmatch(one)]:
            raise ValueError(f"{', '.join(wrong)}: a schedule is named by its id, such as PI7DH85, as in its address")
        return schedules

    @field_validator("people")
    @classmethod
    def _by_address(cls, people: dict[str, str]) -> dict[str, str]:
        if wrong := [one for one in people if "@" not in one]:
            raise ValueError(f"{', '.join(wrong)}: people are named by their e-mail address in PagerDuty")
        _named_people(tuple(people.values()))
        return {address.casefold(): one for address, one in people.items()}

    @field_validator("token")
    @classmethod
    def _fits_a_header(cls, token: SecretStr) -> SecretStr:
        stripped = fits_a_header(token)
        if not stripped.get_secret_value():
            raise ValueError("a REST API key has visible ASCII characters only, and at least one")
        return stripped

    @field_validator("url")
    @classmethod
    def _secret_stays_so(cls, url: str) -> str:
        return never_in_clear(url).rstrip("/")


class OncallSettings(BaseModel):
    """Alerts and triage threads. `channel` is where the threads are; there have to be credentials for Alertmanager:
    `token` (bearer), or `user` and `password` (basic).

    `cluster` is that of alerts without a `cluster` label that names one. `responders` (users and user groups) may act
    on threads, everybody if none is named; `rota` are those who are called, one after the other, each `call_minutes`
    after the one before, while nobody has acknowledged; whom `pagerduty` has on call then comes first, and the rota is
    for when it does not answer. `paging` rings phones with the first call. What is info calls nobody.
    `hours` (`mon-fri 09:00-18:00 Europe/Berlin`) are those in which a warning calls, always if empty; what is critical
    calls at any time, and with `critical_at_once` as soon as its thread opens. After the rota comes `last_resort` (a
    user group, a channel, or a user who gets a direct message), and `repeat_minutes` later the first of the rota again;
    an acknowledgement lapses after `lapse_minutes`; 0 is never.

    A cause that was gone for `settled_minutes` is resolved; when it comes back within `reopen_minutes` it is the same
    incident. An alert that Alertmanager has not repeated for `silent_hours` counts as over: let that be more than its
    `repeat_interval`; 0 is for ever.

    With `watchdog_minutes` the alert `Watchdog`, which always fires, is a sign of life and no incident: when it was not
    heard for so long, people are told that alerts do not come. 0 is off.

    If more than `threads_per_minute` threads open in a channel within a minute, one thread there gathers the rest; 0 is
    no limit. `routes` send alerts elsewhere or ignore them, the first that matches; others come to `channel`.

    The bot watches by itself as well: a pod that asks for HAMi's cards may wait `pending_minutes`, or what
    `pending_minutes_in` says for its namespace; 0 is for ever.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    channel: str
    token: SecretStr = SecretStr("")
    user: str = ""
    password: SecretStr = SecretStr("")
    cluster: str = ""
    responders: Ids = ()
    rota: Ids = ()
    pagerduty: PagerDutySettings | None = None
    paging: PagingSettings = PagingSettings()
    call_minutes: int = Field(default=15, ge=0)
    hours: str = ""
    critical_at_once: bool = False
    last_resort: str = ""
    repeat_minutes: int = Field(default=60, ge=0)
    lapse_minutes: int = Field(default=0, ge=0)
    settled_minutes: int = Field(default=5, ge=0)
    reopen_minutes: int = Field(default=60, ge=0)
    silent_hours: int = Field(default=24, ge=0)
    watchdog_minutes: int = Field(default=0, ge=0)
    threads_per_minute: int = Field(default=10, ge=0)
    routes: tuple[RouteSettings, ...] = ()
    pending_minutes: int = Field(default=10, ge=0)
    pending_minutes_in: dict[str, int] = Field(default_factory=dict)

    @field_validator("responders", "rota", mode="before")
    @classmethod
    def _list(cls, given: object) -> object:
        return _listed(given)

    @field_validator("responders", "rota")
    @classmethod
    def _people(cls, ids: tuple[str, ...]) -> tuple[str, ...]:
        return _named_people(ids)

    @field_validator("channel")
    @classmethod
    def _room(cls, channel: str) -> str:
        return channel_id(channel)

    @field_validator("hours")
    @classmethod
    def _known_hours(cls, hours: str) -> str:
        read_hours(hours)
        return hours

    @field_validator("last_resort")
    @classmethod
    def _somebody(cls, last: str) -> str:
        if last and not (CHANNEL.fullmatch(last) or PERSON.fullmatch(last)):
            raise ValueError(f"{last}: it is the id of a user group, a channel or a user, such as S0123ABCD")
        return last

    @model_validator(mode="after")
    def _proves_itself(self) -> Self:
        if bool(self.user) != bool(self.password.get_secret_value()):
            raise ValueError("user and password go together")
        if not self.token.get_secret_value() and not self.user:
            raise ValueError("nothing proves that an alert is Alertmanager's: set token, or user and password")
        if self.pagerduty and not self.rota:
            raise ValueError("rota is missing: who is called when PagerDuty does not answer")
        return self


class HttpSettings(BaseModel):
    """The bot's own port: /livez and /readyz, in HTTP mode POST /slack/events, with on-call POST /alerts/alertmanager
    and, with pagers that post back, /pager/pagerduty and /pager/opsgenie.

    `bind` is HOST:PORT.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    bind: str = "0.0.0.0:8080"  # kubelet's probes come from outside the pod

    @field_validator("bind")
    @classmethod
    def _host_and_port(cls, bind: str) -> str:
        host, _, port = bind.rpartition(":")
        if not host or not port.isdecimal() or int(port) > 65535:
            raise ValueError("must be HOST:PORT, such as 0.0.0.0:8080")
        return bind


class StoreSettings(BaseModel):
    """Where the bot keeps what must survive a restart: an SQLAlchemy URL. SQLite beside the process by default."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: SecretStr = SecretStr("sqlite+aiosqlite:///state/hami-bot.db")

    @property
    def is_one_process_own(self) -> bool:
        """Whether the store is a file, which one process at a time may have."""
        return self.url.get_secret_value().startswith("sqlite")


class ProfileSettings(BaseModel):
    """How Go profiles are fetched and kept.

    `direct`: straight from pods' addresses, which a bot in the cluster reaches, and not through the API server, which
    asks for get on pods/proxy. `trust_any_certificate`: there, and nowhere else, a certificate that nobody signed will
    do, as HAMi's is. `namespaces`: of whose pods profiles may be asked for in Slack besides those in HAMi's own, as the
    bot reaches more than those who ask it. `longest_s` caps what may be asked for, `most_bytes` what is read of an
    answer. Of the profiles the newest `kept` stay, for `kept_days`, as long as they are no more than `kept_bytes`
    together.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    direct: bool = False
    trust_any_certificate: bool = False
    namespaces: Ids = ()
    longest_s: int = Field(default=120, ge=1, le=120)
    most_bytes: int = Field(default=32 * 1024 * 1024, ge=1024, le=32 * 1024 * 1024)
    kept: int = Field(default=50, ge=1)
    kept_days: float = Field(default=30, gt=0)
    kept_bytes: int = Field(default=256 * 1024 * 1024, ge=1024)

    @field_validator("namespaces", mode="before")
    @classmethod
    def _list(cls, given: object) -> object:
        return _listed(given)


class Settings(BaseSettings):
    """All settings, checked; unknown keys are errors. `replicas` is how many processes of the bot run at once."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_nested_delimiter="__", extra="forbid", frozen=True)

    clusters: dict[str, ClusterSettings] = Field(default_factory=dict)
    channels: dict[str, ChannelSettings] = Field(default_factory=dict)
    language: Language = "en"
    slack: SlackSettings | None = None
    http: HttpSettings = HttpSettings()
    store: StoreSettings = StoreSettings()
    replicas: int = Field(default=1, ge=1)
    access: AccessSettings = AccessSettings()
    profiles: ProfileSettings = ProfileSettings()
    oncall: OncallSettings | None = None

    @field_validator("channels")
    @classmethod
    def _by_id(cls, channels: dict[str, ChannelSettings]) -> dict[str, ChannelSettings]:
        """Ids as Slack writes them; the environment's names come in lower case."""
        ids = {name.upper(): one for name, one in channels.items()}
        if wrong := [name for name in channels if not CHANNEL.fullmatch(name.upper())]:
            raise ValueError(f"{', '.join(wrong)}: a channel is named by its id, such as C0123ABCD, not by its name")
        return ids

    @model_validator(mode="after")
    def _known_clusters(self) -> Self:
        for channel, one in self.channels.items():
            if one.cluster not in self.clusters:
                known = ", ".join(sorted(self.clusters)) or "none"
                raise ValueError(f"channels.{channel}.cluster: there is no cluster {one.cluster!r} (clusters: {known})")
        if self.oncall and self.oncall.cluster and self.oncall.cluster not in self.clusters:
            raise ValueError(f"oncall.cluster: there is no cluster {self.oncall.cluster!r}")
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment first, then the file, which `load_settings` names."""
        del settings_cls, dotenv_settings, file_secret_settings
        return env_settings, init_settings


def _listed(given: object) -> object:
    """A tuple of what a text of the environment lists: JSON, or ids with commas between them."""
    if not isinstance(given, str):
        return given
    if given.lstrip().startswith("["):
        return json.loads(given)
    return tuple(one.strip() for one in given.split(",") if one.strip())


def _named_people(ids: tuple[str, ...]) -> tuple[str, ...]:
    if wrong := [one for one in ids if not PERSON.fullmatch(one)]:
        text = "a user is named by an id such as U0123ABCD, a user group by one such as S0123ABCD"
        raise ValueError(f"{', '.join(wrong)}: {text}")
    return ids
