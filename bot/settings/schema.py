"""The schema of all settings, with the meaning of each."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from bot.digest.schedule import read_words
from bot.errors import WrongValue
from bot.settings.oncall import OncallSettings
from bot.settings.values import (
    CHANNEL,
    VISIBLE,
    Channels,
    Folder,
    HeaderSecret,
    Ids,
    People,
    Teams,
    named_people,
    never_in_clear,
    parts_of,
    written,
    wrong_ones,
)
from bot.texts import Language, Text

PREFIX = "HAMI_BOT_"

_NONE = SecretStr("")


class PrometheusSettings(BaseModel, extra="forbid", frozen=True):
    """The Prometheus that scrapes this cluster's HAMi scheduler and vGPUmonitor."""

    url: Annotated[str, written("https?://.+")]
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


class ClusterSettings(BaseModel, extra="forbid", frozen=True):
    """How the bot reaches one cluster. Every key is optional."""

    kubeconfig: Path | None = None
    """Path of a kubeconfig. Without it the bot searches as kubectl does."""
    context: str = ""
    """A context of that kubeconfig."""
    recording: Path | None = None
    """A recording in place of a live cluster, for demos and tests."""
    hami_namespace: str = ""
    """The namespace of HAMi, if the bot cannot find HAMi by its labels."""
    scheduler_deployment: str = ""
    """The Deployment of HAMi's scheduler in that namespace, if the bot cannot find it by its labels."""
    lease_namespace: str = ""
    """The namespace of the Lease `hami-bot` that decides which replica leads. Without it: the bot's own namespace if
    the bot runs in the cluster, else HAMi's.
    """
    prometheus: PrometheusSettings | None = None


class ChannelSettings(BaseModel, extra="forbid", frozen=True):
    """Settings of one Slack channel."""

    cluster: str
    """The cluster of a question in this Slack channel (`C0123ABCD`) that names none."""
    digest: str = ""
    """Posts a digest of that cluster in the channel: `weekdays 09:00 Europe/Berlin`, or a cron expression with its time
    zone (`0 9 * * 1-5 Asia/Shanghai`). Others are asked for in Slack.
    """

    @field_validator("digest")
    @classmethod
    def _comes(cls, digest: str) -> str:
        if digest and isinstance(why := read_words(digest.split()), Text):
            raise WrongValue(why)
        return digest


class SlackSettings(BaseModel, extra="forbid", frozen=True):
    """How the bot reaches its Slack workspace."""

    mode: Literal["socket", "http"] = "socket"
    """`socket` (Socket Mode, Slack needs no address of the bot) or `http`."""
    bot_token: SecretStr = SecretStr("")
    """The Bot User OAuth Token, `xoxb-…`. Required for Slack."""
    app_token: SecretStr = SecretStr("")
    """The app-level token, `xapp-…`. Required in Socket Mode."""
    signing_secret: SecretStr = SecretStr("")
    """The secret that proves that a request is Slack's. Required in HTTP mode."""
    api_url: Folder = "https://slack.com/api/"
    """Slack's API, or a server that stands in for it; plain http only on loopback."""
    newer_blocks: bool = True
    """Show overviews as tables that can be sorted, and progress as task cards. If Slack refuses them, the bot sends
    the usual blocks at once and from then on."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if not self.bot_token.get_secret_value():
            raise WrongValue(Text("error-settings.bot-token-is-missing"))
        if self.mode == "socket" and not self.app_token.get_secret_value():
            raise WrongValue(Text("error-settings.app-token-is-missing"))
        if self.mode == "http" and not self.signing_secret.get_secret_value():
            raise WrongValue(Text("error-settings.signing-secret-is-missing"))
        return self


class AccessSettings(BaseModel, extra="forbid", frozen=True):
    """Who may ask: by default everybody in the bot's workspace; who may change something: nobody. See `bot.access`."""

    operators: People = ()
    """Who may ask for temporary changes: ids of Slack users (`U…`) and user groups (`S…`), as a list or separated by
    commas. Nobody without it.
    """
    approvers: People = ()
    """Who may also approve the changes of others, in the same form."""
    channels: Channels = ()
    """Ids of the only channels where changes may be asked for. All channels without it."""
    two_person: bool = False
    """`true`: somebody else has to approve each change and each extension."""
    changes_per_hour: int = Field(default=6, ge=1)
    """The most changes that one person may ask for in an hour."""
    teams: Teams = ()
    """Ids of further workspaces (`T…`) and Enterprise Grids (`E…`) whose people may ask, as a list or separated by
    commas. Without it only those of the bot's own workspace may, or of its Grid if the app is installed for all of it.
    """
    guests: bool = True
    """`false`: Slack's guests may not ask. Needs the scope `users:read`."""

    @model_validator(mode="after")
    def _somebody_else(self) -> Self:
        if self.two_person and not self.approvers:
            raise WrongValue(Text("error-settings.two-person-needs-approvers"))
        return self


class HttpSettings(BaseModel, extra="forbid", frozen=True):
    """The bot's own port: /livez and /readyz, in HTTP mode POST /slack/events, with on-call POST /alerts/alertmanager
    and, with pagers that post back, /pager/pagerduty.
    """

    bind: Annotated[str, written(".+:[0-9]{1,5}")] = "0.0.0.0:8080"  # kubelet's probes come from outside the pod
    """HOST:PORT of the bot's own port."""

    @field_validator("bind")
    @classmethod
    def _host_and_port(cls, bind: str) -> str:
        host, _, port = bind.rpartition(":")
        if not host or not port.isdecimal() or int(port) > 65535:
            raise WrongValue(Text("error-settings.must-be-host-port"))
        return bind


class MetricsSettings(BaseModel, extra="forbid", frozen=True):
    """GET /metrics on the bot's own port, for Prometheus: see [metrics](metrics.md). Off without it."""

    token: HeaderSecret = SecretStr("")
    """The bearer token that Prometheus sends. Without it only clients on the same machine (127.0.0.1 and
    ::1) are answered."""


class StoreSettings(BaseModel, extra="forbid", frozen=True):
    """Where the bot keeps what must survive a restart."""

    url: SecretStr = SecretStr("sqlite+aiosqlite:///state/hami-bot.db")
    """The database: a SQLite file, or `postgresql://USER:PASSWORD@HOST/DATABASE` (`pip install '.[postgres]'`; the
    image has it).
    """

    audit_key: SecretStr = SecretStr("")
    """The key that signs the audit log: 32 characters or more, such as `openssl rand -hex 32` prints. To change it, put
    the new key in front of the old one, with a space between: the first signs, the others only verify.
    """

    @field_validator("audit_key")
    @classmethod
    def _long_enough(cls, keys: SecretStr) -> SecretStr:
        if any(len(key) < 32 for key in keys.get_secret_value().split()):
            raise WrongValue(Text("error-settings.key-is-too-short"))
        return keys

    @property
    def audit_keys(self) -> tuple[str, ...]:
        """The keys of the audit log, the one that signs first."""
        return tuple(self.audit_key.get_secret_value().split())

    @property
    def is_one_process_own(self) -> bool:
        """Whether the store is a file, which only one process at a time may use."""
        return self.url.get_secret_value().startswith("sqlite")


class ProfileSettings(BaseModel, extra="forbid", frozen=True):
    """How Go profiles are fetched and kept."""

    direct: bool = False
    """`true`: the bot fetches profiles from the pods' addresses, not through the API server."""
    trust_any_certificate: bool = False
    """`true`: for these direct connections, the bot accepts self-signed certificates, as HAMi has one."""
    namespaces: Ids = ()
    """Namespaces besides HAMi's whose pods may be profiled from Slack with `--target`, as a list or separated by
    commas.
    """
    longest_s: int = Field(default=120, ge=1, le=120)
    """The longest time, in seconds, for which a profile may be taken."""
    most_bytes: int = Field(default=32 * 1024 * 1024, ge=1024, le=32 * 1024 * 1024)
    """The largest profile that the bot fetches, in bytes. 32 MiB is the maximum."""
    kept: int = Field(default=50, ge=1)
    """How many profiles the bot keeps."""
    kept_days: float = Field(default=30, gt=0)
    """How long the bot keeps them, in days."""
    kept_bytes: int = Field(default=256 * 1024 * 1024, ge=1024)
    """How much all kept profiles may take together, in bytes. A larger profile is not kept."""


class PlaybookSettings(BaseModel, extra="forbid", frozen=True):
    """Where the bot finds playbooks of the operator's own."""

    folder: Path | None = None
    """A folder with Python files. Each file is a verb: see [your own playbooks](own-playbooks.md). The bot runs this
    code with its own rights.
    """


class Settings(BaseSettings):
    """All settings, checked; unknown keys are errors. `tests/update_docs.py` lists them with the docstring of each."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_nested_delimiter="__", extra="forbid", frozen=True)

    clusters: dict[str, ClusterSettings] = Field(default_factory=dict)
    channels: dict[str, ChannelSettings] = Field(default_factory=dict)
    mine: dict[str, Ids] = Field(default_factory=dict)
    """Whose pods are meant by "my pods": for a Slack user or user group (`U…`, `S…`) their namespaces, and labels such
    as `owner=ada`, as a list or separated by commas. Without an entry they are all pods that wait.
    """
    language: Language = "en"
    """The language of answers: `en` or `zh`."""
    log_format: Literal["text", "json"] = "text"
    """What `serve` logs: `text`, a line for people, or `json`, an object a line."""
    slack: SlackSettings | None = None
    http: HttpSettings = HttpSettings()
    metrics: MetricsSettings | None = None
    store: StoreSettings = StoreSettings()
    replicas: int = Field(default=1, ge=1)
    """How many processes of the bot run at once. More than 1 needs PostgreSQL."""
    workload_logs: bool = False
    """`true`: `why` also reads the newest lines of the logs of a pod's GPU containers, and quotes only the words of
    HAMi-core, the loader and the CUDA libraries. Needs `get` on pods/log in the pod's namespace: the chart's
    `workloadLogs.namespaces`.
    """
    access: AccessSettings = AccessSettings()
    profiles: ProfileSettings = ProfileSettings()
    playbooks: PlaybookSettings = PlaybookSettings()
    oncall: OncallSettings | None = None

    @field_validator("mine")
    @classmethod
    def _whose(cls, mine: dict[str, Ids]) -> dict[str, Ids]:
        whose = {name.upper(): words for name, words in mine.items()}
        named_people(tuple(whose))
        return whose

    @field_validator("channels")
    @classmethod
    def _by_id(cls, channels: dict[str, ChannelSettings]) -> dict[str, ChannelSettings]:
        """Ids as Slack writes them; the environment's names come in lower case."""
        ids = {name.upper(): channel for name, channel in channels.items()}
        if wrong := wrong_ones(ids, CHANNEL):
            raise WrongValue(Text("error-settings.entry-is-no-channel-id", wrong=wrong))
        return ids

    @model_validator(mode="after")
    def _known_clusters(self) -> Self:
        for place, chosen in enumerate(self.channels.values(), 1):
            if chosen.cluster not in self.clusters:
                raise WrongValue(Text("error-settings.cluster-of-channel-entry", place=place))
        if self.oncall and self.oncall.cluster and self.oncall.cluster not in self.clusters:
            raise WrongValue(Text("error-settings.oncall-cluster"))
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
        """Orders the sources: the environment first, then the file, which `load_settings` names."""
        del settings_cls, dotenv_settings, file_secret_settings
        return env_settings, init_settings


def channels_of(settings: Settings) -> tuple[str, ...]:
    """Ids of all channels that the settings name, those of on-call first."""
    oncall = settings.oncall
    routed = tuple(route.channel for route in oncall.routes) if oncall else ()
    calling = (oncall.channel, oncall.last_resort, *routed) if oncall else ()
    named = (*calling, *settings.channels, *settings.access.channels)
    return tuple(dict.fromkeys(channel for channel in named if channel.startswith(("C", "G"))))
