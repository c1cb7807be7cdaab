"""The files that `hami-bot init` writes: settings, the Helm chart's values, and the Secret that the chart expects."""

import os
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from bot.errors import UsageError, of_system
from bot.texts import Language, Text
from handlers.init.checks import FoundCluster

_SETTINGS = "# Settings of hami-bot. They hold its tokens. docs/settings.md lists every key.\n"
_VALUES = "# Values for deploy/chart: helm install -f. They hold no token. deploy/chart/values.yaml lists the others.\n"
_SECRET = "# The Secret that deploy/chart expects. It holds the bot's tokens: delete this file once it is applied.\n"  # noqa: S105
_SECRET_NAME = "hami-bot-slack"  # noqa: S105
"""The chart's `slack.secretName`."""


class Files(NamedTuple):
    """Where they are."""

    settings: Path
    values: Path
    secret: Path

    @classmethod
    def of(cls, folder: Path) -> "Files":
        """Those in that folder."""
        return cls(folder / "hami-bot.yaml", folder / "hami-bot-values.yaml", folder / "hami-bot-secret.yaml")

    def there(self) -> list[Path]:
        """Those that exist."""
        return [path for path in self if path.exists() or path.is_symlink()]


class Answers(NamedTuple):
    """What was asked and checked. Without a channel it is empty."""

    bot_token: str
    app_token: str
    cluster: FoundCluster
    channel: str = ""
    language: Language = "en"


def write_files(files: Files, answers: Answers, *, replace: bool) -> None:
    """Writes them, each readable by their owner alone. Raises UsageError where that cannot be done.

    Without `replace` a file that is there stays as it is.
    """
    texts = (
        _SETTINGS + _yaml(_settings(answers)),
        _VALUES + _yaml(_values(answers)),
        _SECRET + _yaml(_secret(answers)),
    )
    for path, text in zip(files, texts, strict=True):
        try:
            _write(path, text, replace=replace)
        except OSError as error:
            raise UsageError(Text("error-command.could-not-be-written", out=path, why=of_system(error))) from error


def _write(path: Path, text: str, *, replace: bool) -> None:
    """Whole or not at all, and never with another mode in between: mkstemp makes files with 0600."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        if replace:
            Path(name).replace(path)
        else:
            path.hardlink_to(name)
    finally:
        Path(name).unlink(missing_ok=True)


def _yaml(document: dict[str, Any]) -> str:
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True)


def _settings(answers: Answers) -> dict[str, Any]:
    cluster = answers.cluster
    reached = {"kubeconfig": str(cluster.kubeconfig or ""), "context": cluster.context}
    return {
        "slack": {"bot_token": answers.bot_token, "app_token": answers.app_token},
        "clusters": {cluster.name: {name: value for name, value in reached.items() if value}},
        **_both(answers),
    }


def _values(answers: Answers) -> dict[str, Any]:
    """In the cluster the bot uses its service account, so that no kubeconfig stands there."""
    cluster = answers.cluster
    named = {"namespace": cluster.hami_namespace, "schedulerDeployment": cluster.scheduler_deployment}
    hami = {name: value for name, value in named.items() if value}
    return {**({"hami": hami} if hami else {}), "settings": {"clusters": {cluster.name: {}}, **_both(answers)}}


def _both(answers: Answers) -> dict[str, Any]:
    """What holds here and in the cluster."""
    channels = {"channels": {answers.channel: {"cluster": answers.cluster.name}}} if answers.channel else {}
    return {**channels, **({"language": answers.language} if answers.language != "en" else {})}


def _secret(answers: Answers) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": _SECRET_NAME},
        "stringData": {"bot-token": answers.bot_token, "app-token": answers.app_token},
    }
