"""What may be set, and what it means."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from bot.texts import Language

PREFIX = "HAMI_BOT_"


class ClusterSettings(BaseModel):
    """How one cluster is reached. Everything is optional: what is left out is found by itself.

    `recording` takes the place of a live cluster: for game days, demos and tests.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kubeconfig: Path | None = None
    context: str = ""
    recording: Path | None = None
    hami_namespace: str = ""
    scheduler_deployment: str = ""


class Settings(BaseSettings):
    """All settings, checked; unknown keys are errors."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_nested_delimiter="__", extra="forbid", frozen=True)

    clusters: dict[str, ClusterSettings] = Field(default_factory=dict)
    language: Language = "en"

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
